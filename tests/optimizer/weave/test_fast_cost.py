from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.costings import Costing
from lab.weaving.plans import collapse, tree_cost
from tests.optimizer.weave import cases
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq, costs_alone, demands_of, edges_of_all
from weft.optimizer.weave.edge_meter import exact_meter
from weft.optimizer.weave.trees import DemandSums, Trees

PLAIN = cases.COSTINGS[:-2]
WITH_LANES = cases.COSTINGS[-2:]


def check_benefits(groups: list[list[Acq]], costing: Costing) -> None:
    parts = [collapse(group) for group in groups]
    edges = [edges_of_all(part) for part in parts]
    meter = exact_meter(edges)
    assert meter is not None
    trees = Trees(costing, meter)
    first, *others = [trees.add(tree, demands_of(part)) for tree, part in zip(edges, parts, strict=True)]
    benefits = trees.benefits(first, others, trees.rates_together(first, others))
    for fast, other in zip(benefits.values.tolist(), others, strict=True):
        assert abs(fast - float(trees.exact_benefit(first, other))) <= benefits.margin


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    st.lists(st.lists(cases.windows().map(Acq), min_size=1, max_size=5), min_size=2, max_size=4),
    st.sampled_from(PLAIN),
)
def test_fast_benefits_are_the_exact_ones_up_to_the_margin(groups: list[list[Acq]], costing: Costing) -> None:
    check_benefits(groups, costing)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.lists(cases.acqs(), min_size=1, max_size=5), min_size=2, max_size=4), st.sampled_from(WITH_LANES))
def test_fast_benefits_with_lanes(groups: list[list[Acq]], costing: Costing) -> None:
    check_benefits(groups, costing)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(cases.windows().map(Acq), min_size=1, max_size=6), st.sampled_from(PLAIN))
def test_fast_costs_of_queries_alone_are_the_exact_ones(queries: list[Acq], costing: Costing) -> None:
    exact = [float(tree_cost({query: 1}, costing).final) for query in queries]
    assert costs_alone(queries, costing).tolist() == pytest.approx(exact, rel=1e-9, abs=1e-12)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(
    st.lists(cases.windows(), min_size=1, max_size=4),
    st.lists(cases.windows(), min_size=1, max_size=4),
    st.fractions(Fraction(1, 60), Fraction(1), max_denominator=60),
    st.fractions(Fraction(1, 60), Fraction(1), max_denominator=60),
    st.sampled_from(PLAIN),
)
def test_costs_at_least_are_no_higher_than_costs_at_any_higher_rate(
    one: list[Window], other: list[Window], low: Fraction, high: Fraction, costing: Costing
) -> None:
    ledger = DemandSums(costing)
    low, high = sorted((low, high))
    ledger.enter(0, demands_of(collapse(one)))
    ledger.enter(1, demands_of(collapse(other)))
    bound = ledger.costs_together(0, [1], np.array([float(low)]), or_higher=True)
    cost = ledger.costs_together(0, [1], np.array([float(high)]))
    assert bound[0] <= cost[0] + 1e-9 * abs(cost[0])


def test_trees_that_are_removed_leave_nothing_behind() -> None:
    ledger = DemandSums(cases.COSTINGS[0])
    ledger.enter(0, demands_of(collapse([Window(4, 2)])))
    before = ledger.costs_together(0, [1], np.array([0.5])).tolist()
    ledger.enter(1, demands_of(collapse([Window(8, 2)])))
    assert ledger.costs_together(0, [1], np.array([0.5])).tolist() != before
    ledger.remove(1)
    assert ledger.costs_together(0, [1], np.array([0.5])).tolist() == before
