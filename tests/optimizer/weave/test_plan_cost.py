from __future__ import annotations

from fractions import Fraction
from math import lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.costings import Costing, by_nanoseconds, by_operations, by_overlap, by_printed
from lab.weaving.plans import Levels, collapse, kernels_of, plan_of, tree_cost
from tests.optimizer.weave import cases, operators
from weft.algebra import Window
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel_choice import PREFERENCE
from weft.kernels.kernel_cost import cost_per_tick, demand
from weft.optimizer.weave.costing import TREE_KERNELS, Acq, AcqMeasure

A, B, C = Window(16, 4), Window(10, 5), Window(8, 4)


def cost(partition: list[list[Window]], rate: Fraction, levels: Levels = Levels.TWO) -> Fraction:
    return plan_of([[Acq(window) for window in part] for part in partition], rate, levels, by_overlap()).cost


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ([[A], [B], [C]], "5.5"),
        ([[A, B], [C]], "5.3"),
        ([[A, C], [B]], "4.3"),
        ([[B, C], [A]], "5.0"),
        ([[A, B, C]], "4.4"),
    ],
)
def test_weave_share_worked_example_table_3(partition: list[list[Window]], expected: str) -> None:
    assert cost(partition, Fraction("1.2")) == Fraction(expected)


def test_edge_rates_and_final_costs_in_the_source_example() -> None:
    qa, qb = Window(12, 9), Window(10, 6)
    assert tree_cost({Acq(qa): 1}, by_overlap()).edge_rate == Fraction(2, 9)
    assert tree_cost({Acq(qb): 1}, by_overlap()).edge_rate == Fraction(1, 3)
    assert cost([[qa], [qb]], Fraction(0)) == Fraction(10, 9)
    assert tree_cost({Acq(qa): 1, Acq(qb): 1}, by_overlap()).edge_rate == Fraction(4, 9)
    assert cost([[qa, qb]], Fraction(0)) == Fraction(16, 9)


@pytest.mark.parametrize(
    ("partition", "beyond_lambda"),
    [("a b c", "14.8"), ("ab c", "14.8"), ("ac b", "15"), ("bc a", "14.8"), ("abc", "14")],
)
def test_windows_under_three_levels_in_the_source_example(partition: str, beyond_lambda: str) -> None:
    by_name = {"a": Window(8, 5), "b": Window(5, 4), "c": Window(10, 1)}
    groups = [[by_name[name] for name in part] for part in partition.split()]
    # A single group needs no third level: 14, where the bare formula has 15.
    assert cost(groups, Fraction(7), Levels.THREE) == 7 + Fraction(beyond_lambda)


def test_operations_per_20_ticks_at_one_row_per_tick_in_the_source_example() -> None:
    qa, qb = Window(8, 5), Window(5, 4)
    apart = operators.run([[qa], [qb]], after=100, until=120, three_levels=True)
    assert apart.operations == {"row": 20, "combine": 28, "answer": 27}
    assert operators.run([[qa], [qb]], 100, 120).operations == {"row": 40, "answer": 27}
    assert operators.run([[qa, qb]], 100, 120).operations == {"row": 20, "answer": 41}


def test_fragments_and_answers_in_the_source_example() -> None:
    qa, qb = Window(8, 5), Window(5, 4)
    run = operators.run([[qa], [qb]], after=0, until=13, three_levels=True)
    assert run.base == {1: 0, 3: 3, 4: 3, 5: 4, 8: 18, 9: 8, 10: 9, 12: 21, 13: 12}
    assert run.fragments[0] == {3: 3, 5: 7, 8: 18, 10: 17, 13: 33}
    assert run.fragments[1] == {1: 0, 4: 6, 5: 4, 8: 18, 9: 8, 12: 30, 13: 12}
    assert run.answers == {qa: {8: 28, 13: 68}, qb: {5: 10, 9: 30, 13: 50}}


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.lists(st.lists(cases.windows(whole=True), min_size=1, max_size=3), min_size=1, max_size=3), st.booleans())
def test_cost_reported_is_cost_recounted_by_running_the_operators(
    partition: list[list[Window]], three_levels: bool
) -> None:
    """The overlap factor counts an operation for each partial of an answer; exactly, if slides divide ranges."""
    levels = Levels.THREE if three_levels else Levels.TWO
    period = lcm(*(window.slide for part in partition for window in part))
    warm = -(-200 // period) * period
    run = operators.run(partition, warm, warm + period, three_levels=three_levels and len(partition) > 1)
    assert cost(partition, Fraction(1), levels) * period == run.operations.total()


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.lists(cases.windows(), min_size=1, max_size=3), min_size=1, max_size=3))
def test_operations_of_prefix_and_running_aggregates_recounted(partition: list[list[Window]]) -> None:
    """Prefix: one operation per edge and one per answer. By range: each partial goes into each range, and out again."""
    period = lcm(*(window.slide for part in partition for window in part))
    edges = [sum(operators.is_edge(part, instant) for instant in range(period)) for part in partition]
    answers = [sum(period // window.slide for window in part) for part in partition]
    ranges = [len({window.range for window in part}) for part in partition]
    parts = [[Acq(window) for window in part] for part in partition]
    prefix = plan_of(parts, Fraction(0), Levels.TWO, by_operations("prefix")).cost
    assert prefix * period == sum(edges) + sum(answers)
    running = plan_of(parts, Fraction(0), Levels.TWO, by_operations("slickdeque_inv")).cost
    assert running * period == sum(2 * number * count for number, count in zip(ranges, edges, strict=True))


def test_a_lane_takes_the_cheapest_kernel_that_its_measure_allows() -> None:
    query = Acq(Window(1000, 10), frozenset({AcqMeasure("max", ("panes", "slickdeque_noninv"))}))
    plan = plan_of([[query]], Fraction(1), Levels.TWO, by_operations())
    assert list(kernels_of(plan.groups[0], plan.costing).values()) == ["slickdeque_noninv"]
    both = [Acq(Window(1000, 10)), Acq(Window(500, 10))]
    total = plan_of([both], Fraction(1), Levels.TWO, by_operations())
    assert list(kernels_of(total.groups[0], total.costing).values()) == ["prefix"]


def test_tree_kernels_are_those_that_serve_many_ranges_in_order_of_preference() -> None:
    assert list(TREE_KERNELS) == [name for name in PREFERENCE if ALGORITHMS[name].many_ranges]


def test_a_measure_that_no_kernel_of_the_costing_may_serve_is_refused() -> None:
    query = Acq(Window(10, 10), frozenset({AcqMeasure("max", ("flatfit",))}))
    with pytest.raises(ValueError, match="none of the kernels panes may serve max"):
        tree_cost({query: 1}, by_printed("panes"))


def test_lanes_are_charged_apart_and_prices_apply() -> None:
    window = Window(60, 10)
    one = tree_cost({Acq(window): 1}, by_operations("prefix")).final
    two = tree_cost({Acq(window, predicate="p"): 1, Acq(window): 1}, by_operations("prefix")).final
    assert two == 2 * one
    keys = frozenset({"symbol"})
    priced = by_nanoseconds("prefix", keys={keys: 1000})
    for grouping, number in ((keys, 1000), (frozenset[str](), 1)):
        paid = tree_cost({Acq(window, group_by=grouping): 1}, priced).final
        assert paid == cost_per_tick("prefix", demand([window]), Fraction(1, 10), keys=number)


def test_equal_queries_count_as_often_as_they_occur() -> None:
    costing: Costing = by_overlap()
    twice = tree_cost(collapse([A, A]), costing)
    assert twice.final == 2 * tree_cost(collapse([A]), costing).final
