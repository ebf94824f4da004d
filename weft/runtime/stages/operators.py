"""The operators of a plan: the relations that queries are made of, each once, the stage that evaluates it, and the rows
that it reads again in later cycles.

An operator has an id, which names its rows and its state. The operators of a query that shares nothing are numbered by
their path in the query; all others by their content and by the cycle in which their query began:

    12            the whole of query 12                      12.0      what it reads first
    -83b1…        a relation by its content and first cycle

So what two queries have in common is evaluated once and kept once, and stays when one of them is dropped. Queries that
began in different cycles see different rows and have nothing in common. Neither have relations of which one answers
windows that had closed before it was created, from the history of streams, and the other does not.

Names that users gave and the order of operands play no part in the content. Set operators share subexpressions with
others that begin in the same cycle (`weft/optimizer/share_set_operators.py`) and keep that form for life, since their
state is stored under it. A commit records the form of each query that is not the written one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from hashlib import blake2b

from weft.algebra import Answers, Input, Query, Relation, Select, SetOperation, Source, Stream, Table
from weft.algebra.codec import dumps, loads
from weft.algebra.properties import leaves, reads
from weft.optimizer.network.wanted import is_shareable
from weft.optimizer.share_set_operators import arranged
from weft.plan.canonical import with_ordered_operands, without_names
from weft.plan.event_time import Clock, EventTime, QueryStart, RunningQuery, first_open_start, is_windowed
from weft.plan.log_ids import LogId, LogKind
from weft.plan.query_list import QueryList
from weft.runtime.stages.groups.row_aggregates import row_aggregate
from weft.runtime.stages.joins.join_groups import Use, needed_since, reach_of
from weft.runtime.stages.sets.set_rows import combines_rows, picks_columns
from weft.runtime.stages.sql import running
from weft.runtime.stages.windows.woven_queries import NotWoven
from weft.windows.join_windows import Bounds, meeting_bounds


class StageKind(Enum):
    """The stage that evaluates an operator. All but the last evaluate the operators of all queries together."""

    #: Aggregates over streams, from partials that they share.
    WINDOWS = "windows"
    #: The network of selections and joins.
    JOINS = "joins"
    #: Aggregates over rows that are in the driver.
    GROUPS = "groups"
    #: DISTINCT and set operators.
    SETS = "sets"
    #: A Spark plan for each operator.
    SQL = "sql"


@dataclass(frozen=True)
class OperatorId:
    """The number of a query, or of a relation by its content (negative), and the path from there to the operator.

    `parts` are the ids of inputs that do not follow from its own.
    """

    query: int
    path: str = ""
    parts: Mapping[int, OperatorId] = field(default_factory=dict, compare=False, repr=False)

    def below(self, step: int) -> OperatorId:
        """The id of an input, counted from 0."""
        return self.parts.get(step) or OperatorId(self.query, f"{self.path}.{step}")

    @cached_property
    def text(self) -> str:
        return f"{self.query}{self.path}"

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of this operator and of all below it."""
        return frozenset({self.query}).union(*(each.numbers for each in self.parts.values()))


def log_of(source: Source, id_: OperatorId) -> LogId:
    """The log of a source's rows: one per stream, table and query that others read, one per operator otherwise."""
    if isinstance(source, Stream):
        return LogId(LogKind.STREAM, source.name)
    if isinstance(source, Table):
        return LogId(LogKind.TABLE, source.name)
    if isinstance(source, Answers):
        return LogId(LogKind.ANSWERS, source.query)
    return LogId(LogKind.ROWS, id_.text)


@dataclass(frozen=True)
class Operator:
    """A relation with its id, and the stage that evaluates it.

    `running` is a query that contains it, with the start of the relation itself; all queries that contain it began
    together.
    """

    running: RunningQuery
    relation: Relation
    id: OperatorId
    stage: StageKind
    #: The queries whose answers are its rows.
    names: tuple[str, ...] = ()

    @cached_property
    def log(self) -> LogId:
        """The log in which its readers find its rows."""
        return log_of(self.relation, self.id)

    @cached_property
    def outputs(self) -> tuple[LogId, ...]:
        return (self.log, *(LogId(LogKind.ANSWERS, name) for name in self.names))

    @cached_property
    def inputs(self) -> tuple[LogId, ...]:
        return tuple(log for log, _ in self.sources)

    @cached_property
    def sources(self) -> tuple[tuple[LogId, Source], ...]:
        """What it reads, each with its log."""
        below = enumerate(reads(self.relation))
        return tuple((log_of(source, self.id.below(step)), source) for step, source in below)

    @cached_property
    def looked_at_again(self) -> Mapping[LogId, Source]:
        """The inputs whose rows of earlier cycles it reads, or whose rows it finds in a log only."""
        relation = self.relation
        if self.stage in (StageKind.WINDOWS, StageKind.SETS) or not isinstance(relation, Select):
            return {}
        if relation.inputs[1:] and len(relation.flowing) == 1:
            # A row that is joined with tables only is joined in the cycle in which it arrives.
            return {log: source for log, source in self.sources if isinstance(source, (Table, Select, SetOperation))}
        is_kept = relation.inputs[1:] or is_windowed(relation) or running.is_recomputed(relation)
        return dict(self.sources) if is_kept else {}

    @cached_property
    def bounds(self) -> Bounds:
        """How far apart the clocks of rows that a select puts together can be."""
        assert isinstance(self.relation, Select)
        return meeting_bounds(self.relation.inputs, self.relation.where)

    @cached_property
    def _reaches(self) -> tuple[Mapping[Source, int | None], ...]:
        assert isinstance(self.relation, Select)
        numbers = range(len(self.relation.inputs))
        return tuple(reach_of([Use(self.relation, (number,), 0, self.bounds)]) for number in numbers)

    def needs(self, event_time: EventTime) -> Iterator[tuple[LogId, Clock]]:
        """The least clock of each log that it still needs after a cycle; None if it needs every row."""
        relation = self.relation
        if not isinstance(relation, Select):
            return
        if relation.inputs[1:]:
            if len(relation.flowing) > 1:
                for (log, source), reach in zip(self.sources, self._reaches, strict=True):
                    if not isinstance(source, Table):
                        yield log, needed_since(reach, event_time)
        elif is_windowed(relation) and relation.window is not None:
            yield self.inputs[0], first_open_start(relation.window, event_time.watermark(relation))
        elif running.is_recomputed(relation):
            yield self.inputs[0], None

    @property
    def is_whole_query(self) -> bool:
        """Whether it is a query that is answered from partials as a whole."""
        return self.stage is StageKind.WINDOWS and self.id.query >= 0

    @cached_property
    def as_query(self) -> RunningQuery:
        """The operator as a query of its own, which has the name of its log unless it is a query."""
        if self.is_whole_query:
            return self.running
        return RunningQuery(Query(self.log, self.relation, None), replace(self.running.start, number=self.id.query))


# -- query roots ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryRoot:
    """A query's relation in the form in which it is evaluated, its id, and its record in commits: "" if as written."""

    relation: Relation
    id: OperatorId
    record: str = ""


def roots_of(
    queries: Mapping[str, RunningQuery], shared: Collection[str], recorded: Mapping[str, str]
) -> dict[str, QueryRoot]:
    """The roots of queries; `recorded` has the records of those that have begun.

    Queries that share nothing are evaluated as they are written.
    """
    found: dict[str, QueryRoot] = {}
    beginning = [name for name in queries if name in shared and name not in recorded]
    plain = [without_names(queries[name].query.relation) for name in beginning]
    for name, written, relation in zip(beginning, plain, arranged(plain), strict=True):
        record = "" if relation == with_ordered_operands(written) else dumps(relation)
        found[name] = QueryRoot(relation, shared_id(relation, queries[name].start), record)
    for name, each in queries.items():
        if name not in shared:
            found[name] = QueryRoot(each.query.relation, OperatorId(each.start.number))
        elif name in recorded:
            found[name] = recorded_root(each, recorded[name])
    return found


def recorded_root(query: RunningQuery, record: str) -> QueryRoot:
    """The root of a query that shares, from its record in commits."""
    relation = loads(record) if record else with_ordered_operands(without_names(query.query.relation))
    return QueryRoot(relation, shared_id(relation, query.start), record)


def shared_id(relation: Relation, start: QueryStart) -> OperatorId:
    """The id by content of a relation in queries with this start."""
    parts = {
        step: shared_id(below, start.below(relation, below))
        for step, below in enumerate(reads(relation))
        if isinstance(below, (Select, SetOperation))
    }
    looks_back = start.backlog and any(isinstance(leaf, Stream) and leaf.backfill for leaf in leaves(relation))
    described = f"{start.first} {looks_back} {dumps(_with_named_inputs(relation, parts))}"
    return OperatorId(-1 - int.from_bytes(blake2b(described.encode(), digest_size=7).digest(), "big"), "", parts)


def _with_named_inputs(relation: Relation, parts: Mapping[int, OperatorId]) -> Relation:
    """A relation with the ids of the relations that it reads in their place."""

    def named(step: int, source: Source) -> Source:
        if step not in parts:
            return source
        return Answers(parts[step].text, (), None, relation.clock_type)

    if isinstance(relation, SetOperation):
        # Operands have to be relations: a select of nothing has the name.
        left, right = (
            Select((Input(named(step, each), ""),), None, (), relation.clock_type)
            for step, each in enumerate((relation.left, relation.right))
        )
        return replace(relation, left=left, right=right)
    inputs = (replace(each, source=named(step, each.source)) for step, each in enumerate(relation.inputs))
    return replace(relation, inputs=tuple(inputs))


# -- operators --------------------------------------------------------------------------------------------------------


def stage_for(relation: Relation, id_: OperatorId, first: int, can_weave: Callable[[Query, int], bool]) -> StageKind:
    """The stage that evaluates a relation which queries share, from the cycle `first` on."""
    if isinstance(relation, Select) and relation.is_grouped:
        reads_a_stream = len(relation.inputs) == 1 and isinstance(relation.inputs[0].source, Stream)
        if reads_a_stream and can_weave(Query("", relation, None), id_.query):
            return StageKind.WINDOWS
        try:
            row_aggregate(relation, log_of(relation.inputs[0].source, id_.below(0)), first)
        except NotWoven:
            return StageKind.SQL
        return StageKind.GROUPS
    if isinstance(relation, SetOperation) or combines_rows(relation) or picks_columns(relation):
        return StageKind.SETS
    return StageKind.JOINS if is_shareable(relation) and not relation.distinct else StageKind.SQL


def operators_of(
    queries: Mapping[str, RunningQuery],
    roots: Mapping[str, QueryRoot],
    stage_of: Callable[[RunningQuery, Relation, OperatorId], StageKind],
) -> tuple[Operator, ...]:
    """The operators of some queries, innermost first."""
    found: dict[str, Operator] = {}
    names: dict[str, list[str]] = {}
    for name, query in queries.items():
        root = roots[name]
        names.setdefault(root.id.text, []).append(name)
        for relation, id_, start in _within(root.relation, root.id, query.start):
            if id_.text not in found:
                here = replace(query, start=start)
                found[id_.text] = Operator(here, relation, id_, stage_of(here, relation, id_))
    return tuple(replace(each, names=tuple(names.get(id_, ()))) for id_, each in found.items())


def _within(
    relation: Relation, id_: OperatorId, start: QueryStart
) -> Iterator[tuple[Relation, OperatorId, QueryStart]]:
    for step, each in enumerate(reads(relation)):
        if isinstance(each, (Select, SetOperation)):
            yield from _within(each, id_.below(step), start.below(relation, each))
    yield relation, id_, start


def whole_query(query: RunningQuery) -> Operator:
    """A query that is answered from partials as a whole, as an operator."""
    relation, id_ = query.query.relation, OperatorId(query.start.number)
    return Operator(query, relation, id_, StageKind.WINDOWS, (query.query.name,))


def selects_of(operators: Iterable[Operator]) -> dict[str, tuple[Select, tuple[LogId, ...]]]:
    """The operators that are selects, each with the logs of its inputs, by id."""
    return {each.id.text: (each.relation, each.inputs) for each in operators if isinstance(each.relation, Select)}


@dataclass(frozen=True)
class PlannedQueries:
    """The queries of a plan and their operators: the same object for as long as no query comes or goes."""

    queries: Mapping[str, RunningQuery] = field(default_factory=dict)
    #: All operators, each after those that it reads.
    operators: tuple[Operator, ...] = ()
    #: The roots of the queries that are not answered from partials as a whole, by number.
    roots: Mapping[int, QueryRoot] = field(default_factory=dict)
    #: The queries whose operators others may share.
    shared: frozenset[str] = frozenset()

    @cached_property
    def of_stage(self) -> Mapping[StageKind, tuple[Operator, ...]]:
        return {kind: tuple(each for each in self.operators if each.stage is kind) for kind in StageKind}

    @cached_property
    def whole(self) -> frozenset[str]:
        """The queries that are answered from partials as a whole."""
        return frozenset(name for each in self.operators if each.is_whole_query for name in each.names)

    @cached_property
    def others(self) -> Mapping[str, RunningQuery]:
        """The queries that are not."""
        return {name: each for name, each in self.queries.items() if name not in self.whole}

    @cached_property
    def read_by_others(self) -> frozenset[str]:
        """The queries whose answers other queries read."""
        read = (leaf for each in self.queries.values() for leaf in leaves(each.query.relation))
        return frozenset(leaf.query for leaf in read if isinstance(leaf, Answers))

    @cached_property
    def kept_logs(self) -> Mapping[LogId, Source]:
        """The logs whose rows later cycles read again, with their sources."""
        return {log: source for each in self.operators for log, source in each.looked_at_again.items()}

    @cached_property
    def stages_reading(self) -> Mapping[LogId, frozenset[StageKind]]:
        """The stages that read the rows of each log."""
        found: dict[LogId, set[StageKind]] = {}
        for each in self.operators:
            for log in each.inputs:
                found.setdefault(log, set()).add(each.stage)
        return {log: frozenset(stages) for log, stages in found.items()}

    def readers_of(self, operator: Operator) -> frozenset[StageKind]:
        return self.stages_reading.get(operator.log, frozenset())

    @cached_property
    def given(self) -> frozenset[LogId]:
        """The logs of operators that are evaluated for all queries together."""
        return frozenset(each.log for each in self.operators if each.stage is not StageKind.SQL)

    @cached_property
    def owner_of(self) -> Mapping[str, str]:
        """A query that contains the operator, by the operator's id and by its log."""
        named = [each for each in self.operators if not each.is_whole_query]
        return {text: each.running.query.name for each in named for text in (each.log, each.id.text)}


# -- kept rows --------------------------------------------------------------------------------------------------------


def logged(plan: QueryList, planned: PlannedQueries) -> dict[LogId, Source]:
    """The logs that operators read again, or that BACKFILL keeps for later ones, with the sources of their rows."""
    return {LogId(LogKind.STREAM, each.name): each for each in plan.streams if each.backfill} | dict(planned.kept_logs)


def needed_of_logs(
    streams: Sequence[Stream], operators: Iterable[Operator], event_time: EventTime
) -> dict[LogId, Clock]:
    """The least clock of each log that operators need after a cycle, or BACKFILL keeps; None for every row.

    Windows over a stream are answered from partials, and need its rows only if it keeps them for queries to come: then
    those of open windows are among them, see `windows/backfill.py`.
    """
    since: dict[LogId, Clock] = {}

    def use(log: LogId, least: Clock) -> None:
        known = since.get(log, least)
        since[log] = None if least is None or known is None else min(known, least)

    histories = {LogId(LogKind.STREAM, each.name): each.backfill for each in streams if each.backfill}
    for each in operators:
        if each.stage is not StageKind.WINDOWS or each.inputs[0] in histories:
            for log, least in each.needs(event_time):
                use(log, least)
    for log, backfill in histories.items():
        largest = event_time.after.get(log.of)
        use(log, None if largest is None else largest - backfill)
    return since
