from __future__ import annotations

import json
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.workloads import any_slides, draw
from tests.optimizer import cases
from weft.algebra import Window
from weft.optimizer.acq import Acq, Measure, together
from weft.optimizer.plan_cost import Levels, by_overlap, tree_cost
from weft.optimizer.weave import weave
from weft.optimizer.weave_explain import explain, explain_json, explain_query, nearest_neighbours
from weft.optimizer.woven_plan import plan_of

A, B, C = Acq(Window(16, 4)), Acq(Window(10, 5)), Acq(Window(8, 4))


def test_the_worked_example_is_explained() -> None:
    plan = weave([A, B, C]).plan(Fraction("1.2"))
    assert explain(plan, {"first": A, "second": B, "third": C}).splitlines() == [
        "3 queries in 2 groups, two-level, 1.2 rows per tick: costs 4.3 per tick (overlap factor)",
        "group 0: 2 queries, cut at 0 mod 4 (0.25 per tick), final aggregation 1.5",
        "  aggregate: panes",
        "  first: with 1 other, costs 1.6 instead of 2.2 alone",
        "  third: with 1 other, costs 1.1 instead of 1.7 alone",
        "  not merged with group 1: that would save 1.2 and cost 1.3 more (weaveability 0.125)",
        "group 1: 1 query, cut at 0 mod 5 (0.2 per tick), final aggregation 0.4",
        "  aggregate: panes",
        "  second: with 0 others, costs 1.6 instead of 1.6 alone",
        "  not merged with group 0: that would save 1.2 and cost 1.3 more (weaveability 0.125)",
    ]


def test_kernels_groupings_and_predicates_are_named() -> None:
    query = Acq(Window(60, 10), frozenset({Measure("sum(price)")}), frozenset({"symbol"}), "price > 1")
    said = explain(weave([query]).plan(5, Levels.THREE))
    assert "  sum(price) where price > 1 by symbol: panes" in said
    assert "  sum(price) by symbol where price > 1 over 60 every 10: with 0 others" in said
    assert "finest cut 0.1 edges per tick" in said


def test_estimated_rates_are_said_to_be_estimated() -> None:
    plan = weave(draw(any_slides(180, 50), seed=4)).plan(50)
    assert "edge rates are estimated" in explain(plan).splitlines()[0]
    assert explain_json(plan)["edge_rates"] == "estimated"


def test_long_groups_are_cut_short() -> None:
    plan = weave([Window(4 * overlap, 4) for overlap in range(1, 21)]).plan(50)
    assert "  … and 12 more" in explain(plan)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.lists(cases.windows().map(Acq), min_size=1, max_size=8), cases.rates, st.sampled_from(Levels))
def test_what_is_said_holds(queries: list[Acq], rate: Fraction, levels: Levels) -> None:
    plan = weave(queries).plan(rate, levels)
    shares = sum(
        count * explain_query(plan, query).share for group in plan.groups for query, count in group.members.items()
    )
    assert shares == plan.cost
    for query in queries:
        said = explain_query(plan, query, "name")
        assert said.alone == rate + tree_cost({query: 1}, by_overlap()).final
        assert query in plan.groups[said.group].members
        assert said.companions == plan.groups[said.group].number_of_queries - 1
    neighbours = nearest_neighbours(plan)
    assert len(neighbours) == (len(plan.groups) if len(plan.groups) > 1 else 0)
    for number, nearest in neighbours.items():
        assert nearest.saved <= nearest.added
        parts = [group.members for at, group in enumerate(plan.groups) if at not in (number, nearest.group)]
        both = together([plan.groups[number].members, plan.groups[nearest.group].members])
        merged = plan_of([*parts, both], rate, levels, by_overlap())
        assert merged.cost - plan.cost == nearest.added - nearest.saved
    assert set(nearest_neighbours(plan, of=[0])) <= {0}
    report = json.loads(json.dumps(explain_json(plan)))
    assert Fraction(report["cost"]) == plan.cost
    assert sum(group["queries"] for group in report["groups"]) == len(queries)
