"""The windows of a join: when rows meet, which windows contain which, and windows that contain two others.

Rows of a join meet if some instant holds them all: τ = origin + k·slide, with each row inside (τ − range, τ] of its own
window. Other windows **contain** these if rows that meet here always meet there. Two questions are kept apart:

    eventual     every combination of the inner windows is one of the outer windows, at the same instant or later
    timely       … and never later: every instant of the inner windows is one of the outer windows

Both are answered exactly and in a few operations, whatever the slides:

    inner    ──┤        ├────────┤        ├──          the outer windows come `gap` ticks after the inner ones, at worst
    outer    ────┤            ├─────┤                  (slides 9 and 6, say), and reach back `slack` ticks further:
               gap│                                    they contain them iff gap ≤ slack

In weft instants go on in both directions. A paper that counts them from a first one is served by `begins`: then the
origin is that first instant, no clock is below 0, and what the first windows cannot reach makes a difference.

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
    """The windows of a join's inputs: one range each, all with the same instants origin + k·slide.

    With `begins`, k is not negative; without, it is any integer.
    """

    ranges: tuple[int, ...]
    slide: int = 1
    origin: int = 0
    begins: bool = False


def next_instant(windows: JoinWindows, clock: int) -> int:
    """The first instant that is not before a clock.

    >>> next_instant(JoinWindows((5, 7), slide=10), 23), next_instant(JoinWindows((5, 7), slide=10), -3)
    (30, 0)
    """
    steps = -((windows.origin - clock) // windows.slide)
    return windows.origin + (max(0, steps) if windows.begins else steps) * windows.slide


def meet(windows: JoinWindows, clocks: Sequence[int]) -> bool:
    """Whether rows with these clocks, one of each input, are together inside their windows at some instant.

    If a later instant than the first one after the newest row holds them all, so does that first one. (The printed
    lemma compares the rows two by two and forgets that the newest row may be in no window at all.)

    >>> meet(JoinWindows((5, 7), slide=10), (20, 14)), meet(JoinWindows((5, 7), slide=10), (23, 22))
    (True, False)
    """
    instant = next_instant(windows, max(clocks))
    return all(instant - clock < range_ for clock, range_ in zip(clocks, windows.ranges, strict=True))


def max_gap(inner: JoinWindows, outer: JoinWindows) -> int:
    """How long an instant of the inner windows may have to wait for one of the outer windows.

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
    if outer.begins and not inner.begins:
        return False
    if len(inner.ranges) == 1 and outer.ranges[0] >= outer.slide:
        # Outer windows without holes see every row, from their first one on.
        return not outer.begins or _first_seen(inner) >= _first_seen(outer)
    room = slack(inner, outer)
    if room < 0 or max_gap(inner, outer) > room:
        return False
    return not outer.begins or _starts_in_time(inner, outer)


def _first_seen(windows: JoinWindows) -> int:
    return max(0, windows.origin - windows.ranges[0] + 1)


def _starts_in_time(inner: JoinWindows, outer: JoinWindows) -> bool:
    """Whether the first outer windows reach back to all that the inner windows showed before them.

    An inner window that reaches back beyond clock 0 holds less than its range.
    """
    for instant in range(inner.origin, outer.origin, inner.slide):
        shown = (min(range_, instant + 1) for range_ in inner.ranges)
        if outer.origin - instant > min(there - here for here, there in zip(shown, outer.ranges, strict=True)):
            return False
    return True


def delay(inner: JoinWindows, outer: JoinWindows) -> int:
    """How many ticks later than in the inner windows a combination may first appear in the outer ones, at worst."""
    late_start = outer.origin - inner.origin if inner.begins and outer.begins else 0
    return max(max_gap(inner, outer), late_start)


def is_timely(inner: JoinWindows, outer: JoinWindows) -> bool:
    """Whether the outer windows contain the inner ones and show nothing later than they do.

    >>> is_timely(JoinWindows((5, 3), slide=10), JoinWindows((5, 4), slide=5))
    True
    >>> is_timely(JoinWindows((5, 3), slide=10, origin=1), JoinWindows((5, 4), slide=5))
    False
    """
    return slack(inner, outer) >= 0 and has_instants(inner, outer)


def has_instants(inner: JoinWindows, outer: JoinWindows) -> bool:
    """Whether every instant of the inner windows is one of the outer windows.

    For aggregates over windows of equal ranges that is all there is to containment: instances have their ends at
    instants. The phase counts: 1, 3, 5, … are not among 0, 2, 4, …
    """
    if outer.begins and not (inner.begins and inner.origin >= outer.origin):
        return False
    return inner.slide % outer.slide == 0 and (inner.origin - outer.origin) % outer.slide == 0


def contains_schedule(inner: JoinWindows, outer: JoinWindows) -> bool:
    """Whether every answer of an aggregate over the inner window is one over the outer window.

    >>> contains_schedule(JoinWindows((6,), slide=4, origin=4), JoinWindows((6,), slide=2))
    True
    """
    return inner.ranges == outer.ranges and has_instants(inner, outer)


def merge_timely(left: JoinWindows, right: JoinWindows) -> JoinWindows:
    """The windows with all instants of two others, and no more than that needs. (a)

    >>> merge_timely(JoinWindows((10, 9), slide=4), JoinWindows((4, 3), slide=6))
    JoinWindows(ranges=(10, 9), slide=2, origin=0, begins=False)
    """
    slide = gcd(left.slide, right.slide, left.origin - right.origin)
    return _merged(left, right, slide, min(left.origin, right.origin))


def merge_within(left: JoinWindows, right: JoinWindows, most_delay: int) -> JoinWindows:
    """The windows with the largest slide that contain both and are late by no more than some ticks. (b)

    >>> merge_within(JoinWindows((10, 9), slide=4), JoinWindows((4, 3), slide=6), most_delay=2)
    JoinWindows(ranges=(10, 9), slide=4, origin=0, begins=False)
    """
    for merged in _candidates(left, right):
        if all(contains_windows(each, merged) and delay(each, merged) <= most_delay for each in (left, right)):
            return merged
    return merge_timely(left, right)


def _candidates(left: JoinWindows, right: JoinWindows) -> Iterator[JoinWindows]:
    common = gcd(left.slide, right.slide)
    by_input = (
        _candidate_of_input(left, right, here, there, common)
        for here, there in zip(left.ranges, right.ranges, strict=True)
    )
    slides = {left.slide, right.slide, common, gcd(*by_input)}
    for slide in sorted(slides, reverse=True):
        for origin in sorted({left.origin, right.origin}):
            yield _merged(left, right, slide, origin)


def _candidate_of_input(left: JoinWindows, right: JoinWindows, here: int, there: int, common: int) -> int:
    """The printed rule: in step with the larger range, which has no slack; in step with both if the other has not
    enough of it either."""
    if here == there:
        return common
    slide = left.slide if here > there else right.slide
    return slide if slide <= abs(here - there) else common


def merge_widened(left: JoinWindows, right: JoinWindows, slide: int, origin: int) -> JoinWindows:
    """The windows with a given slide and origin that contain both, because they reach further back. (c)

    >>> merge_widened(JoinWindows((10, 9), slide=4), JoinWindows((4, 3), slide=6), slide=12, origin=0)
    JoinWindows(ranges=(18, 17), slide=12, origin=0, begins=False)
    """
    bare = _merged(left, right, slide, origin)
    ranges = (
        max(here + max_gap(left, bare), there + max_gap(right, bare))
        for here, there in zip(left.ranges, right.ranges, strict=True)
    )
    return JoinWindows(tuple(ranges), slide, origin, bare.begins)


def _merged(left: JoinWindows, right: JoinWindows, slide: int, origin: int) -> JoinWindows:
    ranges = tuple(max(pair) for pair in zip(left.ranges, right.ranges, strict=True))
    return JoinWindows(ranges, slide, origin, left.begins and right.begins)


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
