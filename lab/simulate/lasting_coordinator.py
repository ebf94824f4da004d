"""A coordinator that lasts while queries, providers, rates and loads change.

A real coordinator is made from the log of its federation for each decision, with a tree over the present providers.
This one keeps its tree, which changes as little as it can when providers come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from lab.federation.leaving import left
from weft.federation import FederationError
from weft.federation.distribution.coordinator import Coordinator, Move, RoundPlan
from weft.federation.distribution.coordinator_tree import joined, providers_below
from weft.federation.distribution.model import QuerySet, Substreams, chosen


class LastingCoordinator(Coordinator):
    """What is known of a federation, as it changes."""

    def described(self, substreams: Substreams, queries: QuerySet) -> None:
        """Replace the substreams, and what the queries, in the order of `names`, want of them and cost."""
        self.substreams, self.queries = substreams, queries

    def dropped(self, names: Iterable[str]) -> None:
        """Remove queries that have ended."""
        gone = {self._known(name) for name in names}
        kept = np.array([number for number in range(len(self.names)) if number not in gone], np.int64)
        self.names = [self.names[number] for number in kept]
        self._number = {name: number for number, name in enumerate(self.names)}
        self.queries, self.placement = chosen(self.queries, kept), self.placement[kept]

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
