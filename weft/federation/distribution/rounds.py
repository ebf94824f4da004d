"""A round of redistribution, down the tree: load first, then cost.

Each coordinator looks at the bundles of its children, which have bundled what runs at their providers. If one of them
has more load than its limit, or much less than its part, diffusion says what must flow between which of them, and
bundles that lose least (or gain) by it go along. Then all bundles are visited once: those that can go back to where
they were at no loss do so, others move where they cost less. Children get their bundles and do the same, one level
finer. Queries migrate once, when all is decided.

A move in the second part has to pay: what it saves until the next round must be more than carrying the state costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from weft.federation.distribution.bundles import (
    MOST_BUNDLES,
    SLACK,
    Targets,
    arrays_of,
    children_places,
    fair_load,
    gathered,
    load_at,
    of_height,
    taken_apart,
    targets_of,
)
from weft.federation.distribution.coordinator_tree import Cluster, height
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams, chosen
from weft.federation.distribution.placement_loops import field_of, greedy, improve, rebalance
from weft.federation.distribution.query_graph import QueryGraph, graph_of, selected


@dataclass(frozen=True)
class Migration:
    """The queries that move, from where, to where, and the bytes of state that move with each."""

    query: NDArray[np.int64]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    state: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.query)


def migration(queries: QuerySet, before: Placement, after: Placement) -> Migration:
    """The moves between two placements."""
    moving = np.flatnonzero(before != after)
    return Migration(moving, before[moving], after[moving], queries.state[moving])


def bounded(network: NetworkGraph, moves: Migration, gain: NDArray[np.float64], budget: float) -> Migration:
    """The moves that gain most for what carrying them costs, as many as a budget of bytes times milliseconds allows."""
    each = moves.state * network.between[moves.source, moves.target]
    order = np.argsort(-gain / np.maximum(each, 1e-300), kind="stable")
    kept = np.sort(order[np.cumsum(each[order]) <= budget])
    return Migration(moves.query[kept], moves.source[kept], moves.target[kept], moves.state[kept])


@dataclass(frozen=True, slots=True)
class RoundTerms:
    """How rounds are held.

    `slack`     how far a provider may be from its fair load
    `band`      benefits so near to the largest one count as equal: then the vertex goes whose state is smallest
    `interval`  the seconds until the next round, in which a move has to pay
    """

    slack: float = SLACK
    band: float = 0.10
    interval: float = 200.0
    most: int = MOST_BUNDLES


def adapted(
    tree: Cluster,
    network: NetworkGraph,
    substreams: Substreams,
    queries: QuerySet,
    placement: Placement,
    random: Generator,
    terms: RoundTerms = RoundTerms(),  # noqa: B008 (frozen)
) -> Placement:
    """By query its provider after a round."""
    levels = gathered(tree, network, substreams, queries, placement, random, terms.most)
    decided = placement.copy()
    fair, heaviest = fair_load(tree, network, queries), float(queries.load.max(initial=0.0))
    places = {
        id(each): place for tall in range(1, height(tree) + 1) for place, each in enumerate(of_height(tree, tall))
    }

    def hand_down(cluster: Cluster, vertices: NDArray[np.int64]) -> None:
        level = height(cluster) - 1
        if level:
            graph, owner = selected(levels[level - 1].graph, vertices), levels[level - 1].owner[vertices]
            members = np.array(children_places(tree, level + 1)[places[id(cluster)]])
        else:
            graph = graph_of(network, substreams, chosen(queries, vertices))
            owner = placement[vertices].astype(np.int64)
            members = np.array(cluster.providers)
        origin = np.full(len(vertices), -1, np.int32)
        for number, member in enumerate(members):
            origin[owner == member] = number
        targets = targets_of(cluster, network, fair, terms.slack, heaviest)
        at = _settled(graph, substreams.rate, targets, origin, random, terms)
        if cluster.is_leaf:
            decided[vertices] = np.asarray(cluster.providers, np.int32)[at]
        for number, child in enumerate(cluster.children):
            hand_down(child, taken_apart(levels[level - 1], vertices[at == number])[0])

    every = len(levels[-2].graph) if len(levels) > 1 else len(queries)
    hand_down(tree, np.arange(every))
    return decided


def _settled(
    graph: QueryGraph,
    rates: NDArray[np.float64],
    targets: Targets,
    origin: NDArray[np.int32],
    random: Generator,
    terms: RoundTerms,
) -> Placement:
    """What one coordinator decides: by vertex its target. Vertices from elsewhere have an origin of −1."""
    at = origin.copy()
    arrays = arrays_of(graph, rates, targets)
    starts, substream, count, _, latency, _ = arrays
    field = field_of(len(targets), at, starts, substream, count, rates, latency)
    load = load_at(targets, at, graph)
    new = np.flatnonzero(at < 0)
    order = new[np.argsort(-graph.weight[new], kind="stable")]
    greedy(order, graph.weight, targets.caps, load, at, *arrays, field)
    if ((load > targets.caps) | (load < targets.floors)).any():
        rebalance(
            flows(load, targets.fair), random.random(4 * len(graph) + 64), at, origin, graph.weight, graph.state, load,
            *arrays, field, terms.band,
        )  # fmt: skip
    improve(
        random.permutation(len(graph)), at, origin, graph.weight, graph.state, targets.caps, targets.floors, load,
        *arrays, field, terms.interval,
    )  # fmt: skip
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
