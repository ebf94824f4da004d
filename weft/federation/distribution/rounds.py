"""How much load must flow between whom, so that everyone has a fair part and as little as possible flows.

Hu and Blake's diffusion: flows are differences of potentials, m[i, j] = λ[i] − λ[j] where that is positive, and the
potentials solve L·λ = b with the Laplacian L of who is linked to whom and b what each has beyond its part. Of all flows
that balance the load these have the least sum of squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from weft.federation.distribution import placement_loops as kernels
from weft.federation.distribution import placement_loops as moving
from weft.federation.distribution.coordinator_tree import Cluster, height
from weft.federation.distribution.mapping import (
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
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams, chosen
from weft.federation.distribution.query_graph import QueryGraph, graph_of, selected


def flows(
    load: NDArray[np.float64], fair: NDArray[np.float64], linked: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """By pair the load that has to go from the one to the other. Without `linked` all are linked with one another."""
    size = len(load)
    # What is asked for adds up to what is there, whatever the scale of the fair parts.
    excess = load - fair * (load.sum() / fair.sum())
    if linked is None:
        potential = excess / size
    else:
        laplacian = np.diag(linked.sum(axis=1)) - linked.astype(np.float64)
        potential = np.linalg.lstsq(laplacian, excess, rcond=None)[0]
    through = np.maximum(potential[:, None] - potential, 0.0)
    return through if linked is None else np.where(linked, through, 0.0)


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


def cost_of(network: NetworkGraph, moves: Migration) -> float:
    """Bytes of state times the milliseconds that they travel."""
    return float(moves.state @ network.between[moves.source, moves.target])


def bounded(network: NetworkGraph, moves: Migration, gain: NDArray[np.float64], budget: float) -> Migration:
    """The moves that gain most for what carrying them costs, as many as a budget of bytes times milliseconds allows."""
    each = moves.state * network.between[moves.source, moves.target]
    order = np.argsort(-gain / np.maximum(each, 1e-300), kind="stable")
    kept = np.sort(order[np.cumsum(each[order]) <= budget])
    return Migration(moves.query[kept], moves.source[kept], moves.target[kept], moves.state[kept])


@dataclass(frozen=True, slots=True)
class Terms:
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
    terms: Terms = Terms(),  # noqa: B008 (frozen)
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
            graph, owner = (
                graph_of(network, substreams, chosen(queries, vertices)),
                placement[vertices].astype(np.int64),
            )
            members = np.array(cluster.providers)
        origin = np.full(len(vertices), -1, np.int32)
        for number, member in enumerate(members):
            origin[owner == member] = number
        at = settled(
            graph, substreams.rate, targets_of(cluster, network, fair, terms.slack, heaviest), origin, random, terms
        )
        if cluster.is_leaf:
            decided[vertices] = np.asarray(cluster.providers, np.int32)[at]
        for number, child in enumerate(cluster.children):
            hand_down(child, taken_apart(levels[level - 1], vertices[at == number])[0])

    every = len(levels[-2].graph) if len(levels) > 1 else len(queries)
    hand_down(tree, np.arange(every))
    return decided


def settled(
    graph: QueryGraph,
    rates: NDArray[np.float64],
    targets: Targets,
    origin: NDArray[np.int32],
    random: Generator,
    terms: Terms,
) -> Placement:
    """What one coordinator decides: by vertex its target. Vertices from elsewhere have an origin of −1."""
    at = origin.copy()
    arrays = arrays_of(graph, rates, targets)
    starts, substream, count, _, latency, _ = arrays
    field = kernels.field_of(len(targets), at, starts, substream, count, rates, latency)
    load = load_at(targets, at, graph)
    new = np.flatnonzero(at < 0)
    order = new[np.argsort(-graph.weight[new], kind="stable")]
    kernels.greedy(order, graph.weight, targets.caps, load, at, *arrays, field)
    if ((load > targets.caps) | (load < targets.floors)).any():
        moving.rebalance(
            flows(load, targets.fair), random.random(4 * len(graph) + 64), at, origin, graph.weight, graph.state, load,
            *arrays, field, terms.band,
        )  # fmt: skip
    moving.improve(
        random.permutation(len(graph)), at, origin, graph.weight, graph.state, targets.caps, targets.floors, load,
        *arrays, field, terms.interval,
    )  # fmt: skip
    return at
