"""The order of joins once in a cycle: shares by lottery, a winner with hysteresis, and data that change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.optimizer.order_joins import Ordering, OrderPolicy, Seen, begin, observe

_RT, _TR = ("R", "T"), ("T", "R")
_POLICY = OrderPolicy(margin=0.1, patience=2, memory=3, exploration=0.0)


def _cycle(r: float, t: float, r_cost: float = 1.0, t_cost: float = 1.0, rows: int = 1000) -> dict[str, Seen]:
    """A cycle in which both joins got rows, with these selectivities and costs per row."""
    return {"R": Seen(rows, rows * r, rows * r_cost), "T": Seen(rows, rows * t, rows * t_cost)}


def _after(state: Ordering, *cycles: dict[str, Seen]) -> Ordering:
    for cycle in cycles:
        state = observe(state, cycle)
    return state


def test_nothing_seen_means_equal_shares() -> None:
    state = begin(_POLICY, (_RT, _TR))
    assert state.shares == {_RT: 0.5, _TR: 0.5}
    assert state.order is None
    assert state.costs == {_RT: None, _TR: None}
    assert "nothing seen yet" in state.why


def test_shares_follow_tickets_per_second() -> None:
    state = replace(begin(_POLICY, (_RT, _TR)), seen=_cycle(0.2, 0.6))
    assert state.shares == {_RT: pytest.approx(2 / 3), _TR: pytest.approx(1 / 3)}
    dearer = replace(state, seen=_cycle(0.2, 0.6, r_cost=2.0))
    assert dearer.shares == {_RT: pytest.approx(0.5), _TR: pytest.approx(0.5)}


def test_joins_that_return_more_than_they_take_hold_no_tickets_and_the_quickest_goes_first() -> None:
    state = replace(begin(_POLICY, (_RT, _TR)), seen=_cycle(2.0, 1.0, r_cost=0.5, t_cost=0.7))
    assert state.shares == {_RT: 1.0, _TR: 0.0}
    state = replace(state, seen=_cycle(2.0, 0.9))
    assert state.shares == {_RT: 0.0, _TR: 1.0}


def test_only_orders_that_are_possible_get_a_share() -> None:
    state = begin(_POLICY, (("A", "B", "C"), ("A", "C", "B"), ("B", "A", "C")))
    seen = {"A": Seen(10, 5, 10), "B": Seen(10, 5, 10), "C": Seen(10, 0, 10)}
    state = replace(state, seen=seen)
    # First A or B, even; after A it is B (one half dropped) or C (all dropped).
    assert state.shares == {
        ("A", "B", "C"): pytest.approx(1 / 6),
        ("A", "C", "B"): pytest.approx(1 / 3),
        ("B", "A", "C"): pytest.approx(1 / 2),
    }


def test_an_order_wins_when_it_is_clearly_cheaper_often_enough() -> None:
    state = _after(begin(_POLICY, (_RT, _TR)), _cycle(0.2, 1.0))
    assert (state.order, state.challenger) == (None, _RT)
    state = _after(state, _cycle(0.2, 1.0))
    assert state.order == _RT
    assert state.shares == {_RT: 1.0, _TR: 0.0}
    assert [(switch.before, switch.after) for switch in state.history] == [(None, _RT)]
    assert state.why.startswith("R then T holds")


def test_small_differences_decide_nothing() -> None:
    state = _after(begin(_POLICY, (_RT, _TR)), *[_cycle(0.50, 0.55)] * 20)
    assert state.order is None
    holding = _after(begin(_POLICY, (_RT, _TR), order=_TR), *[_cycle(0.50, 0.55)] * 20)
    assert holding.order == _TR


def test_a_change_that_does_not_last_changes_nothing() -> None:
    state = _after(begin(_POLICY, (_RT, _TR)), *[_cycle(0.2, 1.0)] * 6)
    flicker = [_cycle(1.2, 0.2), _cycle(0.2, 1.0)] * 10
    assert len(_after(state, *flicker).history) == 1


def test_when_selectivities_change_places_the_order_follows_within_a_few_cycles() -> None:
    state = _after(begin(_POLICY, (_RT, _TR)), *[_cycle(0.2, 2.0)] * 50)
    assert state.order == _RT
    cycles = 0
    while state.order == _RT:
        state = observe(state, _cycle(2.0, 0.2))
        cycles += 1
    assert state.order == _TR
    assert cycles <= 6
    assert [switch.after for switch in state.history] == [_RT, _TR]


def test_what_got_no_rows_keeps_what_was_known() -> None:
    state = _after(begin(_POLICY, (_RT, _TR)), _cycle(0.2, 0.5))
    state = observe(state, {"R": Seen(0, 0, 0), "T": Seen(0, 0, 0)})
    assert (state.known["R"].selectivity, state.known["T"].selectivity) == (0.2, 0.5)


def test_a_small_share_is_kept_for_looking() -> None:
    state = _after(begin(replace(_POLICY, exploration=0.04), (_RT, _TR)), *[_cycle(0.2, 1.0)] * 3)
    assert state.shares == {_RT: pytest.approx(0.98), _TR: pytest.approx(0.02)}


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="same joins"):
        begin(_POLICY, (_RT, ("R", "U")))
    with pytest.raises(ValueError, match="not one of the possible"):
        begin(_POLICY, (_RT,), order=_TR)
    with pytest.raises(ValueError, match="patience counts"):
        OrderPolicy(patience=0)
