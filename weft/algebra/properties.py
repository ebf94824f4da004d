"""Properties that follow from the definition of a relation: what it reads, its clock, and what its rows are.

Views do not appear: binding has put their relations in the place of their names.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.algebra.expressions import AggregateRef, Call, Column, Expression, WindowBound
from weft.algebra.relations import (
    Answers,
    Emission,
    Relation,
    Select,
    SetOperation,
    SetOperator,
    Source,
    Stream,
    Table,
    Window,
)
from weft.algebra.types import DataType


def reads(source: Source) -> tuple[Source, ...]:
    """What a relation reads directly."""
    if isinstance(source, Select):
        return tuple(each.source for each in source.inputs)
    if isinstance(source, SetOperation):
        return source.left, source.right
    return ()


def flows(source: Source) -> tuple[Source, ...]:
    """What a relation reads directly, tables left out."""
    return tuple(each for each in reads(source) if not isinstance(each, Table))


def leaves(source: Source) -> tuple[Stream | Table | Answers, ...]:
    """Every stream, table and query's answers that a relation reads, from left to right, as often as it reads them."""
    found: list[Stream | Table | Answers] = []
    # A stack rather than recursion: a UNION of a thousand operands is a thousand levels deep.
    waiting: list[Source] = [source]
    while waiting:
        below = waiting.pop()
        if isinstance(below, Stream | Table | Answers):
            found.append(below)
        waiting.extend(reversed(reads(below)))
    return tuple(found)


def name_of(leaf: Stream | Table | Answers) -> str:
    """The name under which what is read is registered."""
    return leaf.query if isinstance(leaf, Answers) else leaf.name


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


def emission(source: Source) -> Emission:
    """What the rows of a source are.

    An UNBOUNDED aggregate emits a group again whenever a row comes to it. Selections, joins with tables and UNION ALL
    pass that on. How often a group is emitted depends on how rows are cut into cycles.
    """
    found = Emission.ROWS
    waiting, seen = [source], set[int]()
    while waiting:
        below = waiting.pop()
        if id(below) in seen:
            continue
        seen.add(id(below))
        if isinstance(below, Answers):
            found = max(found, below.emission, key=lambda each: each.value)
        elif isinstance(below, (Select, SetOperation)):
            if isinstance(below, Select) and _is_running(below):
                found = max(found, _of_running(below), key=lambda each: each.value)
            waiting.extend(_passed_on(below))
    return found


def _is_running(select: Select) -> bool:
    """Whether a select is an aggregate that never closes, and its own DISTINCT does not keep its versions back."""
    return select.is_grouped and select.window is not None and select.window.is_unbounded and not select.distinct


def _of_running(select: Select) -> Emission:
    """Versions of a group are equal if all that is emitted of it are its keys."""
    emitted = [*(output.expression for output in select.outputs), *([select.having] if select.having else [])]
    return Emission.VERSIONS if any(map(_has_aggregate, emitted)) else Emission.REPEATED


def _has_aggregate(expression: Expression) -> bool:
    waiting: list[Expression] = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, AggregateRef):
            return True
        if isinstance(part, Call):
            waiting.extend(part.args)
    return False


def _passed_on(relation: Relation) -> Iterable[Source]:
    """What a relation reads and passes on row by row."""
    if isinstance(relation, SetOperation):
        passes = relation.operator is SetOperator.UNION and relation.all
        return [relation.left, relation.right] if passes else []
    if relation.is_grouped or relation.window is not None or relation.distinct:
        return []
    return [each.source for each in relation.flowing]
