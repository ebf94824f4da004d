"""The loops of mapping, compiled.

The **field** of a placement has for each substream and target what one query that wants the substream would pay there
for sharing it with all queries that want it too: rate[x] · Σ_k latency[j, k] · count[x, k]. A vertex sees its whole row
of costs by summing a few rows of the field, and a move changes no others than the rows of the vertex's substreams.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numba
import numpy as np

_FLAT = 1e-9


@numba.njit(cache=True)
def place(v, b, sign, starts, substream, count, rates, latency, field):  # type: ignore[no-untyped-def]
    """Adds vertex v at target b to the field, or takes it away (sign −1)."""
    for i in range(starts[v], starts[v + 1]):
        row, part = field[substream[i]], sign * rates[substream[i]] * count[i]
        for j in range(len(row)):
            row[j] += part * latency[b, j]


@numba.njit(cache=True)
def shift(v, a, b, starts, substream, count, rates, latency, field):  # type: ignore[no-untyped-def]
    """Moves vertex v from target a to b in the field."""
    change = latency[b] - latency[a]
    for i in range(starts[v], starts[v + 1]):
        row, part = field[substream[i]], rates[substream[i]] * count[i]
        for j in range(len(row)):
            row[j] += part * change[j]


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
            place(v, at[v], 1.0, starts, substream, count, rates, latency, field)
    return field


@numba.njit(cache=True)
def greedy(order, weight, caps, load, at, starts, substream, count, rates, latency, fixed, field):  # type: ignore[no-untyped-def]
    """Places vertices in the given order, each where it costs least; if none has room, where the least is lacking."""
    found = np.empty(len(caps))
    for v in order:
        costs(v, starts, substream, count, fixed, field, found)
        best, least = -1, -1
        for j in range(len(caps)):
            if load[j] + weight[v] <= caps[j] and (best < 0 or found[j] < found[best]):
                best = j
            if least < 0 or _excess(load[j] + weight[v], caps[j]) < _excess(load[least] + weight[v], caps[least]):
                least = j
        chosen = best if best >= 0 else least
        at[v] = chosen
        load[chosen] += weight[v]
        place(v, chosen, 1.0, starts, substream, count, rates, latency, field)


@numba.njit(cache=True)
def _excess(load, cap):  # type: ignore[no-untyped-def]
    return (load - cap) / cap if cap > 0 else np.inf


@numba.njit(cache=True)
def best_move(v, a, weight, caps, load, itself, latency, found):  # type: ignore[no-untyped-def]
    """The target with the largest gain that keeps its cap or lessens a violation, and the gain; −1 if there is none.

    `found` has the costs of v by target, with its own part in the field.
    """
    best, gain = -1, -np.inf
    too_much = _excess(load[a], caps[a])
    for b in range(len(caps)):
        if b == a:
            continue
        gained = found[a] - found[b] + itself * (latency[a, b] - latency[a, a])
        if gained <= gain:
            continue
        after = _excess(load[b] + weight, caps[b])
        if after <= 0 or after < too_much:
            best, gain = b, gained
    return best, gain


@numba.njit(cache=True)
def refine(at, weight, caps, load, starts, substream, count, rates, latency, fixed, field, passes, patience):  # type: ignore[no-untyped-def]
    """Moves vertices, each at most once per pass, the largest gain first and also if it is negative; a pass ends after
    `patience` moves without a new best, and goes back to the best. Returns the gain of all passes.

    Gains are looked at again before they are believed: a move changes nearly all others a little, and to keep all of
    them up to date would cost more than the moves.
    """
    vertices, targets = len(at), len(caps)
    itself = own(starts, substream, count, rates)
    found = np.empty(targets)
    gained = 0.0
    for _ in range(passes):
        heap = [(0.0, 0)]
        heap.pop()
        for v in range(vertices):
            costs(v, starts, substream, count, fixed, field, found)
            b, gain = best_move(v, at[v], weight[v], caps, load, itself[v], latency, found)
            if b >= 0:
                heap.append((-gain, v))
        heapify(heap)
        moved = [(0, 0)]
        moved.pop()
        now, best, kept = 0.0, 0.0, 0
        while heap and len(moved) - kept < patience:
            v = heappop(heap)[1]
            costs(v, starts, substream, count, fixed, field, found)
            a = at[v]
            b, gain = best_move(v, a, weight[v], caps, load, itself[v], latency, found)
            if b < 0:
                continue
            if heap and gain < -heap[0][0] - _FLAT * abs(gain):
                heappush(heap, (-gain, v))
                continue
            shift(v, a, b, starts, substream, count, rates, latency, field)
            at[v], load[a], load[b] = b, load[a] - weight[v], load[b] + weight[v]
            moved.append((v, a))
            now += gain
            if now > best + _FLAT * abs(best):
                best, kept = now, len(moved)
        while len(moved) > kept:
            v, a = moved.pop()
            b = at[v]
            shift(v, b, a, starts, substream, count, rates, latency, field)
            at[v], load[a], load[b] = a, load[a] + weight[v], load[b] - weight[v]
        gained += best
        if kept == 0:
            break
    return gained


@numba.njit(cache=True)
def relieve(order, at, weight, caps, load, starts, substream, count, rates, latency, fixed, field):  # type: ignore[no-untyped-def]
    """Takes vertices away from targets above their caps to where there is room, each at the least cost."""
    itself = own(starts, substream, count, rates)
    found = np.empty(len(caps))
    for v in order:
        a = at[v]
        if load[a] <= caps[a]:
            continue
        costs(v, starts, substream, count, fixed, field, found)
        b, _ = best_move(v, a, weight[v], caps, load, itself[v], latency, found)
        if b >= 0:
            shift(v, a, b, starts, substream, count, rates, latency, field)
            at[v], load[a], load[b] = b, load[a] - weight[v], load[b] + weight[v]


#: A vertex follows a flow if the flow is more than so much of its load: a little too far is better than not at all.
_OVERSHOOT = 0.9


@numba.njit(cache=True)
def rebalance(  # type: ignore[no-untyped-def]
    flow, draws, at, origin, weight, state, load, starts, substream, count, rates, latency, fixed, field, band
):
    """Moves vertices along flows. A random flow each time; of the vertices that lose least by it (within the band)
    those that have been moved before, which costs nothing more, or else all; of these the one with most load for its
    state."""
    itself = own(starts, substream, count, rates)
    targets = len(load)
    found, gains = np.empty(targets), np.empty(len(at))
    for draw in draws:
        open_flows = 0
        for i in range(targets):
            for j in range(targets):
                open_flows += flow[i, j] > 0
        if open_flows == 0:
            break
        left = int(draw * open_flows)
        a, b = 0, 0
        for i in range(targets):
            for j in range(targets):
                if flow[i, j] > 0:
                    if left == 0:
                        a, b = i, j
                    left -= 1
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
        shift(chosen, a, b, starts, substream, count, rates, latency, field)
        at[chosen] = b
        load[a] -= weight[chosen]
        load[b] += weight[chosen]
        flow[a, b] -= weight[chosen]


@numba.njit(cache=True)
def improve(  # type: ignore[no-untyped-def]
    order,
    at,
    origin,
    weight,
    state,
    caps,
    floors,
    load,
    starts,
    substream,
    count,
    rates,
    latency,
    fixed,
    field,
    interval,
):
    """Visits vertices once: back to where they were if that loses nothing, or else where they cost less, if it pays.

    A move keeps the cap of its target and the floor of where it comes from, or lessens the larger violation.
    """
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
            shift(v, a, best, starts, substream, count, rates, latency, field)
            at[v] = best
            load[a] -= weight[v]
            load[best] += weight[v]


@numba.njit(cache=True)
def _fits(load_a, load_b, weight, cap, floor):  # type: ignore[no-untyped-def]
    before = max(load_b - cap, floor - load_a, 0.0)
    after = max(load_b + weight - cap, floor - load_a + weight, 0.0)
    return after == 0.0 or after < before
