"""A round of redistribution: bundles of queries go up the tree, decisions come down it. Load first, then cost.

**Up.** A leaf coordinator bundles the queries of its providers, and passes the bundles on; each coordinator above
bundles what it gets from below. So a coordinator decides about some hundreds of bundles and a handful of targets
(providers, or the clusters below it).

**Down.** Each coordinator decides about its bundles, as docs/federation.md says under "Rounds". Children get their
bundles and do the same, one level finer.

The load limit gets wider on the way down: a root that used all of the slack would leave none to those below it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from weft.federation.distribution.coordinator_tree import Cluster, clusters, height, providers_below
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams
from weft.federation.distribution.query_graph import QueryGraph, Targets, coarsened, graph_of, joined, selected, settled

#: How far beyond its fair share of the load a provider may go.
SLACK = 0.10

#: Bundles that a coordinator passes on: some dozens for each of its targets.
MOST_BUNDLES = 192

#: The seconds until the next round, in which a move has to pay.
_INTERVAL = 200.0

#: Overlaps of bundles of bundles are judged by one substream in four.
_THINNED = 4

#: Told which coordinator does what, while it does it: the way to see how long each of them takes.
Watch = Callable[[Cluster, str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Level:
    """All bundles of the coordinators of one height, and which of them each finer vertex is in.

    The finer vertices are the bundles of the height below. `owner` has by bundle the leader of the cluster that made
    it. Height 0 has the queries, and their providers.
    """

    graph: QueryGraph
    bundle: NDArray[np.int64]
    owner: NDArray[np.integer[Any]]


def targets_of(cluster: Cluster, network: NetworkGraph, fair: float, heaviest: float = 0.0) -> Targets:
    """The members of a cluster as targets. `heaviest` is the load of the heaviest query there is."""
    if cluster.is_leaf:
        return Targets.over(network, [[each] for each in cluster.providers], fair, SLACK)
    # A tenth less for every level, and half a query less, because queries are not sand: below, no provider can be
    # filled to the brim.
    slack = max(0.0, SLACK * (1 - 0.1 * (height(cluster) - 1)) - heaviest / fair / 2)
    return Targets.over(network, [providers_below(child) for child in cluster.children], fair, slack)


def gathered(
    tree: Cluster,
    network: NetworkGraph,
    substreams: Substreams,
    queries: QuerySet,
    where: Placement,
    random: Generator,
    most: int = MOST_BUNDLES,
    watch: Watch = lambda cluster, work: nullcontext(),
) -> list[Level]:
    """The way up: the queries, and the bundles of the coordinators of each height, those of the leaves first.

    `where` says whose queries they are: those of a provider's users, or those that it runs.
    """
    found = [Level(graph_of(network, substreams, queries), np.arange(len(queries)), where)]
    # Bundles want thousands of substreams, and some of those tell as well as all how much two bundles overlap.
    thinned = np.where(np.arange(len(substreams)) % _THINNED == 0, substreams.rate, 0.0)
    # The queries of a provider that is away are with the nearest one that is there.
    there = np.array(providers_below(tree))
    nearest = there[np.argmin(network.between[:, there], axis=1)]
    nearest[there] = there
    belonging: NDArray[np.int64] = nearest[where]
    for level in range(1, height(tree) + 1):
        owner: list[int] = []
        graphs, bundle = [], np.empty(len(belonging), np.int64)
        for cluster in (each for each in clusters(tree) if height(each) == level):
            numbers = np.flatnonzero(np.isin(belonging, cluster.members))
            with watch(cluster, "gather"):
                fine = selected(found[-1].graph, numbers)
                graph, into = coarsened(fine, substreams.rate if level == 1 else thinned, most, random)
            bundle[numbers] = into + len(owner)
            graphs.append(graph)
            owner += [cluster.leader] * len(graph)
        belonging = np.array(owner, np.int64)
        found.append(Level(joined(graphs), bundle, belonging))
    return found


def adapted(
    tree: Cluster,
    network: NetworkGraph,
    substreams: Substreams,
    queries: QuerySet,
    placement: Placement,
    random: Generator,
    interval: float = _INTERVAL,
) -> Placement:
    """By query its provider after a round."""
    levels = gathered(tree, network, substreams, queries, placement, random)
    decided = placement.copy()
    fair = float(queries.load.sum() / network.capability[list(providers_below(tree))].sum())
    heaviest = float(queries.load.max(initial=0.0))

    def hand_down(cluster: Cluster, vertices: NDArray[np.int64]) -> None:
        level = levels[height(cluster) - 1]
        graph, owner = selected(level.graph, vertices), level.owner[vertices]
        origin = np.full(len(vertices), -1, np.int32)
        for number, member in enumerate(cluster.members):
            origin[owner == member] = number
        targets = targets_of(cluster, network, fair, heaviest)
        at = settled(graph, substreams.rate, targets, origin, random, interval)
        if cluster.is_leaf:
            decided[vertices] = np.asarray(cluster.providers, np.int32)[at]
        for number, child in enumerate(cluster.children):
            hand_down(child, np.flatnonzero(np.isin(level.bundle, vertices[at == number])))

    hand_down(tree, np.arange(len(levels[-2].graph)))
    return decided
