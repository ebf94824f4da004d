"""Who asks whom for how much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.federation.placement.requests import Request, home_requests, in_order, request

PARTNERS = {"a": 0.9, "b": 0.5, "c": 0.6}


def test_u11_who_has_little_asks_the_most_loaded() -> None:
    asked = request("self", 0.4, PARTNERS)
    assert asked is not None
    assert (asked.receiver, asked.giver, asked.amount) == ("self", "a", pytest.approx(0.25))


def test_u11_who_has_nearly_the_mean_does_not_ask() -> None:
    assert request("self", 0.55, PARTNERS) is None


def test_without_partners_nobody_is_asked() -> None:
    assert request("self", 0.0, {}) is None


def test_the_largest_request_is_served_first() -> None:
    small, large, other = Request("a", "n", 0.1, 0.2), Request("b", "n", 0.3, 0.1), Request("c", "n", 0.1, 0.3)
    assert in_order([small, large, other]) == [large, small, other]


@given(st.floats(0, 1), st.dictionaries(st.integers(0, 20), st.floats(0, 1), min_size=1, max_size=8))
def test_calls_home_bring_a_node_to_the_mean_and_nobody_below_it(load: float, hosts: dict[int, float]) -> None:
    mean = (load + sum(hosts.values())) / (1 + len(hosts))
    asked = home_requests(99, load, hosts)
    if load >= mean:
        assert asked == []
        return
    assert load + sum(each.amount for each in asked) == pytest.approx(mean)
    assert all(hosts[each.giver] - each.amount >= mean - 1e-9 for each in asked)
    assert all(each.only_home and each.amount > 0 for each in asked)
