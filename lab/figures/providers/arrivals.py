"""Figure 3.10: queries keep coming. They are routed at random, online, or online with redistribution; the event
simulation, with messages and a queue at every provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from bench import report
from lab.federation.multicast import true_cost
from lab.federation.synthetic import drawn_queries
from lab.figures.providers.setting import SEED, setting
from lab.simulate.events import Events, seconds
from lab.simulate.federation import Moment, Simulation, World
from lab.simulate.lasting_coordinator import LastingCoordinator, distribute
from weft.federation.distribution.coordinator import RoutedQuery
from weft.federation.distribution.model import QuerySet, edge_cut

QUERIES, NEW, ROUNDS = 30_000, 1_500, 10
QUICK_QUERIES, QUICK_NEW, QUICK_ROUNDS = 1_500, 100, 4
SCHEMES = ("Random", "Online", "Online-Adaptive")


class RoutedAtRandom(LastingCoordinator):
    """A coordinator that throws dice: the scheme that the others are compared with."""

    def register(self, names: Sequence[str], queries: QuerySet) -> tuple[RoutedQuery, ...]:
        placed = np.random.default_rng([SEED, len(self.names)]).integers(len(self.network.providers), size=len(queries))
        providers = [self.network.providers[at] for at in placed]
        self.settled(names, queries, providers)
        return tuple(RoutedQuery(name, ()) for name in names)


@dataclass(frozen=True)
class Course:
    scheme: str
    moments: list[Moment]
    #: At the end, against every query at home.
    edge_cut: float
    true_cost: float
    messages: dict[str, int]


def measure(quick: bool) -> list[Course]:
    given = setting(quick)
    queries = given.queries(QUICK_QUERIES if quick else QUERIES)
    names = [f"q{number}" for number in range(len(queries))]
    rounds = QUICK_ROUNDS if quick else ROUNDS

    def draw(random: Generator, count: int) -> QuerySet:
        return drawn_queries(given.drawn, random, count, len(given.network.providers))[0]

    found = []
    for scheme in SCHEMES:
        report.progress(f"  {scheme}")
        kind = RoutedAtRandom if scheme == "Random" else LastingCoordinator
        coordinator = kind(given.network, given.substreams, SEED)
        distribute(coordinator, names, queries)
        # The start is the same for all, and settled: what follows is what the newcomers do.
        for _ in range(2):
            coordinator.moved(coordinator.plan().moves)
        world = World(adapts=scheme == "Online-Adaptive", arrivals=QUICK_NEW if quick else NEW, jobs=0.1, heartbeat=50)
        simulation = Simulation(coordinator, world, Events(SEED), draw)
        simulation.start()
        simulation.events.run_until(seconds(world.round_every * rounds))
        end, home = coordinator.placement, coordinator.queries.home.astype(np.int32)
        given_now = given.network, given.substreams, coordinator.queries
        cuts = [edge_cut(*given_now, each) for each in (end, home)]
        costs = [true_cost(given.trees, *given_now, each).total for each in (end, home)]
        sent = dict(simulation.wires.sent)
        found.append(Course(scheme, simulation.moments, cuts[0] / cuts[1], costs[0] / costs[1], sent))
    return found


def show(found: list[Course], quick: bool) -> None:
    rows = [
        (
            each.scheme,
            each.moments[-1].queries,
            each.true_cost,
            each.edge_cut,
            each.moments[-1].imbalance,
            each.moments[-1].fullest,
            each.moments[-1].stay,
            each.moments[-1].moves,
            sum(each.messages.values()),
        )
        for each in found
    ]
    columns = ("scheme", "queries", "true cost", "edge cut", "imbalance", "fullest", "stay s", "moves", "messages")
    note = (
        "At the end; costs against Naive, load against the fair one; `stay` is how long a piece of work stays at a "
        "provider. The source: Random worsens; Online keeps cost low but imbalance grows; Online-Adaptive best on both."
    )
    report.table("New queries (Figure 3.10)", columns, rows, note)
