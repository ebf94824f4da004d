"""The nearest group of each group, and why the two are apart."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.costings import by_overlap
from lab.weaving.plans import Levels, plan_of, weave
from tests.optimizer.weave import cases
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq, together
from weft.optimizer.weave.dendrogram import nearest_neighbours

A, B, C = Acq(Window(16, 4)), Acq(Window(10, 5)), Acq(Window(8, 4))


def test_groups_of_the_worked_example_are_apart_since_merging_would_cost_more() -> None:
    plan = weave([A, B, C]).plan(Fraction("1.2"))
    nearest = nearest_neighbours([group.members for group in plan.groups], plan.costing)
    assert list(nearest.values()) == [(1, Fraction("1.3")), (0, Fraction("1.3"))]


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.lists(cases.windows().map(Acq), min_size=1, max_size=8), cases.rates)
def test_merging_two_nearest_groups_costs_what_is_said(queries: list[Acq], rate: Fraction) -> None:
    plan = weave(dict.fromkeys(queries, 1)).plan(rate)
    neighbours = nearest_neighbours([group.members for group in plan.groups], plan.costing)
    assert len(neighbours) == (len(plan.groups) if len(plan.groups) > 1 else 0)
    for number, (nearest, added) in neighbours.items():
        assert rate <= added
        parts = [group.members for at, group in enumerate(plan.groups) if at not in (number, nearest)]
        both = together([plan.groups[number].members, plan.groups[nearest].members])
        merged = plan_of([*parts, both], rate, Levels.TWO, by_overlap())
        assert merged.cost - plan.cost == added - rate
