"""Trees from nothing and trees that adapt, against all trees there are."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from lab.dissemination import cost
from lab.dissemination.annealing import FAST, anneal
from lab.dissemination.arrays import arrays, average_loss, forest_of
from lab.dissemination.construction import (
    bundle_each,
    dita,
    dita_tree,
    greedy,
    one_bundle,
    random_trees,
    star,
)
from lab.dissemination.overlay import Overlay
from lab.dissemination.rounds import adapt, token_round
from lab.dissemination.trees import Forest, Tree, TreeError, pruned
from lab.tests.dissemination.overlays import drawn, worked


def _all_trees(of: Overlay) -> list[Forest]:
    found = []
    for parents in product(range(of.nodes), repeat=of.nodes - 1):
        try:
            found.append((Tree((-1, *parents), tuple(range(of.objects))),))
        except TreeError:
            continue
    return found


def test_there_are_as_many_trees_as_cayley_says() -> None:
    assert len(_all_trees(drawn(4, 1, seed=0))) == 5 ** (5 - 2)


@pytest.mark.parametrize("seed", range(6))
def test_annealing_finds_the_best_of_all_trees_and_the_others_are_near(seed: int) -> None:
    of = drawn(4, 1 + seed % 2, seed, busy=[0.3, 1.0, 5.0][seed % 3])
    optimum = min(average_loss(arrays(of, forest)) for forest in _all_trees(of))
    bundles = one_bundle(of)
    random = random_trees(of, bundles, seed)
    annealed = anneal(of, random, seed, FAST)
    assert average_loss(arrays(of, annealed)) == pytest.approx(optimum)
    adapted = arrays(of, random)
    history = adapt(adapted, rounds=50)
    assert optimum - 1e-12 <= history[-1] <= 1.5 * optimum
    assert optimum - 1e-12 <= average_loss(arrays(of, greedy(of, bundles))) <= 1.5 * optimum


def test_the_worked_example_at_its_best() -> None:
    of = worked()
    best = min(_all_trees(of), key=lambda forest: cost.average_loss(of, forest))
    assert anneal(of, star(of, one_bundle(of)), seed=1, schedule=FAST) == best


@pytest.mark.parametrize("build", [star, greedy, dita, lambda of, bundles: random_trees(of, bundles, 7)])
def test_every_tree_reaches_all_who_want_it_and_nobody_else(build: object) -> None:
    of = drawn(15, 3, seed=2, interest=0.4)
    for bundles in (one_bundle(of), bundle_each(of)):
        forest: Forest = build(of, bundles)  # type: ignore[operator]
        assert [tree.objects for tree in forest] == list(bundles)
        for tree in forest:
            assert set(tree.members) == {0, *of.interested(tree.objects)}


def test_the_same_seed_gives_the_same_forest() -> None:
    of = drawn(12, 2, seed=3)
    start = random_trees(of, bundle_each(of), 1)
    assert start == random_trees(of, bundle_each(of), 1)
    assert anneal(of, start, 5, FAST) == anneal(of, start, 5, FAST)


def test_nobody_gets_more_from_dita_than_its_parent_wants() -> None:
    of = drawn(30, 1, seed=9)
    for fan_out in (1, 2, 5):
        tree = dita_tree(of, (0,), fan_out)
        for node in tree.members[1:]:
            parent = tree.parents[node]
            assert of.rates[parent, 0] >= of.rates[node, 0]
            assert len(tree.children(parent)) <= fan_out


def test_rounds_never_make_it_worse_and_stop_where_no_rule_helps() -> None:
    of = drawn(40, 3, seed=11)
    made = arrays(of, random_trees(of, one_bundle(of), 1))
    history = adapt(made, rounds=200)
    assert all(later < earlier for earlier, later in pairwise(history[:-1]))
    assert token_round(made) == []
    assert average_loss(made) == pytest.approx(cost.average_loss(of, forest_of(made)), rel=1e-9)


def test_a_round_passes_every_inner_node_once() -> None:
    of = drawn(40, 1, seed=12)
    made = arrays(of, random_trees(of, one_bundle(of), 1))
    done = token_round(made)
    apexes = [_apex(each.rule, each.moves) for each in done]
    assert len(apexes) == len(set(apexes))
    assert len(apexes) > 5


def _apex(rule: str, moves: tuple) -> int | tuple[int, int]:  # type: ignore[type-arg]
    """The node that decided, as far as the moves tell: for cousins and adoptions their parents' names."""
    if rule in ("promotion", "parent_child", "uncle_nephew"):
        return int(moves[0].new_parent)
    return int(moves[0].parent) if rule == "demotion" else (moves[0].parent, moves[0].new_parent)


def test_a_tree_per_object_annealed_from_one_tree_is_never_worse_than_it() -> None:
    for seed in range(4):
        of = drawn(8, 3, seed, interest=0.5)
        (single,) = anneal(of, random_trees(of, one_bundle(of), seed), seed, FAST)
        ways = tuple(pruned(single, x, of.interested((x,))) for x in range(of.objects))
        before = cost.average_loss(of, ways)
        made = arrays(of, ways)
        assert adapt(made, rounds=100)[-1] <= before + 1e-12
