"""Containment of windows against brute force, and the worked examples of the paper under their own numbers.

Brute force knows the definition alone: rows meet if some instant holds them all.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.windows.join_windows import (
    JoinWindows,
    contains_windows,
    is_timely,
    max_gap,
    merge_timely,
    merge_within,
    slack,
)

EXHAUSTIVE = settings(max_examples=100, derandomize=True, database=None, deadline=None)


# --- by force --------------------------------------------------------------------------------------------------------


def instants(windows: JoinWindows, low: int, high: int) -> list[int]:
    """All instants from low to high, both with them."""
    return [each for each in range(low, high + 1) if (each - windows.origin) % windows.slide == 0]


def next_instant(windows: JoinWindows, clock: int) -> int:
    """The first instant that is not before a clock."""
    return next(each for each in instants(windows, clock, clock + windows.slide))


def meet(windows: JoinWindows, clocks: tuple[int, ...]) -> bool:
    """Whether some instant holds rows with these clocks: the first after the newest row does, if any does."""
    return first_shown(windows, clocks, max(clocks) + windows.slide) is not None


def first_shown(windows: JoinWindows, clocks: tuple[int, ...], high: int) -> int | None:
    """The first instant that holds all rows, by trying."""
    for instant in instants(windows, max(clocks), high):
        if all(instant - range_ < clock <= instant for clock, range_ in zip(clocks, windows.ranges, strict=True)):
            return instant
    return None


def combinations(inputs: int, low: int, high: int, reach: int) -> list[tuple[int, ...]]:
    """All combinations of clocks that lie close together."""
    apart = product(range(reach + 1), repeat=inputs)
    spread = [each for each in apart if min(each) == 0]
    return [tuple(newest - back for back in each) for newest in range(low, high + 1) for each in spread]


def lateness_by_force(inner: JoinWindows, outer: JoinWindows) -> int | None:
    """The largest lateness of a combination in the outer windows; None if one of them never appears there."""
    reach, top = max(inner.ranges), 60 + max(inner.origin, outer.origin, 0)
    worst = 0
    for clocks in combinations(len(inner.ranges), 30, top, reach):
        shown = first_shown(inner, clocks, top + 30)
        if shown is None:
            continue
        there = first_shown(outer, clocks, top + 60)
        if there is None:
            return None
        worst = max(worst, there - shown)
    return worst


def windows(inputs: int, most: int = 6) -> st.SearchStrategy[JoinWindows]:
    return st.builds(JoinWindows, st.tuples(*[st.integers(1, 7)] * inputs), st.integers(1, most), st.integers(-8, 8))


pairs = st.integers(1, 2).flatmap(lambda inputs: st.tuples(*[windows(inputs)] * 2))


@EXHAUSTIVE
@given(pairs)
def test_the_gap_is_the_longest_wait(pair: tuple[JoinWindows, JoinWindows]) -> None:
    inner, outer = pair
    waits = [next_instant(outer, each) - each for each in instants(inner, -40, 40)]
    assert max_gap(inner, outer) == max(waits)


@EXHAUSTIVE
@given(pairs)
def test_containment_is_exact(pair: tuple[JoinWindows, JoinWindows]) -> None:
    inner, outer = pair
    assert contains_windows(inner, outer) == (lateness_by_force(inner, outer) is not None)


@EXHAUSTIVE
@given(st.tuples(*[windows(3, most=4)] * 2))
def test_containment_is_exact_for_three_inputs_on_the_corners_of_windows(pair: tuple[JoinWindows, ...]) -> None:
    inner, outer = pair
    corners = [
        tuple(instant - (range_ - 1) * oldest for range_, oldest in zip(inner.ranges, at, strict=True))
        for instant in instants(inner, 0, 24)
        for at in product((0, 1), repeat=3)
    ]
    by_force = all(meet(outer, clocks) for clocks in corners)
    assert contains_windows(inner, outer) == by_force


@EXHAUSTIVE
@given(pairs)
def test_timely_is_never_late_and_nothing_else_is_timely(pair: tuple[JoinWindows, JoinWindows]) -> None:
    inner, outer = pair
    lateness = lateness_by_force(inner, outer)
    if is_timely(inner, outer):
        assert lateness == 0
    elif len(inner.ranges) > 1 and min(inner.ranges) >= inner.slide:
        # Without holes, every instant shows something first, so that being late there is seen.
        assert lateness != 0


@EXHAUSTIVE
@given(pairs)
def test_no_combination_is_later_than_the_gap(pair: tuple[JoinWindows, JoinWindows]) -> None:
    inner, outer = pair
    lateness = lateness_by_force(inner, outer)
    if lateness is not None:
        assert lateness <= max_gap(inner, outer)


@EXHAUSTIVE
@given(pairs)
def test_timely_merges_are_timely_for_both(pair: tuple[JoinWindows, JoinWindows]) -> None:
    merged = merge_timely(*pair)
    assert all(is_timely(each, merged) for each in pair)
    assert all(lateness_by_force(each, merged) == 0 for each in pair)


@EXHAUSTIVE
@given(pairs, st.integers(0, 6))
def test_merges_within_a_delay_keep_to_it(pair: tuple[JoinWindows, JoinWindows], most: int) -> None:
    merged = merge_within(*pair, most)
    assert merged.slide >= merge_timely(*pair).slide
    for each in pair:
        lateness = lateness_by_force(each, merged)
        assert lateness is not None
        assert lateness <= most


# --- the worked examples ---------------------------------------------------------------------------------------------


def test_the_snow_height_queries_contain_each_other_as_stated() -> None:
    half_an_hour, an_hour = JoinWindows((31, 1)), JoinWindows((61, 1))
    assert (slack(half_an_hour, an_hour), max_gap(half_an_hour, an_hour)) == (0, 0)
    assert contains_windows(half_an_hour, an_hour)
    assert is_timely(half_an_hour, an_hour)
    assert not contains_windows(an_hour, half_an_hour)
    first, second = [(0, 10), (20, 5), (50, 8)], [(30, 6), (55, 4), (61, 7)]

    def joined(over: JoinWindows) -> set[tuple[int, int]]:
        return {(a, b) for a, high in first for b, low in second if high > low and meet(over, (a, b))}

    assert joined(an_hour) == {(0, 30), (0, 55), (20, 55), (50, 55), (50, 61)}
    assert joined(half_an_hour) == {(0, 30), (50, 55), (50, 61)}


def test_windows_with_holes_are_not_contained() -> None:
    windows = JoinWindows((5, 7), slide=10)
    assert meet(windows, (20, 14))
    assert next_instant(windows, 23) == 30
    assert not meet(windows, (23, 22))


def test_contained_but_two_ticks_late() -> None:
    inner, outer = JoinWindows((4, 4)), JoinWindows((8, 8), slide=4, origin=2)
    assert slack(inner, outer) == 4
    assert next_instant(outer, 20) - 20 == 2
    assert contains_windows(inner, outer)
    assert not is_timely(inner, outer)


def test_a_window_one_tick_late_is_not_contained() -> None:
    inner, outer = JoinWindows((5, 5), slide=6, origin=1), JoinWindows((8, 8), slide=3, origin=2)
    assert (max_gap(inner, outer), slack(inner, outer)) == (1, 3)
    assert contains_windows(inner, outer)
    assert not is_timely(inner, outer)


@pytest.mark.parametrize("slide", [1, 4, 10])
def test_every_query_contains_itself(slide: int) -> None:
    windows = JoinWindows((7, 3), slide, -2)
    assert contains_windows(windows, windows)
    assert is_timely(windows, windows)


def test_the_theorem_forgets_that_a_gap_is_not_negative() -> None:
    assert not contains_windows(JoinWindows((2, 4), slide=3, origin=4), JoinWindows((4, 4), slide=3))


def test_the_aggregates_theorem_forgets_the_phase() -> None:
    assert not is_timely(JoinWindows((6,), slide=2, origin=1), JoinWindows((6,), slide=2))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (JoinWindows((18, 4, 19), 6), JoinWindows((1, 16, 5), 10)),
        (JoinWindows((16, 13), 2, 4), JoinWindows((1, 8), 8, 3)),
    ],
)
def test_the_printed_merge_contains_too_little(left: JoinWindows, right: JoinWindows) -> None:
    for merged in (merge_timely(left, right), merge_within(left, right, most_delay=100)):
        assert contains_windows(left, merged)
        assert contains_windows(right, merged)


def test_slides_of_merged_joins() -> None:
    left, right = JoinWindows((10, 3), 4), JoinWindows((4, 3), 6)
    assert merge_within(left, right, most_delay=100).slide == 2
    # The printed rule says 2 here as well; the exact test allows 4.
    assert merge_within(left, JoinWindows((4, 1), 6), most_delay=100) == JoinWindows((10, 3), 4)
    wide = merge_within(JoinWindows((10, 9), 4), right, most_delay=2)
    assert wide == JoinWindows((10, 9), 4)
    assert max_gap(right, wide) == 2
    assert merge_timely(JoinWindows((10, 9), 4), right).slide == 2
    assert merge_within(JoinWindows((10, 9), 4), right, most_delay=1).slide == 2


def test_schedules_of_aggregates() -> None:
    often, rarely = JoinWindows((6,), slide=2), JoinWindows((6,), slide=4, origin=4)
    assert is_timely(rarely, often)
    assert merge_timely(often, rarely) == often
    assert [each for each in instants(often, 0, 16) if each % 4 == 0] == instants(rarely, 0, 16)
    assert merge_timely(JoinWindows((6,), 2, 1), JoinWindows((6,), 2)).slide == 1
