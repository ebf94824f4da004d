"""The coordinator tree over providers, in the order in which they joined.

A cluster is led by one of its members, the one in its middle. A leaf's members are providers; above that a cluster's
members are the leaders of the clusters below it. So every coordinator is also a provider, and knows no more than its
own few members: k to 3k − 1 of them (the root may have fewer). All leaves are at the same depth.

                      [ b ]                        b leads the root, which has a member for each cluster below
               ┌────────┴────────┐
           [a (b) c]         [d (e) f g]           leaders in parentheses

    join     down from the root, each time to the nearest leader, into a leaf
    split    a cluster of 3k or more becomes two of at least ⌊3k/2⌋, so that the farthest member is as near as can be
    leader   always the member with the least total latency to the others
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from weft.federation import FederationError


@dataclass(frozen=True, slots=True)
class Cluster:
    """A coordinator and what it coordinates: providers, or clusters with coordinators of their own."""

    leader: int
    providers: tuple[int, ...] = ()
    children: tuple[Cluster, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return not self.children

    @property
    def members(self) -> tuple[int, ...]:
        """The providers that are its members: its own, or the leaders of the clusters below."""
        return self.providers if self.is_leaf else tuple(child.leader for child in self.children)


def clusters(tree: Cluster) -> Iterator[Cluster]:
    """All clusters, each before those below it."""
    yield tree
    for child in tree.children:
        yield from clusters(child)


def providers_below(tree: Cluster) -> tuple[int, ...]:
    """All providers of a tree, cluster by cluster."""
    return tuple(provider for cluster in clusters(tree) for provider in cluster.providers)


def height(tree: Cluster) -> int:
    """The number of coordinators from the root down to a provider."""
    return 1 if tree.is_leaf else 1 + height(tree.children[0])


def coordinators_above(tree: Cluster, provider: int) -> tuple[Cluster, ...]:
    """The clusters that a provider is in, from the root down; none if it is not in the tree."""
    return tuple(cluster for cluster in clusters(tree) if provider in providers_below(cluster))


Latencies = NDArray[np.float64]


def tree_over(providers: Sequence[int], latency: Latencies, k: int = 4) -> Cluster:
    """The tree of providers that join in the given order."""
    first = Cluster(leader=providers[0], providers=(providers[0],))
    return reduce(lambda tree, provider: joined(tree, provider, latency, k), providers[1:], first)


def joined(tree: Cluster, provider: int, latency: Latencies, k: int = 4) -> Cluster:
    if k < 2:
        raise FederationError(f"clusters of {k} cannot be split into clusters: let k be 2 or more")
    grown = _with(tree, provider, latency, k)
    return grown[0] if len(grown) == 1 else cluster_of(grown, latency)


def centre(members: Sequence[int], latency: Latencies) -> int:
    """The member with the least total latency to the others; the first of several."""
    return members[int(np.argmin(latency[np.ix_(members, members)].sum(axis=1)))]


def cluster_of(below: Sequence[int | Cluster], latency: Latencies) -> Cluster:
    """The cluster of some providers, or over some clusters."""
    children = tuple(each for each in below if isinstance(each, Cluster))
    providers = tuple(each for each in below if not isinstance(each, Cluster))
    return Cluster(centre(providers or [child.leader for child in children], latency), providers, children)


def _with(cluster: Cluster, provider: int, latency: Latencies, k: int) -> list[Cluster]:
    """A cluster with one more provider below it, or the two that it was split into."""
    if cluster.is_leaf:
        return fitting(cluster_of([*cluster.providers, provider], latency), latency, k)
    nearest = min(cluster.children, key=lambda child: (latency[provider, child.leader], child.leader))
    others = [child for child in cluster.children if child is not nearest]
    return fitting(cluster_of([*others, *_with(nearest, provider, latency, k)], latency), latency, k)


def fitting(cluster: Cluster, latency: Latencies, k: int) -> list[Cluster]:
    """The cluster itself if it is not too large, or else the two that it is split into."""
    if len(cluster.members) <= 3 * k - 1:
        return [cluster]
    below = cluster.providers or cluster.children
    return [cluster_of([below[at] for at in half], latency) for half in _halves(cluster.members, latency, 3 * k // 2)]


def _halves(members: Sequence[int], latency: Latencies, least: int) -> tuple[list[int], list[int]]:
    """The members, by place, in two parts of at least `least`, such that the larger radius is as small as can be found.

    For each two members as poles, all are ordered by how much nearer they are to the one, and cut where it is best.
    """
    between = latency[np.ix_(members, members)]
    halves = (
        (order[:cut], order[cut:])
        for a, b in combinations(range(len(members)), 2)
        for order in [np.argsort(between[a] - between[b], kind="stable").tolist()]
        for cut in range(least, len(members) - least + 1)
    )
    return min(halves, key=lambda each: max(_radius(half, between) for half in each))


def _radius(part: list[int], between: Latencies) -> float:
    within = between[np.ix_(part, part)]
    return float(within[np.argmin(within.sum(axis=1))].max())
