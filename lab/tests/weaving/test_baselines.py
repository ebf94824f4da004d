from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.baselines import (
    exhaustive,
    insert_then_weave,
    local_search,
    no_share,
    panes,
    random_partition,
    random_trees,
    shared,
)
from lab.weaving.costings import by_operations, by_overlap
from lab.weaving.plans import Levels, WovenPlan, plan_of, weave
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq
from weft.windows.slicing import edges_between

Baseline = Callable[..., WovenPlan]
EVERY_BASELINE: list[Baseline] = [
    no_share,
    shared,
    panes,
    random_trees,
    exhaustive,
    local_search,
    insert_then_weave,
]

windows = st.builds(Window, range=st.integers(1, 25), slide=st.sampled_from([2, 3, 4, 5, 6, 10]))
few_windows = st.lists(windows, min_size=1, max_size=5)
rates = st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(6, 5), Fraction(4), Fraction(30)])

#: The windows of Guirguis' worked example, at 1.2 rows per tick.
WORKED = [Window(16, 4), Window(10, 5), Window(8, 4)]
WORKED_RATE = Fraction(6, 5)


@pytest.mark.parametrize("levels", Levels)
@pytest.mark.parametrize("baseline", EVERY_BASELINE)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(queries=few_windows, rate=rates)
def test_every_query_is_in_one_group_and_finds_its_boundaries_there(
    baseline: Baseline, levels: Levels, queries: list[Window], rate: Fraction
) -> None:
    plan = baseline(queries, rate, levels)
    grouped: Counter[Acq] = Counter()
    for group in plan.groups:
        grouped.update(group.members)
        cuts = set(edges_between(group.edges, 0, 100).tolist())
        for query in group.members:
            reach, slide = query.window.range or 0, query.window.slide
            assert set(range(slide, 60, slide)) <= cuts
            assert {start + reach for start in range(0, 60, slide)} <= cuts
    assert grouped == Counter(Acq(window) for window in queries)


@pytest.mark.parametrize("baseline", EVERY_BASELINE)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(queries=few_windows, rate=rates)
def test_the_reported_cost_is_the_formula_over_the_groups(
    baseline: Baseline, queries: list[Window], rate: Fraction
) -> None:
    """m·λ + Σ E·Ω, with the edges of a group counted one by one."""
    plan = baseline(queries, rate)
    period = 60
    expected = len(plan.groups) * rate
    for group in plan.groups:
        edges = len(edges_between(group.edges, 0, period))
        overlap = sum(
            -(-(each.window.range or 0) // each.window.slide) * times for each, times in group.members.items()
        )
        expected += Fraction(edges, period) * overlap
    assert plan.cost == expected


@pytest.mark.parametrize("levels", Levels)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(queries=few_windows, rate=rates)
def test_nothing_is_cheaper_than_the_exhaustive_search(levels: Levels, queries: list[Window], rate: Fraction) -> None:
    best = exhaustive(queries, rate, levels).cost
    for rival in (no_share, shared, random_trees, local_search, insert_then_weave):
        assert best <= rival(queries, rate, levels).cost
    assert best <= weave(queries).plan(rate, levels).cost


@settings(max_examples=20, deadline=None, derandomize=True)
@given(queries=few_windows, rate=rates)
def test_panes_never_cut_less_than_shared(queries: list[Window], rate: Fraction) -> None:
    assert panes(queries, rate).cost >= shared(queries, rate).cost


def test_worked_example_of_weave_share() -> None:
    """5.5 apart (11.6 in the text, which took E = 1 for singletons), 4.4 together, 4.3 at best: {a, c}, {b}."""
    a, b, c = (Acq(window) for window in WORKED)
    assert no_share(WORKED, WORKED_RATE).cost == Fraction("5.5")
    assert shared(WORKED, WORKED_RATE).cost == Fraction("4.4")
    for search in (exhaustive, local_search):
        plan = search(WORKED, WORKED_RATE)
        assert plan.cost == Fraction("4.3")
        assert {frozenset(group.members) for group in plan.groups} == {frozenset({a, c}), frozenset({b})}


def test_what_insertion_finds_depends_on_the_order() -> None:
    """b joins a, for want of anything better, and c must join both; if c comes before b, it has a to itself."""
    a, b, c = WORKED
    assert insert_then_weave([a, b, c], WORKED_RATE).cost == Fraction("4.4")
    assert insert_then_weave([a, c, b], WORKED_RATE).cost == Fraction("4.3")


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ([[0, 1], [2]], "5.3"),
        ([[0, 2], [1]], "4.3"),
        ([[1, 2], [0]], "5"),
    ],
)
def test_worked_example_of_weave_share_pair_by_pair(partition: list[list[int]], expected: str) -> None:
    parts = [[Acq(WORKED[number]) for number in part] for part in partition]
    assert plan_of(parts, WORKED_RATE, Levels.TWO, by_overlap()).cost == Fraction(expected)


def test_local_search_from_random_trees_stops_after_so_many_moves() -> None:
    start = ((0, 1), (2,))
    stopped = local_search(WORKED, WORKED_RATE, start=start, most_moves=0)
    assert stopped.cost == Fraction("5.3")
    assert local_search(WORKED, WORKED_RATE, start=start, most_moves=1).cost < stopped.cost


def test_panes_of_windows_on_shifted_clocks() -> None:
    """Starts at 1, 5, … and 3, 9, …: all boundaries are odd, so two ticks are enough."""
    plan = panes([Window(8, 4, origin=1), Window(6, 6, origin=3)], Fraction(1))
    assert plan.groups[0].edge_rate == Fraction(1, 2)
    assert edges_between(plan.groups[0].edges, 0, 6).tolist() == [1, 3, 5]


def test_equal_queries_are_counted_one_by_one() -> None:
    twins = [Window(8, 4), Window(8, 4)]
    assert len(no_share(twins, Fraction(1)).groups) == 2
    assert exhaustive(twins, Fraction(1)).cost == 1 + Fraction(4, 4)


def test_baselines_take_any_costing() -> None:
    """Prefix differences in one tree: λ + E + one operation per answer, which nothing undercuts."""
    plan = exhaustive(WORKED, WORKED_RATE, costing=by_operations("prefix"))
    assert plan.cost == WORKED_RATE + Fraction(2, 5) + Fraction(1, 4) + Fraction(1, 5) + Fraction(1, 4)


@pytest.mark.parametrize("baseline", EVERY_BASELINE)
def test_no_queries_cost_nothing(baseline: Baseline) -> None:
    plan = baseline([], Fraction(5))
    assert plan.groups == ()
    assert plan.cost == 0


@settings(max_examples=50, deadline=None, derandomize=True)
@given(queries=st.integers(0, 40), seed=st.integers(0, 100))
def test_random_trees_hold_every_query_once(queries: int, seed: int) -> None:
    partition = random_partition(queries, seed)
    assert sorted(number for tree in partition for number in tree) == list(range(queries))
    assert partition == random_partition(queries, seed)
