"""Properties that follow from the definition of a relation: what it reads, its clock, and what its rows are.

Views do not appear: binding has put their relations in the place of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from weft.algebra import relations
from weft.algebra.expressions import AggregateRef, Call, Column, Expression, WindowBound
from weft.algebra.types import DataType

T = TypeVar("T")


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


def folded(source: relations.Source, rule: Callable[[relations.Source, Sequence[T]], T]) -> T:
    """The value of a source by a rule that takes the values of what it reads directly.

    It is computed once for each relation, since a view may be read many times.
    """
    known: dict[int, T] = {}
    waiting = [source]
    while waiting:
        below = waiting.pop()
        unknown = [each for each in reads(below) if id(each) not in known]
        if unknown:
            waiting += [below, *unknown]
        else:
            known[id(below)] = rule(below, [known[id(each)] for each in reads(below)])
    return known[id(source)]


def clock_column(source: relations.Source) -> str | None:
    """The column that shows the clock of a source's rows, or None when no column does."""
    return folded(source, _clock_column)


def _clock_column(source: relations.Source, below: Sequence[str | None]) -> str | None:
    if isinstance(source, (relations.Stream, relations.Answers)):
        return source.clock
    if isinstance(source, relations.Table):
        return None
    if isinstance(source, relations.SetOperation):
        left, right = below
        # The two operands' columns correspond by position; only the left one's names are visible.
        pairs = zip(source.fields, source.right.fields, strict=True)
        return next((mine.name for mine, theirs in pairs if mine.name == left and theirs.name == right), None)
    clocks = {(each.alias, clock) for each, clock in zip(source.inputs, below, strict=True)}
    passes = source.window is None and len(source.flowing) == 1
    for output in source.outputs:
        expression = output.expression
        if isinstance(expression, WindowBound) and expression.end:
            return output.name
        if passes and isinstance(expression, Column) and (expression.source, expression.name) in clocks:
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
    return folded(source, _emission)


def _emission(source: relations.Source, below: Sequence[relations.Emission]) -> relations.Emission:
    if isinstance(source, relations.Answers):
        return source.emission
    passes = False
    if isinstance(source, relations.SetOperation):
        passes = source.operator is relations.SetOperator.UNION and source.all
    elif isinstance(source, relations.Select) and not source.distinct:
        if source.is_grouped and source.window is not None and source.window.is_unbounded:
            # Versions of a group are equal if all that is emitted of it are its keys.
            emitted = [*(output.expression for output in source.outputs), source.having]
            return relations.Emission.VERSIONS if any(map(_has_aggregate, emitted)) else relations.Emission.REPEATED
        passes = not source.is_grouped and source.window is None
    return max(below, key=lambda each: each.value) if passes else relations.Emission.ROWS


def _has_aggregate(expression: Expression | None) -> bool:
    if isinstance(expression, Call):
        return any(map(_has_aggregate, expression.args))
    return isinstance(expression, AggregateRef)
