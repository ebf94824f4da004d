"""Relations whose rows are versions of groups, not rows that stay as they are."""

from __future__ import annotations

from collections.abc import Iterable

from weft.algebra.expressions import AggregateRef, Call, Expression
from weft.algebra.relations import Answers, Emission, Relation, Select, SetOperation, SetOperator, Source


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
