"""Providers that leave a coordinator tree, which changes no more clusters than it must.

leave    out of its leaf; whatever it led gets another leader
merge    a cluster of fewer than k goes to its nearest sibling, which may have to split then
"""

from __future__ import annotations

from weft.federation import FederationError
from weft.federation.distribution.coordinator_tree import Cluster, Latencies, cluster_of, fitting


def left(tree: Cluster, provider: int, latency: Latencies, k: int = 4) -> Cluster | None:
    """The tree without a provider; None if it was the last one. Its leaving may be its own wish or a failure."""
    if not _holds(tree, provider):
        raise FederationError(f"provider {provider} is not in the tree, so it cannot leave")
    if tree.is_leaf:
        rest = tuple(each for each in tree.providers if each != provider)
        return cluster_of(rest, latency) if rest else None
    smaller = _without(tree, provider, latency, k)
    # A root with one child coordinates nothing.
    while len(smaller.children) == 1:
        smaller = smaller.children[0]
    return smaller


def _without(cluster: Cluster, provider: int, latency: Latencies, k: int) -> Cluster:
    """A cluster without a provider somewhere below it; it may be too small then, and its children are not."""
    if cluster.is_leaf:
        return cluster_of([each for each in cluster.providers if each != provider], latency)
    holder = next(child for child in cluster.children if _holds(child, provider))
    smaller = _without(holder, provider, latency, k)
    others = [child for child in cluster.children if child is not holder]
    if len(smaller.members) >= k or not others:
        return cluster_of([*others, smaller], latency)
    nearest = min(others, key=lambda child: (latency[smaller.leader, child.leader], child.leader))
    merged = fitting(_adopted(nearest, smaller, latency), latency, k)
    return cluster_of([*(child for child in others if child is not nearest), *merged], latency)


def _holds(cluster: Cluster, provider: int) -> bool:
    return provider in cluster.providers or any(_holds(child, provider) for child in cluster.children)


def _adopted(cluster: Cluster, other: Cluster, latency: Latencies) -> Cluster:
    """A cluster with the members of another one of the same level."""
    if cluster.is_leaf:
        return cluster_of((*cluster.providers, *other.providers), latency)
    return cluster_of([*cluster.children, *other.children], latency)
