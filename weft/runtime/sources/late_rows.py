"""Rows that come too late: which of them no query can use, and which are lost to single queries and counted for them.

A query loses a row where its relation reads the stream, at the first operator that does more than pass rows. The row is
counted if it satisfies the conditions on the way there that can be evaluated on it alone: those of the selections that
it passes, and the operator's own. Queries over partials count them there; for the others, Spark counts the rows of the
stream's log that are older than its watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Call, Column, Expression, Field, Relation, Select, SetOperation, Source, Stream, Window
from weft.algebra.properties import leaves, reads
from weft.algebra.types import BIGINT
from weft.plan.event_time import Clock, EventTime, RunningQuery, is_windowed, passes_rows
from weft.runtime.columnar.packed_selects import Packed
from weft.runtime.columnar.rows import CLOCK, column
from weft.runtime.columnar.spark_expressions import spark_sql


def late_everywhere(stream: Stream, event_time: EventTime, queries: Mapping[str, RunningQuery]) -> str | None:
    """The condition, as Spark SQL, that no query can take a row of the stream; None if some query takes every row."""
    verdicts: set[str] = set()
    for each in queries.values():
        for verdict in _verdicts(each.query.relation, stream, event_time):
            if verdict is None:
                return None
            verdicts.add(verdict)
    return " AND ".join(sorted(verdicts)) or None


def _verdicts(source: Source, stream: Stream, event_time: EventTime) -> Iterator[str | None]:
    """For every place where a relation reads the stream: when a row is late there; None for never.

    The first operator that does more than pass rows decides.
    """
    if isinstance(source, Stream) and source.name == stream.name:
        yield None
    for below in reads(source):
        for verdict in _verdicts(below, stream, event_time):
            passes = passes_rows(below)
            yield late_at(source, below, event_time) if passes else verdict  # type: ignore[arg-type]


def late_at(relation: Relation, below: Source, event_time: EventTime) -> str | None:
    """The condition, as Spark SQL, that a row which a relation reads comes too late for it; None for never."""
    watermark = event_time.watermark(below, after=False)
    if watermark is None:
        return None
    if isinstance(relation, Select):
        if len(relation.flowing) > 1:
            return f"({CLOCK} < {watermark}L)" if relation.is_bounded else None
        if is_windowed(relation) and relation.window is not None:
            return _window_closed(relation.window, watermark)
        if relation.is_grouped:
            return None
    if relation.retain is None or relation.retain.ticks is None:
        return None
    # All operands are judged by the one watermark of the relation.
    least = event_time.watermark(relation, after=False)
    return None if least is None else f"({CLOCK} < {least}L)"


def closed_for(window: Window, clocks: NDArray[np.int64], watermark: int) -> NDArray[np.bool_]:
    """For some clocks, that some instance covers the clock and the last one that does has closed."""
    assert window.range is not None
    into = (clocks - window.origin) % window.slide
    return np.asarray((into < window.range) & (clocks - into + window.range <= watermark))


def _window_closed(window: Window, watermark: int) -> str:
    """That some instance covers the row and the last one that does has closed."""
    into = f"pmod({CLOCK} - {window.origin}L, {window.slide}L)"
    return f"({into} < {window.range}L AND {CLOCK} - {into} + {window.range}L <= {watermark}L)"


@dataclass(frozen=True)
class _RowPath:
    """A way of a stream's rows through a relation: what is known of their columns, and the conditions so far."""

    #: The columns as Spark SQL over the stream's row; those that tables have a part in are missing.
    columns: Mapping[str, str]
    conditions: tuple[str, ...]
    #: When a row is late at the end of the way, as Spark SQL; None for never.
    late: str | None = None
    is_over: bool = False


def late_conditions(source: Source, stream: Stream, event_time: EventTime) -> list[str]:
    """Return, for each place where a relation loses late rows of a stream, which rows it loses, as Spark SQL."""
    ways = _ways(source, stream, event_time)
    return [" AND ".join([way.late, *way.conditions]) for way in ways if way.is_over and way.late is not None]


def _ways(source: Source, stream: Stream, event_time: EventTime) -> Iterator[_RowPath]:
    if isinstance(source, Stream) and source.name == stream.name:
        yield _RowPath({field.name: column(position) for position, field in enumerate(source.fields)}, ())
    elif isinstance(source, Select):
        for item in source.inputs:
            for way in _ways(item.source, stream, event_time):
                yield way if way.is_over else _through_select(way, source, item.alias, item.source, event_time)
    elif isinstance(source, SetOperation):
        for operand in (source.left, source.right):
            for way in _ways(operand, stream, event_time):
                yield way if way.is_over else _through_operator(way, source, operand, event_time)


def _through_select(way: _RowPath, select: Select, alias: str, below: Source, event_time: EventTime) -> _RowPath:
    conjuncts = (_text(each, alias, way.columns) for each in conjuncts_of(select.where))
    conditions = (*way.conditions, *(text for text in conjuncts if text is not None))
    if not passes_rows(select):
        return replace(way, conditions=conditions, late=late_at(select, below, event_time), is_over=True)
    outputs = {each.name: _text(each.expression, alias, way.columns) for each in select.outputs}
    return _RowPath({name: text for name, text in outputs.items() if text is not None}, conditions)


def _through_operator(way: _RowPath, operation: SetOperation, operand: Source, event_time: EventTime) -> _RowPath:
    if not passes_rows(operation):
        return replace(way, late=late_at(operation, operand, event_time), is_over=True)
    names = zip(operation.fields, operand.fields, strict=True)
    return replace(way, columns={new.name: way.columns[old.name] for new, old in names if old.name in way.columns})


def conjuncts_of(where: Expression | None) -> list[Expression]:
    """Return the conditions that a WHERE puts together with AND."""
    if where is None:
        return []
    if isinstance(where, Call) and where.op == "and":
        return [each for arg in where.args for each in conjuncts_of(arg)]
    return [where]


def _text(expression: Expression, alias: str, columns: Mapping[str, str]) -> str | None:
    """An expression as Spark SQL over the stream's row; None if the row alone does not tell."""
    if not all(each.source == alias and each.name in columns for each in _columns(expression)):
        return None

    def leaf(each: object) -> str:
        assert isinstance(each, Column)
        return columns[each.name]

    return f"({spark_sql(expression, leaf)})"


def _columns(expression: Expression) -> Iterator[Column]:
    if isinstance(expression, Column):
        yield expression
    elif isinstance(expression, Call):
        for arg in expression.args:
            yield from _columns(arg)


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
    """A event_time in which every stream has a watermark."""

    def watermark(self, source: Source, *, after: bool = True) -> Clock:
        return 0


def streams_with_losses(relation: Relation) -> frozenset[str]:
    """Return the streams of which some row may be late for a relation."""
    any_time = _AnyTime(0, {}, {}, {})
    streams = {leaf for leaf in leaves(relation) if isinstance(leaf, Stream)}
    return frozenset(each.name for each in streams if late_conditions(relation, each, any_time))
