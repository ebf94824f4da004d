"""Tickets: who gets rows first, and how quickly that changes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from lab.ordering.tickets import FederationLedger, Lottery, Why

_NEVER_HALVED = 10**9


def test_tickets_are_rows_taken_less_rows_returned() -> None:
    ledger = FederationLedger.of(2, Lottery(window=_NEVER_HALVED))
    ledger.route(0, 100)
    ledger.give_back(0, 20)
    ledger.route(1, 100)
    ledger.give_back(1, 130)
    assert ledger.held == [80, -30]


def test_tickets_are_halved_once_in_a_window_whoever_gets_the_rows() -> None:
    ledger = FederationLedger.of(2, Lottery(window=10))
    ledger.route(0, 8)
    assert ledger.held == [8, 0]
    ledger.route(1, 2)
    assert ledger.held == [4, 1]
    ledger.route(1, 25)
    assert ledger.held == [1, 6.5]


def test_the_lottery_is_won_in_proportion_to_tickets() -> None:
    ledger = FederationLedger(Lottery(_NEVER_HALVED, exploration=0.0), [30.0, 10.0, -50.0])
    random = Random(1)
    drawn = Counter(ledger.draw([0, 1, 2], [1, 1, 1], random) for _ in range(4_000))
    assert drawn.keys() == {(0, Why.TICKETS), (1, Why.TICKETS)}
    assert drawn[0, Why.TICKETS] == pytest.approx(3_000, abs=150)


def test_who_has_no_room_takes_no_part() -> None:
    ledger = FederationLedger(Lottery(_NEVER_HALVED, exploration=0.0), [30.0, 10.0, 5.0])
    random = Random(1)
    assert {ledger.draw([1, 2], [1, 1], random)[0] for _ in range(100)} == {1, 2}
    assert ledger.draw([2], [1], random) == (2, Why.PRESSURE)


def test_without_tickets_the_emptiest_queue_decides() -> None:
    ledger = FederationLedger(Lottery(_NEVER_HALVED, exploration=0.0), [-1.0, 0.0, -3.0])
    assert {ledger.draw([0, 1, 2], [2, 1, 9], Random(seed)) for seed in range(50)} == {(2, Why.PRESSURE)}
    assert {ledger.draw([0, 1, 2], [9, 1, 9], Random(seed))[0] for seed in range(50)} == {0, 2}


def test_a_small_share_goes_to_anybody() -> None:
    ledger = FederationLedger(Lottery(_NEVER_HALVED, exploration=0.1), [100.0, 0.0])
    random = Random(1)
    drawn = Counter(ledger.draw([0, 1], [1, 1], random)[0] for _ in range(4_000))
    assert drawn[1] == pytest.approx(200, abs=50)


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        Lottery(window=0)
    with pytest.raises(ValueError, match="from 0 to less than 1"):
        Lottery(exploration=1.0)
