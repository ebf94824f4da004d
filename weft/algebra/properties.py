"""Properties that follow from the definition of a relation: what it reads, its clock, and what its rows are.

Views do not appear: binding has put their relations in the place of their names.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.algebra import relations
from weft.algebra.expressions import AggregateRef, Call, Column, Expression, WindowBound
from weft.algebra.types import DataType


def reads(source: relations.Source) -> tuple[relations.Source, ...]:
    """What a relation reads directly."""
    if isinstance(source, relations.Select):
        return tuple(each.source for each in source.inputs)
    if isinstance(source, relations.SetOperation):
        return source.left, source.right
    return ()


def flows(source: relations.Source) -> tuple[relations.Source, ...]:
    """What a relation reads directly, tables left out."""
    return tuple(each for each in reads(source) if not isinstance(each, relations.Table))


def leaves(source: relations.Source) -> tuple[relations.Stream | relations.Table | relations.Answers, ...]:
    """Every stream, table and query's answers that a relation reads, from left to right, as often as it reads them."""
    found: list[relations.Stream | relations.Table | relations.Answers] = []
    # A stack rather than recursion: a UNION of a thousand operands is a thousand levels deep.
    waiting: list[relations.Source] = [source]
    while waiting:
        below = waiting.pop()
        if isinstance(below, relations.Stream | relations.Table | relations.Answers):
            found.append(below)
        waiting.extend(reversed(reads(below)))
    return tuple(found)


def name_of(leaf: relations.Stream | relations.Table | relations.Answers) -> str:
    """The name under which what is read is registered."""
    return leaf.query if isinstance(leaf, relations.Answers) else leaf.name


def clock_column(source: relations.Source) -> str | None:
    """The column that shows the clock of a source's rows, or None when no column does."""
    return _clock_column(source, {})


def _clock_column(source: relations.Source, known: dict[int, str | None]) -> str | None:
    """The same; `known` has the columns of relations that were met before, since a view may be read many times."""
    if isinstance(source, (relations.Stream, relations.Answers)):
        return source.clock
    if isinstance(source, relations.Table):
        return None
    if id(source) not in known:
        known[id(source)] = (
            _clock_of_select(source, known)
            if isinstance(source, relations.Select)
            else _clock_of_operation(source, known)
        )
    return known[id(source)]


def _clock_of_operation(operation: relations.SetOperation, known: dict[int, str | None]) -> str | None:
    left, right = _clock_column(operation.left, known), _clock_column(operation.right, known)
    names = [field.name for field in operation.right.fields]
    # The two operands' columns correspond by position; only the left one's names are visible.
    position = next((i for i, field in enumerate(operation.fields) if field.name == left), None)
    return left if position is not None and names[position] == right else None


def _clock_of_select(select: relations.Select, known: dict[int, str | None]) -> str | None:
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


def clock_type(source: relations.Source) -> DataType:
    """The type of the clock of a source's rows, which is not a table."""
    assert not isinstance(source, relations.Table), f"the rows of table {source.name} have no clock"
    if isinstance(source, relations.Stream):
        return next(field.type for field in source.fields if field.name == source.clock)
    return source.clock_type


def answer_window(relation: relations.Relation) -> relations.Window | None:
    """The window whose instances a relation answers one by one; None when it has none or never closes."""
    window = relation.window
    return None if window is None or window.is_unbounded else window


def emission(source: relations.Source) -> relations.Emission:
    """What the rows of a source are.

    An UNBOUNDED aggregate emits a group again whenever a row comes to it. Selections, joins with tables and UNION ALL
    pass that on. How often a group is emitted depends on how rows are cut into cycles.
    """
    found = relations.Emission.ROWS
    waiting, seen = [source], set[int]()
    while waiting:
        below = waiting.pop()
        if id(below) in seen:
            continue
        seen.add(id(below))
        if isinstance(below, relations.Answers):
            found = max(found, below.emission, key=lambda each: each.value)
        elif isinstance(below, (relations.Select, relations.SetOperation)):
            if isinstance(below, relations.Select) and _is_running(below):
                found = max(found, _of_running(below), key=lambda each: each.value)
            waiting.extend(_passed_on(below))
    return found


def _is_running(select: relations.Select) -> bool:
    """Whether a select is an aggregate that never closes, and its own DISTINCT does not keep its versions back."""
    return select.is_grouped and select.window is not None and select.window.is_unbounded and not select.distinct


def _of_running(select: relations.Select) -> relations.Emission:
    """Versions of a group are equal if all that is emitted of it are its keys."""
    emitted = [*(output.expression for output in select.outputs), *([select.having] if select.having else [])]
    return relations.Emission.VERSIONS if any(map(_has_aggregate, emitted)) else relations.Emission.REPEATED


def _has_aggregate(expression: Expression) -> bool:
    waiting: list[Expression] = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, AggregateRef):
            return True
        if isinstance(part, Call):
            waiting.extend(part.args)
    return False


def _passed_on(relation: relations.Relation) -> Iterable[relations.Source]:
    """What a relation reads and passes on row by row."""
    if isinstance(relation, relations.SetOperation):
        passes = relation.operator is relations.SetOperator.UNION and relation.all
        return [relation.left, relation.right] if passes else []
    if relation.is_grouped or relation.window is not None or relation.distinct:
        return []
    return [each.source for each in relation.flowing]
