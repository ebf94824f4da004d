"""The network as EXPLAIN tells it: data alone, in words of the users. `network_text` and `network_json` say it.

    node        a log, a selection or a join: its conditions, its rows, and the queries that need it
    family      joins of the same inputs by the same equations, which run as one
    query       its nodes from the logs up, what of them it shares, what it costs, and why it shares no more

Costs are rows that are looked at: a selection looks at those of its parent, a join at those of both parents and at its
own. What several queries need is divided among them, so the costs of all queries add up to that of the network.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

LOG, SELECTION, JOIN = "log", "selection", "join"


@dataclass(frozen=True, slots=True)
class SharedNode:
    """A node. `legs` are the names that its conditions and columns call its logs by; a single log needs none."""

    number: int
    kind: str
    #: What a log is, for people: `stream trades`.
    title: str
    parents: tuple[int, ...]
    level: int
    legs: tuple[str, ...]
    #: The equations that a join looks its pairs up by, and all other conditions.
    equations: tuple[str, ...]
    conditions: tuple[str, ...]
    columns: tuple[str, ...]
    #: Whether rows that came too late for every window are left out.
    timely: bool
    #: How many rows it is expected to have, and how many it was found to have, if that was measured.
    rows: int
    measured: int | None
    #: The rows that it looks at.
    cost: int
    queries: tuple[str, ...]

    @property
    def is_shared(self) -> bool:
        return len(self.queries) > 1


@dataclass(frozen=True, slots=True)
class JoinFamily:
    """Joins of the same inputs by the same equations, and selections of their rows: one look-up serves all of them."""

    level: int
    inputs: tuple[str, ...]
    equations: tuple[str, ...]
    joins: tuple[int, ...]
    selections: tuple[int, ...]
    #: How many of its rows are kept for joins above, if it has run.
    kept: int | None = None


@dataclass(frozen=True, slots=True)
class NotShared:
    """Why a query has a node to itself: the node that comes nearest to it, if there is one, and what is in the way.

    `theirs` are the conditions that prevent it; `ours` is what the query has in their place.
    """

    node: int
    nearest: int | None
    reason: str
    theirs: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderChange:
    """That joins were put in another order: before which cycle, from which to which, and what that cost by what had
    been seen then."""

    cycle: int
    before: str
    after: str
    cost_before: int
    cost_after: int
    seen: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class JoinOrder:
    """In which order a select's inputs are joined, by the names that it gives them, and why."""

    order: str
    #: What it costs by what has been seen, and the best order that is known of with its cost; None before it has run.
    cost: int | None = None
    best: str | None = None
    best_cost: int | None = None
    #: How many rows are kept, and which shares of rows or pairs satisfy which conditions.
    seen: tuple[tuple[str, float], ...] = ()
    history: tuple[OrderChange, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkQuery:
    """A query in the network. Its nodes come parents first, logs among them."""

    name: str
    #: Where it finds its rows, and what it calls the legs there.
    answers: tuple[tuple[int, tuple[str, ...]], ...]
    nodes: tuple[int, ...]
    shared: tuple[int, ...]
    own: tuple[int, ...]
    cost: Fraction
    #: What it would cost if there were no other query; None if that was not worked out.
    alone: int | None
    not_shared: tuple[NotShared, ...]
    #: Why the rest of it is computed by itself, if there is a rest.
    beside: str | None = None
    #: Of each of its selects that joins three inputs or more, or has been chosen anew.
    orders: tuple[JoinOrder, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedNetwork:
    """All nodes, parents first; families, lower levels first; queries; and why the others are not in it."""

    nodes: Mapping[int, SharedNode] = field(default_factory=dict)
    families: tuple[JoinFamily, ...] = ()
    queries: Mapping[str, NetworkQuery] = field(default_factory=dict)
    not_networked: Mapping[str, str] = field(default_factory=dict)

    @property
    def cost(self) -> int:
        """The rows that all nodes together look at."""
        return sum(each.cost for each in self.nodes.values())

    def count(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.nodes.values())

    def companions(self, name: str) -> dict[str, tuple[int, ...]]:
        """The other queries that a query shares nodes above logs with, and which."""
        found: dict[str, list[int]] = {}
        for number in self.queries[name].shared:
            node = self.nodes[number]
            for other in node.queries if node.parents else ():
                if other != name:
                    found.setdefault(other, []).append(number)
        return {other: tuple(numbers) for other, numbers in found.items()}

    def within(self, names: Collection[str]) -> SharedNetwork:
        """What concerns some queries: their nodes, and those that come nearest to them."""
        queries = {name: each for name, each in self.queries.items() if name in names}
        wanted = {number for each in queries.values() for number in each.nodes}
        near = {why.nearest for each in queries.values() for why in each.not_shared}
        nodes = {number: node for number, node in self.nodes.items() if number in wanted or number in near}
        families = tuple(each for each in self.families if wanted.intersection((*each.joins, *each.selections)))
        reasons = {name: why for name, why in self.not_networked.items() if name in names}
        return SharedNetwork(nodes, families, queries, reasons)


NO_NETWORK = SharedNetwork()
