"""The nearest group of each group, and why the two are apart."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optimizer.weave import cases
from weft.algebra import Window
from weft.optimizer.weave.acq import Acq, together
from weft.optimizer.weave.costing import Levels, by_overlap
from weft.optimizer.weave.weave import weave
from weft.optimizer.weave.woven_plan import nearest_neighbours, plan_of

A, B, C = Acq(Window(16, 4)), Acq(Window(10, 5)), Acq(Window(8, 4))


def test_groups_of_the_worked_example_are_apart_since_merging_would_cost_more() -> None:
    plan = weave([A, B, C]).plan(Fraction("1.2"))
    nearest = nearest_neighbours(plan)
    assert [(each.group, each.saved, each.added) for each in nearest.values()] == [
        (1, Fraction("1.2"), Fraction("1.3")),
        (0, Fraction("1.2"), Fraction("1.3")),
    ]


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.lists(cases.windows().map(Acq), min_size=1, max_size=8), cases.rates, st.sampled_from(Levels))
def test_merging_two_nearest_groups_costs_what_is_said(queries: list[Acq], rate: Fraction, levels: Levels) -> None:
    plan = weave(queries).plan(rate, levels)
    neighbours = nearest_neighbours(plan)
    assert len(neighbours) == (len(plan.groups) if len(plan.groups) > 1 else 0)
    for number, nearest in neighbours.items():
        assert nearest.saved <= nearest.added
        parts = [group.members for at, group in enumerate(plan.groups) if at not in (number, nearest.group)]
        both = together([plan.groups[number].members, plan.groups[nearest.group].members])
        merged = plan_of([*parts, both], rate, levels, by_overlap())
        assert merged.cost - plan.cost == nearest.added - nearest.saved
