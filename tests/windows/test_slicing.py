from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given

from tests.windows.strategies import edges_by_force, slicings, window_sets, windows
from weft.algebra import UNBOUNDED, Window
from weft.windows.counting import edge_rate
from weft.windows.schedule import edges_between, fragments_of, instance
from weft.windows.slicing import (
    Pair,
    ResidueClass,
    Slicing,
    composite_slide,
    pair,
    partials_per_answer,
    shared_edges,
    slices,
)

PANES, PAIRS, CUTTY = Slicing.PANES, Slicing.PAIRS, Slicing.CUTTY


@pytest.mark.parametrize(
    ("window", "panes", "pairs", "cutty"),
    [(Window(5, 3), 5, 3, 2), (Window(4, 1), 4, 4, 4), (Window(14, 8), 7, 3, 2)],
    ids=["example 1", "figure 2", "figure 3"],
)
def test_ut_w1_partials_of_the_three_slicings(window: Window, panes: int, pairs: int, cutty: int) -> None:
    assert partials_per_answer(window, PANES) == panes
    assert partials_per_answer(window, PAIRS) == pairs
    assert partials_per_answer(window, CUTTY) == cutty


def test_ut_w1_lengths_of_the_pairs() -> None:
    assert pair(Window(5, 3)) == Pair(to_end=2, to_next_start=1)
    assert pair(Window(14, 8)) == Pair(to_end=6, to_next_start=2)


@pytest.mark.parametrize("slicing", Slicing)
def test_partials_per_answer_takes_what_the_source_states(slicing: Slicing) -> None:
    for reach in range(1, 40):
        for slide in range(1, 20):
            window = Window(reach, slide, origin=7)
            edges = shared_edges([window], slicing)
            end, start, _ = instance(window, 3)
            assert len(list(fragments_of(edges, start, end))) == partials_per_answer(window, slicing)


@pytest.mark.parametrize(
    ("reach", "slide", "lengths", "offsets", "rate"),
    [
        (12, 9, (3, 6), [3, 9], Fraction(2, 9)),
        (10, 6, (4, 2), [4, 6], Fraction(1, 3)),
        (16, 4, (0, 4), [4], Fraction(1, 4)),
        (10, 5, (0, 5), [5], Fraction(1, 5)),
        (8, 4, (0, 4), [4], Fraction(1, 4)),
        (8, 5, (3, 2), [3, 5], Fraction(2, 5)),
        (5, 4, (1, 3), [1, 4], Fraction(1, 2)),
        (10, 1, (0, 1), [1], Fraction(1)),
        (7, 5, (2, 3), [2, 5], Fraction(2, 5)),
        (3, 10, (3, 7), [3, 10], Fraction(1, 5)),
        (60, 10, (0, 10), [10], Fraction(1, 10)),
    ],
)
def test_paired_windows(reach: int, slide: int, lengths: tuple[int, int], offsets: list[int], rate: Fraction) -> None:
    window = Window(reach, slide)
    edges = shared_edges([window])
    assert pair(window) == lengths
    assert edges_between(edges, 0, slide).tolist() == offsets
    assert edge_rate(edges) == rate


def test_a_window_is_a_sequence_of_pairs_in_the_example_of_weave_share() -> None:
    """r = g1 + g2 + g1: an answer every two fragments, of which the last is used again by the next answer."""
    window = Window(12, 9)
    edges = shared_edges([window])
    first, second = (list(fragments_of(edges, *instance(window, k)[1::-1])) for k in (0, 1))
    assert [fragment.end - fragment.start for fragment in first] == [3, 6, 3]
    assert second[0] == first[-1]


def test_an_origin_is_a_phase() -> None:
    assert slices(Window(12, 9, origin=-10)) == (ResidueClass(9, 8), ResidueClass(9, 2))
    assert slices(Window(12, 9, origin=-10), PANES) == (ResidueClass(3, 2),)
    assert slices(Window(12, 9, origin=-10), CUTTY) == (ResidueClass(9, 8),)


@given(windows())
def test_pairs_cuts_at_starts_and_ends_and_nowhere_else(window: Window) -> None:
    bounds = {instant for k in range(-80, 80) for instant in instance(window, k)[:2]}
    horizon = window.origin + 60
    expected = sorted(instant for instant in bounds if window.origin < instant <= horizon)
    assert edges_by_force(shared_edges([window]), window.origin, horizon) == expected


@given(window_sets(), slicings)
def test_every_bound_that_a_window_needs_is_a_shared_edge(drawn: list[Window], slicing: Slicing) -> None:
    edges = shared_edges(drawn, slicing)
    for window in drawn:
        for k in range(3):
            end, start, _ = instance(window, k)
            assert edges_by_force(edges, start - 1, start)
            assert slicing is CUTTY or edges_by_force(edges, end - 1, end)


@given(window_sets(), slicings)
def test_shared_edges_are_the_union_of_the_edges_of_each(drawn: list[Window], slicing: Slicing) -> None:
    union = {edge for window in drawn for edge in edges_by_force(frozenset(slices(window, slicing)), 0, 200)}
    assert edges_by_force(shared_edges(drawn, slicing), 0, 200) == sorted(union)


def test_a_composite_slide_is_the_lcm() -> None:
    assert composite_slide([Window(12, 9), Window(10, 6)]) == 18


def test_an_unbounded_window_cannot_be_sliced() -> None:
    with pytest.raises(ValueError, match="UNBOUNDED"):
        slices(UNBOUNDED)


def test_a_window_has_at_least_one_tick() -> None:
    with pytest.raises(ValueError, match="at least one tick"):
        slices(Window(5, 0))
