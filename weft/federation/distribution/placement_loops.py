"""The compiled loops of redistribution.

The **field** of a placement has for each substream and target what one query that wants the substream would pay there
for sharing it with all queries that want it too: rate[x] · Σ_k latency[j, k] · count[x, k]. A vertex sees its whole row
of costs by summing a few rows of the field, and a move changes no others than the rows of the vertex's substreams.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True)
def add(v, latency, starts, substream, count, rates, field):  # type: ignore[no-untyped-def]
    """Add vertex v to the field at a target with these latencies; or move it, by the difference of two targets'."""
    for i in range(starts[v], starts[v + 1]):
        row, part = field[substream[i]], rates[substream[i]] * count[i]
        for j in range(len(row)):
            row[j] += part * latency[j]


@numba.njit(cache=True)
def costs(v, starts, substream, count, fixed, field, found):  # type: ignore[no-untyped-def]
    """What vertex v would cost at each target."""
    found[:] = fixed[v]
    for i in range(starts[v], starts[v + 1]):
        row, part = field[substream[i]], count[i]
        for j in range(len(row)):
            found[j] += part * row[j]


@numba.njit(cache=True)
def own(starts, substream, count, rates):  # type: ignore[no-untyped-def]
    """By vertex the weight of its edge to itself, which the field holds and a move does not pay."""
    found = np.zeros(len(starts) - 1)
    for v in range(len(found)):
        for i in range(starts[v], starts[v + 1]):
            found[v] += rates[substream[i]] * count[i] * count[i]
    return found


@numba.njit(cache=True)
def field_of(targets, at, starts, substream, count, rates, latency):  # type: ignore[no-untyped-def]
    """The field of a placement; vertices at −1 are nowhere yet."""
    field = np.zeros((len(rates), targets))
    for v in range(len(at)):
        if at[v] >= 0:
            add(v, latency[at[v]], starts, substream, count, rates, field)
    return field


@numba.njit(cache=True)
def greedy(order, weight, caps, load, at, starts, substream, count, rates, latency, fixed, field):  # type: ignore[no-untyped-def]
    """Place vertices in the given order, each where it costs least; if none has room, where the least is lacking."""
    found = np.empty(len(caps))
    for v in order:
        costs(v, starts, substream, count, fixed, field, found)
        best, least = -1, -1
        for j in range(len(caps)):
            if load[j] + weight[v] <= caps[j] and (best < 0 or found[j] < found[best]):
                best = j
            if least < 0 or excess(load[j] + weight[v], caps[j]) < excess(load[least] + weight[v], caps[least]):
                least = j
        chosen = best if best >= 0 else least
        at[v] = chosen
        load[chosen] += weight[v]
        add(v, latency[chosen], starts, substream, count, rates, field)


@numba.njit(cache=True)
def excess(load, cap):  # type: ignore[no-untyped-def]
    """By how much of its cap a target is too full; negative if it has room."""
    return (load - cap) / cap if cap > 0 else np.inf


#: A vertex follows a flow if the flow is more than so much of its load: a little too far is better than not at all.
_OVERSHOOT = 0.9


@numba.njit(cache=True)
def rebalance(flow, draws, at, origin, weight, state, load, arrays, field, band):  # type: ignore[no-untyped-def]
    """Move vertices along flows. A random flow each time; of the vertices that lose least by it (within the band)
    those that have been moved before, which costs nothing more, or else all; of these the one with most load for its
    state."""
    starts, substream, count, rates, latency, fixed = arrays
    itself = own(starts, substream, count, rates)
    targets = len(load)
    found, gains = np.empty(targets), np.empty(len(at))
    for draw in draws:
        open_flows = np.argwhere(flow > 0)
        if len(open_flows) == 0:
            break
        a, b = open_flows[int(draw * len(open_flows))]
        largest = -np.inf
        for v in range(len(at)):
            if at[v] == a and flow[a, b] > _OVERSHOOT * weight[v]:
                costs(v, starts, substream, count, fixed, field, found)
                gains[v] = found[a] - found[b] + itself[v] * (latency[a, b] - latency[a, a])
                largest = max(largest, gains[v])
        chosen, chosen_dirty, chosen_density = -1, False, 0.0
        for v in range(len(at)):
            if at[v] != a or flow[a, b] <= _OVERSHOOT * weight[v] or gains[v] < largest - band * abs(largest):
                continue
            dirty = at[v] != origin[v]
            density = weight[v] / max(state[v], 1e-300)
            if chosen < 0 or (dirty, density) > (chosen_dirty, chosen_density):
                chosen, chosen_dirty, chosen_density = v, dirty, density
        if chosen < 0:
            flow[a, b] = 0.0
            continue
        add(chosen, latency[b] - latency[a], starts, substream, count, rates, field)
        at[chosen] = b
        load[a] -= weight[chosen]
        load[b] += weight[chosen]
        flow[a, b] -= weight[chosen]


@numba.njit(cache=True)
def improve(order, at, origin, weight, state, caps, floors, load, arrays, field, interval):  # type: ignore[no-untyped-def]
    """Visit vertices once: back to where they were if that loses nothing, or else where they cost less, if it pays.

    A move keeps the cap of its target and the floor of where it comes from, or lessens the larger violation.
    """
    starts, substream, count, rates, latency, fixed = arrays
    itself = own(starts, substream, count, rates)
    found = np.empty(len(caps))
    for v in order:
        a = at[v]
        costs(v, starts, substream, count, fixed, field, found)
        best, most = -1, 0.0
        home = origin[v]
        for b in range(len(caps)):
            if b == a or not _fits(load[a], load[b], weight[v], caps[b], floors[a]):
                continue
            gain = found[a] - found[b] + itself[v] * (latency[a, b] - latency[a, a])
            if b == home:
                if gain >= 0:
                    best = b
                    break
            elif gain > most and (home != a or gain * interval > state[v] * latency[a, b]):
                best, most = b, gain
        if best >= 0:
            add(v, latency[best] - latency[a], starts, substream, count, rates, field)
            at[v] = best
            load[a] -= weight[v]
            load[best] += weight[v]


@numba.njit(cache=True)
def _fits(load_a, load_b, weight, cap, floor):  # type: ignore[no-untyped-def]
    before = max(load_b - cap, floor - load_a, 0.0)
    after = max(load_b + weight - cap, floor - load_a + weight, 0.0)
    return after == 0.0 or after < before
