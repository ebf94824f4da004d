"""The event simulation: queues and links as theory has them, runs that repeat, nodes that slow down or die."""

from __future__ import annotations

from math import exp

import pytest

from lab.dissemination.arrays import arrays, average_loss
from lab.dissemination.construction import bundle_each, greedy, one_bundle, random_trees
from lab.dissemination.overlay import Overlay, overlay
from lab.dissemination.trees import tree_of
from lab.simulate.dissemination import Dissemination, disseminate
from lab.simulate.tree_rounds import Intervals
from lab.tests.dissemination.overlays import drawn

_NO_TIME = 1e-9


def _line(delay: float, filter_time: float, nodes: int = 1, rate: float = 1.0) -> Overlay:
    count = nodes + 1
    delays = [[delay if i != j else 0.0 for j in range(count)] for i in range(count)]
    return overlay([rate] * count, [filter_time] * count, [_NO_TIME] * count, delays)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_a_node_is_behind_as_long_as_its_parents_queue_is_not_empty(load: float) -> None:
    """M/M/1: that is a share ρ of the time."""
    measured = disseminate(_line(0.0, load), (tree_of({1: 0}, nodes=2),), duration=20_000)
    assert measured.average_loss == pytest.approx(load, abs=0.02)


def test_a_link_holds_updates_as_long_as_its_delay() -> None:
    """M/D/∞: an update is on its way with probability 1 − e^(−rate × delay)."""
    measured = disseminate(_line(0.7, _NO_TIME), (tree_of({1: 0}, nodes=2),), duration=20_000)
    assert measured.average_loss == pytest.approx(1 - exp(-0.7), abs=0.02)


def test_every_update_comes_once_to_each_node_that_wants_it_or_forwards_it() -> None:
    of = overlay([[1.0, 1.0], [1.0, 0.0], [0.5, 1.0]], [0.001] * 3, [0.001] * 3, [[0, 0.01, 0.01]] * 3)
    measured = disseminate(of, (tree_of({1: 0, 2: 1}, nodes=3, objects=(0, 1)),), duration=4000)
    # Of object 0 node 1 gets all and node 2 half; object 1 goes through node 1, which does not want it, to node 2.
    assert measured.counts["received"] / measured.counts["updates"] == pytest.approx((1 + 0.5 + 1 + 1) / 2, rel=0.05)
    assert measured.counts["doubled"] == measured.counts["lost"] == 0


def test_the_model_predicts_what_is_measured_while_nodes_are_not_busy() -> None:
    of = drawn(40, 1, seed=5, busy=0.3)
    for forest in (greedy(of, one_bundle(of)), random_trees(of, one_bundle(of), 1)):
        predicted = average_loss(arrays(of, forest))
        # Losses overlap when an update comes before the last one has arrived; the model counts them twice.
        assert 0.85 * predicted < disseminate(of, forest, duration=1500).average_loss < 1.02 * predicted


def test_the_same_seed_is_the_same_run() -> None:
    of = drawn(12, 2, seed=1)
    forest = random_trees(of, bundle_each(of), 1)
    runs = [disseminate(of, forest, 500, seed, Intervals(50, 20), window=100) for seed in (3, 3, 4)]
    assert runs[0] == runs[1]
    assert runs[0].losses != runs[2].losses


@pytest.mark.parametrize("bundles", [one_bundle, bundle_each])
def test_a_random_forest_gets_better_while_it_runs(bundles: object) -> None:
    of = drawn(30, 3, seed=2, busy=0.5)
    start = random_trees(of, bundles(of), 1)  # type: ignore[operator]
    run = Dissemination(of, start, seed=1, adapt=Intervals(tokens=10, statistics=50))
    measured = run.advance(505, window=101)
    assert measured.counts["reorganisations"] > 20
    assert measured.losses[-1] < 0.8 * disseminate(of, start, 505, seed=1).average_loss
    assert average_loss(arrays(of, measured.forest)) < average_loss(arrays(of, start))
    if bundles is bundle_each:
        assert measured.counts["nack"] > 0
    # Between two rounds nobody waits for anybody, and the trees of the nodes are those of the forest.
    for node, state in enumerate(run.control._nodes):
        assert state.is_idle
        for number, tree in enumerate(measured.forest):
            assert set(state.children.get(number, ())) == set(tree.children(node))


def test_nodes_that_become_slow_are_moved_down() -> None:
    of = drawn(30, 1, seed=8, busy=0.3)
    forest = greedy(of, one_bundle(of))
    inner = [node for node in forest[0].children(0) if forest[0].children(node)]
    times = [time * (20 if node in inner else 1) for node, time in enumerate(of.filter_time)]

    def last_loss(adapt: Intervals | None) -> tuple[float, int]:
        run = Dissemination(of, forest, seed=1, adapt=adapt)
        run.advance(300)
        run.change_times(times, of.send_time.tolist())
        measured = run.advance(2000, window=500)
        return measured.losses[-1], sum(len(measured.forest[0].children(node)) for node in inner)

    stubborn, _ = last_loss(None)
    adaptive, children_left = last_loss(Intervals(tokens=20, statistics=50))
    assert adaptive < 0.5 * stubborn
    assert children_left < sum(len(forest[0].children(node)) for node in inner)


def test_a_dead_nodes_children_go_to_the_node_above_and_catch_up() -> None:
    of = _line(0.01, 0.001, nodes=4)
    chain = (tree_of({1: 0, 2: 1, 3: 2, 4: 3}, nodes=5),)
    run = Dissemination(of, chain, seed=1)
    well = run.advance(500).average_loss
    run.fail(2, noticed_after=100)
    behind = run.advance(100).average_loss
    after = run.advance(500)
    # Of the three that are left, two hear nothing for a hundred seconds.
    assert behind == pytest.approx(2 / 3, abs=0.05)
    assert after.average_loss < 1.1 * well
    assert after.forest[0].parents == (-1, 0, -2, 1, 3)
    assert after.counts["lost"] == pytest.approx(100, abs=35)
    assert after.counts["caught up"] == 1


def test_a_node_may_die_in_the_middle_of_a_round() -> None:
    of = drawn(20, 3, seed=3)
    run = Dissemination(of, random_trees(of, bundle_each(of), 1), seed=1, adapt=Intervals(tokens=5, statistics=20))
    for node in (3, 7, 11):
        run.advance(5.03)
        run.fail(node, noticed_after=0.02)
    measured = run.advance(100)
    assert all(not {3, 7, 11} & set(tree.members) for tree in measured.forest)
    assert measured.average_loss < 0.5
