"""The cost of forests: the worked example, and every shortcut against the formulas."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.dissemination import arrays, cost, moves, rules
from lab.dissemination.overlay import Overlay, overlay
from lab.dissemination.rounds import is_worth_reporting, shortest_period
from lab.dissemination.rules import Move, Reorganisation
from lab.dissemination.trees import Forest, Tree, pruned, tree_of
from lab.tests.dissemination.overlays import WORKED_TREE, drawn, drawn_forest, overlays_with_forests, worked

#: The digest prints ten decimals.
NEAR = {"rel": 0.0, "abs": 6e-11}


def _after(forest: Forest, tree: int, made: tuple[Move, ...]) -> Forest:
    """The forest after moves, each of which must be one that can be made then."""
    moved = forest[tree]
    for each in made:
        assert moved.parents[each.node] == each.parent
        moved = moved.moved(each.node, each.new_parent)
    return (*forest[:tree], moved, *forest[tree + 1 :])


def test_the_cost_model_gives_the_costs_of_the_source() -> None:
    found = cost.evaluate(worked(), (WORKED_TREE,))
    assert found.effective_rates == [[2.0, 1.5, 0.5, 1.5, 0.8]]
    assert found.loads[:2] == pytest.approx([0.00425, 0.0173], **NEAR)
    assert found.processing[0][:2] == pytest.approx([0.00166531980, 0.00908637258], **NEAR)
    assert found.delays[0] == pytest.approx([0, 0.01166531980, 0.02166531980, 0.03275169238, 0.03875169238], **NEAR)
    assert found.loss == pytest.approx([0, 0.0116653198, 0.0108326599, 0.0491275386, 0.0310013539], **NEAR)
    assert found.average_loss == pytest.approx(0.0256567180, **NEAR)
    assert cost.processing_for_child(worked(), WORKED_TREE, 1, 3) == pytest.approx(0.00896970591, **NEAR)
    assert cost.processing_for_child(worked(), WORKED_TREE, 1, 4) == pytest.approx(0.00920303925, **NEAR)


def test_promoting_a_node_changes_the_cost_by_the_stated_delta() -> None:
    promoted = cost.evaluate(worked(), (WORKED_TREE.moved(3, 0),))
    assert promoted.average_loss == pytest.approx(0.0232793204, **NEAR)
    assert promoted.processing[0][:2] == pytest.approx([0.00220795069, 0.00603383625], **NEAR)
    made = arrays.arrays(worked(), (WORKED_TREE,))
    (promotion,) = [each for each in rules.every(made, 0, 0) if each.moves == (Move(3, 1, 0),)]
    # With the weight of node 1 before the move, as printed in the thesis, it would be −0.0035220988.
    assert promotion.change == pytest.approx(-0.0023773976, **NEAR)
    assert rules.best(made, 0, 0) == promotion


@settings(max_examples=150, deadline=None)
@given(overlays_with_forests(), st.data())
def test_deltas_of_all_rules_equal_full_recomputation(drawn: tuple[Overlay, Forest], data: st.DataObject) -> None:
    of, forest = drawn
    tree = data.draw(st.integers(0, len(forest) - 1))
    apex = data.draw(st.sampled_from(forest[tree].members))
    made = arrays.arrays(of, forest)
    before = cost.average_loss(of, forest)
    for each in rules.every(made, tree, apex):
        truly = cost.average_loss(of, _after(forest, tree, each.moves)) - before
        assert each.change == pytest.approx(truly, rel=1e-7, abs=1e-9 * max(1.0, before)), each


@settings(max_examples=100, deadline=None)
@given(overlays_with_forests(), st.data())
def test_what_a_move_costs_and_leaves_behind(drawn: tuple[Overlay, Forest], data: st.DataObject) -> None:
    of, forest = drawn
    made = arrays.arrays(of, forest)
    for _ in range(4):
        tree = data.draw(st.integers(0, len(forest) - 1))
        members = forest[tree].members
        node, parent = data.draw(st.sampled_from(members)), data.draw(st.sampled_from(members))
        if node == 0:
            continue
        price = moves.cost_of_move(made, tree, node, parent)
        below_itself = parent == node or node in forest[tree].ancestors(parent)
        assert (price == float("inf")) == (below_itself or parent == forest[tree].parents[node])
        if price < float("inf"):
            before = cost.average_loss(of, forest)
            moves.move(made, tree, node, parent)
            forest = _after(forest, tree, (Move(node, forest[tree].parents[node], parent),))
            assert arrays.forest_of(made) == forest
            now = cost.average_loss(of, forest)
            assert arrays.average_loss(made) == pytest.approx(now, rel=1e-9)
            assert price / (of.nodes - 1) == pytest.approx(now - before, rel=1e-7, abs=1e-9 * max(1.0, before))


@settings(max_examples=50, deadline=None)
@given(overlays_with_forests())
def test_reorganisations_are_counted_and_all_different(drawn: tuple[Overlay, Forest]) -> None:
    of, forest = drawn
    made = arrays.arrays(of, forest)
    for apex in forest[0].members:
        found = rules.every(made, 0, apex)
        assert len(found) == rules.candidates(made, 0, apex)
        # Two rules may lead to the same tree; no rule does so twice.
        assert len({(each.rule, frozenset(each.moves)) for each in found}) == len(found)


def test_children_with_two_one_and_no_children_make_26_reorganisations() -> None:
    made = arrays.arrays(drawn(6, 1, 0), (tree_of({1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 2}, nodes=7),))
    found = rules.every(made, 0, 0)
    by_rule = {rule: sum(each.rule == rule for each in found) for rule in rules.RULES}
    assert by_rule == {"promotion": 3, "demotion": 6, "parent_child": 3, "cousins": 2, "adoption": 6, "uncle_nephew": 6}
    assert len(found) == 26


def test_only_children_that_keep_still_are_reorganised() -> None:
    of = drawn(9, 2, seed=4)
    made = arrays.arrays(of, drawn_forest(of, [(0, 1)], seed=5))
    apex, children = 0, set(arrays.forest_of(made)[0].children(0))
    still = set(sorted(children)[:1])
    allowed = [each for each in rules.every(made, 0, apex) if _children_touched(each, children) <= still]
    best = min(allowed, key=lambda each: each.change)
    found = rules.best(made, 0, apex, among=still)
    assert (found.change if found else 0.0) == min(best.change, 0.0)


def _children_touched(each: Reorganisation, children: set[int]) -> set[int]:
    return {node for move in each.moves for node in (move.node, move.parent, move.new_parent)} & children


def test_the_shortest_adaptation_period_is_as_stated() -> None:
    tenth_of_a_microsecond = Fraction(1, 10_000_000)
    assert shortest_period(10_000, 100, 6 * tenth_of_a_microsecond, Fraction(5, 100)) == 12


def test_statistics_are_reported_once_they_are_a_fifth_off() -> None:
    assert not is_worth_reporting(10.0, 11.9)
    assert is_worth_reporting(10.0, 12.1)
    assert not is_worth_reporting(10.0, 8.4)
    assert is_worth_reporting(10.0, 8.3)
    assert is_worth_reporting(0.0, 0.1)
    assert not is_worth_reporting(0.0, 0.0)


def test_the_longer_the_queue_the_worse_also_beyond_what_a_node_can_do() -> None:
    waits = [cost.waiting(load / 100, 1.0) for load in range(0, 400, 3)]
    assert waits == sorted(waits)
    assert waits[0] == 0.0
    assert cost.waiting(0.5, 2.0) == 2.0
    just_below, just_above = cost.waiting(0.99 - 1e-9, 1.0), cost.waiting(0.99 + 1e-9, 1.0)
    assert just_above == pytest.approx(just_below, rel=1e-4)


def test_one_tree_for_two_objects_by_hand() -> None:
    # The source sends x (2 a second) to 1, and y (1 a second) to 1 and 2; node 2 hangs under 1 and wants y alone.
    of = overlay(
        rates=[[2.0, 1.0], [2.0, 0.5], [0.0, 1.0]],
        filter_time=[0.001, 0.004, 0.002],
        send_time=[0.0001, 0.001, 0.001],
        delay=[[0.0, 0.01, 0.03], [0.01, 0.0, 0.02], [0.03, 0.02, 0.0]],
    )
    single = (tree_of({1: 0, 2: 1}, nodes=3, objects=(0, 1)),)
    found = cost.evaluate(of, single)
    # Node 1 receives 3 messages a second and tests one of them, which it sends on: 5 ms a second.
    load = 0.005
    g_1 = load / (1 - load) * (load / 3) + 0.005
    load_s = 3 * 0.0011
    g_s = load_s / (1 - load_s) * 0.0011 + 0.0011
    first, second = g_s + 0.01, g_s + 0.01 + g_1 + 0.02
    assert found.delays[0] == pytest.approx([0.0, first, second])
    assert found.loss == pytest.approx([0.0, (2.0 + 0.5) / 2 * first, 1.0 * second])
    # The same ways as trees for each object: x stops at node 1.
    each = (pruned(single[0], 0, [1]), pruned(single[0], 1, [1, 2]))
    assert each[0].parents == (-1, 0, -2)
    assert cost.evaluate(of, each).loss == pytest.approx(found.loss)


@settings(max_examples=50, deadline=None)
@given(overlays_with_forests(most_objects=1))
def test_a_tree_for_one_object_costs_what_the_thesis_says(drawn: tuple[Overlay, Forest]) -> None:
    """(4.2) to (4.6) word for word."""
    of, (tree,) = drawn
    found = cost.evaluate(of, (tree,))
    for node in tree.members:
        children = tree.children(node)
        if children and found.effective_rates[0][node] and found.loads[node] < cost.SATURATION:
            assert found.processing[0][node] == pytest.approx(_g(of, tree, node, found.effective_rates[0]))


def _g(of: Overlay, tree: Tree, k: int, effective: list[float]) -> float:
    filter_time, send_time, children = of.filter_time[k], of.send_time[k], tree.children(k)
    wanting = [j for j in children if effective[j] > 0]  # nodes that only forward, and have nobody to forward to
    t = sum(filter_time + send_time * effective[j] / effective[k] for j in wanting)
    rho = effective[k] * t
    return float((1 + rho) / (2 * (1 - rho)) * t + filter_time + send_time - t / (2 * len(children)))
