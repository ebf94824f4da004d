"""A coordinator that lasts while queries, providers, rates and loads change.

A real coordinator is made from the log of its federation for each decision, with a tree over the present providers.
This one keeps its tree, which changes as little as it can when providers come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lab.federation.initial_distribution import hierarchically
from lab.federation.leaving import left
from weft.federation import FederationError
from weft.federation.distribution.coordinator import Coordinator, Move, RoundPlan, RoutedQuery
from weft.federation.distribution.coordinator_tree import joined, providers_below, tree_over
from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, query_set


class LastingCoordinator(Coordinator):
    """What is known of a federation, as it changes. At first all providers of a network, and no query."""

    def __init__(self, network: NetworkGraph, substreams: Substreams, seed: int = 0) -> None:
        tree = tree_over(range(len(network.providers)), network.between)
        super().__init__(network, substreams, tree, [], query_set([], [], [], []), np.empty(0, np.int32), seed)
        self._number: dict[str, int] = {}

    def settled(self, names: Sequence[str], queries: QuerySet, providers: Sequence[str]) -> None:
        """Take over queries that run already at these providers."""
        for name in names:
            if name in self._number:
                raise FederationError(f"there is a query {name!r} already; drop it first, or choose another name")
            self._number[name] = len(self.names)
            self.names.append(name)
        self.queries = together(self.queries, queries)
        self.placement = np.append(self.placement, [self._provider(each) for each in providers]).astype(np.int32)

    def register(self, names: Sequence[str], queries: QuerySet) -> tuple[RoutedQuery, ...]:
        """Route new queries. They are placed when it returns, and those of a next call see them."""
        at = self._counts()
        found = tuple(
            RoutedQuery(name, tuple(self._steps(self.tree, at, queries, number))) for number, name in enumerate(names)
        )
        self.settled(names, queries, [each.provider for each in found])
        return found

    def _known(self, query: str) -> int:
        if query not in self._number:
            raise FederationError(f"there is no query {query!r} in the federation")
        return self._number[query]

    def described(self, substreams: Substreams, queries: QuerySet) -> None:
        """Replace the substreams, and what the queries, in the order of `names`, want of them and cost."""
        self.substreams, self.queries = substreams, queries

    def dropped(self, names: Iterable[str]) -> None:
        """Remove queries that have ended."""
        gone = {self._known(name) for name in names}
        kept = np.array([number for number in range(len(self.names)) if number not in gone], np.int64)
        self.names = [self.names[number] for number in kept]
        self._number = {name: number for number, name in enumerate(self.names)}
        self.queries, self.placement = self.queries.chosen(kept), self.placement[kept]

    def measured(self, found: Mapping[str, float]) -> None:
        """Take the processor seconds per second of queries, as measured on a provider of capability 1."""
        load = self.queries.load.copy()
        for name, value in found.items():
            load[self._known(name)] = value
        self.queries = replace(self.queries, load=load)

    def provider_joined(self, name: str) -> None:
        """Add a provider of the network to the tree. The next round will use it."""
        number = self._provider(name)
        if number in providers_below(self.tree):
            raise FederationError(f"provider {name!r} is in the federation already")
        self.tree = joined(self.tree, number, self.network.between)

    def provider_left(self, name: str) -> RoundPlan:
        """Remove a provider: each of its queries goes elsewhere, on the way that a new one would take."""
        number = self._provider(name)
        if number not in providers_below(self.tree):
            raise FederationError(f"provider {name!r} is not in the federation")
        smaller = left(self.tree, number, self.network.between)
        if smaller is None:
            raise FederationError(f"provider {name!r} is the last one: without it there is nobody to run queries")
        before = self.quality()
        self.tree = smaller
        after = self._placed(self.rerouted(name))
        moves, self.placement = self._moves(after), after
        return RoundPlan(moves, before, self.quality())

    def moved(self, moves: Iterable[Move]) -> None:
        """Note that moves have been carried out."""
        self.placement = self._placed({move.query: move.target for move in moves})


def distribute(coordinator: LastingCoordinator, names: Sequence[str], queries: QuerySet) -> None:
    """Place the first queries of a coordinator, all at once."""
    tree, network = coordinator.tree, coordinator.network
    placed = hierarchically(tree, network, coordinator.substreams, queries, coordinator.seed)
    coordinator.settled(names, queries, [network.providers[each] for each in placed])


def together(first: QuerySet, second: QuerySet) -> QuerySet:
    """The queries of both, those of the first before those of the second."""
    starts = np.concatenate([first.starts, second.starts[1:] + first.starts[-1]])
    names = ("wanted", "load", "home", "result", "state")
    return QuerySet(starts, *(np.concatenate([getattr(first, each), getattr(second, each)]) for each in names))
