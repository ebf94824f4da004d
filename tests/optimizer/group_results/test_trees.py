"""Query trees: the source's worked example, and what holds of every tree, whatever came and went."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.optimizer.group_results.drawn import alike, bound
from tests.optimizer.group_results.test_exactness import PROPERTY, merging_with
from weft.algebra import Query
from weft.optimizer.group_results import Groups, TrafficStatistics
from weft.optimizer.group_results.forest import FAN_OUT, Forest, reoptimise
from weft.optimizer.group_results.forms import contains
from weft.optimizer.group_results.pricing import Policy, TreeNode, adopt, members_below
from weft.optimizer.group_results.shapes import shape_of
from weft.optimizer.group_results.traffic_estimates import Sample


def nodes_below(node: TreeNode) -> Iterator[TreeNode]:
    yield node
    for child in node.children:
        yield from nodes_below(child)


def depth_of(node: TreeNode) -> int:
    return 1 + max(map(depth_of, node.children), default=0)


def validate(groups: Groups) -> None:
    """The invariants of all trees."""
    seen = []
    for forest in groups._forests.values():
        delay = forest.policy.most_delay
        for number, tree in enumerate(forest.trees):
            assert tree.root.number == number
            assert tree.root.parent is None
            assert forest.tree_of(tree.root) is tree
            for node in nodes_below(tree.root):
                assert all(child.parent is node for child in node.children)
                assert not node.is_derived or len(node.children) >= 2
                assert node.weight == sum(1 for _ in members_below(node))
                if node.is_derived and node is not tree.root:
                    assert all(contains(child.form, node.form, delay) for child in node.children)
                if not node.is_derived or node is tree.root:
                    assert all(contains(each.form, node.form, delay) for each in members_below(node))
            seen += [each.name for each in members_below(tree.root)]
        assert sorted(forest.members) == sorted(seen[-len(forest.members) :]) if forest.members else True
    assert len(seen) == len(set(seen))
    assert sorted(seen) == sorted(name for name, place in groups._where.items() if isinstance(place, Forest))


@PROPERTY
@given(alike(most=12), st.integers(0, 4), st.data())
def test_trees_are_sound_whatever_comes_and_goes(
    queries: dict[str, Query], most_delay: int, data: st.DataObject
) -> None:
    groups = Groups(TrafficStatistics(sample=64), most_delay=most_delay)
    standing: list[str] = []
    with merging_with(data):
        for name, query in queries.items():
            change = groups.insert(name, query)
            standing.append(name)
            assert change.moved == {name: (None, groups.group_of(name))}
            if data.draw(st.integers(0, 3)) == 0:
                gone = data.draw(st.sampled_from(standing))
                group = groups.group_of(gone)
                ended = groups.terminate(gone).ended
                standing.remove(gone)
                assert (group in ended) == (group not in groups.names())
            if data.draw(st.integers(0, 5)) == 0:
                before = {name: groups.group_of(name) for name in standing}
                moved = groups.reoptimise().moved
                after = {name: groups.group_of(name) for name in standing}
                assert moved == {name: (before[name], after[name]) for name in standing if before[name] != after[name]}
            validate(groups)


@pytest.mark.parametrize("seed", range(3))
def test_trees_are_sound_with_hundreds_of_queries(seed: int) -> None:
    chance = random.Random(seed)
    groups = Groups(TrafficStatistics(values={"trades.qty": range(100), "trades.num": range(100)}))
    standing: list[str] = []
    for number in range(300):
        low, high = chance.randrange(100), chance.randrange(100)
        text = f"SELECT sym, price FROM trades WHERE qty > {low} AND num < {high}"
        groups.insert(f"q{number}", bound(f"q{number}", text))
        standing.append(f"q{number}")
        if number % 3 == 2:
            groups.terminate(standing.pop(chance.randrange(len(standing))))
        if number % 100 == 99:
            groups.reoptimise()
            validate(groups)
    assert len(groups.names()) < 20
    depths = [depth_of(tree.root) for forest in groups._forests.values() for tree in forest.trees]
    assert max(depths) <= 12


def test_nested_thresholds_make_no_chain() -> None:
    """Each query contains the next one, or the one before: a tree of containers alone would be a chain."""
    for order in (range(200), range(200, 0, -1)):
        groups = Groups(TrafficStatistics(values={"trades.qty": range(200)}))
        for low in order:
            groups.insert(f"q{low}", bound(f"q{low}", f"SELECT qty FROM trades WHERE qty > {low}"))
        assert len(groups.names()) == 1
        validate(groups)
        (forest,) = groups._forests.values()
        assert depth_of(forest.trees[0].root) <= 16


def _figure_5() -> tuple[Forest, dict[str, TreeNode]]:
    """Q' over Q1' = merge(Q3, Q4) and Q2, which contains Q5."""
    texts = {"Q2": "qty > 50", "Q3": "qty < 5", "Q4": "qty BETWEEN 5 AND 20", "Q5": "qty > 90"}
    queries = {name: bound(name, f"SELECT qty FROM trades WHERE {text}") for name, text in texts.items()}
    shapes = {name: shape_of(query) for name, query in queries.items()}
    first = shapes["Q2"]
    assert first is not None
    forest = Forest(first.family, Policy(), Sample(TrafficStatistics(values={"trades.qty": range(100)})))
    nodes = {}
    for name, shape in shapes.items():
        assert shape is not None
        member = forest.prices.member(name, shape)
        forest.members[name] = member
        nodes[name] = member.node
    pair = forest.prices.derived([nodes["Q3"], nodes["Q4"]])
    adopt(nodes["Q2"], [nodes["Q5"]])
    root = forest.prices.derived([pair, nodes["Q2"]])
    forest.plant(root)
    return forest, {**nodes, "Q1'": pair, "Q'": root}


def test_the_tree_of_figure_5() -> None:
    forest, nodes = _figure_5()
    forest.terminate("Q2")
    root = forest.trees[0].root
    assert root is nodes["Q'"]
    assert root.children == [nodes["Q1'"], nodes["Q5"]]
    merged = forest.prices.merged([nodes["Q1'"], nodes["Q5"]])
    assert contains(root.form, merged)
    assert contains(merged, root.form)
    forest.terminate("Q3")
    assert forest.trees[0].root.children == [nodes["Q4"], nodes["Q5"]]
    assert contains(root.form, forest.prices.merged([nodes["Q4"], nodes["Q5"]]))
    forest.terminate("Q4")
    assert forest.trees[0].root is nodes["Q5"]
    assert forest.terminate("Q5")[1]
    assert forest.trees == []


def test_what_is_handed_up_to_an_original_is_not_lost() -> None:
    forest, nodes = _figure_5()
    everything = shape_of(bound("Q6", "SELECT qty FROM trades"))
    assert everything is not None
    member = forest.prices.member("Q6", everything)
    forest.members["Q6"] = member
    adopt(member.node, [nodes["Q'"]])
    forest.has_root(forest.trees[0], member.node)
    # Merging Q3 and Q4 with Q2 does not pay if all of them are as good as disjoint and their columns are not.
    for name in ("Q'", "Q1'"):
        nodes[name].is_flagged = True
    forest.prices.cost = lambda node: float(not node.is_derived)  # type: ignore[method-assign]
    reoptimise([forest])
    assert {each.name for each in members_below(forest.trees[0].root)} == {"Q2", "Q3", "Q4", "Q5", "Q6"}
    forest.prices.cost = lambda node: 10.0 * node.is_derived  # type: ignore[method-assign]
    for node in nodes_below(forest.trees[0].root):
        node.is_flagged = node.is_derived
    reoptimise([forest])
    names = [each.name for tree in forest.trees for each in members_below(tree.root)]
    assert sorted(str(name) for name in names) == ["Q2", "Q3", "Q4", "Q5", "Q6"]


def test_a_node_has_few_children() -> None:
    groups = Groups(TrafficStatistics(values={"trades.qty": range(500)}))
    for low in range(0, 400, 4):
        groups.insert(f"q{low}", bound(f"q{low}", f"SELECT qty FROM trades WHERE qty BETWEEN {low} AND {low + 8}"))
    (forest,) = groups._forests.values()
    for tree in forest.trees:
        assert all(len(node.children) <= FAN_OUT for node in nodes_below(tree.root))
