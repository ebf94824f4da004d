"""What one coordinator does: it has a graph of queries, makes the graph coarse, and places its vertices on targets.

Vertices are queries, or bundles of queries. An edge between two vertices need not be kept: its weight follows from how
many of their queries want each substream, Σ_x rate[x] · count[x] · count'[x], so the edge cut of bundles is exactly
that of the queries in them, but for the edges inside bundles. Edges to sources and homes lead to nodes of the network,
which do not move and are never merged; `pull` has their weights, a column for each node.

**Coarsening** is heavy-edge matching: visit the vertices in random order and merge each with the neighbour it shares
most with, until the graph is small. Edges are compared **per pair of queries**: by total weight large bundles attract
all others, and hot spots melt into one another. And a bundle never grows beyond a **cap**: those as heavy as a
provider's share cannot be placed within the load limit.

The **field** of a placement has for each substream and target what one query that wants the substream would pay there
for sharing it with all queries that want it too: rate[x] · Σ_k latency[j, k] · count[x, k]. A vertex sees its whole row
of costs by summing a few rows of the field, and a move changes no others than the rows of the vertex's substreams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams, pulls


@dataclass(frozen=True)
class QueryGraph:
    """Vertices by number. By vertex and substream, `wants` has how many of the vertex's queries want the substream.

    `size` is the number of a vertex's queries, `weight` their load, `state` the bytes that move with them.
    """

    wants: csr_array
    size: NDArray[np.float64]
    weight: NDArray[np.float64]
    state: NDArray[np.float64]
    pull: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def cells(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """For compiled loops: vertex v wants `substream[starts[v]:starts[v + 1]]`, by `count` of its queries each."""
        return self.wants.indptr, self.wants.indices, self.wants.data


_PER_VERTEX = ("size", "weight", "state", "pull")


def graph_of(network: NetworkGraph, substreams: Substreams, queries: QuerySet) -> QueryGraph:
    """The query graph in which each vertex is a query."""
    return QueryGraph(
        wants=csr_array(
            (np.ones(len(queries.wanted)), queries.wanted, queries.starts), shape=(len(queries), len(substreams))
        ),
        size=np.ones(len(queries)),
        weight=queries.load,
        state=queries.state,
        pull=pulls(network, substreams, queries),
    )


def selected(graph: QueryGraph, vertices: NDArray[np.int64]) -> QueryGraph:
    """Some of the vertices, in the given order."""
    return QueryGraph(graph.wants[vertices], *(getattr(graph, each)[vertices] for each in _PER_VERTEX))


def joined(graphs: Sequence[QueryGraph]) -> QueryGraph:
    """The vertices of several graphs, one graph after the other."""
    columns = (np.concatenate([getattr(each, name) for each in graphs]) for name in _PER_VERTEX)
    return QueryGraph(vstack([each.wants for each in graphs], format="csr"), *columns)


def bundled(graph: QueryGraph, bundle: NDArray[np.int64]) -> QueryGraph:
    """The graph whose vertices are bundles; `bundle` has for each vertex the number of its bundle."""
    into = _sums(bundle)
    return QueryGraph(into @ graph.wants, *(into @ getattr(graph, each) for each in _PER_VERTEX))


def _sums(bundle: NDArray[np.int64]) -> csr_array:
    """What sums over the vertices of each bundle when it is multiplied by values of vertices."""
    shape = int(bundle.max(initial=-1)) + 1, len(bundle)
    return csr_array((np.ones(len(bundle), np.float32), (bundle, np.arange(len(bundle)))), shape=shape)


#: How many times as heavy as an average bundle of the smallest graph a bundle may be.
HEAVIEST = 1.5


def coarsened(
    graph: QueryGraph, rates: NDArray[np.float64], most: int, random: Generator, heaviest: float | None = None
) -> tuple[QueryGraph, NDArray[np.int64]]:
    """A graph of at most `most` vertices, or as few as the cap on their weight allows, and by vertex its bundle."""
    bundle = np.arange(len(graph))
    if len(graph) <= most:
        return graph, bundle
    if heaviest is None:
        heaviest = HEAVIEST * float(graph.weight.sum()) / most
    overlap = overlaps(graph, rates)
    size, weight = graph.size, graph.weight
    while len(weight) > most:
        match = _matched(overlap, size, weight, random.permutation(len(weight)), len(weight) - most, heaviest)
        firsts, merged = np.unique(match, return_inverse=True)
        if len(firsts) == len(weight):
            break
        into = _sums(merged)
        overlap, size, weight = into @ (into @ overlap).T, into @ size, into @ weight
        np.fill_diagonal(overlap, 0)
        bundle = merged[bundle]
    return bundled(graph, bundle), bundle


def overlaps(graph: QueryGraph, rates: NDArray[np.float64]) -> NDArray[np.float32]:
    """The weights of all edges between vertices, as a matrix with zeros on the diagonal."""
    wanting = graph.wants.tocsc()
    cells = wanting.indptr, wanting.indices, wanting.data.astype(np.float32)
    found: NDArray[np.float32] = _overlaps(len(graph), *cells, rates)
    return found


@numba.njit(cache=True)
def _overlaps(vertices, firsts, vertex, count, rates):  # type: ignore[no-untyped-def]
    found = np.zeros((vertices, vertices), np.float32)
    for x in range(len(rates)):
        rate = np.float32(rates[x])
        if rate == 0:
            continue
        for i in range(firsts[x], firsts[x + 1]):
            part = rate * count[i]
            row = found[vertex[i]]
            for j in range(firsts[x], i):
                row[vertex[j]] += part * count[j]
    # A substream's vertices are in ascending order, so all has gone below the diagonal.
    for i in range(vertices):
        for j in range(i):
            found[j, i] = found[i, j]
    return found


@numba.njit(cache=True)
def _matched(overlap, size, weight, order, merges, heaviest):  # type: ignore[no-untyped-def]
    """By vertex the smaller number of the pair it is in, or its own."""
    match = np.arange(len(size))
    free = np.ones(len(size), np.bool_)
    for u in order:
        if merges == 0:
            break
        if not free[u]:
            continue
        free[u] = False
        best, at = 0.0, -1
        for v in range(len(size)):
            if free[v] and overlap[u, v] > best * size[v] and weight[u] + weight[v] <= heaviest:
                best, at = overlap[u, v] / size[v], v
        if at >= 0:
            free[at] = False
            match[u] = match[at] = min(u, at)
            merges -= 1
    return match


#: Benefits so near to the largest one count as equal: then the vertex goes whose state is smallest.
_BAND = 0.10


@dataclass(frozen=True)
class Targets:
    """Where vertices may go: the providers of each target, the latencies between targets (`latency`) and from all nodes
    of the network to them (`reach`, sources first), and how much load is fair, at most allowed (`caps`), and at least
    due in a round (`floors`).

    A query at a target of several providers may be at any of them, so its distances are means over them. So is its
    distance from itself: queries that it shares out among its providers are not at the same place.
    """

    providers: tuple[NDArray[np.int64], ...]
    latency: NDArray[np.float64]
    reach: NDArray[np.float64]
    fair: NDArray[np.float64]
    caps: NDArray[np.float64]
    floors: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.providers)

    @staticmethod
    def over(network: NetworkGraph, providers: Sequence[Sequence[int]], fair: float, slack: float) -> Targets:
        """Targets that may take a fair load, which is given per unit of capability, and a slack beyond it."""
        listed = tuple(np.asarray(each, np.int64) for each in providers)
        every = np.concatenate(listed)
        sizes = [len(each) for each in listed]
        firsts = np.cumsum([0, *sizes[:-1]])
        reach = np.add.reduceat(network.nodes[:, every], firsts, axis=1) / sizes
        from_providers = reach[len(network.sources) :]
        latency = np.add.reduceat(from_providers[every], firsts, axis=0) / np.array(sizes)[:, None]
        load = fair * np.add.reduceat(network.capability[every], firsts)
        return Targets(listed, latency, reach, load, (1 + slack) * load, (1 - slack) * load)


def arrays_of(graph: QueryGraph, rates: NDArray[np.float64], targets: Targets) -> tuple[NDArray[np.generic], ...]:
    """What the compiled loops need to know of a graph and its targets."""
    # Edges inside a vertex are cut, too, where its target is spread out.
    within = 0.5 * own(*graph.cells, rates)
    fixed = graph.pull @ targets.reach + np.outer(within, np.diagonal(targets.latency))
    return *graph.cells, rates, targets.latency, fixed


def settled(
    graph: QueryGraph,
    rates: NDArray[np.float64],
    targets: Targets,
    origin: NDArray[np.int32],
    random: Generator,
    interval: float,
) -> Placement:
    """What one coordinator decides: by vertex its target. Vertices from elsewhere have an origin of −1."""
    at = origin.copy()
    arrays = arrays_of(graph, rates, targets)
    starts, substream, count, _, latency, _ = arrays
    field = field_of(len(targets), at, starts, substream, count, rates, latency)
    load = np.bincount(at[at >= 0], graph.weight[at >= 0], minlength=len(targets)).astype(np.float64)
    new = np.flatnonzero(at < 0)
    order = new[np.argsort(-graph.weight[new], kind="stable")]
    greedy(order, graph.weight, targets.caps, load, at, *arrays, field)
    if ((load > targets.caps) | (load < targets.floors)).any():
        draws = random.random(4 * len(graph) + 64)
        flow = flows(load, targets.fair)
        rebalance(flow, draws, at, origin, graph.weight, graph.state, load, arrays, field, _BAND)
    order, limits = random.permutation(len(graph)), (targets.caps, targets.floors)
    improve(order, at, origin, graph.weight, graph.state, *limits, load, arrays, field, interval)
    return at


def flows(load: NDArray[np.float64], fair: NDArray[np.float64]) -> NDArray[np.float64]:
    """By pair of targets the load that has to go from the one to the other.

    Hu and Blake's diffusion: flows are differences of potentials, m[i, j] = λ[i] − λ[j] where that is positive. Where
    all targets are linked with one another, the potentials are what each has beyond its part, divided by how many there
    are. Of all flows that balance the load these have the least sum of squares.
    """
    # What is asked for adds up to what is there, whatever the scale of the fair parts.
    potential = (load - fair * (load.sum() / fair.sum())) / len(load)
    found: NDArray[np.float64] = np.maximum(potential[:, None] - potential, 0.0)
    return found


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
