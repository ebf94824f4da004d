"""`docs/semantics.md` as code: a naive evaluator that every other evaluator is tested against.

Nothing is clever here. Every row of every stream is kept for ever, with the cycle in which it arrived, and every answer
is computed from scratch out of those rows. A relation is a function: `emitted(relation, cycle)` are the rows that it
gives in a cycle, and it calls itself for what the relation reads. Results are remembered, never updated.

    oracle = Oracle([trades])
    oracle.create(query)
    answers = oracle.cycle({"trades": [{"ts": 5_000_000, "symbol": "A"}]}, heartbeats={"trades": 9_000_000})
    answers["hot"]                      # the rows of the query `hot` in this cycle, as tuples
    oracle.dead_letters["trades"]       # what took part in nothing, and why
    oracle.lost["hot"]                  # how many rows came too late for this query, and not for all

Clocks are integers. The clock before all clocks, `BEGINNING`, is minus infinity: it compares with integers exactly.

The rows of a table have that clock and arrived before all cycles: they are never the newest of a combination, nor the
last to arrive. `oracle.load("airports", rows)` says which rows it has from the next cycle on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tests.oracle_aggregates import aggregate
from tests.oracle_expressions import Scope, evaluate, holds
from tests.oracle_lateness import losses
from tests.oracle_sets import Memory, SetMemory, combine, distinct, in_order, unique
from tests.oracle_values import normalised, row_key
from tests.oracle_windows import Bounds, instances, instances_ending, meet
from weft.algebra import Answers, Query, Relation, Select, SetOperation, SetOperator, Source, Stream, Table, Value

BEGINNING = -math.inf
BEFORE_ALL = -1

Clock: TypeAlias = float  # an integer, or BEGINNING
Values: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a stream, table or relation, its clock, and the cycle in which it arrived or was emitted."""

    values: Values
    clock: Clock
    cycle: int


@dataclass(frozen=True, slots=True)
class Combination:
    """What FROM and WHERE let through: a row of each input, as the columns that expressions see."""

    columns: Mapping[tuple[str, str], Value]
    clock: Clock
    cycle: int

    def scope(self, window: Bounds | None = None) -> Scope:
        return Scope(self.columns, window=window)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that took part in nothing."""

    values: Values
    cycle: int
    reason: str


NULL_CLOCK = "the clock is NULL"
LATE = "late for every query that reads the stream"


class Oracle:
    """Streams, the queries over them, and everything that ever arrived."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self.streams: dict[str, Stream] = {}
        self.rows: dict[str, list[Row]] = {}
        self.dead_letters: dict[str, list[DeadLetter]] = {}
        self.queries: dict[str, StandingQuery] = {}
        #: How many rows each query has lost that came too late for it and not for all others.
        self.lost: dict[str, int] = {}
        self.cycles = 0
        self._largest: dict[str, list[Clock]] = {}
        self._tables: dict[str, list[tuple[int, list[Row]]]] = {}
        for stream in streams:
            self.declare(stream)

    def declare(self, stream: Stream) -> None:
        """CREATE STREAM, before the next cycle."""
        self.streams[stream.name] = stream
        self.rows[stream.name] = []
        self.dead_letters[stream.name] = []
        self._largest[stream.name] = [BEGINNING] * self.cycles

    def load(self, table: Table, rows: Sequence[Mapping[str, Value]]) -> None:
        """What a table has from the next cycle on."""
        loaded = [Row(tuple(row[field.name] for field in table.fields), BEGINNING, BEFORE_ALL) for row in rows]
        self._tables.setdefault(table.name, []).append((self.cycles, loaded))

    def table(self, name: str, cycle: int) -> list[Row]:
        """The rows that a table has in a cycle; one that was never loaded has none."""
        loaded = [rows for since, rows in self._tables.get(name, []) if since <= cycle]
        return loaded[-1] if loaded else []

    def create(self, query: Query) -> None:
        """CREATE CONTINUOUS QUERY, before the next cycle."""
        if query.name in self.queries:
            raise ValueError(f"there is a query {query.name} already")
        self.queries[query.name] = StandingQuery(self, query.relation, first=self.cycles)
        self.lost[query.name] = 0

    def drop(self, name: str) -> None:
        """DROP CONTINUOUS QUERY, before the next cycle."""
        readers = [other for other, standing in self.queries.items() if name in _parents(standing.relation)]
        if readers:
            raise ValueError(f"{', '.join(readers)} read the answers of {name}")
        del self.queries[name]

    def cycle(
        self,
        rows: Mapping[str, Sequence[Mapping[str, Value]]],
        heartbeats: Mapping[str, int] | None = None,
    ) -> dict[str, list[Values]]:
        """Takes the rows of one cycle and gives the answers of every query in it."""
        now = self.cycles
        for name, stream in self.streams.items():
            self._take(stream, rows.get(name, ()), (heartbeats or {}).get(name, BEGINNING))
        self.cycles += 1
        self._set_late_rows_aside(now)
        return {name: [row.values for row in query.answers(now)] for name, query in self.queries.items()}

    def largest(self, stream: str, cycle: int) -> Clock:
        """The largest clock seen on a stream after a cycle."""
        return self._largest[stream][cycle] if cycle >= 0 else BEGINNING

    def watermark(self, stream: str, cycle: int) -> Clock:
        """The watermark of a stream after a cycle."""
        return self.largest(stream, cycle) - self.streams[stream].delay

    def _take(self, stream: Stream, rows: Sequence[Mapping[str, Value]], heartbeat: Clock) -> None:
        largest = max(self.largest(stream.name, self.cycles - 1), heartbeat)
        for row in rows:
            values, clock = tuple(row[field.name] for field in stream.fields), row[stream.clock]
            if clock is None:
                self.dead_letters[stream.name].append(DeadLetter(values, self.cycles, NULL_CLOCK))
                continue
            assert isinstance(clock, int)
            self.rows[stream.name].append(Row(values, clock, self.cycles))
            largest = max(largest, clock)
        self._largest[stream.name].append(largest)

    def _set_late_rows_aside(self, cycle: int) -> None:
        for name, rows in self.rows.items():
            for row in rows:
                if row.cycle != cycle:
                    continue
                if self._is_late_everywhere(name, row):
                    self.dead_letters[name].append(DeadLetter(row.values, cycle, LATE))
                    continue
                for query, standing in self.queries.items():
                    self.lost[query] += losses(standing, self.streams[name], row)

    def _is_late_everywhere(self, stream: str, row: Row) -> bool:
        queries = self.queries.values()
        verdicts = [late for query in queries for late in query.verdicts(query.relation, stream, row)]
        return bool(verdicts) and all(verdicts)


class StandingQuery:
    """One query from its first cycle on."""

    def __init__(self, oracle: Oracle, relation: Relation, first: int) -> None:
        self.oracle = oracle
        self.relation = relation
        self.first = first
        self._emitted: dict[tuple[int, int], list[Row]] = {}
        self._joined: dict[tuple[int, int], list[Combination]] = {}

    def answers(self, cycle: int) -> list[Row]:
        """The query's answers in a cycle."""
        if cycle < self.first:
            return []
        backlog = self._backlog(self.relation) if cycle == self.first else []
        return [*backlog, *self.emitted(self.relation, cycle)]

    def emitted(self, source: Source, cycle: int) -> list[Row]:
        """The rows that a stream or relation gives in a cycle.

        In the cycles before the query's first there are rows as far as a stream keeps history (BACKFILL), for those
        relations that look back: then they give what they would have given if the query had been there.
        """
        if cycle < self.first and not _looks_back(source):
            return []
        if isinstance(source, Answers):
            return self.oracle.queries[source.query].answers(cycle)
        known = self._emitted.get((id(source), cycle))
        if known is None:
            known = self._emitted[id(source), cycle] = self._compute(source, cycle)
        return known

    def _backlog(self, source: Source) -> list[Row]:
        """The answers of window instances that lie in the history and had closed before the query's first cycle."""
        match source:
            case Select() | SetOperation() if _answers_instances(source):
                past = [row for each in range(self.first) for row in self.emitted(source, each)]
                return [replace(row, cycle=self.first) for row in past]
            case Select() if _passes_rows(source):
                if len(source.inputs) > 1:
                    return []
                rows = zip(self._backlog(source.inputs[0].source))
                return _passed(source, _let_through(source, rows, self.first))
            case SetOperation() if _passes_rows(source):
                return [*self._backlog(source.left), *self._backlog(source.right)]
        return []

    def _compute(self, source: Stream | Relation, cycle: int) -> list[Row]:
        match source:
            case Stream():
                return self._stream(source, cycle)
            case Select(distinct=True, retain=retain) if retain is not None:
                return self._distinct_over_history(source, cycle)
            case Select():
                return self._select(source, cycle)
            case SetOperation(operator=SetOperator.UNION, all=True, window=None):
                return [*self.emitted(source.left, cycle), *self.emitted(source.right, cycle)]
            case SetOperation(window=None):
                return self._set_operation_over_history(source, cycle)
            case SetOperation():
                return self._set_operation_on_instances(source, cycle)

    # Time

    def watermark(self, source: Source, cycle: int) -> Clock:
        """A relation's watermark after a cycle: its stream's, or the least of its inputs'."""
        if isinstance(source, Stream):
            return self.oracle.watermark(source.name, cycle)
        if isinstance(source, Answers):
            parent = self.oracle.queries[source.query]
            return parent.watermark(parent.relation, cycle)
        return min(self.watermark(below, cycle) for below in _flows(source))

    def horizon(self, source: Source) -> Clock:
        """The clock after which a relation lacks none of its rows, although the query was not always there.

        A stream lacks what came before the query was created and is older than its history. Who does not look back
        lacks everything up to the largest clock seen then. An answer lacks nothing if the whole instance does not.
        """
        if isinstance(source, Stream):
            return self._largest_under(source) - source.backfill
        if isinstance(source, Answers):
            parent = self.oracle.queries[source.query]
            return max(parent.horizon(parent.relation), self._largest_under(source))
        lacking = max(self.horizon(below) for below in _flows(source))
        if not _looks_back(source):
            lacking = max(lacking, self._largest_under(source))
        is_windowed_select = isinstance(source, Select) and _answers_instances(source)
        return lacking + source.window.range if is_windowed_select else lacking

    def _largest_under(self, source: Source) -> Clock:
        """The largest clock that the streams under a relation had when this query was created."""
        if isinstance(source, Stream):
            return self.oracle.largest(source.name, self.first - 1)
        if isinstance(source, Answers):
            return self._largest_under(self.oracle.queries[source.query].relation)
        return max(self._largest_under(below) for below in _flows(source))

    def closing(self, relation: Relation, cycle: int) -> tuple[Clock, Clock]:
        """The window instances whose end lies in (after, until] close in this cycle, and lack no rows."""
        return max(self.watermark(relation, cycle - 1), self.horizon(relation)), self.watermark(relation, cycle)

    # Lateness

    def passes(self, relation: Relation) -> bool:
        """Whether rows go through a relation at once, each by itself."""
        return _passes_rows(relation)

    def is_late(self, relation: Relation, source: Source, row: Row) -> bool:
        """Whether a row of one of the relation's inputs comes too late to take part in it."""
        before = row.cycle - 1
        match relation:
            case Select() if len(_flows(relation)) > 1:
                windows = [each.window for each in relation.inputs if not isinstance(each.source, Table)]
                is_bounded = any(window is None or not window.is_unbounded for window in windows)
                return is_bounded and row.clock < self.watermark(source, before)
            case Select() if _answers_instances(relation):
                ends = [end for _, end in instances(relation.window, row.clock)]
                return bool(ends) and max(ends) <= self.watermark(source, before)
            case Select() if relation.is_grouped:
                return False
            case _:
                return self._is_below_watermark(relation, row)

    def _is_below_watermark(self, relation: Relation, row: Row) -> bool:
        """Whether RETAIN <interval> keeps the row from what DISTINCT and the set operators look at."""
        has_interval = relation.retain is not None and relation.retain.ticks is not None
        return has_interval and row.clock < self.watermark(relation, row.cycle - 1)

    def verdicts(self, source: Source, stream: str, row: Row) -> Iterator[bool]:
        """For every place where a relation reads the stream: whether this row of the stream comes too late there.

        The first operator that does more than pass rows decides.
        """
        if isinstance(source, Stream) and source.name == stream:
            yield False
        for below in _reads(source):
            for late in self.verdicts(below, stream, row):
                yield self.is_late(source, below, row) if _passes_rows(below) else late

    def _on_time(self, relation: Relation, source: Source, cycle: int) -> list[Row]:
        """The rows that the relation takes from an input in a cycle."""
        return [row for row in self.emitted(source, cycle) if not self.is_late(relation, source, row)]

    # FROM and WHERE

    def _stream(self, stream: Stream, cycle: int) -> list[Row]:
        kept_since = BEGINNING if cycle >= self.first else self.horizon(stream)
        return [row for row in self.oracle.rows[stream.name] if row.cycle == cycle and row.clock > kept_since]

    def _combinations(self, select: Select, cycle: int) -> list[Combination]:
        """What FROM and WHERE let through in a cycle."""
        known = self._joined.get((id(select), cycle))
        if known is None:
            single = len(select.inputs) == 1
            rows = zip(self.emitted(select.inputs[0].source, cycle)) if single else self._meeting(select, cycle)
            known = self._joined[id(select), cycle] = _let_through(select, rows, cycle)
        return known

    def _meeting(self, select: Select, cycle: int) -> list[tuple[Row, ...]]:
        """The combinations of rows that meet, the last of which arrives in this cycle."""
        met: list[tuple[Row, ...]] = [()]
        for n, item in enumerate(select.inputs, start=1):
            arrived = self._arrived(select, item.source, cycle)
            longer = ((*rows, row) for rows in met for row in arrived)
            met = [rows for rows in longer if meet(select.inputs[:n], [row.clock for row in rows])]
        return [rows for rows in met if max(row.cycle for row in rows) == cycle]

    def _arrived(self, select: Select, source: Source, cycle: int) -> list[Row]:
        """The rows of an input of a join that have arrived in time, or that a table has in this cycle."""
        if isinstance(source, Table):
            return self.oracle.table(source.name, cycle)
        return [row for each in range(self.first, cycle + 1) for row in self._on_time(select, source, each)]

    # SELECT and GROUP BY

    def _select(self, select: Select, cycle: int) -> list[Row]:
        if _answers_instances(select):
            return self._closing_instances(select, cycle)
        if select.is_grouped:
            return self._changed_groups(select, cycle)
        return _passed(select, self._combinations(select, cycle))

    def _closing_instances(self, select: Select, cycle: int) -> list[Row]:
        """The answers of all window instances that close in this cycle."""
        emitted = []
        for bounds, members in sorted(self._members(select, cycle).items()):
            answers = _answers_of_instance(select, members, bounds)
            emitted += [Row(values, bounds[1], cycle) for values in (unique(answers) if select.distinct else answers)]
        return emitted

    def _members(self, select: Select, cycle: int) -> dict[Bounds, list[Combination]]:
        """The instances that close in this cycle, with all that is in them and arrived no later than they closed."""
        members: dict[Bounds, list[Combination]] = {}
        if select.emit_empty and not select.keys:
            members = {bounds: [] for bounds in self._closing_since_first_row(select, cycle)}
        after, until = self.closing(select, cycle)
        for arrival in range(cycle + 1):
            still_open = max(after, self.watermark(select, arrival - 1))
            for combination in self._combinations(select, arrival):
                for bounds in instances(select.window, combination.clock, still_open, until):
                    members.setdefault(bounds, []).append(combination)
        return members

    def _closing_since_first_row(self, select: Select, cycle: int) -> list[Bounds]:
        """The instances that close in this cycle and end after the smallest clock in the first cycle that has rows."""
        after, until = self.closing(select, cycle)
        for each in range(cycle + 1):
            clocks = [row.clock for source in _flows(select) for row in self.emitted(source, each)]
            if clocks:
                return list(instances_ending(select.window, max(min(clocks), after), until))
        return []

    def _changed_groups(self, select: Select, cycle: int) -> list[Row]:
        """UNBOUNDED: every group that got a row in this cycle, over all its rows so far."""
        history = [each for past in range(self.first, cycle + 1) for each in self._combinations(select, past)]
        emitted = []
        for members in _groups(select, history, window=None):
            if any(member.cycle == cycle for member in members):
                clock = max(member.clock for member in members)
                emitted += [Row(values, clock, cycle) for values in _answer_of_group(select, members, window=None)]
        return emitted

    # DISTINCT and set operators

    def _distinct_over_history(self, select: Select, cycle: int) -> list[Row]:
        """Replays the history from the query's first cycle."""
        memory, emitted = Memory(select.retain), []
        for each in range(self.first, cycle + 1):
            rows = self._select(select, each)
            emitted = distinct(in_order(row for row in rows if not self._is_below_watermark(select, row)), memory)
        return emitted

    def _set_operation_over_history(self, operation: SetOperation, cycle: int) -> list[Row]:
        """Replays the history from the query's first cycle."""
        memory, emitted = SetMemory(operation.operator, operation.retain), []
        for each in range(self.first, cycle + 1):
            left, right = (self._on_time(operation, operand, each) for operand in (operation.left, operation.right))
            emitted = memory.take(left, right)
        return emitted

    def _set_operation_on_instances(self, operation: SetOperation, cycle: int) -> list[Row]:
        """Applies the operator to every instance that has now closed for both operands."""
        after, until = self.closing(operation, cycle)
        left, right = (
            [row for each in range(cycle + 1) for row in self.emitted(operand, each) if after < row.clock <= until]
            for operand in (operation.left, operation.right)
        )
        return [
            Row(values, end, cycle)
            for end in sorted({row.clock for row in [*left, *right]})
            for values in combine(
                operation.operator,
                operation.all,
                [row.values for row in left if row.clock == end],
                [row.values for row in right if row.clock == end],
            )
        ]


# Relations


def _reads(source: Source) -> tuple[Source, ...]:
    """What a relation reads."""
    match source:
        case Select(inputs=inputs):
            return tuple(each.source for each in inputs)
        case SetOperation(left=left, right=right):
            return left, right
    return ()


def _flows(source: Source) -> tuple[Source, ...]:
    """What a relation reads whose rows arrive: not tables."""
    return tuple(each for each in _reads(source) if not isinstance(each, Table))


def _parents(source: Source) -> set[str]:
    """The queries whose answers a relation reads."""
    if isinstance(source, Answers):
        return {source.query}
    return set().union(*(_parents(below) for below in _reads(source)))


def _answers_instances(relation: Relation) -> bool:
    """Whether the relation has a window that closes."""
    return relation.window is not None and not relation.window.is_unbounded


def _passes_rows(source: Source) -> bool:
    """Whether rows go through at once, each by itself: a stream, a selection, perhaps with tables, UNION ALL."""
    match source:
        case Stream():
            return True
        case Select():
            return len(_flows(source)) == 1 and not (_answers_instances(source) or source.is_grouped or source.distinct)
        case SetOperation(operator=SetOperator.UNION, all=True, window=None):
            return True
    return False


def _looks_back(source: Source) -> bool:
    """Whether rows from before the query's first cycle count, as far as they are kept: in window instances they do.

    All that puts rows together in other ways begins with the query: joins, those with tables too, UNION ALL, UNBOUNDED
    aggregates, sets over history.
    """
    match source:
        case Select(inputs=inputs) if len(inputs) == 1:
            return _answers_instances(source) or _passes_rows(source)
        case SetOperation():
            return _answers_instances(source)
    return isinstance(source, Stream)


def _let_through(select: Select, rows: Iterable[Sequence[Row]], cycle: int) -> list[Combination]:
    """The combinations that satisfy WHERE."""
    combinations = (_combination(select, each, cycle) for each in rows)
    return [each for each in combinations if holds(select.where, each.scope())]


def _passed(select: Select, combinations: Iterable[Combination]) -> list[Row]:
    """The rows of a select without windows and groups."""
    return [Row(_outputs(select, each.scope()), each.clock, each.cycle) for each in combinations]


def _combination(select: Select, rows: Sequence[Row], cycle: int) -> Combination:
    """A row of each input as one: its clock is the largest of theirs."""
    columns = {
        (item.alias, field.name): value
        for item, row in zip(select.inputs, rows, strict=True)
        for field, value in zip(item.source.fields, row.values, strict=True)
    }
    return Combination(columns, max(row.clock for row in rows), cycle)


def _outputs(select: Select, scope: Scope) -> Values:
    return tuple(evaluate(output.expression, scope) for output in select.outputs)


def _answers_of_instance(select: Select, members: Sequence[Combination], window: Bounds) -> list[Values]:
    if not select.is_grouped:
        return [_outputs(select, member.scope(window)) for member in members]
    groups = _groups(select, members, window)
    return [values for group in groups for values in _answer_of_group(select, group, window)]


def _groups(select: Select, members: Sequence[Combination], window: Bounds | None) -> Iterable[list[Combination]]:
    """The members of every group. Without keys there is one group, even when nothing is in it."""
    if not select.keys:
        return [list(members)]
    groups: dict[tuple[Any, ...], list[Combination]] = {}
    for member in members:
        groups.setdefault(row_key(_keys(select, member, window)), []).append(member)
    return groups.values()


def _keys(select: Select, member: Combination, window: Bounds | None) -> Values:
    return tuple(normalised(evaluate(key, member.scope(window))) for key in select.keys)


def _answer_of_group(select: Select, members: Sequence[Combination], window: Bounds | None) -> list[Values]:
    """The one row of a group, or none when HAVING does not hold."""
    scope = Scope(
        keys=_keys(select, members[0], window) if select.keys else (),
        aggregates=tuple(aggregate(each, [member.scope(window) for member in members]) for each in select.aggregates),
        window=window,
    )
    return [_outputs(select, scope)] if holds(select.having, scope) else []
