from __future__ import annotations

from itertools import pairwise, starmap, takewhile
from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.windows.strategies import (
    answers_between,
    edge_sets,
    edges_after,
    edges_by_force,
    instance,
    slices_of,
    window_sets,
    windows,
)
from weft.algebra import Window
from weft.windows.slicing import (
    EdgeSet,
    ResidueClass,
    bounded_range,
    edges_between,
    ends_between,
    most_partials,
    oldest_open_start,
    shared_edges,
    slice_start,
)

MODULI = (1, 2, 3, 5, 7, 9, 12, 25, 40)
EXAMPLE_3 = [Window(12, 9), Window(10, 6)]

instants = st.integers(-(10**6), 10**6)


def sum_of_ticks(start: int, end: int) -> int:
    """The partial of a stream with one row at each tick t, of value t, under SUM."""
    return sum(range(start, end))


def test_slices_of_example_3() -> None:
    cuts = [0, *edges_between(shared_edges(EXAMPLE_3), 0, 18).tolist()]
    partials = [(start, end, sum_of_ticks(start, end)) for start, end in pairwise(cuts)]
    assert partials == [
        (0, 3, 3),
        (3, 4, 3),
        (4, 6, 9),
        (6, 9, 21),
        (9, 10, 9),
        (10, 12, 21),
        (12, 16, 54),
        (16, 18, 33),
    ]


@pytest.mark.parametrize(
    ("window", "answers"),
    [
        (Window(12, 9), [(12, 66), (21, 174), (30, 282), (39, 390)]),
        (Window(10, 6), [(10, 45), (16, 105), (22, 165), (28, 225)]),
        (Window(8, 5), [(8, 28), (13, 68), (18, 108), (23, 148)]),
        (Window(5, 4), [(5, 10), (9, 30), (13, 50), (17, 70)]),
    ],
)
def test_answers_from_partials(window: Window, answers: list[tuple[int, int]]) -> None:
    edges = shared_edges([window, *EXAMPLE_3])
    due = answers_between([window], window.range - 1, 40)[:4]
    assert [(end, sum(starmap(sum_of_ticks, slices_of(edges, start, end)))) for end, start, _ in due] == answers


def test_final_operations_in_18_ticks() -> None:
    """An answer combines its slices, one operation each: 11 and 13 in a shared tree, 6 and 9 alone."""

    def operations(window: Window, edges: EdgeSet) -> int:
        return sum(len(slices_of(edges, due.start, due.end)) for due in answers_between([window], 180, 198))

    shared = shared_edges(EXAMPLE_3)
    assert [operations(window, shared) for window in EXAMPLE_3] == [11, 13]
    assert [operations(window, shared_edges([window])) for window in EXAMPLE_3] == [6, 9]


@pytest.mark.parametrize(
    ("shared", "partials", "distinct"),
    [
        ([Window(20, 4), Window(30, 6), Window(50, 10)], [{6, 7, 8}, {10, 11, 12}, {18, 19}], 8),
        ([Window(40, 8), Window(45, 9), Window(70, 7)], [{12, 13, 14, 15}, {14, 15, 16}, {22, 23, 24, 25}], 9),
    ],
)
def test_ut_w3_windows_of_a_shared_tree_hold_several_numbers_of_partials(
    shared: list[Window], partials: list[set[int]], distinct: int
) -> None:
    edges = shared_edges(shared)
    period = lcm(*(window.slide for window in shared))
    held = [
        {len(slices_of(edges, due.start, due.end)) for due in answers_between([window], 0, period)} for window in shared
    ]
    assert held == partials
    assert len(set.union(*held)) == distinct


@given(edge_sets(MODULI), instants)
def test_edges_come_in_the_order_of_time(edges: EdgeSet, after: int) -> None:
    expected = edges_by_force(edges, after, after + 90)
    assert edges_between(edges, after, after + 90).tolist() == expected


def test_running_never_needs_the_lcm() -> None:
    """The hundred largest primes below 10,000: their lcm has 1,325 bits."""
    primes = [p for p in range(9_000, 10_000) if all(p % q for q in range(2, 100))][-100:]
    edges = frozenset(ResidueClass(p, 0) for p in primes)
    assert lcm(*primes).bit_length() > 1_300
    assert edges_between(edges, 0, primes[2]).tolist() == primes[:3]
    assert edges_between(edges, 10**15, 10**15 + 10**6).tolist() == list(
        takewhile(lambda edge: edge <= 10**15 + 10**6, edges_after(edges, 10**15))
    )


@given(edge_sets(MODULI), instants)
def test_a_row_belongs_to_the_slice_around_it(edges: EdgeSet, clock: int) -> None:
    start = slice_start(edges, clock)
    assert edges_by_force(edges, start - 1, clock) == [start]


@given(window_sets(), st.integers(-50, 50))
def test_an_instance_is_made_of_whole_slices(drawn: list[Window], number: int) -> None:
    edges = shared_edges(drawn)
    for window in drawn:
        end, start, _ = instance(window, number)
        slices = slices_of(edges, start, end)
        assert (slices[0][0], slices[-1][1]) == (start, end)
        assert all(slice_start(edges, begin) == begin for begin, _ in slices)
        assert [stop for _, stop in slices] == edges_by_force(edges, start, end)


@given(edge_sets(MODULI), st.integers(1, 200), st.integers(-100, 100))
def test_no_stretch_holds_more_than_most_partials(edges: EdgeSet, length: int, after: int) -> None:
    assert len(edges_by_force(edges, after, after + length)) <= most_partials(edges, length)


@given(windows(), instants, st.integers(0, 100))
def test_ends_of_instances(window: Window, after: int, length: int) -> None:
    first = (after - instance(window, 0).end) // window.slide
    every = [instance(window, k).end for k in range(first - 1, first + length + 3)]
    assert list(ends_between(window, after, after + length)) == [end for end in every if after < end <= after + length]


def test_without_edges_there_are_no_slices() -> None:
    assert len(edges_between(frozenset(), 0, 10)) == 0
    with pytest.raises(ValueError, match="without edges"):
        slice_start(frozenset(), 0)


@given(window_sets(), instants)
def test_the_oldest_open_start_is_that_of_the_first_instance_to_close(some: list[Window], instant: int) -> None:
    first_open = (ends_between(each, instant, instant + each.slide)[0] - bounded_range(each) for each in some)
    ranges, slides, ends = np.array([(each.range, each.slide, each.origin + each.range) for each in some]).T
    assert oldest_open_start(ranges, slides, ends, instant) == min(first_open)
