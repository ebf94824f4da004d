"""Groups of queries with overlapping answers, as queries come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.algebra import Query
from weft.optimizer.group_results.changes import Change, Representative
from weft.optimizer.group_results.cost import Statistics
from weft.plan.subscription import Subscription


class Groups:
    """The queries whose answers are delivered, in groups.

    `most_delay` is by how many ticks a joined row may be late (0: never), `overhead` the relative increase of
    processing that merging may cause (0.1: ten per cent). `lean` says what a query publishes that is alone in its
    group: just what its user wants, so that its subscription changes when a second one joins it; otherwise also what
    its condition needs, and its subscription is the same for as long as it is in the group.
    """

    def __init__(
        self,
        statistics: Statistics | None = None,
        *,
        most_delay: int = 0,
        overhead: float = 0.0,
        lean: bool = False,
    ) -> None:
        raise NotImplementedError

    def insert(self, name: str, query: Query, hop: str = "") -> Change:
        """Adds a query under a name that is not there yet. Only queries with the same first hop share a group."""
        raise NotImplementedError

    def terminate(self, name: str) -> Change:
        """Removes a query."""
        raise NotImplementedError

    def reoptimise(self, statistics: Statistics | None = None) -> Change:
        """Regroups what does not pay any more, by what is known now."""
        raise NotImplementedError

    def names(self) -> tuple[str, ...]:
        """The groups there are."""
        raise NotImplementedError

    def members(self, group: str) -> tuple[str, ...]:
        """The queries in a group."""
        raise NotImplementedError

    def group_of(self, member: str) -> str:
        """The group that a query is in."""
        raise NotImplementedError

    def representative(self, group: str) -> Representative:
        """What a group evaluates and publishes now."""
        raise NotImplementedError

    def subscription(self, member: str) -> Subscription:
        """What cuts a query's answers out of its group's rows."""
        raise NotImplementedError

    def as_data(self, group: str) -> dict[str, Any]:
        """A group as plain data, without the queries of its members."""
        raise NotImplementedError

    def restore(self, data: Mapping[str, Any], queries: Mapping[str, Query]) -> None:
        """Adds a group as it was when `as_data` wrote it down; its members by name."""
        raise NotImplementedError
