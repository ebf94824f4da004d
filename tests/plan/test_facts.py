"""StreamFacts in steps of four: near enough, slow to change, and the same after they were written down."""

from __future__ import annotations

import doctest
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.plan import facts
from weft.plan.facts import StreamFacts, facts_of, nearest_power

_numbers = st.builds(Fraction, st.integers(1, 10**9), st.integers(1, 10**9))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(_numbers)
def test_the_nearest_power_is_at_most_twice_or_half_as_much(number: Fraction) -> None:
    assert Fraction(1, 2) < nearest_power(number) / number <= 2


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(-8, 8), _numbers)
def test_a_step_is_left_when_four_times_as_much_is_seen_or_a_quarter(step: int, seen: Fraction) -> None:
    before = StreamFacts(rows=step)
    after = before.seen([(seen.numerator, seen.denominator)], {})
    stays = Fraction(4) ** (step - 1) < seen < Fraction(4) ** (step + 1)
    assert after.rows_per_tick == (before.rows_per_tick if stays else nearest_power(seen))


def test_a_stream_that_wavers_between_two_steps_keeps_the_first() -> None:
    known = StreamFacts().seen([(20, 10)], {"c1": 100})
    for rows in (11, 39, 12, 150, 20):
        assert known.seen([(rows, 10)], {"c1": 60}) == StreamFacts(rows=1, ticks=2, keys={"c1": 3})


def test_one_cycle_that_is_out_of_the_ordinary_changes_nothing() -> None:
    ordinary, strange = (100, 10), (1_000_000, 10)
    known = StreamFacts().seen([ordinary], {})
    assert known.seen([ordinary, strange, ordinary], {}) == known
    assert known.seen([ordinary, strange, strange], {}).rows_per_tick == nearest_power(100_000)


def test_cycles_without_rows_say_how_long_cycles_are_and_no_more() -> None:
    assert StreamFacts(rows=3).seen([(0, 64)], {}) == StreamFacts(rows=3, ticks=3)
    assert StreamFacts().seen([], {}) == StreamFacts()


def test_without_keys_there_is_one_group_and_unknown_keys_are_not_guessed() -> None:
    known = StreamFacts(keys={"c1, c2": 2})
    assert known.number_of_keys(()) == 1
    assert known.number_of_keys(("c1", "c2")) == 16
    assert known.number_of_keys(("c1",)) is None


@pytest.mark.parametrize(
    "known", [StreamFacts(), StreamFacts(-12, 7, {"c1": 3, "c1, upper(c2)": 0}), StreamFacts(keys={"c1": 1})]
)
def test_facts_are_the_same_after_they_were_written_down(known: StreamFacts) -> None:
    assert facts_of(known.numbers()) == known


def test_examples() -> None:
    failed, attempted = doctest.testmod(facts)
    assert attempted > 0
    assert failed == 0
