"""What queries share, as EXPLAIN describes it: data alone. `shared_text`, `explained` and `pictures` print it.

Window aggregates share reductions of streams and window trees:

    stream      one reduction of its rows to partials, for all queries
    cohort      the queries that take the same rows and group them by the same keys
    tree        the windows of a cohort that share slices and kernels

Selections and joins share the nodes of a network:

    node        a log, a selection or a join: its conditions, its rows, and the queries that need it
    family      joins of the same inputs by the same equations, which run as one
    query       its nodes from the logs up, which of them it shares, its cost, and why it shares no more

Costs of window aggregates are nanoseconds of one processor per tick of the stream's clock. Costs of the network are
rows that are looked at: a selection looks at those of its parent, a join at those of both parents and at its own. The
cost of what several queries need is divided among them, so the costs of all queries add up to that of the network.

Structs are JSON documents: named and ordered as `FORMAT JSON` prints them, but for the fields that say otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec

from weft.algebra import DataType
from weft.explain.query_text import Document
from weft.optimizer.aggregates.stream_shapes import ONLY_AGGREGATES

#: Nanoseconds that a row costs in the reduction: reading it, and adding it to a partial.
ROW = 200

LOG, SELECTION, JOIN = "log", "selection", "join"


# -- window aggregates ------------------------------------------------------------------------------------------------


class SharedReduction(msgspec.Struct, frozen=True):
    """How the rows of a stream become partials."""

    #: The classes of edges that cells are cut at, each a modulus and a residue, and how many edges there are per tick.
    edges: tuple[tuple[int, int], ...]
    edge_rate: Fraction
    #: Every condition of every query, and the number of columns that say which of them hold for a row.
    conditions: tuple[str, ...]
    signature_columns: int
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    #: The text that Spark runs.
    sql: str


class KernelChoice(msgspec.Struct, frozen=True):
    """The kernel that keeps a measure, why it was chosen, and why others were not."""

    measure: str
    kernel: str
    reason: str
    left_out: Mapping[str, str]


class Apart(msgspec.Struct, frozen=True):
    """Why a tree is not one with the tree that it is nearest to.

    Trees of one cohort could be one: that would save some reading and add to final aggregation. Trees of two cohorts
    have no kernel in common; then there is nothing to weigh.
    """

    tree: int
    reason: str
    saved: Fraction | None = None
    added: Fraction | None = None


class SharedTree(msgspec.Struct, frozen=True, rename={"number": "tree"}):
    """Windows that share slices and kernels. Trees are numbered through the whole stream."""

    number: int
    #: In ticks and as text.
    windows: tuple[Document, ...]
    edge_rate: Fraction
    kernels: tuple[KernelChoice, ...]
    queries: tuple[str, ...]
    #: What its final aggregation costs, and what reading the stream's partials does.
    final_cost: Fraction
    reading_cost: Fraction
    apart: Apart | None


class Cohort(msgspec.Struct, frozen=True):
    """Queries that take the same rows and group them by the same keys."""

    conditions: tuple[str, ...]
    keys: tuple[str, ...]
    #: Where its kernels live and why, if there is something to say about it.
    host: str | None
    trees: tuple[SharedTree, ...]


class RunningCohort(msgspec.Struct, frozen=True):
    """Queries that never close, take the same rows and group them by the same keys: they share running aggregates."""

    conditions: tuple[str, ...]
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    queries: tuple[str, ...]


class PlannedFor(msgspec.Struct, frozen=True):
    """What the trees of a stream were chosen for: its rates, and the number of keys by key set; all powers of four."""

    rows_per_tick: Fraction | None
    ticks_per_cycle: Fraction | None
    keys: Mapping[str, int]


class SharedStream(msgspec.Struct, frozen=True, rename={"name": "stream"}):
    """A stream whose rows are reduced once, for all queries that are woven over it. JSON does not have its clock."""

    name: str
    clock: DataType
    #: Rows per tick as last measured; None as long as nothing has run.
    rate: Fraction | None
    #: None as long as nothing is known of the stream.
    planned_for: PlannedFor | None
    reduction: SharedReduction
    cohorts: tuple[Cohort, ...]
    running: tuple[RunningCohort, ...]

    @property
    def number_of_queries(self) -> int:
        return sum(map(len, [*(each.queries for each in self.trees), *(each.queries for each in self.running)]))

    @property
    def trees(self) -> tuple[SharedTree, ...]:
        return tuple(tree for cohort in self.cohorts for tree in cohort.trees)


@dataclass(frozen=True, slots=True)
class WovenQuery:
    """A query that shares partials with others, and its costs: shared and alone.

    One that never closes has a cohort in the place of a tree. It costs its part of reading the rows; what it adds up is
    as much as changes in a cycle, whatever the clock says.
    """

    name: str
    stream: str
    tree: SharedTree | RunningCohort
    cost: Fraction
    alone: Fraction | None = None

    @property
    def companions(self) -> tuple[str, ...]:
        return tuple(name for name in self.tree.queries if name != self.name)


# -- the network ------------------------------------------------------------------------------------------------------


class SharedNode(msgspec.Struct, frozen=True, rename={"number": "node"}):
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


class JoinFamily(msgspec.Struct, frozen=True):
    """Joins of the same inputs by the same equations, and selections of their rows: one look-up serves all of them."""

    level: int
    inputs: tuple[str, ...]
    equations: tuple[str, ...]
    joins: tuple[int, ...]
    selections: tuple[int, ...]
    #: How many of its rows are kept for joins above, if it has run.
    kept: int | None = None


class NotShared(msgspec.Struct, frozen=True):
    """Why a query has a node to itself: the node that comes nearest to it, if there is one, and what is in the way.

    `theirs` are the conditions that prevent it; `ours` is what the query has in their place.
    """

    node: int
    nearest: int | None
    reason: str
    theirs: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


class OrderChange(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """A change of the order of joins: before which cycle, and the costs of both by what had been measured then."""

    cycle: int
    before: str
    after: str
    cost_before: int
    cost_after: int
    seen: Mapping[str, float]


class JoinOrder(msgspec.Struct, frozen=True):
    """In which order a select's inputs are joined, by the names that it gives them, and why."""

    order: str
    #: Its cost by what has been measured, and the best order that is known with its cost; None before it has run.
    cost: int | None = None
    best: str | None = None
    best_cost: int | None = None
    #: How many rows are kept, and which shares of rows or pairs satisfy which conditions.
    seen: Mapping[str, float] = msgspec.field(default_factory=dict)
    history: tuple[OrderChange, ...] = ()


class AnsweredBy(msgspec.Struct, frozen=True):
    """The node where a select finds its rows, and what it calls the logs there."""

    node: int
    inputs: tuple[str, ...]


class NetworkQuery(msgspec.Struct, frozen=True):
    """A query in the network. Its nodes come parents first, logs among them. JSON has its name outside."""

    name: str
    answers: tuple[AnsweredBy, ...]
    nodes: tuple[int, ...]
    shared: tuple[int, ...]
    own: tuple[int, ...]
    cost: Fraction
    #: What it would cost if there were no other query; None if that was not worked out.
    alone: int | None
    not_shared: tuple[NotShared, ...]
    #: Why the rest of it is computed apart, if there is a rest.
    beside: str | None = None
    #: Of each of its selects that joins three inputs or more, or whose order was chosen again.
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


@dataclass(frozen=True, slots=True)
class Sharing:
    """Everything that is shared, and why the other queries share nothing.

    Queries that are not woven may be in the network. Those that are neither are computed apart.
    """

    streams: tuple[SharedStream, ...] = ()
    #: Those of trees, then those that never close.
    woven: Mapping[str, WovenQuery] = field(default_factory=dict)
    not_woven: Mapping[str, str] = field(default_factory=dict)
    network: SharedNetwork = field(default_factory=SharedNetwork)

    @property
    def unshared(self) -> dict[str, str]:
        """The queries that are neither woven nor in the network, and why."""
        found = {}
        for name, why in self.not_woven.items():
            if name not in self.network.queries:
                otherwise = self.network.not_networked.get(name, "")
                # That what does not aggregate shares no partials goes without saying.
                is_said = otherwise and (why == ONLY_AGGREGATES or why in otherwise)
                found[name] = otherwise if is_said else f"{why}; {otherwise}" if otherwise else why
        return found

    def stream(self, name: str) -> SharedStream:
        return next(each for each in self.streams if each.name == name)
