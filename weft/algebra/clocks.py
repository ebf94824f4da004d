"""Facts about a relation's clock and window that follow from its definition."""

from __future__ import annotations

from weft.algebra.expressions import Column, WindowBound
from weft.algebra.relations import Answers, Relation, Select, SetOperation, Source, Stream, Table, Window
from weft.algebra.types import DataType


def clock_column(source: Source) -> str | None:
    """The column that shows the clock of a source's rows, or None when no column does."""
    return _clock_column(source, {})


def _clock_column(source: Source, known: dict[int, str | None]) -> str | None:
    """The same; `known` has the columns of relations that were met before, since a view may be read many times."""
    if isinstance(source, (Stream, Answers)):
        return source.clock
    if isinstance(source, Table):
        return None
    if id(source) not in known:
        known[id(source)] = (
            _clock_of_select(source, known) if isinstance(source, Select) else _clock_of_operation(source, known)
        )
    return known[id(source)]


def _clock_of_operation(operation: SetOperation, known: dict[int, str | None]) -> str | None:
    left, right = _clock_column(operation.left, known), _clock_column(operation.right, known)
    names = [field.name for field in operation.right.fields]
    # The two operands' columns correspond by position; only the left one's names are visible.
    position = next((i for i, field in enumerate(operation.fields) if field.name == left), None)
    return left if position is not None and names[position] == right else None


def _clock_of_select(select: Select, known: dict[int, str | None]) -> str | None:
    flowing = select.flowing
    passes = select.window is None and len(flowing) == 1
    below = _clock_column(flowing[0].source, known) if passes else None
    for output in select.outputs:
        expression = output.expression
        if isinstance(expression, WindowBound) and expression.end:
            return output.name
        if (
            below is not None
            and isinstance(expression, Column)
            and expression.source == flowing[0].alias
            and expression.name == below
        ):
            return output.name
    return None


def clock_type(source: Source) -> DataType:
    """The type of the clock of a source's rows, which is not a table."""
    assert not isinstance(source, Table), f"the rows of table {source.name} have no clock"
    if isinstance(source, Stream):
        return next(field.type for field in source.fields if field.name == source.clock)
    return source.clock_type


def answer_window(relation: Relation) -> Window | None:
    """The window whose instances a relation answers one by one; None when it has none or never closes."""
    window = relation.window
    return None if window is None or window.is_unbounded else window
