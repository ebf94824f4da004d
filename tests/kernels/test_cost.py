from __future__ import annotations

import doctest
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import islice, pairwise
from math import factorial, floor, lcm, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.kernels.calibration import calibrate, fitted
from lab.weaving.costings import PRINTED, UNIT_PRICES
from tests.windows.strategies import answers_between, edges_after, slices_of
from weft.algebra import UNBOUNDED, Window
from weft.kernels import kernel_cost as cost
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel import Kernel
from weft.kernels.kernel_cost import (
    DUE_AWARE,
    MEASURED_PRICES,
    Demand,
    Price,
    Tariff,
    cost_per_tick,
    demand,
    harmonic,
    lookup,
    merged,
    operations_per_edge,
)
from weft.kernels.monoids import COUNT
from weft.kernels.statistic import Columns, Statistic
from weft.windows.counting import edge_rate
from weft.windows.slicing import edges_between, shared_edges

# Slides that divide their ranges, as in the papers' workloads: there the mean number of partials is exact.
whole_windows = st.builds(
    lambda slide, times: Window(slide * times, slide), st.sampled_from([2, 3, 4, 5, 6, 10, 12]), st.integers(1, 20)
)
trees = st.lists(whole_windows, min_size=1, max_size=8)


def omega(kernel: str, windows: list[Window], model: Mapping[str, cost.Omega] = DUE_AWARE) -> Fraction:
    return operations_per_edge(kernel, demand(windows), edge_rate(shared_edges(windows)), model)


def printed(kernel: str, windows: list[Window]) -> Fraction:
    return omega(kernel, windows, dict(PRINTED))


def partials(window: Window, rate: Fraction) -> Fraction:
    assert window.range is not None
    return window.range * rate


def due_share(window: Window, rate: Fraction) -> Fraction:
    return 1 / (window.slide * rate)


# One window, all ranges: what Table 2 says --------------------------------------------------------------------------

ALL_RANGES = [Window(length, 1) for length in range(1, 129)]


@pytest.mark.parametrize(
    ("kernel", "operations"),
    [
        ("panes", 8128),
        ("flatfat", 589.0),
        ("slickdeque_inv", 256),
        ("prefix", 129),
        ("slickdeque_noninv", 2 - 2 / 128 + 132.43),
    ],
)
def test_all_ranges_up_to_128_takes_what_the_source_states(kernel: str, operations: float) -> None:
    assert float(omega(kernel, ALL_RANGES)) == pytest.approx(operations, rel=1e-3)


@pytest.mark.parametrize(
    ("kernel", "operations"),
    [
        ("panes", 1023),
        ("panes_inv", 2),
        ("flatfat", 10),
        ("flatfit", 3),
        ("two_stacks", 3),
        ("daba", 4),
        ("slickdeque_inv", 2),
        ("prefix", 2),
    ],
)
def test_one_window_of_1024_takes_what_the_source_states(kernel: str, operations: int) -> None:
    assert omega(kernel, [Window(1024, 1)]) == operations


def test_one_deque_of_1024_takes_what_the_source_states() -> None:
    """Fewer than two comparisons; besides, the head's position is tested, which the table leaves out."""
    assert float(omega("slickdeque_noninv", [Window(1024, 1)])) - 1 == pytest.approx(1.998, abs=1e-3)


# As printed ----------------------------------------------------------------------------------------------------------


@given(trees)
def test_formulas_3_to_7(windows: list[Window]) -> None:
    rate = edge_rate(shared_edges(windows))
    lengths = [partials(window, rate) for window in windows]
    longest = max(lengths)
    assert printed("panes", windows) == sum(Fraction(window.range or 0, window.slide) for window in windows)
    assert printed("flatfit", windows) == 3 * len(windows)
    assert printed("slickdeque_inv", windows) == 2 * len(set(lengths))
    factorials = sum(Fraction(1, factorial(i)) for i in range(1, floor(longest) + 1))
    assert float(printed("slickdeque_noninv", windows)) == pytest.approx(
        float(2 - 2 / longest + len(windows) + factorials)
    )


@given(st.lists(st.integers(2, 5_000), min_size=2, max_size=8))
def test_formula_4(lengths: list[int]) -> None:
    windows = [Window(length, 1) for length in lengths]
    expected = sum(floor(log2(length - 1)) + Fraction(length - 1, 2 ** floor(log2(length))) for length in lengths)
    assert printed("flatfat", windows) == expected


def test_formula_4_for_one_query_is_the_update_alone() -> None:
    assert float(printed("flatfat", [Window(1_000, 1)])) == pytest.approx(log2(1_000))


def test_formula_4_is_not_monotone() -> None:
    def per_query(length: int) -> Fraction:
        return printed("flatfat", [Window(length, 1)] * 2) / 2

    assert per_query(3) == 2
    assert per_query(4) == Fraction(7, 4)


def test_the_worked_example_of_weave_share() -> None:
    """λ = 1.2; (16, 4), (10, 5), (8, 4): 5.5 apart, 4.3 with the two slides of 4 together, 4.4 all together."""
    rate = Fraction(12, 10)
    a, b, c = Window(16, 4), Window(10, 5), Window(8, 4)

    def plan(*groups: list[Window]) -> Fraction:
        return sum((rate + edge_rate(shared_edges(group)) * demand(group).overlap for group in groups), Fraction(0))

    assert plan([a], [b], [c]) == Fraction(55, 10)
    assert plan([a, b], [c]) == Fraction(53, 10)
    assert plan([a, c], [b]) == Fraction(43, 10)
    assert plan([b, c], [a]) == Fraction(50, 10)
    assert plan([a, b, c]) == Fraction(44, 10)


def test_prefix_is_in_no_table_of_the_paper() -> None:
    with pytest.raises(ValueError, match="no Ω is known for kernel 'prefix'"):
        printed("prefix", [Window(10, 1)])


# Due-aware -----------------------------------------------------------------------------------------------------------


@given(trees)
def test_due_aware_sums_over_queries(windows: list[Window]) -> None:
    rate = edge_rate(shared_edges(windows))
    answers = sum(due_share(window, rate) for window in windows)
    lookups = sum(due_share(window, rate) * lookup(partials(window, rate)) for window in windows)
    leaves = 1
    while leaves < max(partials(window, rate) for window in windows):
        leaves *= 2
    at_root = sum(due_share(window, rate) for window in windows if partials(window, rate) == leaves)
    assert omega("flatfat", windows) == leaves.bit_length() - 1 + lookups - at_root * lookup(leaves)
    assert omega("b_int", windows) == 1 + lookups
    assert omega("flatfit", windows) == 3 * answers
    assert omega("prefix", windows) == 1 + answers
    assert omega("slickdeque_inv", windows) == 2 * len({window.range for window in windows})


@given(trees)
def test_panes_is_what_answers_really_combine(windows: list[Window]) -> None:
    edges = shared_edges(windows)
    period = lcm(*(window.slide for window in windows))
    combined = sum(
        len(slices_of(edges, due.start, due.end)) - 1
        for window in windows
        for due in answers_between([window], 0, period)
    )
    assert omega("panes", windows) == Fraction(combined, len(edges_between(edges, 0, period)))


def nodes_combined(first: int, leaves: int) -> int:
    """How many nodes of an unbounded binary tree cover so many leaves from this one on."""
    nodes = 0
    last = first + leaves
    while first < last:
        nodes += (first & 1) + (last & 1)
        first, last = (first + 1) // 2, last // 2
    return nodes


@pytest.mark.parametrize("leaves", [1, 2, 3, 4, 7, 8, 24, 100, 128])
def test_lookup_is_the_mean_over_all_alignments(leaves: int) -> None:
    operations = [nodes_combined(first, leaves) - 1 for first in range(1024, 2048)]
    assert lookup(leaves) == Fraction(sum(operations), len(operations))


@pytest.mark.parametrize(("window", "length"), [(16, 3.38), (64, 4.74), (256, 6.12), (1024, 7.51)])
def test_the_mean_deque_is_harmonic(window: int, length: float) -> None:
    assert float(harmonic(Fraction(window))) == pytest.approx(length, abs=0.005)


@given(st.integers(1, 300))
def test_harmonic_numbers(last: int) -> None:
    assert float(harmonic(Fraction(last))) == pytest.approx(sum(1 / i for i in range(1, last + 1)), abs=1e-10)


def measured_deque(windows: list[Window], edges: int, seed: int) -> float:
    """Operations per edge of SlickDeque (Non-Inv), counted on random input."""
    draw = random.Random(seed)
    longest = max(window.range or 0 for window in windows)
    kept: deque[tuple[int, float]] = deque()
    instants = list(islice(edges_after(shared_edges(windows), 0), edges + 1))
    warm = len(instants) // 3
    operations = 0
    for index, (start, end) in enumerate(pairwise(instants)):
        if index == warm:
            operations = 0
        value = draw.random()
        while kept and kept[0][0] < end - longest:
            kept.popleft()
        while kept:
            operations += 1
            if kept[-1][1] > value:
                break
            kept.pop()
        kept.append((start, value))
        due = [window for window in windows if (end - (window.range or 0)) % window.slide == 0]
        if due:
            oldest = min(window.range or 0 for window in due)
            operations += len(due) + sum(1 for start, _ in kept if start < end - oldest)
    return operations / (len(instants) - 1 - warm)


def test_the_deque_costs_its_omega_when_all_ranges_are_always_due() -> None:
    windows = [Window(length, 1) for length in (4, 16, 64, 256)]
    assert measured_deque(windows, 20_000, seed=1) == pytest.approx(
        float(omega("slickdeque_noninv", windows)), rel=0.03
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_deque_costs_at_most_its_omega_in_mixed_trees(seed: int) -> None:
    draw = random.Random(seed)
    divisors = [d for d in range(1, 61) if 60 % d == 0]
    windows = [Window(slide * draw.randint(1, 20), slide) for slide in draw.choices(divisors, k=10)]
    bound = float(omega("slickdeque_noninv", windows))
    assert 0.5 * bound < measured_deque(windows, 6_000, seed) < 1.02 * bound


@given(st.lists(st.builds(Window, st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6))
def test_no_omega_is_negative(windows: list[Window]) -> None:
    """Hopping windows have less than one partial in the mean over all time."""
    for kernel in DUE_AWARE:
        assert omega(kernel, windows) >= 0
    for kernel in PRINTED:
        assert printed(kernel, windows) >= 0


# Due-aware, against the kernels themselves --------------------------------------------------------------------------


def counting(statistic: Statistic, operations: Counter[str]) -> Statistic:
    """The same statistic, interpreted, with every combine and inverse counted."""

    def counted(function: Callable[[Columns, Columns], Columns]) -> Callable[[Columns, Columns], Columns]:
        def call(left: Columns, right: Columns) -> Columns:
            operations["all"] += 1
            return function(left, right)

        return call

    assert statistic.inverse is not None
    return replace(statistic, combine=counted(statistic.combine), inverse=counted(statistic.inverse), rows=None)


def measured(kernel: str, windows: list[Window], slides: int) -> float:
    """Operations per edge that a kernel spends on a tree of windows, no two of the same range, once they are full."""
    algorithm = ALGORITHMS[kernel]
    longest_first = sorted(windows, key=lambda window: -(window.range or 0))
    instants = np.array(list(islice(edges_after(shared_edges(windows), -1), slides + 1)))
    begins, ends = instants[:-1], instants[1:]
    starts = np.stack([np.searchsorted(begins, ends - (window.range or 0)) for window in longest_first], axis=1)
    due = np.stack([(ends - (window.range or 0)) % window.slide == 0 for window in longest_first], axis=1)
    full = int(np.searchsorted(ends, longest_first[0].range))
    values = np.arange(slides)[:, np.newaxis]
    operations: Counter[str] = Counter()
    for ranges in [slice(None)] if algorithm.many_ranges else [slice(j, j + 1) for j in range(len(windows))]:
        some_starts, some_due = starts[:, ranges], due[:, ranges]
        capacity = int((np.arange(1, slides + 1) - some_starts[:, 0]).max())
        statistic = counting(COUNT, operations)
        running = Kernel(algorithm, statistic, capacity, some_starts.shape[1])
        before = operations["all"]
        running.slide((values[:full],), some_starts[:full], some_due[:full])
        operations["all"] = before
        running.slide((values[full:],), some_starts[full:], some_due[full:])
    return operations["all"] / (slides - full)


ONE_WINDOW = [Window(60, 1)]
MIXED_SLIDES = [Window(slide * times, slide) for slide, times in ((2, 9), (3, 10), (4, 3), (6, 7), (12, 2), (5, 4))]


@pytest.mark.parametrize("kernel", sorted(DUE_AWARE.keys() - {"slickdeque_noninv"}))
def test_a_kernel_of_one_window_spends_its_omega(kernel: str) -> None:
    assert measured(kernel, ONE_WINDOW, 720) == pytest.approx(float(omega(kernel, ONE_WINDOW)), rel=0.05)


@pytest.mark.parametrize(
    ("kernel", "least", "most"),
    [
        ("panes", 0.99, 1.01),
        ("panes_inv", 0.99, 1.01),
        ("slickdeque_inv", 0.99, 1.01),
        ("prefix", 0.99, 1.01),
        ("flatfat", 0.85, 1.05),
        ("b_int", 0.85, 1.05),
        ("two_stacks", 0.85, 1.0),
        ("daba", 0.75, 1.0),
        ("flatfit", 0.4, 1.0),
    ],
)
def test_a_kernel_of_mixed_slides_spends_about_its_omega_or_less(kernel: str, least: float, most: float) -> None:
    spent = measured(kernel, MIXED_SLIDES, 800) / float(omega(kernel, MIXED_SLIDES))
    assert least <= spent <= most


# Demand --------------------------------------------------------------------------------------------------------------


def as_table(tree: Demand) -> tuple[list[int], list[int], list[Fraction], int]:
    rates = [Fraction(int(answers), tree.period) for answers in tree.answers]
    return tree.ranges.tolist(), tree.queries.tolist(), rates, tree.overlap


@given(trees, trees)
def test_merging_demands_is_demanding_together(left: list[Window], right: list[Window]) -> None:
    assert as_table(merged(demand(left), demand(right))) == as_table(demand(left + right))


def test_sums_beyond_a_machine_word_stay_exact() -> None:
    second = 1_000_000
    windows = [Window(slide * second * 10**6, slide * second) for slide in range(80_000, 80_300)]
    tree = demand(windows)
    assert tree.windows_per_row == 300 * 10**6
    assert merged(tree, tree).windows_per_row == 600 * 10**6
    assert tree.answers_per_tick == sum(Fraction(1, window.slide) for window in windows)


def test_a_period_without_end_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_LONGEST_PERIOD", 1 << 128)
    windows = [Window(5 * slide, slide) for slide in range(1_000, 1_100)]
    tree = merged(demand(windows[:50]), demand(windows[50:]))
    assert tree.period == 1 << 128
    assert abs(tree.answers_per_tick - sum(Fraction(1, window.slide) for window in windows)) < Fraction(1, 1 << 100)


def test_an_unbounded_window_demands_no_kernel() -> None:
    with pytest.raises(ValueError, match="UNBOUNDED"):
        demand([UNBOUNDED])


# Prices --------------------------------------------------------------------------------------------------------------


def test_unit_prices_are_operations_per_key() -> None:
    tree = demand([Window(60, 10)])
    assert cost_per_tick("prefix", tree, Fraction(1, 10), prices=UNIT_PRICES) == Fraction(2, 10)
    assert cost_per_tick("prefix", tree, Fraction(1, 10), keys=7, prices=UNIT_PRICES) == Fraction(14, 10)
    assert UNIT_PRICES.keys() == DUE_AWARE.keys()


def test_a_price_is_for_the_call_and_for_each_key() -> None:
    tariff = Tariff(single=Fraction(3), call=Fraction(500), key=Fraction(2))
    assert tariff.of(1_000) == 2_500
    assert tariff.of(1) == 3


def test_what_no_operation_counts_is_charged_by_edge_by_answer_and_by_window() -> None:
    """A window of 60 every 10 and one of 20 every 20: an edge every 10 ticks, three answers in 20."""
    tree, free = demand([Window(60, 10), Window(20, 20)]), Tariff(Fraction(0), Fraction(0), Fraction(0))
    one = Tariff(Fraction(1), Fraction(0), Fraction(0))

    def cost(price: Price) -> Fraction:
        return cost_per_tick("prefix", tree, Fraction(1, 10), prices={"prefix": price})

    assert cost(Price(one)) == Fraction(1, 10) + Fraction(3, 20)
    assert cost(Price(free, edge=one)) == Fraction(1, 10)
    assert cost(Price(free, answer=one)) == Fraction(3, 20)
    assert cost(Price(free, window=Fraction(1))) == Fraction(2, 10)
    assert cost(Price(one, one, one, Fraction(1))) == Fraction(7, 10)


def test_measured_prices_are_those_of_all_kernels() -> None:
    assert MEASURED_PRICES.keys() == DUE_AWARE.keys() == ALGORITHMS.keys()
    many, price = demand([Window(60, 10)]), MEASURED_PRICES["flatfit"]
    edges = Fraction(1, 10)
    expected = edges * (3 * price.operation.of(100) + price.edge.of(100) + price.answer.of(100) + price.window)
    assert cost_per_tick("flatfit", many, edges, keys=100) == expected


def test_calibration_measures_a_positive_price() -> None:
    prices = calibrate(["slickdeque_inv"], seconds=0.1)
    assert prices.keys() == {"slickdeque_inv"}
    tree = demand([Window(64, 1), Window(32, 1)])
    one, some, more = (
        cost_per_tick("slickdeque_inv", tree, Fraction(1), keys=keys, prices=prices) for keys in (1, 10, 1_000)
    )
    assert one > 0
    assert more >= some > 0


def test_prices_are_fitted_to_what_was_measured_and_none_is_below_nothing() -> None:
    """Two prices that explain all, and a third that would have to be negative."""
    counts = np.array([[1.0, 2.0, 5.0], [1.0, 4.0, 1.0], [1.0, 8.0, 3.0], [1.0, 1.0, 7.0]])
    took = counts @ np.array([10.0, 3.0, 0.0])
    assert fitted(counts, took, np.zeros(4)) == pytest.approx([10, 3, 0], abs=1e-9)
    assert fitted(counts, took + 6, np.full(4, 6.0)) == pytest.approx([10, 3, 0], abs=1e-9)
    less = fitted(counts, counts @ np.array([10.0, 3.0, -0.5]), np.zeros(4))
    assert min(less) >= 0
    assert less[2] == 0


def test_examples_in_docstrings() -> None:
    failures, attempts = doctest.testmod(cost)
    assert attempts > 0
    assert failures == 0
