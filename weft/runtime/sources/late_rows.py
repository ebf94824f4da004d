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
from weft.expressions.spark_expressions import column, spark_sql
from weft.plan.event_time import Clock, EventTime, RunningQuery, is_windowed, passes_rows
from weft.predicates.terms import columns_of
from weft.runtime.columnar.packed_selects import Packed
from weft.runtime.columnar.rows import CLOCK


def late_everywhere(stream: Stream, event_time: EventTime, queries: Mapping[str, RunningQuery]) -> str | None:
    """The condition, in Spark SQL, under which no query can use a row; None if some query uses every row."""
    verdicts: set[str] = set()
    for each in queries.values():
        for verdict in _verdicts(each.query.relation, stream, event_time):
            if verdict is None:
                return None
            verdicts.add(verdict)
    return " AND ".join(sorted(verdicts)) or None


def _verdicts(source: Source, stream: Stream, event_time: EventTime) -> Iterator[str | None]:
    """For every place where a relation reads the stream: when a row is late there; None for never."""
    if isinstance(source, Stream) and source.name == stream.name:
        yield None
    for below in reads(source):
        for verdict in _verdicts(below, stream, event_time):
            # The first operator that does more than pass rows decides.
            passes = passes_rows(below)
            yield _late_at(source, below, event_time) if passes else verdict  # type: ignore[arg-type]


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


@dataclass(frozen=True)
class _RowPath:
    """The path of a stream's rows through a relation: what is known of their columns, and the conditions so far."""

    #: The columns as Spark SQL over the stream's row; those that depend on tables are missing.
    columns: Mapping[str, str]
    conditions: tuple[str, ...]
    #: When a row is late at the end of the path, in Spark SQL; None for never.
    late: str | None = None
    is_over: bool = False


def late_conditions(source: Source, stream: Stream, event_time: EventTime) -> list[str]:
    """For each place where a relation loses late rows of a stream: which rows it loses, in Spark SQL."""
    paths = _paths(source, stream, event_time)
    return [" AND ".join([path.late, *path.conditions]) for path in paths if path.is_over and path.late is not None]


def _paths(source: Source, stream: Stream, event_time: EventTime) -> Iterator[_RowPath]:
    if isinstance(source, Stream) and source.name == stream.name:
        yield _RowPath({field.name: column(position) for position, field in enumerate(source.fields)}, ())
    elif isinstance(source, Select):
        for item in source.inputs:
            for path in _paths(item.source, stream, event_time):
                yield path if path.is_over else _through_select(path, source, item.alias, item.source, event_time)
    elif isinstance(source, SetOperation):
        for operand in (source.left, source.right):
            for path in _paths(operand, stream, event_time):
                yield path if path.is_over else _through_operator(path, source, operand, event_time)


def _through_select(path: _RowPath, select: Select, alias: str, below: Source, event_time: EventTime) -> _RowPath:
    conjuncts = (_text(each, alias, path.columns) for each in _conjuncts_of(select.where))
    conditions = (*path.conditions, *(text for text in conjuncts if text is not None))
    if not passes_rows(select):
        return replace(path, conditions=conditions, late=_late_at(select, below, event_time), is_over=True)
    outputs = {each.name: _text(each.expression, alias, path.columns) for each in select.outputs}
    return _RowPath({name: text for name, text in outputs.items() if text is not None}, conditions)


def _through_operator(path: _RowPath, operation: SetOperation, operand: Source, event_time: EventTime) -> _RowPath:
    if not passes_rows(operation):
        return replace(path, late=_late_at(operation, operand, event_time), is_over=True)
    names = zip(operation.fields, operand.fields, strict=True)
    return replace(path, columns={new.name: path.columns[old.name] for new, old in names if old.name in path.columns})


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
