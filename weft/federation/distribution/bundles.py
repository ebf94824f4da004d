"""The bundles that coordinators decide about, and their targets: providers, or the clusters of providers below them.

A leaf coordinator bundles the queries of its providers, and passes the bundles on; each coordinator above bundles what
it gets from below. So a coordinator decides about some hundreds of bundles and a handful of targets, and coordinators
side by side work at the same time.

The load limit gets wider on the way down: a root that used all of the slack would leave none to those below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from weft.federation.distribution.coordinator_tree import Cluster, clusters, height, providers_below
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams, chosen
from weft.federation.distribution.placement_loops import own
from weft.federation.distribution.query_graph import QueryGraph, coarsened, graph_of, joined, selected, summed


@dataclass(frozen=True)
class Targets:
    """Where vertices may go: the providers of each target, the latencies between targets (`latency`) and from all nodes
    of the network to them (`reach`, sources first), and how much load is fair, within a slack.

    A query at a target of several providers may be at any of them, so its distances are means over them. So is its
    distance from itself: queries that it shares out among its providers are not at the same place.
    """

    providers: tuple[NDArray[np.int64], ...]
    latency: NDArray[np.float64]
    reach: NDArray[np.float64]
    fair: NDArray[np.float64]
    slack: float

    @property
    def caps(self) -> NDArray[np.float64]:
        return (1 + self.slack) * self.fair

    @property
    def floors(self) -> NDArray[np.float64]:
        """What a target should have at least. Redistribution keeps to it; the source's load limit has no such side."""
        return (1 - self.slack) * self.fair

    def __len__(self) -> int:
        return len(self.providers)


def targets_over(network: NetworkGraph, providers: Sequence[Sequence[int]], fair: float, slack: float) -> Targets:
    """Targets that may take a fair load, which is given per unit of capability, and a slack beyond it."""
    listed = tuple(np.asarray(each, np.int64) for each in providers)
    every = np.concatenate(listed)
    sizes = [len(each) for each in listed]
    firsts = np.cumsum([0, *sizes[:-1]])
    nodes = np.concatenate([network.from_source[:, every], network.between[:, every]])
    reach = np.add.reduceat(nodes, firsts, axis=1) / sizes
    from_providers = reach[len(network.sources) :]
    latency = np.add.reduceat(from_providers[every], firsts, axis=0) / np.array(sizes)[:, None]
    capability = np.add.reduceat(network.capability[every], firsts)
    return Targets(listed, latency, reach, fair * capability, slack)


def load_at(targets: Targets, at: Placement, graph: QueryGraph) -> NDArray[np.float64]:
    """By target the load of the vertices there; vertices at −1 are nowhere."""
    placed = at >= 0
    return summed(graph.weight[placed], at[placed], len(targets))


def arrays_of(graph: QueryGraph, rates: NDArray[np.float64], targets: Targets) -> tuple[NDArray[np.generic], ...]:
    """What the compiled loops need to know of a graph and its targets."""
    # Edges inside a vertex are cut, too, where its target is spread out.
    within = 0.5 * own(graph.starts, graph.substream, graph.count, rates)
    fixed = graph.pull @ targets.reach + np.outer(within, np.diagonal(targets.latency))
    return graph.starts, graph.substream, graph.count, rates, targets.latency, fixed


#: How far beyond its fair share of the load a provider may go.
SLACK = 0.10


#: Bundles that a coordinator passes on: some dozens for each of its targets.
MOST_BUNDLES = 192

#: Overlaps of bundles of bundles are judged by one substream in four.
THINNED = 4

#: Told which coordinator does what, while it does it: the way to see how long each of them takes.
Watch = Callable[[Cluster, str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Level:
    """All bundles of the coordinators of one height, and which of them each finer vertex is in.

    The finer vertices are the bundles of the height below, or, below the leaves, the queries. `owner` has by bundle the
    coordinator that made it, by its place among those of its height.
    """

    graph: QueryGraph
    bundle: NDArray[np.int64]
    owner: NDArray[np.int64]


def targets_of(
    cluster: Cluster, network: NetworkGraph, fair: float, slack: float = SLACK, heaviest: float = 0.0
) -> Targets:
    """The members of a cluster as targets. `heaviest` is the load of the heaviest query there is."""
    if cluster.is_leaf:
        return targets_over(network, [[each] for each in cluster.providers], fair, slack)
    below = [providers_below(child) for child in cluster.children]
    return targets_over(network, below, fair, slack_above(height(cluster), slack, heaviest / fair))


def fair_load(tree: Cluster, network: NetworkGraph, queries: QuerySet) -> float:
    """The load that each unit of capability has to take."""
    return float(queries.load.sum() / network.capability[list(providers_below(tree))].sum())


def slack_above(cluster_height: int, slack: float, grain: float) -> float:
    """The slack of a coordinator above the leaves: a tenth less for every level, and half a query less, because
    queries are not sand: below, no provider can be filled to the brim."""
    return max(0.0, slack * (1 - 0.1 * (cluster_height - 1)) - grain / 2)


def unwatched(_cluster: Cluster, _work: str) -> AbstractContextManager[None]:
    return nullcontext()


def gathered(
    tree: Cluster,
    network: NetworkGraph,
    substreams: Substreams,
    queries: QuerySet,
    where: Placement,
    random: Generator,
    most: int = MOST_BUNDLES,
    watch: Watch = unwatched,
) -> list[Level]:
    """The way up: the bundles of the coordinators of each height, those of the leaves first.

    `where` says whose queries they are: those of a provider's users, or those that it runs.
    """
    found: list[Level] = []
    # Bundles want thousands of substreams, and some of those tell as well as all how much two bundles overlap.
    thinned = np.where(np.arange(len(substreams)) % THINNED == 0, substreams.rate, 0.0)
    belonging = _by_leaf(of_height(tree, 1), network, where)
    for level in range(1, height(tree) + 1):
        graphs, bundle, bundles = [], np.empty(sum(map(len, belonging)), np.int64), 0
        for cluster, numbers in zip(of_height(tree, level), belonging, strict=True):
            with watch(cluster, "gather"):
                if found:
                    fine = selected(found[-1].graph, numbers)
                else:
                    fine = graph_of(network, substreams, chosen(queries, numbers))
                coarse = coarsened(fine, substreams.rate if level == 1 else thinned, most, random)
            bundle[numbers] = coarse.bundle + bundles
            graphs.append(coarse.graph)
            bundles += len(coarse.graph)
        owner = np.repeat(np.arange(len(graphs)), [len(graph) for graph in graphs])
        found.append(Level(joined(graphs), bundle, owner))
        belonging = [np.flatnonzero(np.isin(owner, made)) for made in children_places(tree, level + 1)]
    return found


def taken_apart(level: Level, vertices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The finer vertices in some bundles, ascending, and by finer vertex the place of its bundle among them."""
    place = np.full(len(level.graph), -1)
    place[vertices] = np.arange(len(vertices))
    finer = np.flatnonzero(place[level.bundle] >= 0)
    return finer, place[level.bundle[finer]]


def of_height(tree: Cluster, wanted: int) -> list[Cluster]:
    """The coordinators of one height, from left to right."""
    return [each for each in clusters(tree) if height(each) == wanted]


def children_places(tree: Cluster, wanted: int) -> list[list[int]]:
    """By coordinator of a height the places of its children among those of the height below."""
    ends = np.cumsum([0, *(len(each.children) for each in of_height(tree, wanted))])
    return [list(range(first, end)) for first, end in pairwise(ends)]


def _by_leaf(leaves: list[Cluster], network: NetworkGraph, where: Placement) -> list[NDArray[np.int64]]:
    """By leaf the queries at its providers; those at a provider that is away are at the nearest one that is there."""
    there = np.array([provider for leaf in leaves for provider in leaf.providers])
    leaf_of = np.repeat(np.arange(len(leaves)), [len(leaf.providers) for leaf in leaves])
    nearest = leaf_of[np.argmin(network.between[:, there], axis=1)]
    nearest[there] = leaf_of
    order = np.argsort(nearest[where], kind="stable")
    ends = np.cumsum(np.bincount(nearest[where], minlength=len(leaves)))
    return np.split(order, ends[:-1])
