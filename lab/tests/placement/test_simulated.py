"""The simulated cluster: what it is made of, and what must hold whatever moves where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from lab.placement.partners import Bounds
from lab.placement.simulated.cluster import (
    ELEMENTARY,
    FLOW_AWARE,
    HOMING,
    INTERMEDIATE,
    OP_BASED,
    STATIC,
    Cluster,
    Control,
    Scheme,
    run,
)
from lab.placement.simulated.tuples import Network, Tuples
from lab.placement.simulated.units import units
from lab.placement.simulated.workload import Setting, Workload, draw
from lab.simulate.events import SECOND, seconds

SMALL = Setting(nodes=6, queries=90)
DYNAMIC = (ELEMENTARY, INTERMEDIATE, FLOW_AWARE, HOMING, OP_BASED)


def _faster(workload: Workload, nodes: set[int], factor: float) -> Callable[[Cluster], None]:
    streams = [stream for stream, node in enumerate(workload.delegates) if node in nodes]
    return lambda cluster: cluster.tuples.change_rates(streams, factor)


def _perturbed(scheme: Scheme, seed: int = 1, until: float = 16.0) -> Cluster:
    workload = draw(SMALL, seed)
    cluster = Cluster(workload, scheme, Control(bounds=Bounds(3, 2)), horizon=until, seed=seed)
    return run(cluster, until, ((3.0, _faster(workload, {0}, 3.0)), (9.0, _faster(workload, {0}, 1.0))))


def test_five_hundred_queries_have_5750_operators() -> None:
    workload = draw(Setting(), 1)
    assert workload.operators == 5_750
    assert sum(len(query.fragments) for query in workload.queries) == 2.5 * 500
    for query in workload.queries:
        streams = [fragment.stream for fragment in query.fragments]
        assert len(set(streams)) == len(streams)
        assert len(query.work) == 4 * len(streams) + len(streams) - 1


def test_streams_are_dealt_evenly_and_loads_are_balanced() -> None:
    workload = draw(Setting(), 2)
    chosen = Counter(fragment.stream for query in workload.queries for fragment in query.fragments)
    assert max(chosen.values()) - min(chosen.values()) <= 2
    assert set(Counter(workload.delegates).values()) == {3}
    cluster = run(Cluster(workload, STATIC, horizon=5, seed=2), 5.0)
    assert cluster.moments[-1].imbalance < 0.1 * cluster.moments[-1].mean_load


def test_zipf_makes_loads_unlike() -> None:
    cluster = run(Cluster(draw(Setting(skew=0.95), 1), STATIC, horizon=5, seed=1), 5.0)
    assert cluster.moments[-1].imbalance > 0.4 * cluster.moments[-1].mean_load


@pytest.mark.parametrize("split", [False, True])
def test_units_have_every_operator_once(split: bool) -> None:
    workload = draw(SMALL, 3)
    made = units(workload, split=split)
    assert sorted(made.operators["identity"].tolist()) == list(range(workload.operators))
    assert made.number == (workload.operators if split else sum(len(query.fragments) for query in workload.queries))
    for unit, others in enumerate(made.neighbours):
        assert all(unit in made.neighbours[other] for other in others)


def _moved_at_random(workload: Workload, network: Network, moves: int, split: bool = False) -> Tuples:
    """Four seconds in which units move to random nodes, again and again, and then until all is worked off."""
    made = units(workload, split=split)
    tuples = Tuples(workload.setting, made, network, horizon=60, seed=5)
    random = np.random.default_rng(5)
    for step in range(40):
        tuples.advance(step * SECOND // 10)
        for unit in random.integers(0, made.number, moves):
            if tuples.ready[unit]:
                tuples.move(int(unit), int(random.integers(0, workload.setting.nodes)))
    tuples.drain()
    return tuples


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("split", [True, False])
def test_answers_are_the_same_while_units_move_at_random(shared: bool, split: bool) -> None:
    workload, network = draw(SMALL, 4), Network(shared=shared)
    still = _moved_at_random(workload, network, 0)
    moved = _moved_at_random(workload, network, 20, split)
    assert still.answers[0] > 10_000
    assert moved.answers == still.answers
    assert moved.world.tally["moved"][0] > 300
    assert moved.ready.all()
    assert (moved.world.units["kept_first"] == -1).all()
    assert len(moved.world.messages) == moved.world.tally["unused"][0]


def test_the_checksum_sees_a_lost_answer() -> None:
    """What the test above rests on: streams that stop a little earlier give other answers."""
    workload = draw(SMALL, 4)
    made = units(workload)
    found = []
    for until in (2.0, 2.01):
        tuples = Tuples(SMALL, made, Network(), horizon=60, seed=5)
        tuples.advance(seconds(until))
        tuples.drain()
        found.append(tuples.answers)
    assert found[0][0] < found[1][0]
    assert found[0][1] != found[1][1]


def test_work_of_units_adds_up_to_work_of_nodes() -> None:
    cluster = _perturbed(HOMING)
    assert len(cluster.moves) > 5
    assert cluster.tuples.spent().sum() == pytest.approx(cluster.tuples.offered().sum())


def test_other_work_is_nobodys() -> None:
    workload = draw(SMALL, 1)
    cluster = Cluster(workload, STATIC, horizon=6, seed=1)
    cluster.tuples.add_work(2, 0.4)
    cluster.advance(6.0)
    more = cluster.tuples.offered() - run(Cluster(workload, STATIC, horizon=6, seed=1), 6.0).tuples.offered()
    assert more[2] == pytest.approx(0.4 * 6, rel=0.15)
    assert np.delete(more, 2) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("scheme", DYNAMIC, ids=lambda scheme: scheme.name)
def test_no_unit_is_lost_or_doubled_by_balancing(scheme: Scheme) -> None:
    cluster = _perturbed(scheme)
    place = list(cluster.units.native)
    for move in cluster.moves:
        assert place[move.unit] == move.giver
        place[move.unit] = move.receiver
    assert place == cluster.tuples.at.tolist()
    still = _perturbed(STATIC)
    cluster.tuples.drain()
    still.tuples.drain()
    assert cluster.tuples.answers == still.tuples.answers


def test_a_run_repeats_itself_and_another_seed_is_another_run() -> None:
    first, again, other = _perturbed(HOMING), _perturbed(HOMING), _perturbed(HOMING, seed=2)
    assert first.moves == again.moves
    assert first.moments == again.moments
    assert np.array_equal(first.tuples.ratios(), again.tuples.ratios(), equal_nan=True)
    assert first.wires.sent == again.wires.sent
    assert first.moves != other.moves


def test_balanced_nodes_leave_each_other_alone() -> None:
    assert run(Cluster(draw(Setting(), 1), HOMING, horizon=10, seed=1), 10.0).moves == []


def test_static_moves_nothing_and_neither_do_nodes_without_partners() -> None:
    assert _perturbed(STATIC).moves == []
    workload = draw(SMALL, 1)
    alone = Cluster(workload, FLOW_AWARE, Control(bounds=Bounds(0, 0)), horizon=8, seed=1)
    assert run(alone, 8.0, ((1.0, _faster(workload, {0, 1}, 3.0)),)).moves == []


def test_partners_know_each_other() -> None:
    cluster = run(Cluster(draw(Setting(), 1), FLOW_AWARE, horizon=2, seed=1), 2.0)
    for node, partners in enumerate(cluster.partners):
        assert partners.all
        assert all(node in cluster.partners[other].all for other in partners.all)


def test_only_homing_brings_everything_home() -> None:
    """After a perturbation that has passed. The others come to rest when loads are alike, wherever units are; with
    homing a few stay away whose return would make no two loads more alike."""
    away = {}
    for scheme in (ELEMENTARY, INTERMEDIATE, FLOW_AWARE, HOMING):
        cluster = _perturbed(scheme, until=30.0)
        natives = np.array(cluster.units.native)
        away[scheme.name] = int((cluster.tuples.at != natives).sum())
    homing = away.pop("homing")
    assert homing <= 4
    assert all(number > 3 * homing for number in away.values()), away


@pytest.mark.parametrize("scheme", [FLOW_AWARE, HOMING], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("seed", [1, 2])
def test_migration_comes_to_rest(scheme: Scheme, seed: int) -> None:
    cluster = _perturbed(scheme, seed, until=40.0)
    assert sum(3.0 <= move.second < 9.0 for move in cluster.moves) > 5
    assert sum(move.second >= 25.0 for move in cluster.moves) <= 2


def test_moving_twice_at_once_is_refused() -> None:
    workload = draw(SMALL, 1)
    tuples = Tuples(SMALL, units(workload), Network(), horizon=5, seed=1)
    tuples.advance(SECOND)
    tuples.move(0, 3)
    with pytest.raises(ValueError, match="on its way"):
        tuples.move(0, 4)


def test_a_network_too_slow_for_its_load_is_given_up_with_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.placement.simulated.tuples._MOST", 1 << 16)
    slow = Network(bits_per_second=1e5)
    cluster = Cluster(draw(SMALL, 1), STATIC, network=slow, horizon=400, seed=1)
    cluster.advance(400.0)
    assert cluster.congested
    assert 0 < len(cluster.moments) < 400
