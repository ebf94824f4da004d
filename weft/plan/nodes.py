"""The nodes of the shared plan: what is computed once for all queries that want it. They are data and do no work.

    scan         the rows of a log: a stream, a table, what another node gives
    filter       the rows of its input that satisfy a predicate set
    join         the pairs of rows of its two inputs that satisfy one
    reduce       partial aggregates of a stream's rows, by the keys, conditions and slices of all that read it
    window tree  windows over one reduction, or over the rows of a log, that share slices and kernels
    project      the columns that a select shows of its input's rows, or of closed windows
    group        groups that never close
    distinct, set operation    what combines rows, over history or between window instances
    Spark select               what only Spark evaluates
    output       a query: the node that answers it, and since when

A node names its inputs by their ids. An id says what a node computes, not who asks for it (`node_ids.py`). Every
decision that the optimizer made is in the node that it is about, with what it was made by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Final, TypeAlias

from weft.algebra import DataType, Relation, Select, Source, Window
from weft.algebra.properties import reads
from weft.plan.event_time import QueryStart
from weft.plan.facts import StreamFacts
from weft.plan.log_ids import LogId, LogKind
from weft.plan.network import Computation
from weft.plan.node_ids import NodeId, log_of
from weft.windows.join_windows import Bounds, meeting_bounds

_NO_LOG: Final = LogId(LogKind.ROWS, "")

#: The texts of the expressions that rows are grouped by.
KeySet: TypeAlias = tuple[str, ...]
#: The conditions and the keys of aggregates that take the same rows and group them alike.
CohortKey: TypeAlias = tuple[frozenset[str], KeySet]


class Evaluator(StrEnum):
    """The stage of the runtime that evaluates a relation. All but the last evaluate those of all queries together."""

    #: Aggregates over streams, from partials that they share.
    WINDOWS = "windows"
    #: The network of selections and joins.
    JOINS = "joins"
    #: Aggregates over rows that are in the driver.
    GROUPS = "groups"
    #: DISTINCT and set operators.
    SETS = "sets"
    #: A Spark plan for each relation.
    SQL = "sql"


@dataclass(frozen=True, slots=True)
class Alternative:
    """What else was considered, and why it was not chosen; with what it was estimated to cost, if it was."""

    what: str
    reason: str
    cost: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a node is as it is: the rule that decided, the reason, the estimate, and the alternatives that lost."""

    rule: str
    reason: str = ""
    cost: Fraction | None = None
    alternatives: tuple[Alternative, ...] = ()


# -- selections and joins ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkNode:
    """Rows of logs, or combinations of them; `columns` are those that some reader needs, as (leg, name)."""

    kind: ClassVar[str] = ""
    id: str
    inputs: tuple[str, ...]
    #: What it computes, as the planner of the network knows it; None of a scan that no selection or join reads.
    computation: Computation | None
    columns: tuple[tuple[int, str], ...] = ()
    #: Whether its kept rows stay with the executors.
    on_executors: bool = False


@dataclass(frozen=True)
class ScanNode(NetworkNode):
    """The rows of a log. Its input is the node that gives them, if it is not a stream or a table."""

    kind = "scan"
    log: LogId = _NO_LOG


@dataclass(frozen=True)
class FilterNode(NetworkNode):
    """The rows of its input that satisfy its predicates."""

    kind = "filter"


@dataclass(frozen=True)
class JoinNode(NetworkNode):
    """The pairs of rows of its inputs that satisfy its predicates."""

    kind = "join"


# -- aggregates over streams ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """A conjunct of some WHERE: its text, and if it compares an expression with a constant, these."""

    text: str
    compared: str | None = None
    comparison: str = ""
    bound: float | int = 0


@dataclass(frozen=True)
class ReduceNode:
    """One partial aggregation of a stream's rows: a Spark job reads each row once.

    `predicate_sets` has the conditions that each reader demands of rows.
    """

    kind: ClassVar[str] = "reduce"
    id: str
    inputs: tuple[str, ...]
    keys: KeySet
    predicate_sets: tuple[tuple[Condition, ...], ...]
    windows: tuple[Window, ...]
    aggregates: tuple[str, ...]
    #: Whether partials have their smallest clock, which EMIT EMPTY counts from.
    tells_least: bool
    #: What the window trees over it were chosen by.
    facts: StreamFacts

    @property
    def stream(self) -> str:
        return LogId.parse(self.id.removeprefix(f"{self.kind} ")).of


@dataclass(frozen=True)
class TreeSpec:
    """What identifies a window tree over a log; the longest range comes first."""

    conditions: frozenset[str]
    keys: KeySet
    windows: tuple[Window, ...]
    measures: tuple[str, ...]


@dataclass(frozen=True)
class KernelChoice:
    """The kernel that keeps a measure, why it was chosen, and why each other was not."""

    kernel: str
    decision: Decision


@dataclass(frozen=True)
class WindowTreeNode:
    """Windows that share slices and kernels, over a reduction or the rows of a log."""

    kind: ClassVar[str] = "window tree"
    id: str
    inputs: tuple[str, ...]
    log: LogId
    spec: TreeSpec
    kernels: tuple[KernelChoice, ...]
    #: Trees of a cohort are numbered in the order in which they were made.
    made: int
    #: Whether its kernels live on the executors, and why.
    on_executors: bool
    host: Decision
    decision: Decision
    #: The type of the clock that windows are about.
    clock: DataType

    @property
    def kernel_of(self) -> Mapping[str, str]:
        return {measure: each.kernel for measure, each in zip(self.spec.measures, self.kernels, strict=True)}


# -- relations --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RelationNode:
    """The rows of a relation, from the cycle of its start on."""

    kind: ClassVar[str] = ""
    node_id: NodeId
    relation: Relation
    start: QueryStart
    inputs: tuple[str, ...]
    evaluator: Evaluator = Evaluator.SQL

    @property
    def id(self) -> str:
        return self.log

    @cached_property
    def log(self) -> LogId:
        """The log in which its readers find its rows."""
        return log_of(self.relation, self.node_id)

    @cached_property
    def text(self) -> str:
        """Its id, as state and statistics have it."""
        return self.node_id.text

    @cached_property
    def sources(self) -> tuple[tuple[LogId, Source], ...]:
        """What the relation reads, each with its log."""
        below = enumerate(reads(self.relation))
        return tuple((log_of(source, self.node_id.below(step)), source) for step, source in below)

    @cached_property
    def logs(self) -> tuple[LogId, ...]:
        """The logs that the relation reads."""
        return tuple(log for log, _ in self.sources)

    @cached_property
    def bounds(self) -> Bounds:
        """How far apart the clocks of rows that a select puts together can be."""
        assert isinstance(self.relation, Select)
        return meeting_bounds(self.relation.inputs, self.relation.where)


@dataclass(frozen=True)
class LogicalNode(RelationNode):
    """A relation that no rule has chosen an evaluator for yet; queries that were created first come first."""

    kind = "logical"
    order: int = 0


@dataclass(frozen=True)
class ProjectNode(RelationNode):
    """What a select shows of its input's rows. Its input i is leg `legs[i]` of the node that it reads."""

    kind = "project"
    legs: tuple[int, ...] = ()
    #: The columns that it needs, as its input counts legs.
    columns: frozenset[tuple[int, str]] = field(default_factory=frozenset)


@dataclass(frozen=True)
class GroupNode(RelationNode):
    """An aggregate whose groups never close."""

    kind = "group"


@dataclass(frozen=True)
class DistinctNode(RelationNode):
    """DISTINCT over history."""

    kind = "distinct"


@dataclass(frozen=True)
class SetOperationNode(RelationNode):
    """UNION, INTERSECT or EXCEPT of two inputs."""

    kind = "set operation"


@dataclass(frozen=True)
class SparkSelectNode(RelationNode):
    """A relation that Spark evaluates by a plan of its own, and why."""

    kind = "Spark select"
    decision: Decision = field(default_factory=lambda: Decision("fall_back"))


@dataclass(frozen=True)
class OutputNode:
    """A query: since when it is answered, and the node that answers it.

    `form` is the relation that it is evaluated as, in the codec's text, if that is not its canonical form.
    """

    kind: ClassVar[str] = "output"
    query: str
    start: QueryStart
    node_id: NodeId
    inputs: tuple[str, ...]
    form: str = ""

    @property
    def id(self) -> str:
        return LogId(LogKind.ANSWERS, self.query)

    @property
    def is_shared(self) -> bool:
        """Whether its nodes may answer other queries too."""
        return self.node_id.is_shared


Node: TypeAlias = NetworkNode | ReduceNode | WindowTreeNode | RelationNode | OutputNode
