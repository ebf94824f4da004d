from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optimizer.weave import cases
from weft.algebra import Window
from weft.optimizer.weave.edge_meter import BitMeter, ClassMeter, Meter, TooLongError, estimating_meter, exact_meter
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet, shared_edges

edge_sets = st.lists(st.lists(cases.windows(), min_size=1, max_size=3).map(shared_edges), min_size=2, max_size=6)


def check_counts(meter: Meter, trees: list[EdgeSet]) -> None:
    numbers = [meter.add(tree) for tree in trees]
    assert [meter.rate(number) for number in numbers] == [edge_rate(tree) for tree in trees]
    together = [edge_rate(shared(trees[0], tree)) for tree in trees[1:]]
    assert [meter.rate_together(numbers[0], number) for number in numbers[1:]] == together
    assert meter.rates_together(numbers[0], numbers[1:]).tolist() == pytest.approx([float(rate) for rate in together])
    joined = meter.join(numbers[0], numbers[1])
    assert meter.rate(joined) == together[0]
    for number, tree in zip(numbers[2:], trees[2:], strict=True):
        assert meter.rate_together(joined, number) == edge_rate(shared(trees[0], trees[1], tree))


def shared(*trees: EdgeSet) -> EdgeSet:
    return frozenset().union(*trees)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(edge_sets)
def test_bits_and_classes_count_like_edge_rate(trees: list[EdgeSet]) -> None:
    meter = exact_meter(trees)
    assert isinstance(meter, BitMeter)
    check_counts(meter, trees)
    check_counts(ClassMeter(), trees)


def test_a_clock_of_microseconds_has_bits_for_seconds() -> None:
    trees = [shared_edges([Window(60_000_000, seconds * 1_000_000, origin=500)]) for seconds in (7, 8, 9)]
    meter = exact_meter(trees)
    assert isinstance(meter, BitMeter)
    assert meter._ticks == 504
    check_counts(meter, trees)


def test_long_periods_of_few_trees_are_counted_by_classes() -> None:
    trees = [shared_edges([Window(slide, slide)]) for slide in (9973, 9967, 9949, 9941)]
    meter = exact_meter(trees)
    assert isinstance(meter, ClassMeter)
    check_counts(meter, trees)


def test_many_unrelated_trees_are_estimated_consistently() -> None:
    trees = [shared_edges([Window(slide, slide)]) for slide in range(101, 301)]
    assert exact_meter(trees) is None
    meter = estimating_meter(trees)
    assert not meter.exact
    numbers = [meter.add(tree) for tree in trees]
    for number, tree in zip(numbers, trees, strict=True):
        assert float(meter.rate(number)) == pytest.approx(float(edge_rate(tree)), abs=1e-5)
    union = meter.rate_together(numbers[0], numbers[1])
    assert max(meter.rate(numbers[0]), meter.rate(numbers[1])) <= union
    assert union <= meter.rate(numbers[0]) + meter.rate(numbers[1])
    assert float(union) == pytest.approx(float(edge_rate(shared(trees[0], trees[1]))), abs=1e-5)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.builds(Window, st.integers(1, 5000), st.integers(1, 3000)), min_size=2, max_size=5))
def test_single_windows_are_compared_by_arithmetic_as_by_their_edges(windows: list[Window]) -> None:
    trees = [shared_edges([window]) for window in windows]
    meter = estimating_meter(trees)
    first, *others = [meter.add(tree) for tree in trees]
    by_arithmetic = [meter.rate_together(first, other) for other in others]
    for other, rate in zip(others, by_arithmetic, strict=True):
        again, copy = meter.add(trees[0]), meter.add(trees[others.index(other) + 1])
        assert meter.rate(meter.join(again, copy)) == rate


def test_a_meter_has_room_for_what_it_was_told_and_refuses_the_rest() -> None:
    trees = [shared_edges([Window(4, 4)])]
    meter = exact_meter([*trees, shared_edges([Window(6, 6)])])
    assert meter is not None
    four, six = meter.add(trees[0]), meter.add(shared_edges([Window(6, 6)]))
    assert meter.rate_together(four, six) == Fraction(1, 3)
    with pytest.raises(TooLongError):
        meter.add(shared_edges([Window(5, 5)]))
    with pytest.raises(TooLongError):
        meter.add(shared_edges([Window(4, 4, origin=1)]))


def test_trees_that_are_dropped_are_forgotten() -> None:
    for meter in (exact_meter([shared_edges([Window(4, 4)])]), ClassMeter()):
        assert meter is not None
        number = meter.add(shared_edges([Window(4, 4)]))
        meter.drop(number)
        with pytest.raises(KeyError):
            meter.rate(number)


def test_what_takes_too_long_is_refused_by_classes() -> None:
    """Ninety prime slides, each with two edges: two to the power of ninety ways to miss them all."""
    slides = [n for n in range(1000, 2000) if all(n % d for d in range(2, 45))][:90]
    trees = [shared_edges([Window(slide + 1 + at, slide)]) for at, slide in enumerate(slides)]
    mixed = [shared_edges([Window(slide // 2, slide * other)]) for slide, other in pairwise(slides)]
    meter = ClassMeter()
    with pytest.raises(TooLongError):
        meter.rate(meter.add(shared(*trees, *mixed)))
