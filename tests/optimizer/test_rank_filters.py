"""Filters in the order of their ranks cost least."""

from __future__ import annotations

from itertools import permutations
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.optimizer.rank_filters import Filter, expected_cost, rank, rank_filters

_FILTERS = st.lists(
    st.builds(Filter, st.text("abc", min_size=1, max_size=2), st.floats(0, 1), st.floats(0.01, 10)), max_size=5
)


@given(_FILTERS)
def test_no_order_is_cheaper_than_that_of_ranks(filters: list[Filter]) -> None:
    best = min(map(expected_cost, permutations(filters)))
    assert expected_cost(rank_filters(filters)) == pytest.approx(best)


def test_the_cost_of_a_row_is_that_of_the_filters_it_reaches() -> None:
    assert expected_cost([Filter("a", 0.5, 2.0), Filter("b", 0.1, 3.0), Filter("c", 1.0, 4.0)]) == 2 + 1.5 + 0.2


def test_equal_ranks_stay_in_their_order() -> None:
    filters = [Filter(name, 0.5, 1.0) for name in "badc"]
    assert rank_filters(filters) == tuple(filters)


def test_filters_from_counts() -> None:
    assert Filter.observed("a", 200, 50, 0.4) == Filter("a", 0.25, 0.002)
    unseen = Filter.observed("b", 0, 0, 0)
    assert rank(unseen) == 0
    assert rank(Filter("free", 0.5, 0.0)) == inf
    assert [each.name for each in rank_filters([unseen, Filter("a", 0.25, 0.002)])] == ["a", "b"]
