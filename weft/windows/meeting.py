"""When rows of a join can meet: bounds on the differences of their clocks.

`bounds[i][k]` is the largest value that the clock of input k minus the clock of input i can have in any combination of
the join, or None if there is none. A row of input i with clock t is of no more use once every other input k has a
watermark above `t + bounds[i][k]`: whatever arrives in time then is too new to meet it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from weft.algebra.expressions import Call, Column, Expression, Literal
from weft.algebra.properties import clock_column
from weft.algebra.relations import Input
from weft.algebra.types import Kind

Bounds: TypeAlias = list[list[int | None]]

#: A clock expression as {input alias: coefficient} and a constant number of ticks.
_Linear: TypeAlias = tuple[dict[str, int], int]


def meeting_bounds(inputs: Sequence[Input], where: Expression | None) -> Bounds:
    """The tightest bounds that the inputs' windows and the comparisons of clocks in `where` imply."""
    size = len(inputs)
    bounds: Bounds = [[0 if i == k else None for k in range(size)] for i in range(size)]
    for i, first in enumerate(inputs):
        # A row stays inside its window for `range` ticks, its own included, so a partner is at most range − 1 newer.
        if first.window is not None and first.window.range is not None:
            for k, second in enumerate(inputs):
                if k != i and second.window is not None:
                    _tighten(bounds, i, k, first.window.range - 1)
    clocks = {(each.alias, clock_column(each.source)) for each in inputs}
    positions = {each.alias: position for position, each in enumerate(inputs)}
    for comparison in _conjuncts(where):
        for newer, older, ticks in _differences(comparison, clocks):
            _tighten(bounds, positions[older], positions[newer], ticks)
    for via in range(size):
        for i in range(size):
            for k in range(size):
                first_leg, second_leg = bounds[i][via], bounds[via][k]
                if first_leg is not None and second_leg is not None:
                    _tighten(bounds, i, k, first_leg + second_leg)
    return bounds


def _tighten(bounds: Bounds, i: int, k: int, ticks: int) -> None:
    known = bounds[i][k]
    bounds[i][k] = ticks if known is None else min(known, ticks)


def _conjuncts(expression: Expression | None) -> Iterator[Call]:
    if isinstance(expression, Call):
        if expression.op == "and":
            for arg in expression.args:
                yield from _conjuncts(arg)
        else:
            yield expression


def _differences(comparison: Call, clocks: set[tuple[str, str | None]]) -> Iterator[tuple[str, str, int]]:
    """What a comparison says about clocks, as (newer, older, ticks): clock of newer − clock of older ≤ ticks."""
    if comparison.op not in ("<", "<=", ">", ">=", "=") or len(comparison.args) != 2:
        return
    left, right = _linear(comparison.args[0], clocks), _linear(comparison.args[1], clocks)
    if left is None or right is None:
        return
    coefficients, constant = _combined(left, right, -1)
    for sign in {"<": (1,), "<=": (1,), ">": (-1,), ">=": (-1,), "=": (1, -1)}[comparison.op]:
        signed = {alias: sign * value for alias, value in coefficients.items() if value}
        if sorted(signed.values()) == [-1, 1]:
            newer = next(alias for alias, value in signed.items() if value == 1)
            older = next(alias for alias, value in signed.items() if value == -1)
            yield newer, older, -sign * constant - (comparison.op in ("<", ">"))


def _linear(expression: Expression, clocks: set[tuple[str, str | None]]) -> _Linear | None:
    """A sum of clock columns and constants, or None if the expression is anything else."""
    if isinstance(expression, Column):
        return ({expression.source: 1}, 0) if (expression.source, expression.name) in clocks else None
    if isinstance(expression, Literal):
        whole = expression.type.is_integer or expression.type.kind in (Kind.INTERVAL, Kind.TIMESTAMP)
        return ({}, int(str(expression.value))) if whole and expression.value is not None else None
    if isinstance(expression, Call) and expression.op in ("+", "-") and len(expression.args) == 2:
        left, right = _linear(expression.args[0], clocks), _linear(expression.args[1], clocks)
        if left is not None and right is not None:
            return _combined(left, right, 1 if expression.op == "+" else -1)
    if isinstance(expression, Call) and expression.op == "cast":
        return _linear(expression.args[0], clocks) if expression.type.is_integer else None
    return None


def _combined(left: _Linear, right: _Linear, sign: int) -> _Linear:
    coefficients = dict(left[0])
    for alias, value in right[0].items():
        coefficients[alias] = coefficients.get(alias, 0) + sign * value
    return coefficients, left[1] + sign * right[1]
