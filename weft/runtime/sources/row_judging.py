"""What each new row is judged by, what one pass over rows measures of streams, and clocks that go on in silence.

A row may come too late to be of use to any query, or be lost to single queries, for which it is counted. A query loses
a row where its relation reads the stream, at the first operator that does more than pass rows. The row is counted if it
satisfies the conditions on the way there that can be evaluated on it alone: those of the selections that it passes, and
the operator's own. Queries over partials count them there; for the others, Spark counts the rows of the stream's log
that are older than its watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from weft.algebra import Call, Column, Expression, Field, Relation, Select, SetOperation, Source, Stream, Window
from weft.algebra.properties import clock_type, leaves
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.expressions.spark_expressions import column, spark_sql
from weft.plan.event_time import Clock, EventTime, RunningQuery, is_windowed, passes_rows
from weft.predicates.terms import columns_of
from weft.runtime.sources.batches import BatchPart
from weft.runtime.spark.rows import ARRIVAL, BEFORE, CLOCK, CORRUPT, STREAM, TICK, Packed, clock_bounds, clock_sql
from weft.runtime.state.commits import StreamState

#: The name of the select that measures streams.
MEASURES = "measures"

#: An operator on the way of rows up through a relation, with what it reads and under which alias; and those above it.
_Step: TypeAlias = tuple[Relation, str, Source, "_Step | None"]


def judged_rows(
    part: BatchPart,
    layout: Mapping[str, str],
    latest: Clock,
    event_time: EventTime,
    queries: Mapping[str, RunningQuery],
) -> DataFrame:
    """Return rows in all slots of a batch, with their clock, what they are judged by, and why they are set aside."""
    clocks, reasons, judged = [], [], []
    for index, each in part.streams.items():
        here = f"WHEN {STREAM} = {index}"
        is_instant = clock_type(each) == TIMESTAMP
        clocks.append(f"{here} THEN {clock_sql(each, tagged=True)}")
        least, most = clock_bounds(each)
        reasons.append(f"{here} AND {CLOCK} NOT BETWEEN {least}L AND {most}L THEN 'clock out of range'")
        if is_instant and latest is not None:
            reasons.append(f"{here} AND {CLOCK} > {latest}L THEN 'clock ahead of time'")
        watermark = event_time.watermark(each, after=False)
        judged.append(f"{here} THEN {'CAST(NULL AS BIGINT)' if watermark is None else f'{watermark}L'}")
        late = late_everywhere(each, event_time, queries)
        if late is not None:
            reasons.append(f"{here} AND {late} THEN 'late'")
    with_clock = part.frame.withColumn(CLOCK, F.expr(_first_that_holds(clocks)))
    ticks = f"WHEN {TICK} IS NOT NULL THEN 'tick'"
    bad = f"{ticks} WHEN {CORRUPT} IS NOT NULL THEN 'malformed' WHEN {CLOCK} IS NULL THEN 'no clock'"
    return with_clock.selectExpr(
        *part.values(layout),
        CORRUPT,
        TICK,
        CLOCK,
        f"{event_time.cycle}L AS {ARRIVAL}",
        f"{_first_that_holds(judged)} AS {BEFORE}",
        f"{STREAM} AS stream",
        f"CASE {bad} {' '.join(reasons)} ELSE 'none' END AS reason",
    )


def _first_that_holds(cases: Sequence[str]) -> str:
    """The number of the first case that holds; a part that has only ticks has no cases."""
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS BIGINT)"


def measures_of_part(numbers: Iterable[int]) -> str:
    """What one pass over the rows tells of streams, by their numbers, as one struct."""
    good, seen, late = "reason = 'none'", "reason IN ('none', 'late')", "reason = 'late'"
    bad = "reason NOT IN ('none', 'late', 'tick')"
    measured = {
        "rows": ("count", good, "1"),
        "min": ("min", good, CLOCK),
        "max": ("max", seen, CLOCK),
        "least": ("min", seen, CLOCK),
        "late": ("count", late, "1"),
        "bad": ("count", bad, "1"),
    }
    measures = [
        f"{function}(CASE WHEN stream = {index} AND {which} THEN {value} END) AS {name}_{index}"
        for index in numbers
        for name, (function, which, value) in measured.items()
    ]
    return f"struct({', '.join([f'max({TICK}) AS tick', *measures])})"


def advanced(state: StreamState, stream: Stream, tick: int | None, has_rows: bool, patience: int | None) -> StreamState:
    """A stream's clock moved on by the time that has passed in silence, once that is longer than the patience.

    Ticks come from Spark's source of them and are replayed like rows, so a second attempt sees the same time.
    """
    if tick is None or patience is None or clock_type(stream) != TIMESTAMP:
        return state
    if has_rows or state.touched is None or state.largest is None:
        return replace(state, touched=tick)
    if tick - state.touched < patience:
        return state
    return replace(state, largest=state.largest + tick - state.touched, touched=tick)


def measures_of(streams: Mapping[int, Stream], views: Mapping[int, str]) -> Packed:
    """Return the select that tells what is seen of some streams, by number, from views of their rows.

    Without constants that change from cycle to cycle, Spark compiles it once; for aggregates without groups, it would
    run a job of its own.
    """
    readable = {index: f"CASE WHEN {CORRUPT} IS NULL THEN {clock_sql(each)} END" for index, each in streams.items()}
    clocks = [f"SELECT {index}L AS stream, {text} AS clock FROM {views[index]}" for index, text in readable.items()]
    measures = {"stream": "stream", "all": "count(*)", "good": "count(clock)", "min": "min(clock)", "max": "max(clock)"}
    listed = ", ".join(f"{text} AS {column(at)}" for at, text in enumerate(measures.values()))
    fields = tuple(Field(name, BIGINT) for name in measures)
    return Packed(MEASURES, fields, f"SELECT {listed} FROM ({' UNION ALL '.join(clocks)}) GROUP BY stream")


# -- rows that come too late ------------------------------------------------------------------------------------------


def _ways(relation: Relation, stream: Stream) -> Iterator[Iterator[_Step]]:
    """For each place where a relation reads a stream, the operators that rows pass from there on up."""
    waiting: list[tuple[Source, _Step | None]] = [(relation, None)]
    while waiting:
        source, above = waiting.pop()
        if isinstance(source, Stream) and source.name == stream.name:
            yield _upwards(above)
        elif isinstance(source, Select):
            waiting += [(each.source, (source, each.alias, each.source, above)) for each in source.inputs]
        elif isinstance(source, SetOperation):
            waiting += [(each, (source, "", each, above)) for each in (source.left, source.right)]


def _upwards(step: _Step | None) -> Iterator[_Step]:
    while step is not None:
        yield step
        step = step[-1]


def late_everywhere(stream: Stream, event_time: EventTime, queries: Mapping[str, RunningQuery]) -> str | None:
    """The condition, in Spark SQL, under which no query can use a row; None if some query uses every row."""
    verdicts: set[str] = set()
    for each in queries.values():
        for way in _ways(each.query.relation, stream):
            *_, (relation, below) = ((relation, below) for relation, _, below, _ in way if passes_rows(below))
            verdict = _late_at(relation, below, event_time)
            if verdict is None:
                return None
            verdicts.add(verdict)
    return " AND ".join(sorted(verdicts)) or None


def _late_at(relation: Relation, below: Source, event_time: EventTime) -> str | None:
    """The condition, in Spark SQL, under which a row is too late for a relation that reads it; None for never."""
    watermark = event_time.watermark(below, after=False)
    if watermark is None:
        return None
    if isinstance(relation, Select):
        if len(relation.flowing) > 1:
            return f"({CLOCK} < {watermark}L)" if relation.is_bounded else None
        if is_windowed(relation) and relation.window is not None:
            # The last instance that covers the row has closed, and there is one.
            window = relation.window
            into = f"pmod({CLOCK} - {window.origin}L, {window.slide}L)"
            return f"({into} < {window.range}L AND {CLOCK} - {into} + {window.range}L <= {watermark}L)"
        if relation.is_grouped:
            return None
    if relation.retain is None or relation.retain.ticks is None:
        return None
    # All operands are judged by the one watermark of the relation.
    least = event_time.watermark(relation, after=False)
    return None if least is None else f"({CLOCK} < {least}L)"


def closed_for(window: Window, clocks: NDArray[np.int64], watermark: int) -> NDArray[np.bool_]:
    """For each clock, whether instances cover it and the last of them has closed."""
    assert window.range is not None
    into = (clocks - window.origin) % window.slide
    return np.asarray((into < window.range) & (clocks - into + window.range <= watermark))


def late_conditions(relation: Relation, stream: Stream, event_time: EventTime) -> list[str]:
    """For each place where a relation loses late rows of a stream: which rows it loses, in Spark SQL."""
    return [lost for way in _ways(relation, stream) if (lost := _lost_on(way, stream, event_time)) is not None]


def _lost_on(way: Iterable[_Step], stream: Stream, event_time: EventTime) -> str | None:
    conditions: list[str] = []
    #: The columns as Spark SQL over the stream's row; those that depend on tables are missing.
    columns = {field.name: column(position) for position, field in enumerate(stream.fields)}
    for relation, alias, below, _ in way:
        known: Iterable[tuple[str, str | None]] = ()
        if isinstance(relation, Select):
            texts = (_text(each, alias, columns) for each in _conjuncts_of(relation.where))
            conditions += [text for text in texts if text is not None]
            known = ((each.name, _text(each.expression, alias, columns)) for each in relation.outputs)
        elif isinstance(relation, SetOperation):
            names = zip(relation.fields, below.fields, strict=True)
            known = ((new.name, columns.get(old.name)) for new, old in names)
        if not passes_rows(relation):
            late = _late_at(relation, below, event_time)
            return None if late is None else " AND ".join([late, *conditions])
        columns = {name: text for name, text in known if text is not None}
    return None


def _conjuncts_of(where: Expression | None) -> list[Expression]:
    """The conditions that a WHERE combines with AND."""
    if where is None:
        return []
    if isinstance(where, Call) and where.op == "and":
        return [each for arg in where.args for each in _conjuncts_of(arg)]
    return [where]


def _text(expression: Expression, alias: str, columns: Mapping[str, str]) -> str | None:
    """An expression as Spark SQL over the stream's row; None if it depends on more than that row."""
    if not all(each.source == alias and each.name in columns for each in columns_of(expression)):
        return None

    def leaf(each: object) -> str:
        assert isinstance(each, Column)
        return columns[each.name]

    return f"({spark_sql(expression, leaf)})"


def counting(
    stream: Stream, queries: Mapping[str, RunningQuery], event_time: EventTime, view: str
) -> tuple[Packed, dict[str, list[str]]]:
    """Return the select that counts what queries lose of a stream's rows in a view, and which of its columns have the
    counts of each query."""
    columns: dict[str, str] = {}
    of_query: dict[str, list[str]] = {}
    for name, each in queries.items():
        for condition in late_conditions(each.query.relation, stream, event_time):
            of_query.setdefault(name, []).append(columns.setdefault(condition, column(len(columns))))
    listed = ", ".join(f"count_if({text}) AS {name}" for text, name in columns.items())
    fields = tuple(Field(name, BIGINT) for name in columns.values())
    text = f"SELECT {listed} FROM {view} WHERE {CLOCK} < {event_time.watermark(stream, after=False)}L"
    return Packed(f"late {stream.name}", fields, text), of_query


class _AnyTime(EventTime):
    """An event time in which every stream has a watermark."""

    def watermark(self, source: Source, *, after: bool = True) -> Clock:
        return 0


def streams_with_losses(relation: Relation) -> frozenset[str]:
    """Return the streams of which some row may be late for a relation."""
    any_time = _AnyTime(0, {}, {}, {})
    streams = {leaf for leaf in leaves(relation) if isinstance(leaf, Stream)}
    return frozenset(each.name for each in streams if late_conditions(relation, each, any_time))
