"""A round of redistribution, down the tree: load first, then cost.

Each coordinator looks at the bundles of its children, which have bundled what runs at their providers. If one of them
has more load than its limit, or much less than its part, diffusion says what must flow between whom, and bundles that
lose least (or gain) by it go along. Then all bundles are visited once: those that can go back to where they were at no
loss do so, others move where they cost less. Children get their bundles and do the same, one level finer. Queries
migrate once, when all is decided.

A move in the second part has to pay: what it saves until the next round must be more than carrying the state costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from weft.federation.coordinators import Cluster, height
from weft.federation.distribution import kernels, moving
from weft.federation.distribution.centralised import SLACK
from weft.federation.distribution.diffusion import flows
from weft.federation.distribution.graph import QueryGraph, graph_of, selected
from weft.federation.distribution.hierarchical import (
    MOST_BUNDLES,
    children_places,
    fair_load,
    gathered,
    of_height,
    taken_apart,
    targets_of,
)
from weft.federation.distribution.mapping import Targets, arrays_of, load_at
from weft.federation.model.edge_cut import Placement
from weft.federation.model.network import NetworkGraph
from weft.federation.model.queries import QuerySet, chosen
from weft.federation.model.substreams import Substreams


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
