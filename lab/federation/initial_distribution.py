"""The initial distribution of many queries at once: by one that knows everything, and down a tree of coordinators.

**Centrally**, all queries go onto all providers: the yardstick for the hierarchy, the best that single moves find.
Greedy first: heavy vertices before light ones, each where it costs least while the load limit holds. Then refinement in
the manner of Fiduccia and Mattheyses: passes of single moves, the best first, through hills on the way.

**Up** the tree, a leaf coordinator bundles the queries of its providers' users, and passes the bundles on; each
coordinator above bundles what it gets from below. **Down** the tree, the root maps its bundles onto its children, takes
them apart one level, improves on that, and hands each child its part, which does the same. No coordinator sees more
than some hundreds of bundles and a handful of targets, and coordinators side by side work at the same time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from heapq import heapify, heappop, heappush

import numba
import numpy as np
from numpy.typing import NDArray

from weft.federation.distribution.coordinator_tree import Cluster, height, providers_below
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams
from weft.federation.distribution.query_graph import (
    QueryGraph,
    Targets,
    add,
    arrays_of,
    costs,
    excess,
    field_of,
    graph_of,
    own,
    selected,
)
from weft.federation.distribution.query_graph import greedy as place_greedily
from weft.federation.distribution.rounds import MOST_BUNDLES, SLACK, Level, Watch, gathered, targets_of

#: Passes of refinement at most, and moves without a new best after which a pass ends.
PASSES, PATIENCE = 4, 64

_FLAT = 1e-9


def _unwatched(_cluster: Cluster, _work: str) -> AbstractContextManager[None]:
    return nullcontext()


def all_providers(network: NetworkGraph, graph: QueryGraph, slack: float = SLACK) -> Targets:
    """Every provider as a target."""
    fair = float(graph.weight.sum() / network.capability.sum())
    return Targets.over(network, [[each] for each in range(len(network.providers))], fair, slack)


def greedily(network: NetworkGraph, substreams: Substreams, queries: QuerySet, slack: float = SLACK) -> Placement:
    """Each query where it costs least when its turn comes."""
    graph = graph_of(network, substreams, queries)
    return greedy(graph, substreams.rate, all_providers(network, graph, slack))


def centrally(network: NetworkGraph, substreams: Substreams, queries: QuerySet, slack: float = SLACK) -> Placement:
    """The same, refined."""
    graph = graph_of(network, substreams, queries)
    targets = all_providers(network, graph, slack)
    # As printed: passes run to their end, and go on while they improve; that is at most eight times in practice.
    passes, whole_passes = 8, len(queries)
    return refined(graph, substreams.rate, targets, greedy(graph, substreams.rate, targets), passes, whole_passes)


def greedy(graph: QueryGraph, rates: NDArray[np.float64], targets: Targets) -> Placement:
    """By vertex the number of its target, heavy vertices first."""
    at = np.full(len(graph), -1, np.int32)
    field, load = np.zeros((len(rates), len(targets))), np.zeros(len(targets))
    order = np.argsort(-graph.weight, kind="stable")
    place_greedily(order, graph.weight, targets.caps, load, at, *arrays_of(graph, rates, targets), field)
    return at


def refined(
    graph: QueryGraph,
    rates: NDArray[np.float64],
    targets: Targets,
    placed: Placement,
    passes: int = PASSES,
    patience: int = PATIENCE,
) -> Placement:
    """A placement that costs no more, and breaks the load limits nowhere more than before.

    Where a limit is broken load goes away first, whatever that costs.
    """
    at = placed.astype(np.int32)
    arrays = arrays_of(graph, rates, targets)
    starts, substream, count, _, latency, _ = arrays
    field = field_of(len(targets), at, starts, substream, count, rates, latency)
    load = np.bincount(at, graph.weight, minlength=len(targets)).astype(np.float64)
    if (load > targets.caps).any():
        relieve(np.argsort(-graph.weight), at, graph.weight, targets.caps, load, *arrays, field)
    refine(at, graph.weight, targets.caps, load, *arrays, field, passes, patience)
    return at


def mapped(graph: QueryGraph, rates: NDArray[np.float64], targets: Targets) -> Placement:
    """Greedy, then refined."""
    return refined(graph, rates, targets, greedy(graph, rates, targets))


def taken_apart(level: Level, vertices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The finer vertices in some bundles, ascending, and by finer vertex the place of its bundle among them."""
    place = np.full(len(level.graph), -1)
    place[vertices] = np.arange(len(vertices))
    finer = np.flatnonzero(place[level.bundle] >= 0)
    return finer, place[level.bundle[finer]]


def spread(
    tree: Cluster,
    network: NetworkGraph,
    substreams: Substreams,
    queries: QuerySet,
    levels: list[Level],
    watch: Watch = _unwatched,
) -> Placement:
    """The way down: by query its provider."""
    placement = np.full(len(queries), -1, np.int32)
    fair = float(queries.load.sum() / network.capability[list(providers_below(tree))].sum())
    heaviest = float(queries.load.max(initial=0.0))

    def hand_down(cluster: Cluster, level: int, vertices: NDArray[np.int64]) -> None:
        with watch(cluster, "spread"):
            targets = targets_of(cluster, network, fair, heaviest)
            coarse = selected(levels[level].graph, vertices)
            at = mapped(coarse, substreams.rate, targets)
            finer, of_bundle = taken_apart(levels[level], vertices)
            fine = selected(levels[level - 1].graph, finer)
            at = refined(fine, substreams.rate, targets, at[of_bundle])
        if cluster.is_leaf:
            placement[finer] = np.asarray(cluster.providers, np.int32)[at]
        for number, child in enumerate(cluster.children):
            hand_down(child, level - 1, finer[at == number])

    hand_down(tree, height(tree), np.arange(len(levels[-1].graph)))
    return placement


def hierarchically(
    tree: Cluster,
    network: NetworkGraph,
    substreams: Substreams,
    queries: QuerySet,
    seed: int = 0,
    most: int = MOST_BUNDLES,
    watch: Watch = _unwatched,
) -> Placement:
    """By query its provider: up the tree, and down again."""
    random = np.random.default_rng(seed)
    levels = gathered(tree, network, substreams, queries, queries.home, random, most, watch)
    return spread(tree, network, substreams, queries, levels, watch)


@numba.njit(cache=True)
def best_move(v, a, weight, caps, load, itself, latency, found):  # type: ignore[no-untyped-def]
    """The target with the largest gain that keeps its cap or lessens a violation, and the gain; −1 if there is none.

    `found` has the costs of v by target, with its own part in the field.
    """
    best, gain = -1, -np.inf
    too_much = excess(load[a], caps[a])
    for b in range(len(caps)):
        if b == a:
            continue
        gained = found[a] - found[b] + itself * (latency[a, b] - latency[a, a])
        if gained <= gain:
            continue
        after = excess(load[b] + weight, caps[b])
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
            add(v, latency[b] - latency[a], starts, substream, count, rates, field)
            at[v], load[a], load[b] = b, load[a] - weight[v], load[b] + weight[v]
            moved.append((v, a))
            now += gain
            if now > best + _FLAT * abs(best):
                best, kept = now, len(moved)
        while len(moved) > kept:
            v, a = moved.pop()
            b = at[v]
            add(v, latency[a] - latency[b], starts, substream, count, rates, field)
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
            add(v, latency[b] - latency[a], starts, substream, count, rates, field)
            at[v], load[a], load[b] = b, load[a] - weight[v], load[b] + weight[v]
