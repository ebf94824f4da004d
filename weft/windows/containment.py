"""Which windows of a join, and which schedules of an aggregate, contain which.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd


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
