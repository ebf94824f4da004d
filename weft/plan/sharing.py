"""What queries share, as EXPLAIN tells it: data alone. `weft.plan.text` and `weft.explain.json` say it.

    stream      one reduction of its rows to partials, for all queries
    cohort      the queries that take the same rows and group them by the same keys
    tree        the windows of a cohort that share fragments and kernels

Costs are nanoseconds of one processor per tick of the stream's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from weft.algebra import DataType, Window
from weft.plan.facts import Facts
from weft.plan.shared_network import NO_NETWORK, SharedNetwork

#: Why what does not aggregate is not woven.
ONLY_AGGREGATES = "only aggregates share partials"

#: Nanoseconds that a row costs in the reduction: reading it, and adding it to a partial.
ROW = 200


@dataclass(frozen=True, slots=True)
class SharedReduction:
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


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """The kernel that keeps a measure, and why it and no other."""

    measure: str
    kernel: str
    reason: str
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Apart:
    """Why a tree is not one with the tree that it is nearest to.

    Trees of one cohort could be one: that would save some reading and add to final aggregation. Trees of two cohorts
    have no kernel in common; then there is nothing to weigh.
    """

    tree: int
    reason: str
    saved: Fraction | None = None
    added: Fraction | None = None


@dataclass(frozen=True, slots=True)
class SharedTree:
    """Windows that share fragments and kernels. Trees are numbered through the whole stream."""

    number: int
    windows: tuple[Window, ...]
    edge_rate: Fraction
    kernels: tuple[KernelChoice, ...]
    queries: tuple[str, ...]
    #: What its final aggregation costs, and what reading the stream's partials does.
    final_cost: Fraction
    reading_cost: Fraction
    apart: Apart | None


@dataclass(frozen=True, slots=True)
class Cohort:
    """Queries that take the same rows and group them by the same keys."""

    conditions: tuple[str, ...]
    keys: tuple[str, ...]
    trees: tuple[SharedTree, ...]
    #: Where its kernels live and why, if there is something to say about it.
    host: str | None = None


@dataclass(frozen=True, slots=True)
class RunningCohort:
    """Queries that never close, take the same rows and group them by the same keys: they share what is added up."""

    conditions: tuple[str, ...]
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedFor:
    """What the trees of a stream were chosen by: its pace, and the number of keys by key set; powers of four all."""

    rows_per_tick: Fraction | None
    ticks_per_cycle: Fraction | None
    keys: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SharedStream:
    """A stream whose rows are reduced once, for all queries that are woven over it."""

    name: str
    clock: DataType
    #: Rows per tick as last measured; None as long as nothing has run.
    rate: Fraction | None
    reduction: SharedReduction
    cohorts: tuple[Cohort, ...]
    running: tuple[RunningCohort, ...] = ()
    #: None as long as nothing is known of the stream.
    planned_for: PlannedFor | None = None

    @property
    def number_of_queries(self) -> int:
        """How many queries the rows are reduced for."""
        return sum(len(tree.queries) for tree in self.trees) + sum(len(each.queries) for each in self.running)

    @property
    def trees(self) -> tuple[SharedTree, ...]:
        return tuple(tree for cohort in self.cohorts for tree in cohort.trees)


@dataclass(frozen=True, slots=True)
class WovenQuery:
    """A query that shares partials with others, and what it costs so and by itself."""

    name: str
    stream: str
    tree: SharedTree
    cost: Fraction
    alone: Fraction

    @property
    def companions(self) -> tuple[str, ...]:
        """The other queries of its tree."""
        return tuple(name for name in self.tree.queries if name != self.name)


@dataclass(frozen=True, slots=True)
class RunningAggregateQuery:
    """A query that never closes and shares partials with others.

    It costs its part of reading the rows; what it adds up is as much as changes in a cycle, whatever the clock says.
    """

    name: str
    stream: str
    cohort: RunningCohort
    cost: Fraction


@dataclass(frozen=True, slots=True)
class Sharing:
    """Everything that is shared, and why the other queries share nothing.

    Queries that are not woven may be in the network. Those that are neither are computed by themselves.
    """

    streams: tuple[SharedStream, ...] = ()
    woven: Mapping[str, WovenQuery] = field(default_factory=dict)
    running: Mapping[str, RunningAggregateQuery] = field(default_factory=dict)
    not_woven: Mapping[str, str] = field(default_factory=dict)
    network: SharedNetwork = NO_NETWORK

    @property
    def by_themselves(self) -> dict[str, str]:
        """The queries that are neither woven nor in the network, and why."""
        return {
            name: self._why_by_itself(name, why)
            for name, why in self.not_woven.items()
            if name not in self.network.queries
        }

    def _why_by_itself(self, name: str, not_woven: str) -> str:
        otherwise = self.network.not_networked.get(name)
        if otherwise is None:
            return not_woven
        # That what does not aggregate shares no partials goes without saying.
        return otherwise if not_woven == ONLY_AGGREGATES or not_woven in otherwise else f"{not_woven}; {otherwise}"

    def stream(self, name: str) -> SharedStream:
        return next(each for each in self.streams if each.name == name)


@dataclass(frozen=True, slots=True)
class StreamMeasured:
    """What one cycle measured of a stream."""

    rows: int
    late: int
    bad: int
    #: How many partials its rows were reduced to; None if no query that is woven reads them.
    partials: int | None = None
    #: By how much the stream's clock went on.
    ticks: int = 0
    #: Rows by time: that of the stream if its clock is a TIMESTAMP, and that of the wall since the cycle before.
    rows_per_event_second: float | None = None
    rows_per_second: float | None = None
    #: How many different keys there have been, by key set.
    keys: Mapping[str, int] = field(default_factory=dict)
    #: Rows that were left out, if it may shed.
    shed: int = 0


@dataclass(frozen=True, slots=True)
class CycleMeasured:
    """What one cycle measured: its time, in all and by stage, the Spark jobs it ran, and its streams."""

    cycle: int
    seconds: float
    answers: int
    jobs: int | None
    stages: Mapping[str, float]
    streams: Mapping[str, StreamMeasured]
    #: By how many seconds the cycle after it was late.
    behind: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What the last cycles measured, the newest last; and by stream the share of rows that satisfy a condition, and
    what plans go by. `network` is what is known of selections and joins, as a document."""

    cycles: tuple[CycleMeasured, ...] = ()
    selectivities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    facts: Mapping[str, Facts] = field(default_factory=dict)
    network: Mapping[str, object] = field(default_factory=dict)
