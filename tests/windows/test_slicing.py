from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given

from tests.windows.strategies import edges_by_force, instance, slices_of, window_sets, windows
from weft.algebra import UNBOUNDED, Window
from weft.windows.counting import edge_rate
from weft.windows.slicing import ResidueClass, edges_between, shared_edges, window_edges


@pytest.mark.parametrize(
    ("window", "partials"),
    [(Window(5, 3), 3), (Window(4, 1), 4), (Window(14, 8), 3)],
    ids=["example 1", "figure 2", "figure 3"],
)
def test_pairs_make_few_partials_of_an_answer(window: Window, partials: int) -> None:
    end, start, _ = instance(window, 3)
    assert len(slices_of(shared_edges([window]), start, end)) == partials


@pytest.mark.parametrize(
    ("reach", "slide", "offsets", "rate"),
    [
        (12, 9, [3, 9], Fraction(2, 9)),
        (10, 6, [4, 6], Fraction(1, 3)),
        (16, 4, [4], Fraction(1, 4)),
        (10, 5, [5], Fraction(1, 5)),
        (8, 4, [4], Fraction(1, 4)),
        (8, 5, [3, 5], Fraction(2, 5)),
        (5, 4, [1, 4], Fraction(1, 2)),
        (10, 1, [1], Fraction(1)),
        (7, 5, [2, 5], Fraction(2, 5)),
        (3, 10, [3, 10], Fraction(1, 5)),
        (60, 10, [10], Fraction(1, 10)),
    ],
)
def test_paired_windows(reach: int, slide: int, offsets: list[int], rate: Fraction) -> None:
    window = Window(reach, slide)
    edges = shared_edges([window])
    assert edges_between(edges, 0, slide).tolist() == offsets
    assert edge_rate(edges) == rate


def test_a_window_is_a_sequence_of_pairs_in_the_example_of_weave_share() -> None:
    """r = g1 + g2 + g1: an answer every two slices, of which the last is used again by the next answer."""
    window = Window(12, 9)
    edges = shared_edges([window])
    first, second = (slices_of(edges, *instance(window, k)[1::-1]) for k in (0, 1))
    assert [end - start for start, end in first] == [3, 6, 3]
    assert second[0] == first[-1]


def test_an_origin_is_a_phase() -> None:
    assert window_edges(Window(12, 9, origin=-10)) == (ResidueClass(9, 8), ResidueClass(9, 2))


@given(windows())
def test_pairs_cuts_at_starts_and_ends_and_nowhere_else(window: Window) -> None:
    bounds = {instant for k in range(-80, 80) for instant in instance(window, k)[:2]}
    horizon = window.origin + 60
    expected = sorted(instant for instant in bounds if window.origin < instant <= horizon)
    assert edges_by_force(shared_edges([window]), window.origin, horizon) == expected


@given(window_sets())
def test_every_bound_that_a_window_needs_is_a_shared_edge(drawn: list[Window]) -> None:
    edges = shared_edges(drawn)
    for window in drawn:
        for k in range(3):
            end, start, _ = instance(window, k)
            assert edges_by_force(edges, start - 1, start)
            assert edges_by_force(edges, end - 1, end)


@given(window_sets())
def test_shared_edges_are_the_union_of_the_edges_of_each(drawn: list[Window]) -> None:
    union = {edge for window in drawn for edge in edges_by_force(frozenset(window_edges(window)), 0, 200)}
    assert edges_by_force(shared_edges(drawn), 0, 200) == sorted(union)


def test_an_unbounded_window_cannot_be_sliced() -> None:
    with pytest.raises(ValueError, match="UNBOUNDED"):
        window_edges(UNBOUNDED)


def test_a_window_has_at_least_one_tick() -> None:
    with pytest.raises(ValueError, match="at least one tick"):
        window_edges(Window(5, 0))
