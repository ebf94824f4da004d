"""Set operators whose operands are in one order: what the order does not matter to is written alike.

    B UNION A,  A UNION B                  →   A UNION B
    (C UNION A) UNION B                    →   (A UNION B) UNION C       the first two are a relation of their own
    (A EXCEPT C) EXCEPT B                  →   (A EXCEPT B) EXCEPT C

That holds between window instances, and over history as long as everything is remembered. With RETAIN <interval> it
does not: what an inner operator lets through decides what the outer one remembers. UNION ALL passes rows through, in
any order. The names of the columns are those of the first operand, whichever it is now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.algebra import Relation, Select, SetOperation, SetOperator


def with_ordered_operands(relation: Relation, key: Callable[[Relation], str]) -> Relation:
    """A relation whose set operators have their operands in the order of a key, at every level."""
    if isinstance(relation, Select):
        inputs = tuple(
            replace(each, source=with_ordered_operands(each.source, key))
            if isinstance(each.source, (Select, SetOperation))
            else each
            for each in relation.inputs
        )
        return replace(relation, inputs=inputs)
    first, *others = (with_ordered_operands(each, key) for each in operands_of(relation))
    if is_free(relation):
        if relation.operator is not SetOperator.EXCEPT:
            first, *others = sorted([first, *others], key=key)
        others = sorted(others, key=key)
    combined = first
    for each in others:
        combined = replace(relation, left=combined, right=each)
    return combined


def operands_of(operation: SetOperation) -> list[Relation]:
    """What a chain of the same operator combines. Of EXCEPT only the first may be a chain."""
    found: list[Relation] = []
    waiting: list[Relation] = [operation]
    while waiting:
        each = waiting.pop()
        if isinstance(each, SetOperation) and _continues(each, operation):
            goes_on = operation.operator is not SetOperator.EXCEPT or not found
            waiting += [each.right, each.left] if goes_on else []
            if goes_on:
                continue
        found.append(each)
    return found


def _continues(inner: SetOperation, outer: SetOperation) -> bool:
    alike = (inner.operator, inner.all, inner.window, inner.retain) == (
        outer.operator,
        outer.all,
        outer.window,
        outer.retain,
    )
    return inner is outer or (alike and is_free(outer))


def is_free(operation: SetOperation) -> bool:
    """Whether the order of operands does not matter."""
    return operation.retain is None or operation.retain.ticks is None
