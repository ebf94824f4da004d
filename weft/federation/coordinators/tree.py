"""The coordinator tree as data.

A cluster is led by one of its members, the one in its middle. A leaf's members are providers; above that a cluster's
members are the leaders of the clusters below it. So every coordinator is also a provider, and knows no more than its
own few members: k to 3k − 1 of them (the root may have fewer). All leaves are at the same depth.

                      [ b ]                        b leads the root, which has a member for each cluster below
               ┌────────┴────────┐
           [a (b) c]         [d (e) f g]           leaders in parentheses
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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
