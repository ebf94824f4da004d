"""The simulator: queues against theory, messages, and a federation that grows, fails and recovers."""

from __future__ import annotations

import numpy as np
import pytest

from lab.federation.synthetic import drawn_queries, workload
from lab.simulate.events import Events, seconds
from lab.simulate.federation import Simulation, World
from lab.simulate.queues import Queue
from lab.simulate.wires import Wires
from tests.federation.distribution.test_coordinator import federation
from weft.federation.distribution.coordinator_tree import clusters, providers_below


@pytest.mark.parametrize("busy", [0.3, 0.7])
def test_work_stays_as_long_as_theory_says(busy: float) -> None:
    events = Events(seed=1)
    queue, arrivals = Queue(events, events.random("work")), events.random("arrivals")

    def arrive() -> None:
        queue.arrive(busy)
        events.after(seconds(arrivals.expovariate(1.0)), arrive)

    arrive()
    events.run_until(seconds(40_000))
    # M/M/1 with one arrival per second: 1 / (1/busy − 1) seconds from arrival to the end of service.
    assert queue.mean_stay == pytest.approx(1 / (1 / busy - 1), rel=0.1)
    assert queue.busy / events.now == pytest.approx(busy, rel=0.05)


def test_a_queue_that_fails_forgets_what_waits() -> None:
    events, served = Events(), []
    queue = Queue(events, events.random("work"))
    queue.arrive(1.0, lambda: served.append("lost"))
    queue.fail()
    queue.arrive(1.0, lambda: served.append("kept"))
    events.run()
    assert (served, queue.served) == (["kept"], 1)


def test_messages_take_their_time_are_counted_and_get_lost() -> None:
    events, got = Events(), []
    wires = Wires(events, np.array([[0.0, 20.0], [20.0, 0.0]]))
    wires.send("hello", 0, 1, lambda: got.append(events.now))
    events.run()
    assert got == [seconds(0.02)]
    wires.send("hello", 0, 1, lambda: got.append(events.now))
    wires.down.add(1)
    wires.send("hello", 1, 0, lambda: got.append(events.now))
    events.run()
    assert (len(got), wires.sent["hello"], wires.lost["hello"]) == (1, 2, 1)


def simulation(adapts: bool, seed: int = 1) -> Simulation:
    drawn = workload(2, sources=10, substreams=500, groups=6, fewest=20, most=40)
    world = World(adapts=adapts, arrivals=60, jobs=0.2)
    return Simulation(
        federation(), world, Events(seed), lambda random, count: drawn_queries(drawn, random, count, 30)[0]
    )


def test_redistribution_keeps_the_balance_that_routing_alone_loses() -> None:
    ends = {}
    for adapts in (False, True):
        run = simulation(adapts)
        run.start()
        run.events.run_until(seconds(1000))
        assert [moment.seconds for moment in run.moments] == [0, 200, 400, 600, 800, 1000]
        assert run.moments[-1].queries == 400 + 5 * 60
        assert run.wires.sent["route"] > 0
        ends[adapts] = run.moments[-1]
    assert ends[True].imbalance < ends[False].imbalance / 2
    assert ends[True].stay < ends[False].stay
    assert ends[False].moves == 0 < ends[True].moves


def test_a_seed_repeats_a_run() -> None:
    def run(seed: int) -> list:
        found = simulation(True, seed)
        found.start()
        found.events.run_until(seconds(500))
        return [found.moments, found.events.happened, found.wires.sent]

    assert run(1) == run(1)
    assert run(1) != run(2)


@pytest.mark.parametrize("leads", [False, True])
def test_a_provider_that_dies_is_missed_and_its_queries_go_elsewhere(leads: bool) -> None:
    """A leader, too: those that it leads are not taken for dead with it."""
    run = simulation(False)
    run.start()
    leaders = {cluster.leader for cluster in clusters(run.coordinator.tree)}
    running = set(run.coordinator.placement.tolist())
    number = min(running & leaders if leads else running - leaders)
    name = run.coordinator.network.providers[number]
    run.events.at(seconds(55), lambda: run.fail(name))
    run.events.run_until(seconds(60))
    assert number in run.coordinator.placement
    run.events.run_until(seconds(120))
    assert number not in run.coordinator.placement
    assert number not in providers_below(run.coordinator.tree)
    assert run.wires.lost["heartbeat"] > 0
    others = set(range(30)) - {number}
    assert set(providers_below(run.coordinator.tree)) == others
    run.recover(name)
    assert number in providers_below(run.coordinator.tree)
    run.events.run_until(seconds(180))
    assert number in providers_below(run.coordinator.tree)
