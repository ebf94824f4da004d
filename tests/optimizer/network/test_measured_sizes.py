"""What is measured while a network runs: smoothed, in steps, slow to change and not slower than that."""

from __future__ import annotations

import doctest
import random
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.optimizer.network import sizes as observed
from weft.optimizer.network.sizes import ENOUGH, MOST, MeasuredSizes, SizeKey, SizeKind, in_turn, stepped

SHARE = SizeKey(SizeKind.SHARE, ("stream f",), "T1.a > 1")
ROWS = SizeKey(SizeKind.ROWS, ("stream f",))

_numbers = st.builds(Fraction, st.integers(1, 10**9), st.integers(1, 10**9))


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(observed).failed == 0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(_numbers)
def test_a_number_is_known_by_the_nearest_power_of_two(number: Fraction) -> None:
    ratio = Fraction(2) ** stepped(None, number) / number
    # The square root of two, either way.
    assert Fraction(1, 2) <= ratio**2 <= 2


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(-20, 20), _numbers)
def test_a_step_is_left_when_what_is_measured_has_doubled_or_is_half_as_much(step: int, number: Fraction) -> None:
    stays = Fraction(2) ** (step - 1) < number < Fraction(2) ** (step + 1)
    assert stepped(step, number) == (step if stays else stepped(None, number))


def test_as_long_as_little_has_been_seen_nothing_is_known() -> None:
    known = MeasuredSizes()
    assert (known.rows("stream f"), known.step(SHARE), known.step(SizeKey(SizeKind.VALUES, ("stream f",), "a"))) == (
        None,
    ) * 3
    known.see(SHARE, 3, ENOUGH - 1)
    assert known.step(SHARE) is None
    assert known.take_moved() == {}
    known.see(SHARE, 3, ENOUGH)
    assert known.step(SHARE) == Fraction(1, 4)
    assert known.take_moved() == {SHARE: None}
    assert known.take_moved() == {}


def test_what_was_never_seen_to_hold_holds_less_often_than_could_be_seen() -> None:
    known = MeasuredSizes()
    known.see(SHARE, 0, 1_023)
    assert known.step(SHARE) == Fraction(1, 2_048)
    known.see(SHARE, 1_000, 1_000)
    assert 0 < known.step(SHARE) <= 1  # type: ignore[operator]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_noise_hardly_ever_leaves_a_step(share: float, seed: int) -> None:
    """Forty rows a cycle, each of which satisfies a condition or not, by chance."""
    chance, known, steps = random.Random(seed), MeasuredSizes(), []
    for _ in range(400):
        known.see(SHARE, sum(chance.random() < share for _ in range(40)), 40)
        steps.append(known.step(SHARE))
    settled = steps[20:]
    assert sum(one != other for one, other in pairwise(settled)) <= 4
    assert all(each is not None and share / 4 <= each <= 4 * share for each in settled)


def test_noise_of_less_than_a_factor_of_two_changes_nothing() -> None:
    chance, known = random.Random(3), MeasuredSizes()
    for _ in range(10):
        known.see(ROWS, 1_000)
    known.take_moved()
    for _ in range(1_000):
        known.see(ROWS, chance.randint(600, 1_900))
    assert known.take_moved() == {}
    assert known.rows("stream f") == 1_024


@pytest.mark.parametrize(("before", "after"), [(0.01, 0.5), (0.5, 0.01), (0.9, 0.05)])
def test_a_lasting_change_is_known_within_a_few_cycles(before: float, after: float) -> None:
    known = MeasuredSizes()
    for _ in range(100):
        known.see(SHARE, 1_000 * before, 1_000)
    cycles = 0
    while not after / 2 <= known.step(SHARE) <= after * 2:  # type: ignore[operator]
        known.see(SHARE, 1_000 * after, 1_000)
        cycles += 1
    # From 0.5 to 0.01 is the longest way: 0.75 to the power of 14 is a fiftieth.
    assert cycles <= 16
    assert known.take_moved()


def test_one_cycle_that_is_out_of_the_ordinary_is_soon_forgotten() -> None:
    known = MeasuredSizes()
    for _ in range(20):
        known.see(ROWS, 1_000)
    known.see(ROWS, 100_000)
    assert known.rows("stream f") == 32_768
    for _ in range(20):
        known.see(ROWS, 1_000)
    assert known.rows("stream f") in (1_024, 2_048)


def test_rows_of_a_node_are_its_share_of_the_combinations_that_are_kept() -> None:
    known = MeasuredSizes()
    node = SizeKey(SizeKind.NODE, ("stream f", "stream g"), "17")
    known.nodes = {3: node}
    assert known.node_rows(3) is None
    known.see(node, 640, 10_000)
    assert known.node_rows(3) is None
    known.see(SizeKey(SizeKind.ROWS, ("stream f",)), 64)
    known.see(SizeKey(SizeKind.ROWS, ("stream g",)), 256)
    assert known.node_rows(3) == 64 * 256 // 16
    assert known.node_rows(4) is None


def test_what_follows_from_others_is_taken_as_it_is() -> None:
    known = MeasuredSizes()
    for value in (0.5, 0.001, 1.0):
        known.derive(SHARE, value)
        assert known.value(SHARE) == pytest.approx(value)


def test_what_has_not_been_seen_for_longest_is_forgotten() -> None:
    known = MeasuredSizes()
    for number in range(MOST + 10):
        known.see(SizeKey(SizeKind.ROWS, (f"stream s{number}",)), 1)
        known.see(ROWS, 100)
    assert len(list(known)) == MOST
    assert known.rows("stream f") == 128
    assert known.rows("stream s5") is None
    assert known.rows(f"stream s{MOST}") == 1


def test_what_was_known_is_known_again() -> None:
    known, again = MeasuredSizes(), MeasuredSizes()
    known.see(SHARE, 30, 1_000)
    known.see(ROWS, 5_000)
    again.restore({each: known.value(each) for each in known})  # type: ignore[misc]
    assert [again.step(each) for each in (SHARE, ROWS)] == [known.step(each) for each in (SHARE, ROWS)]
    again.see(SHARE, 500, 1_000)
    assert again.step(SHARE) == Fraction(1, 2), "what is new soon counts for more"


def test_items_take_turns() -> None:
    items = list(range(10))
    assert in_turn(items, 5, 10) == items
    assert [in_turn(items, cycle, 4) for cycle in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
