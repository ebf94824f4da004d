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
    if tree.is_leaf:
        return (tree,) if provider in tree.providers else ()
    below = (coordinators_above(child, provider) for child in tree.children)
    return next(((tree, *found) for found in below if found), ())


Latencies = NDArray[np.float64]


def tree_over(providers: Sequence[int], latency: Latencies, k: int = 4) -> Cluster:
    """The tree of providers that join in the given order."""
    first = Cluster(leader=providers[0], providers=(providers[0],))
    return reduce(lambda tree, provider: joined(tree, provider, latency, k), providers[1:], first)


def joined(tree: Cluster, provider: int, latency: Latencies, k: int = 4) -> Cluster:
    if k < 2:
        raise FederationError(f"clusters of {k} cannot be split into clusters: let k be 2 or more")
    grown = _with(tree, provider, latency, k)
    return grown[0] if len(grown) == 1 else cluster_over(grown, latency)


def centre(members: Sequence[int], latency: Latencies) -> int:
    """The member with the least total latency to the others; the first of several."""
    listed = list(members)
    return listed[int(np.argmin(latency[np.ix_(listed, listed)].sum(axis=1)))]


def leaf_of(providers: Sequence[int], latency: Latencies) -> Cluster:
    return Cluster(centre(providers, latency), providers=tuple(providers))


def cluster_over(children: Sequence[Cluster], latency: Latencies) -> Cluster:
    return Cluster(centre([child.leader for child in children], latency), children=tuple(children))


def _with(cluster: Cluster, provider: int, latency: Latencies, k: int) -> list[Cluster]:
    """A cluster with one more provider below it, or the two that it was split into."""
    if cluster.is_leaf:
        return fitting(leaf_of((*cluster.providers, provider), latency), latency, k)
    nearest = min(cluster.children, key=lambda child: (latency[provider, child.leader], child.leader))
    grown = _with(nearest, provider, latency, k)
    children = [child for child in cluster.children if child is not nearest]
    return fitting(cluster_over([*children, *grown], latency), latency, k)


def fitting(cluster: Cluster, latency: Latencies, k: int) -> list[Cluster]:
    """The cluster itself if it is not too large, or else the two that it is split into."""
    members = cluster.members
    if len(members) <= 3 * k - 1:
        return [cluster]
    near, far = _halves(members, latency, (3 * k) // 2)
    if cluster.is_leaf:
        return [leaf_of([members[i] for i in half], latency) for half in (near, far)]
    return [cluster_over([cluster.children[i] for i in half], latency) for half in (near, far)]


def _halves(members: Sequence[int], latency: Latencies, least: int) -> tuple[list[int], list[int]]:
    """The members, by place, in two parts of at least `least`, such that the larger radius is as small as can be found.

    For each two members as poles, all are ordered by how much nearer they are to the one, and cut where it is best.
    """
    listed = list(members)
    between = latency[np.ix_(listed, listed)]
    best: tuple[float, list[int], list[int]] | None = None
    for a, b in combinations(range(len(listed)), 2):
        order = np.argsort(between[a] - between[b], kind="stable").tolist()
        for cut in range(least, len(order) - least + 1):
            near, far = order[:cut], order[cut:]
            radius = max(_radius(near, between), _radius(far, between))
            if best is None or radius < best[0]:
                best = radius, near, far
    assert best is not None, "a cluster that is split has 3k members or more"
    return best[1], best[2]


def _radius(part: list[int], between: Latencies) -> float:
    within = between[np.ix_(part, part)]
    return float(within[np.argmin(within.sum(axis=1))].max())
