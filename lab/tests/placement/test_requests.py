"""Who asks whom for how much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.placement.requests import Request, home_requests, in_order, request

PARTNERS = {"a": 0.9, "b": 0.5, "c": 0.6}


def test_who_has_little_asks_the_most_loaded() -> None:
    asked = request("self", 0.4, PARTNERS)
    assert asked is not None
    assert (asked.receiver, asked.giver, asked.amount) == ("self", "a", pytest.approx(0.25))


def test_who_has_nearly_the_mean_does_not_ask() -> None:
    assert request("self", 0.55, PARTNERS) is None


def test_without_partners_nobody_is_asked() -> None:
    assert request("self", 0.0, {}) is None


def test_the_largest_request_is_served_first() -> None:
    small, large, other = Request("a", "n", 0.1, 0.2), Request("b", "n", 0.3, 0.1), Request("c", "n", 0.1, 0.3)
    assert in_order([small, large, other]) == [large, small, other]


def test_one_partner_far_above_is_asked_where_that_is_looked_at() -> None:
    """Eight partners alike and one with twice the load: the mean is too near to ask for, the one is not."""
    partners = dict.fromkeys(range(7), 0.3) | {7: 0.6}
    assert request("self", 0.3, partners) is None
    asked = request("self", 0.3, partners, apart=1.5)
    assert asked is not None
    assert (asked.giver, asked.amount) == (7, pytest.approx(0.15))
    assert request("self", 0.3, partners | {7: 0.44}, apart=1.5) is None


@given(st.floats(0, 1), st.dictionaries(st.integers(0, 20), st.floats(0, 1), min_size=1, max_size=8))
def test_calls_home_go_to_those_with_more_and_never_turn_the_tables(load: float, hosts: dict[int, float]) -> None:
    asked = home_requests(99, load, hosts)
    assert {each.giver for each in asked} == {host for host, each in hosts.items() if each > load}
    for each in asked:
        assert each.only_home
        assert load + each.amount == pytest.approx(hosts[each.giver] - each.amount)
