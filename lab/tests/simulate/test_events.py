"""The queue of events: order, cancelling, repetition, and runs that a seed repeats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.simulate.events import Events, seconds


@given(st.lists(st.integers(0, 20)))
def test_events_happen_by_instant_and_then_in_the_order_of_scheduling(instants: list[int]) -> None:
    events, seen = Events(), []
    for number, instant in enumerate(instants):
        events.at(instant, lambda instant=instant, number=number: seen.append((instant, number, events.now)))
    events.run()
    assert seen == sorted((instant, number, instant) for number, instant in enumerate(instants))
    assert events.happened == len(instants)


def test_an_event_may_schedule_another_at_its_own_instant() -> None:
    events, seen = Events(), []
    events.at(5, lambda: events.after(0, lambda: seen.append("second")))
    events.at(5, lambda: seen.append("first"))
    events.run()
    assert seen == ["first", "second"]


def test_a_run_ends_after_the_events_of_its_last_instant() -> None:
    events, seen = Events(), []
    for instant in (9, 10, 11):
        events.at(instant, lambda instant=instant: seen.append(instant))
    events.run_until(10)
    assert (seen, events.now) == ([9, 10], 10)
    events.run_until(30)
    assert (seen, events.now) == ([9, 10, 11], 30)


def test_the_past_is_closed() -> None:
    events = Events()
    events.run_until(10)
    with pytest.raises(ValueError, match="before the present"):
        events.at(9, lambda: None)


def test_a_cancelled_event_does_not_happen() -> None:
    events, seen = Events(), []
    kept = events.at(1, lambda: seen.append("kept"))
    dropped = events.at(1, lambda: seen.append("dropped"))
    dropped.cancel()
    events.run()
    assert seen == ["kept"]
    assert kept.at == 1
    assert events.happened == 1


def test_every_repeats_until_it_is_stopped() -> None:
    events, seen = Events(), []
    stop = events.every(10, lambda: seen.append(events.now))
    events.at(35, stop)
    events.run_until(100)
    assert seen == [10, 20, 30]


def test_every_can_be_stopped_by_its_own_action() -> None:
    events, seen = Events(), []

    def once() -> None:
        seen.append(events.now)
        stop()

    stop = events.every(10, once)
    events.run()
    assert seen == [10]


def test_a_period_must_let_time_pass() -> None:
    with pytest.raises(ValueError, match="never lets time pass"):
        Events().every(0, lambda: None)


def test_a_name_has_its_own_random_numbers() -> None:
    alone, together = Events(seed=3), Events(seed=3)
    together.random("other").random()
    drawn = [alone.random("source").random() for _ in range(3)]
    assert [together.random("source").random() for _ in range(3)] == drawn
    assert [Events(seed=4).random("source").random()] != drawn[:1]


def test_seconds_are_nanoseconds() -> None:
    assert seconds(1) == 1_000_000_000
    assert seconds(0.000_000_6) == 600


def test_a_queue_is_over_when_nothing_is_left_to_happen() -> None:
    events = Events()
    assert events.is_over
    events.at(5, lambda: None)
    assert not events.is_over
    events.run_until(5)
    assert events.is_over
