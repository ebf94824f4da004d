from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.costings import by_overlap
from lab.weaving.plans import Levels, collapse, plan_of
from lab.weaving.weave_averages import AveragesPlan, part, weave_averages
from tests.optimizer.weave import cases
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq, AcqMeasure, together

SUM, COUNT = AcqMeasure("sum"), AcqMeasure("count")
AVERAGE = frozenset({SUM, COUNT})


def average(reach: int, slide: int) -> Acq:
    return Acq(Window(reach, slide), AVERAGE)


def total(reach: int, slide: int) -> Acq:
    return Acq(Window(reach, slide), frozenset({SUM}))


def test_basic_sharing_of_sum_count_and_average() -> None:
    """One SUM, one COUNT and one AVERAGE over the same window: one operator for sums, one for counts."""
    count = Acq(Window(8, 4), frozenset({COUNT}))
    plan = weave_averages([average(8, 4), total(8, 4), count], rate=10)
    assert {measure: len(woven.groups) for measure, woven in plan.apart.items()} == {SUM: 1, COUNT: 1}
    assert not plan.whole
    # Two operators of one row each, and one edge in four ticks for two windows of overlap two.
    assert plan.cost == 2 * (10 + Fraction(1, 4) * 4)


def test_an_average_that_shares_nothing_is_put_together_again() -> None:
    lonely = average(7, 7)
    plan = weave_averages([lonely, total(400, 4), total(800, 4)], rate=Fraction(1, 10))
    assert plan.is_whole(lonely)
    assert set(plan.apart) == {SUM}
    (whole,) = plan.whole.values()
    # Two operations per row, and two per edge and window.
    assert whole.cost == 2 * (Fraction(1, 10) + Fraction(1, 7))


def test_averages_that_share_with_each_other_stay_apart() -> None:
    plan = weave_averages([average(8, 4), average(16, 4)], rate=1)
    assert not plan.whole
    assert all(len(woven.groups) == 1 for woven in plan.apart.values())


def test_an_average_with_one_half_shared_stays_apart() -> None:
    plan = weave_averages([average(8, 4), total(8, 4)], rate=10)
    assert not plan.whole
    assert not plan.is_whole(average(8, 4))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(
        st.builds(Acq, cases.windows(), st.sampled_from([AVERAGE, frozenset({SUM}), frozenset({COUNT})])),
        min_size=1,
        max_size=7,
    ),
    cases.rates,
    st.sampled_from(Levels),
)
def test_every_measure_of_every_query_is_served_once(queries: list[Acq], rate: Fraction, levels: Levels) -> None:
    plan = weave_averages(queries, rate, levels)
    served = together(_members(plan))
    for query, count in collapse(queries).items():
        if plan.is_whole(query):
            assert served[query] == count
    for measure in (SUM, COUNT):
        wanted = together({part(query, measure): 1} for query in queries if measure in query.measures)
        whole = together({part(query, measure): count} for query, count in served.items() if len(query.measures) == 2)
        apart = {query: count for query, count in served.items() if query.measures == {measure}}
        assert together([whole, apart]) == wanted
    apart_cost = sum(
        plan_of([[part(query, measure)]], rate, Levels.TWO, by_overlap()).cost
        for query in queries
        for measure in query.measures
    )
    if levels is Levels.TWO:
        assert plan.cost <= apart_cost


def _members(plan: AveragesPlan) -> list[dict[Acq, int]]:
    plans = [*plan.apart.values(), *plan.whole.values()]
    return [dict(group.members) for woven in plans for group in woven.groups]
