from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.costings import Costing, by_operations, by_overlap, by_printed
from lab.weaving.plans import Levels, Weaving, WovenPlan, collapse, plan_cost, plan_of, tree_cost, weave
from lab.weaving.workloads import any_slides, collapse_table, draw, draw_table, factor_slides
from tests.optimizer.weave import cases
from tests.optimizer.weave.operators import is_edge
from weft.algebra import Window
from weft.optimizer.weave import edge_meter
from weft.optimizer.weave.costing import Acq, together
from weft.windows.counting import edge_rate

A, B, C = Window(16, 4), Window(10, 5), Window(8, 4)
EXAMPLE_9 = {"a": Window(8, 5), "b": Window(5, 4), "c": Window(10, 1)}


def groups_of(plan: WovenPlan) -> set[frozenset[Window]]:
    return {frozenset(query.window for query in group.members) for group in plan.groups}


def check(plan: WovenPlan, queries: dict[Acq, int]) -> None:
    """Every query exactly once, every boundary of its windows an edge of its group, and costs that add up."""
    assert together(group.members for group in plan.groups) == queries
    for group in plan.groups:
        for window in {query.window for query in group.members}:
            assert window.range is not None
            for instant in (window.origin, window.origin + window.range):
                assert any((instant - residue) % modulus == 0 for modulus, residue in group.edges)
        assert all(is_edge([query.window for query in group.members], residue) for _, residue in group.edges)
        assert group.edge_rate == edge_rate(group.edges)
        assert group.final_cost == tree_cost(group.members, plan.costing).final
    finals = [group.final_cost for group in plan.groups]
    union = edge_rate(frozenset().union(*(group.edges for group in plan.groups)))
    assert plan.union_rate == union
    assert plan.cost == plan_cost(finals, len(finals), plan.rate, union, plan.levels, plan.costing)


def test_weave_share_worked_example() -> None:
    """At a rate of 1.2: 5.5 apart, 4.3 with a and c together, and not 4.4."""
    weaving = weave([A, B, C])
    plan = weaving.plan(Fraction("1.2"))
    assert plan.cost == Fraction("4.3")
    assert groups_of(plan) == {frozenset({A, C}), frozenset({B})}
    assert weaving.plan_after(1, Fraction("1.2")).cost == Fraction("4.4")


def cheapest_from(weaving: Weaving) -> list[tuple[Fraction, int]]:
    """Cuts that are cheapest at some rate, two levels: (λ, merges), each from that rate on to the next."""
    hull = [(Fraction(0), weaving.cut(0))]
    while (at := hull[-1][1]) < len(weaving.merges):
        # From a cut, more merges pay as soon as λ exceeds what they add to F, per tree saved.
        slope, furthest = min(
            ((weaving.finals[k] - weaving.finals[at]) / ((k - at) * weaving.costing.row), -k)
            for k in range(at + 1, len(weaving.finals))
        )
        hull.append((slope, -furthest))
    return hull


def test_queries_are_merged_from_two_thirds_of_a_row_on() -> None:
    weaving = weave([Window(12, 9), Window(10, 6)])
    assert len(weaving.plan(Fraction(2, 3)).groups) == 2
    assert len(weaving.plan(Fraction(2, 3) + Fraction(1, 10**12)).groups) == 1
    assert cheapest_from(weaving) == [(Fraction(0), 0), (Fraction(2, 3), 1)]


@pytest.mark.parametrize(("rate", "groups"), [("1", "a b c"), ("1.1", "ab c"), ("1.2", "ab c"), ("1.21", "abc")])
def test_windows_under_two_levels_in_the_source_example(rate: str, groups: str) -> None:
    plan = weave(EXAMPLE_9.values()).plan(Fraction(rate))
    assert groups_of(plan) == {frozenset(EXAMPLE_9[name] for name in part) for part in groups.split()}
    if rate == "1.1":
        assert plan.cost == 15


def test_windows_under_three_levels_and_at_every_rate_in_the_source_example() -> None:
    """Without a third level for one group, that group costs λ + 14, and all others at least λ + 14.8."""
    weaving = weave(EXAMPLE_9.values())
    for rate in (Fraction(1, 100), Fraction(1), Fraction(1000)):
        plan = weaving.plan(rate, Levels.THREE)
        assert (plan.cost, len(plan.groups)) == (rate + 14, 1)


@settings(deadline=None, max_examples=120, derandomize=True)
@given(
    st.lists(cases.acqs(), min_size=1, max_size=5),
    cases.rates,
    st.sampled_from(Levels),
    st.sampled_from(cases.COSTINGS),
)
def test_exhaustive_is_no_dearer_than_woven_and_woven_no_dearer_than_all_or_nothing(
    queries: list[Acq], rate: Fraction, levels: Levels, costing: Costing
) -> None:
    queries = [query for query in queries if _is_served(query, costing)] or [Acq(A)]
    counted = collapse(queries)
    plan = weave(queries, costing).plan(rate, levels)
    check(plan, counted)
    assert plan.cost <= plan_of([[query] for query in queries], rate, levels, costing).cost
    assert plan.cost <= plan_of([counted], rate, levels, costing).cost
    if len(queries) == len(plan.groups) or max(counted.values()) == 1:
        assert cases.cheapest(queries, rate, levels, costing) <= plan.cost


def _is_served(query: Acq, costing: Costing) -> bool:
    return all(not measure.kernels or set(measure.kernels) & set(costing.kernels) for measure in query.measures)


@settings(deadline=None, max_examples=120, derandomize=True)
@given(st.lists(cases.windows(), min_size=2, max_size=9), st.sampled_from(cases.COSTINGS[:-1]))
def test_every_merge_is_the_best_one(windows: list[Window], costing: Costing) -> None:
    weaving = weave(windows, costing)
    for merges, merge in enumerate(weaving.merges):
        trees = weaving.trees_after(merges)
        benefits = {pair: _benefit(weaving, *pair) for pair in combinations(trees, 2)}
        assert benefits[merge] == max(benefits.values())
    assert weaving.finals[0] == sum(tree_cost(leaf.members, costing).final for leaf in weaving.leaves)
    assert weaving.finals[-1] == tree_cost(collapse(windows), costing).final


def _benefit(weaving: Weaving, one: int, other: int) -> Fraction:
    both = together([weaving.group(one).members, weaving.group(other).members])
    return weaving.trees[one].final + weaving.trees[other].final - tree_cost(both, weaving.costing).final


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.lists(cases.windows(), min_size=1, max_size=10), st.sampled_from(cases.COSTINGS[:12]))
def test_cuts_are_the_cheapest_of_the_dendrogram_at_every_rate(windows: list[Window], costing: Costing) -> None:
    weaving = weave(windows, costing)
    hull = cheapest_from(weaving)
    between = [(low[0] + high[0]) / 2 for low, high in pairwise(hull)]
    for rate in [rate for rate, _ in hull] + between + [hull[-1][0] + 1]:
        costs = [weaving.plan_after(merges, rate).cost for merges in range(len(weaving.finals))]
        assert costs[weaving.cut(rate)] == min(costs)
        assert costs[max((start, merges) for start, merges in hull if start <= rate)[1]] == min(costs)


def test_unrelated_slides_are_estimated_and_the_plan_says_so() -> None:
    windows = draw(any_slides(200, 50), seed=4)
    weaving = weave(windows)
    plan = weaving.plan(50)
    assert not plan.exact
    assert together(group.members for group in plan.groups) == collapse(windows)
    for group in plan.groups:
        # The estimate of a tree is within a part in a thousand of a count over four times the ticks.
        assert float(group.edge_rate) == pytest.approx(float(edge_rate(group.edges)), rel=3e-3, abs=1e-5)
    assert plan.cost <= weaving.plan_after(0, 50).cost
    assert plan.cost <= weaving.plan_after(len(weaving.merges), 50).cost


def test_exact_and_estimated_weavings_agree_where_both_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = draw(factor_slides(60, 1, largest_slide=720), seed=1)
    exact = weave(windows)
    monkeypatch.setattr(edge_meter, "_LONGEST_PERIOD", 0)
    by_classes = weave(windows)
    monkeypatch.setattr(edge_meter, "_FEW_TREES", 0)
    estimated = weave(windows)
    assert (exact.exact, by_classes.exact, estimated.exact) == (True, True, False)
    assert by_classes.merges == exact.merges
    assert by_classes.finals == exact.finals
    for left, right in zip(exact.finals, estimated.finals, strict=True):
        assert float(left) == pytest.approx(float(right), rel=1e-2)


def test_equal_edges_are_one_leaf() -> None:
    table = draw_table(factor_slides(20_000, 1, largest_slide=1000), seed=0)
    weaving = weave(collapse_table(*table), by_printed("slickdeque_inv"))
    assert len(weaving.leaves) == 16
    plan = weaving.plan(1)
    assert plan.number_of_queries == 20_000
    check(plan, collapse_table(*table))


def test_more_edge_sets_than_leaves_are_woven_by_slides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.optimizer.weave.weave._MOST_LEAVES", 6)
    windows = [Window(reach, slide) for slide in (2, 3, 4, 5, 6, 9, 10, 12) for reach in (7, 11, 24)]
    weaving = weave(windows)
    assert len(weaving.leaves) == 6
    for rate in (1, 100):
        check(weaving.plan(rate), collapse(windows))


def test_weaving_goes_on_from_given_groups() -> None:
    start = [collapse([A, B]), collapse([C])]
    plan = weave([], start=start).plan(10)
    assert groups_of(plan) == {frozenset({A, B, C})}
    again = weave([], start=[collapse([A]), collapse([A, B])])
    assert again.plan_after(1, 1).groups[0].members == {Acq(A): 2, Acq(B): 1}


def test_ties_everywhere_are_woven_all_the_same() -> None:
    """FlatFIT's Ω per answer is the same in every plan: every merge saves exactly nothing but reading."""
    weaving = weave([Window(slide, slide) for slide in range(2, 60)], by_operations("flatfit"))
    assert set(weaving.finals) == {weaving.finals[0]}
    assert len(weaving.plan(1).groups) == 1


def test_nothing_to_weave_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to weave"):
        weave([])


def test_queries_that_are_not_in_a_plan_have_no_group() -> None:
    plan = weave([A]).plan(1)
    assert plan.number_of(Acq(A)) == 0
    with pytest.raises(ValueError, match="not in this plan"):
        plan.number_of(Acq(B))


@pytest.mark.prove
def test_plans_of_eight_are_close_to_the_optimum() -> None:
    gaps = []
    for seed in range(40):
        windows = draw(factor_slides(8, 1, largest_slide=60, most_overlap=20), seed)
        rate = Fraction(1 + seed % 7)
        best = cases.cheapest(windows, rate, Levels.TWO, by_overlap())
        gaps.append(weave(windows).plan(rate).cost / best - 1)
    assert max(gaps) < Fraction(6, 100)
    assert sum(gaps) / len(gaps) < Fraction(1, 100)
    assert Counter(gap == 0 for gap in gaps)[True] >= 30
