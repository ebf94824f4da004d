"""The windows of a join: when rows meet, which windows contain which, and windows that contain two others.

Rows of a join meet if some instant holds them all: τ = origin + k·slide, with each row inside (τ − range, τ] of its own
window. Other windows **contain** these if rows that meet here always meet there. Two questions are kept apart:

    eventual     every combination of the inner windows is one of the outer windows, at the same instant or later
    timely       … and never later: every instant of the inner windows is one of the outer windows

Both are answered exactly and in a few operations, whatever the slides:

    inner    ──┤        ├────────┤        ├──          the outer windows come `gap` ticks after the inner ones, at worst
    outer    ────┤            ├─────┤                  (slides 9 and 6, say), and reach back `slack` ticks further:
               gap│                                    they contain them iff gap ≤ slack

Instants go on in both directions. (Papers count them from a first one; what the first windows cannot reach then makes a
difference.)

A join that answers two queries keeps windows that contain both of theirs. Ranges are the larger ones. The slide depends
on how late a combination may appear:

    (a) never late      every instant of both is an instant
    (b) a little late   the largest slide of a few candidates for which both are contained, and late by no more
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from weft.algebra.expressions import Call, Column, Expression, Literal
from weft.algebra.properties import clock_column
from weft.algebra.relations import Input
from weft.algebra.types import Kind


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """The windows of a join's inputs: one range each, all with the same instants origin + k·slide, k any integer."""

    ranges: tuple[int, ...]
    slide: int = 1
    origin: int = 0


def max_gap(inner: JoinWindows, outer: JoinWindows) -> int:
    """How long an instant of the inner windows may have to wait for one of the outer windows.

    If the outer windows contain the inner ones, no combination appears later by more than that.

    The differences of instants are all numbers that are origin − origin modulo the gcd of the slides; the largest of
    them that is below the outer slide is the answer.

    >>> max_gap(JoinWindows((5,), slide=6, origin=1), JoinWindows((8,), slide=3, origin=2))
    1
    """
    common = gcd(inner.slide, outer.slide)
    return outer.slide - common + (outer.origin - inner.origin) % common


def slack(inner: JoinWindows, outer: JoinWindows) -> int:
    """How much further back the outer windows reach, on the input where that is least. Negative: not even as far."""
    return min(there - here for here, there in zip(inner.ranges, outer.ranges, strict=True))


def contains_windows(inner: JoinWindows, outer: JoinWindows) -> bool:
    """Whether all rows that meet in the inner windows meet in the outer ones, at the same instant or later. Exact.

    >>> contains_windows(JoinWindows((4, 3), slide=6), JoinWindows((10, 9), slide=4))
    True
    """
    if len(inner.ranges) == 1 and outer.ranges[0] >= outer.slide:
        return True  # Outer windows without holes see every row.
    return max_gap(inner, outer) <= slack(inner, outer)


def is_timely(inner: JoinWindows, outer: JoinWindows) -> bool:
    """Whether the outer windows contain the inner ones and show nothing later than they do.

    >>> is_timely(JoinWindows((5, 3), slide=10), JoinWindows((5, 4), slide=5))
    True
    >>> is_timely(JoinWindows((5, 3), slide=10, origin=1), JoinWindows((5, 4), slide=5))
    False
    """
    has_instants = inner.slide % outer.slide == 0 and (inner.origin - outer.origin) % outer.slide == 0
    return has_instants and slack(inner, outer) >= 0


def merge_timely(left: JoinWindows, right: JoinWindows) -> JoinWindows:
    """The windows with all instants of two others, and no more than that needs. (a)

    >>> merge_timely(JoinWindows((10, 9), slide=4), JoinWindows((4, 3), slide=6))
    JoinWindows(ranges=(10, 9), slide=2, origin=0)
    """
    slide = gcd(left.slide, right.slide, left.origin - right.origin)
    return _merged(left, right, slide, min(left.origin, right.origin))


def merge_within(left: JoinWindows, right: JoinWindows, most_delay: int) -> JoinWindows:
    """The windows with the largest slide that contain both and are late by no more than some ticks. (b)

    >>> merge_within(JoinWindows((10, 9), slide=4), JoinWindows((4, 3), slide=6), most_delay=2)
    JoinWindows(ranges=(10, 9), slide=4, origin=0)
    """
    for merged in _candidates(left, right):
        if all(contains_windows(each, merged) and max_gap(each, merged) <= most_delay for each in (left, right)):
            return merged
    return merge_timely(left, right)


def _candidates(left: JoinWindows, right: JoinWindows) -> Iterator[JoinWindows]:
    """In step with one of the two, with both, or by the printed rule.

    That is for each input: in step with the larger range, which has no slack; in step with both if the other has not
    enough of it either.
    """
    common, by_rule = gcd(left.slide, right.slide), 0
    for here, there in zip(left.ranges, right.ranges, strict=True):
        slide = left.slide if here > there else right.slide
        by_rule = gcd(by_rule, slide if slide <= abs(here - there) else common)
    for slide in sorted({left.slide, right.slide, common, by_rule}, reverse=True):
        for origin in sorted({left.origin, right.origin}):
            yield _merged(left, right, slide, origin)


def _merged(left: JoinWindows, right: JoinWindows, slide: int, origin: int) -> JoinWindows:
    ranges = tuple(max(pair) for pair in zip(left.ranges, right.ranges, strict=True))
    return JoinWindows(ranges, slide, origin)


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
    coefficients, constant = _added(left, right, -1)
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
            return _added(left, right, 1 if expression.op == "+" else -1)
    if isinstance(expression, Call) and expression.op == "cast":
        return _linear(expression.args[0], clocks) if expression.type.is_integer else None
    return None


def _added(left: _Linear, right: _Linear, sign: int) -> _Linear:
    coefficients = dict(left[0])
    for alias, value in right[0].items():
        coefficients[alias] = coefficients.get(alias, 0) + sign * value
    return coefficients, left[1] + sign * right[1]
