from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import lcm

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving import factor_windows as module
from lab.weaving.costings import Costing, by_nanoseconds, by_overlap
from lab.weaving.factor_windows import (
    Feed,
    RollUp,
    factor_windows,
    lies_within,
    weave_with_factor_windows,
    with_factor_windows,
    without_factor_windows,
)
from lab.weaving.plans import Levels, weave
from weft.algebra import Window
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet, edges_between, reduced, shared_edges

windows = st.builds(Window, range=st.integers(1, 30), slide=st.sampled_from([2, 3, 4, 5, 6, 8, 10, 12]))
trees = st.lists(st.lists(windows, min_size=1, max_size=3).map(shared_edges), min_size=1, max_size=6)
rates = st.sampled_from([Fraction(1, 10), Fraction(1), Fraction(3), Fraction(50)])


def tumbling(*lengths: int) -> list[EdgeSet]:
    return [shared_edges([Window(length, length)]) for length in lengths]


def period_of(feeds: tuple[Feed, ...]) -> int:
    return lcm(*(edge.modulus for feed in feeds for edge in feed.edges))


def fragments(edges: EdgeSet, until: int) -> list[tuple[int, int]]:
    """All fragments that lie between an edge after −until and an edge up to until."""
    return list(pairwise(edges_between(edges, -until, until).tolist()))


def run(found: RollUp, rows: int) -> Fraction:
    """Carries a roll-up out on `rows` rows per tick over two periods; gives the operations that it took per tick.

    Every fragment is checked to be a whole number of its source's.
    """
    period = period_of(found.feeds)
    operations = 0
    for feed in found.feeds:
        if feed.source is None:
            operations += rows * period
            continue
        source = found.feeds[feed.source]
        ends = {end for _, end in fragments(source.edges, 2 * period)}
        for start, end in fragments(feed.edges, period):
            assert end in ends
            assert start in ends or start == min(ends)
        operations += len(edges_between(source.edges, 0, period))
    return Fraction(operations, period)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(trees=trees, rows=st.integers(1, 20))
def test_the_cost_is_the_number_of_operations_of_carrying_it_out(trees: list[EdgeSet], rows: int) -> None:
    found = factor_windows(trees, Fraction(rows))
    assert found.cost == run(found, rows)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(trees=trees, rate=rates)
def test_never_dearer_than_two_levels_or_three(trees: list[EdgeSet], rate: Fraction) -> None:
    found = factor_windows(trees, rate)
    base = edge_rate(reduced(frozenset().union(*trees)))
    assert found.cost <= without_factor_windows(trees, rate).cost
    assert found.cost <= len(trees) * rate
    assert found.cost <= rate + len(trees) * base


@settings(max_examples=60, deadline=None, derandomize=True)
@given(trees=trees, rate=rates)
def test_every_tree_has_its_feed_and_every_feed_leads_back_to_rows(trees: list[EdgeSet], rate: Fraction) -> None:
    found = factor_windows(trees, rate)
    assert [feed.tree for feed in found.feeds[: len(trees)]] == list(range(len(trees)))
    assert [feed.edges for feed in found.feeds[: len(trees)]] == [reduced(tree) for tree in trees]
    for feed in found.feeds:
        seen, at = 0, feed
        while at.source is not None:
            assert lies_within(at.edges, found.feeds[at.source].edges)
            at = found.feeds[at.source]
            seen += 1
            assert seen <= len(found.feeds)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(trees=trees, rate=rates)
def test_an_auxiliary_feed_is_there_only_if_the_plan_is_dearer_without_it(trees: list[EdgeSet], rate: Fraction) -> None:
    found = factor_windows(trees, rate)
    for omitted in found.auxiliary:
        kept = [feed.edges for feed in found.auxiliary if feed is not omitted]
        assert module._rolled_up([reduced(tree) for tree in trees], kept, rate).cost > found.cost


@settings(max_examples=100, deadline=None, derandomize=True)
@given(left=st.lists(windows, min_size=1, max_size=3), right=st.lists(windows, min_size=1, max_size=3))
def test_what_lies_within_has_no_edge_of_its_own(left: list[Window], right: list[Window]) -> None:
    coarse, fine = shared_edges(left), shared_edges(right)
    period = lcm(*(edge.modulus for edge in coarse | fine))
    inside = set(edges_between(coarse, 0, period).tolist()) <= set(edges_between(fine, 0, period).tolist())
    assert inside or not lies_within(coarse, fine)
    assert lies_within(coarse, reduced(coarse | fine))


def test_factor_windows_paper_example_of_20_30_and_40_minutes() -> None:
    """360 operations in two hours when each window reads rows, 246 when 40 is made from 20; a factor window of ten
    minutes brings 150, the fragments between multiples of 20 or 30 bring 142."""
    given_trees = tumbling(20, 30, 40)
    assert without_factor_windows(given_trees, Fraction(1)).cost * 120 == 246
    with_ten = [*given_trees, *tumbling(10)]
    assert without_factor_windows(with_ten, Fraction(1)).cost * 120 == 150
    found = factor_windows(given_trees, Fraction(1))
    assert found.cost * 120 == 142
    assert [feed.edges for feed in found.auxiliary] == [reduced(given_trees[0] | given_trees[1])]


def test_rows_that_come_slower_than_fragments_are_read_as_they_are() -> None:
    found = factor_windows(tumbling(4, 6), Fraction(1, 100))
    assert not found.auxiliary
    assert found.cost == Fraction(2, 100)


def test_no_trees_cost_nothing() -> None:
    assert factor_windows([], Fraction(7)) == RollUp((), Fraction(0))


def test_three_trees_that_read_one_another_can_be_cheaper_than_any_plain_plan() -> None:
    """Overlap factors of 20, ten rows a minute. One tree: 10 + 60/15. Three: 10 + 2/15 + 1/20, and 20 for each edge."""
    weaving = weave([Window(20 * minutes, minutes) for minutes in (20, 30, 40)])
    found = weave_with_factor_windows(weaving, Fraction(10))
    assert weaving.plan(10).cost == 14
    assert found.cost == 10 + Fraction(2, 15) + Fraction(1, 20) + 20 * (
        Fraction(1, 20) + Fraction(1, 30) + Fraction(1, 40)
    )
    assert len(found.plan.groups) == 3


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    queries=st.lists(windows, min_size=1, max_size=6),
    rate=rates,
    costing=st.sampled_from([by_overlap(), by_nanoseconds("prefix", "flatfit")]),
)
def test_a_factored_plan_is_never_dearer_than_the_woven_ones(
    queries: list[Window], rate: Fraction, costing: Costing
) -> None:
    weaving = weave(queries, costing)
    found = weave_with_factor_windows(weaving, rate)
    for levels in Levels:
        plan = weaving.plan(rate, levels)
        assert found.cost <= with_factor_windows(plan).cost <= plan.cost
    assert [feed.edges for feed in found.roll_up.feeds[: len(found.plan.groups)]] == [
        reduced(group.edges) for group in found.plan.groups
    ]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(queries=st.lists(windows, min_size=1, max_size=5), rows=st.integers(1, 20))
def test_the_cost_of_a_factored_plan_is_what_its_feeds_read_and_its_trees_aggregate(
    queries: list[Window], rows: int
) -> None:
    costing = by_nanoseconds("prefix")
    found = with_factor_windows(weave(queries, costing).plan_after(0, rows))
    period = period_of(found.roll_up.feeds)
    paid = Fraction(0)
    for feed in found.roll_up.feeds:
        if feed.source is None:
            paid += rows * costing.row
        else:
            edges = found.roll_up.feeds[feed.source].edges
            paid += Fraction(len(edges_between(edges, 0, period)), period) * costing.partial
    assert found.cost == paid + sum((group.final_cost for group in found.plan.groups), Fraction(0))
