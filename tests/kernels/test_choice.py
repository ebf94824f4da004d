from __future__ import annotations

import doctest
from collections.abc import Mapping
from fractions import Fraction

import pytest

from lab.weaving.costings import PRINTED, UNIT_PRICES
from tests.kernels.cases import CASES
from weft.algebra import Window
from weft.kernels import kernel_choice as choice
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel import why_not
from weft.kernels.kernel_choice import MANY_KEYS, ChosenKernel, choose
from weft.kernels.kernel_cost import (
    DUE_AWARE,
    MEASURED_PRICES,
    Demand,
    Omega,
    Price,
    Prices,
    Tariff,
    cost_per_tick,
    demand,
)
from weft.kernels.statistic import Statistic

ONE = demand([Window(100, 1)])
MANY = demand([Window(length, 1) for length in range(10, 101, 10)])


def choose_for(
    statistic: Statistic,
    tree: Demand,
    keys: int = 1,
    prices: Prices = UNIT_PRICES,
    model: Mapping[str, Omega] = DUE_AWARE,
) -> ChosenKernel:
    """The kernel for a statistic of a tree of queries with an edge at every tick."""

    def cost(kernel: str) -> Fraction | None:
        known = kernel in model and kernel in prices
        return cost_per_tick(kernel, tree, Fraction(1), keys=keys, prices=prices, model=model) if known else None

    return choose(statistic, ranges=tree.number_of_ranges, keys=keys, cost=cost)


def chosen(case: str, *, ranges: int = 1, keys: int = 1) -> str:
    return choose_for(CASES[case].statistic, ONE if ranges == 1 else MANY, keys).kernel


@pytest.mark.parametrize(
    ("case", "ranges", "keys", "kernel"),
    [
        ("count", 1, 1, "slickdeque_inv"),
        ("count", 10, 1, "prefix"),
        ("count", 1, 1000, "prefix"),
        ("sum of integers", 10, 100_000, "prefix"),
        ("max of doubles", 1, 1, "slickdeque_noninv"),
        ("max of doubles", 10, 1, "slickdeque_noninv"),
        ("max of doubles", 10, 100_000, "flatfit"),
        ("sum of doubles", 1, 1, "two_stacks"),
        ("sum of doubles", 10, 1000, "flatfit"),
        ("moments", 1, 1, "two_stacks"),
        ("moments", 10, 1, "flatfit"),
        ("bits", 10, 1, "flatfit"),
    ],
)
def test_choice_with_unit_prices(case: str, ranges: int, keys: int, kernel: str) -> None:
    assert chosen(case, ranges=ranges, keys=keys) == kernel


def test_doubles_are_not_taken_out_of_a_sum_again() -> None:
    left_out = choose_for(CASES["sum of doubles"].statistic, MANY).left_out
    assert left_out["prefix"] == "it takes values out of a sum again, and rounding errors would stay"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ranges", [1, 5])
@pytest.mark.parametrize("keys", [1, MANY_KEYS])
def test_the_chosen_kernel_may_serve(case: str, ranges: int, keys: int) -> None:
    statistic = CASES[case].statistic
    assert why_not(ALGORITHMS[chosen(case, ranges=ranges, keys=keys)], statistic, ranges) is None


def test_the_choice_explains_itself() -> None:
    statistic = CASES["max of doubles"].statistic
    prices = {"panes": 99.0, "flatfat": 12.0, "flatfit": 3.0, "two_stacks": 3.5, "slickdeque_noninv": 1.0}
    explained = choose(statistic, ranges=2, keys=5000, cost=prices.get)
    assert explained.kernel == "flatfit"
    assert explained.reason == (
        "the cheapest of 3 that may serve max (selective, not invertible) over 2 ranges and 5,000 keys, at a cost of 3"
    )
    assert list(explained.left_out.items()) == [
        ("panes_inv", "Panes (Inv) needs an inverse, and max has none"),
        ("b_int", "no price is known for it"),
        ("two_stacks", "TwoStacks serves one range, not 2"),
        ("daba", "DABA serves one range, not 2"),
        ("slickdeque_inv", "SlickDeque (Inv) needs an inverse, and max has none"),
        ("slickdeque_noninv", "it takes 5000 keys one by one"),
        ("prefix", "Prefix difference needs an inverse, and max has none"),
        ("flatfat", "it costs 12"),
        ("panes", "it costs 99"),
    ]


def test_prices_decide() -> None:
    """With the papers' prices an operation is an operation; a kernel that is measured to be faster is taken."""
    statistic = CASES["moments"].statistic
    assert choose_for(statistic, MANY, keys=1000).kernel == "flatfit"
    slow_flatfit = {**MEASURED_PRICES, "flatfit": Price(Tariff(Fraction(900), Fraction(900), Fraction(900)))}
    explained = choose_for(statistic, MANY, keys=1000, prices=slow_flatfit)
    assert explained.kernel == "b_int"
    assert explained.left_out["flatfit"].startswith("it costs ")


def test_the_papers_have_no_cost_for_prefix() -> None:
    explained = choose_for(CASES["count"].statistic, MANY, model=PRINTED)
    assert explained.kernel == "slickdeque_inv"
    assert explained.left_out["prefix"] == "no price is known for it"


def test_without_any_cost_there_is_no_choice() -> None:
    with pytest.raises(ValueError, match="no kernel that may serve count has a cost"):
        choose(CASES["count"].statistic, ranges=1, keys=1, cost=lambda kernel: None)


def test_examples() -> None:
    assert doctest.testmod(choice).failed == 0
