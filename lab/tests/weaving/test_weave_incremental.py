from __future__ import annotations

from collections import Counter
from concurrent.futures import Executor, Future
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.costings import Costing, by_operations, by_overlap, by_printed
from lab.weaving.plans import Levels, collapse, plan_of, tree_cost, weave
from lab.weaving.weave_incremental import Estimate, Weaver
from lab.weaving.workloads import any_slides, draw, factor_slides
from tests.optimizer.weave import cases
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq, together

COSTINGS = [by_overlap(), by_printed("slickdeque_inv"), by_operations("prefix", "slickdeque_noninv")]

#: Queries to add, and numbers of earlier ones to delete.
histories = st.lists(st.one_of(cases.windows().map(Acq), st.integers(0, 30)), min_size=1, max_size=14)


class Later(Executor):
    """Runs what is submitted when it is told to: a background that leaves nothing to chance."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Any, tuple[Any, ...]]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, fn, args))
        return future

    def run(self) -> int:
        waiting, self._waiting = self._waiting, []
        for future, fn, args in waiting:
            future.set_result(fn(*args))
        return len(waiting)


def live(weaver: Weaver, history: list[Acq | int]) -> Counter[Acq]:
    """Plays a history; gives the queries that are there at its end."""
    there: list[Acq] = []
    for step in history:
        if isinstance(step, Acq):
            weaver.add(step)
            there.append(step)
        elif there:
            gone = there.pop(step % len(there))
            weaver.delete(gone)
    return Counter(there)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(histories, cases.rates, st.sampled_from(Levels), st.sampled_from(COSTINGS))
def test_with_a_tolerance_of_nothing_the_plan_is_no_dearer_than_one_from_scratch(
    history: list[Acq | int], rate: Fraction, levels: Levels, costing: Costing
) -> None:
    weaver = Weaver(rate=rate, levels=levels, costing=costing, tolerance=Fraction(0))
    queries = live(weaver, history)
    if queries:
        scratch = weave(queries, costing).plan(rate, levels)
        # The running plan is kept if it is cheaper than the new one, which is not the optimum.
        assert weaver.cost <= scratch.cost
        assert weaver.plan.cost == weaver.cost


@settings(deadline=None, max_examples=80, derandomize=True)
@given(histories, cases.rates, st.sampled_from(Levels), st.sampled_from(COSTINGS), st.sampled_from(Estimate))
def test_plans_that_queries_came_to_and_left_are_what_they_say(
    history: list[Acq | int], rate: Fraction, levels: Levels, costing: Costing, estimate: Estimate
) -> None:
    weaver = Weaver(rate=rate, levels=levels, costing=costing, tolerance=Fraction(1, 4), estimate=estimate)
    queries = live(weaver, history)
    if not queries:
        return
    plan = weaver.plan
    assert together(group.members for group in plan.groups) == queries
    recounted = plan_of([group.members for group in plan.groups], rate, levels, costing)
    assert (plan.cost, weaver.cost) == (recounted.cost, recounted.cost)
    assert [group.edges for group in plan.groups] == [group.edges for group in recounted.groups]
    assert weaver.number_of_queries == queries.total()


@pytest.mark.parametrize("tolerance", [Fraction(5, 100), Fraction(1, 4), Fraction(1, 2)])
@pytest.mark.parametrize("levels", Levels)
def test_deviation_stays_within_the_tolerance(tolerance: Fraction, levels: Levels) -> None:
    windows = draw(factor_slides(70, 1, largest_slide=240, most_overlap=50), seed=2)
    weaver = Weaver(windows[:10], rate=3, levels=levels, tolerance=tolerance)
    for at, window in enumerate(windows[10:], 11):
        weaver.add(Acq(window))
        if at % 3 == 0:
            assert weaver.cost <= (1 + tolerance) * weave(windows[:at]).plan(3, levels).cost
    assert weaver.rebuilds > 1


def test_rebuilds_and_comparisons_fall_with_the_tolerance() -> None:
    windows = draw(factor_slides(40, 1, largest_slide=240, most_overlap=50), seed=5)
    rebuilds, comparisons = [], []
    for tolerance in (Fraction(0), Fraction(1, 10), Fraction(1, 2), None):
        weaver = Weaver(windows[:10], rate=3, tolerance=tolerance)
        for window in windows[10:]:
            weaver.add(Acq(window))
        rebuilds.append(weaver.rebuilds)
        comparisons.append(weaver.comparisons)
    assert rebuilds == sorted(rebuilds, reverse=True)
    assert rebuilds[0] == 31, "one for each window that came, and the first"
    assert rebuilds[-1] == 1
    assert comparisons == sorted(comparisons, reverse=True)


def test_slope_extrapolates_the_last_two_plans_from_scratch() -> None:
    weaver = Weaver([Window(4, 4)], rate=1, tolerance=Fraction(1, 4), estimate=Estimate.SLOPE)
    while weaver.rebuilds < 2:
        weaver.add(Acq(Window(8, 4)))
    (n1, c1), (n2, c2) = weaver.curve
    weaver.add(Acq(Window(8, 4)))
    line = c2 + (c2 - c1) / (n2 - n1) * (weaver.number_of_queries - n2)
    assert line < c2 * weaver.number_of_queries / n2
    assert weaver.deviation == weaver.cost / line - 1


def test_slope_rebuilds_less_often_than_floor() -> None:
    windows = draw(factor_slides(120, 1, largest_slide=240, most_overlap=50), seed=5)
    rebuilds = {}
    for estimate in Estimate:
        weaver = Weaver(windows[:10], rate=3, tolerance=Fraction(1, 10), estimate=estimate)
        for window in windows[10:]:
            weaver.add(Acq(window))
        rebuilds[estimate] = weaver.rebuilds
    assert rebuilds[Estimate.SLOPE] < rebuilds[Estimate.FLOOR]


def test_weaving_in_the_background_catches_up_with_who_came_and_left_meanwhile() -> None:
    background = Later()
    windows = draw(factor_slides(60, 1, largest_slide=720, most_overlap=50), seed=7)
    queries = [Acq(window) for window in windows]
    weaver = Weaver(queries[:10], rate=3, tolerance=Fraction(1, 10), executor=background)
    for query in queries[10:40]:
        weaver.add(query)
    # One rebuild is under way; the plan went on without it.
    assert weaver.rebuilds == 1
    before = weaver.cost
    assert background.run() == 1
    weaver.settle()
    assert weaver.rebuilds == 2
    assert weaver.cost <= before
    for query in queries[40:]:
        weaver.add(query)
    for query in queries[:20]:
        weaver.delete(query)
    background.run()
    weaver.settle()
    assert together(group.members for group in weaver.plan.groups) == collapse(queries[20:])
    recounted = plan_of([group.members for group in weaver.plan.groups], Fraction(3), Levels.TWO, by_overlap())
    assert weaver.cost == recounted.cost


def test_there_is_a_plan_for_every_rate_without_weaving_again() -> None:
    windows = draw(factor_slides(80, 1, largest_slide=720, most_overlap=50), seed=9)
    weaver = Weaver(windows[:60], rate=1, tolerance=None)
    for window in windows[60:]:
        weaver.add(Acq(window))
    everyone = collapse(windows)
    for rate in (Fraction(1, 100), Fraction(5), Fraction(100_000)):
        plan = weaver.plan_at(rate)
        assert plan.rate == rate
        assert together(group.members for group in plan.groups) == everyone
    assert len(weaver.plan_at(100_000).groups) == 1
    assert len(weaver.plan_at(Fraction(1, 100)).groups) > len(weaver.plan_at(5).groups)
    assert weaver.rebuilds == 1


def test_another_rate_takes_the_plan_for_it() -> None:
    windows = draw(factor_slides(80, 1, largest_slide=720, most_overlap=50), seed=9)
    weaver = Weaver(windows, rate=1)
    weaver.change_rate(1000)
    assert weaver.rate == 1000
    assert weaver.cost == weave(windows).plan(1000).cost
    assert weaver.curve == [(80, weaver.cost)]
    weaver.change_rate(1)
    assert weaver.cost == weave(windows).plan(1).cost
    assert weaver.rebuilds == 1


def test_unrelated_slides_turn_exact_rates_into_estimates() -> None:
    windows = draw(any_slides(110, 50), seed=3)
    weaver = Weaver(windows[:40], rate=50, tolerance=None)
    for window in windows[40:]:
        weaver.add(Acq(window))
    assert not weaver.plan.exact
    assert together(group.members for group in weaver.plan.groups) == collapse(windows)


def test_rates_that_become_estimates_in_the_middle_of_merging_leave_no_group_behind() -> None:
    windows = draw(any_slides(80, 50), seed=3)
    weaver = Weaver(windows[:20], rate=50)
    for at, window in enumerate(windows[20:], 21):
        weaver.add(Acq(window))
        assert together(group.members for group in weaver.plan.groups) == collapse(windows[:at])


def test_the_last_query_may_leave_and_others_come() -> None:
    query = Acq(Window(8, 4))
    weaver = Weaver(rate=1)
    weaver.add(query)
    weaver.delete(query)
    assert weaver.number_of_queries == 0
    assert weaver.cost == 0
    weaver.add(query)
    assert weaver.cost == 1 + tree_cost({query: 1}, by_overlap()).final
    with pytest.raises(ValueError, match="not in the plan"):
        weaver.delete(Acq(Window(1, 1)))
