"""A federation over time: queries come, providers work, loads are measured, rounds are held, providers fail.

All decisions are those of `weft.federation.distribution.coordinator`; here is only what the world does to it. A
provider is an M/M/1 queue that gets work in proportion to the queries it runs. Members of a cluster send heartbeats to
one another; one that is not heard for a while is taken for dead, and its queries go elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from lab.simulate.events import SECOND, Events, seconds
from lab.simulate.lasting_coordinator import LastingCoordinator
from lab.simulate.queues import Queue
from lab.simulate.wires import Wires
from weft.federation.distribution.coordinator_tree import clusters, coordinators_above, providers_below
from weft.federation.distribution.model import QuerySet, edge_cut

#: Draws some more queries: how many, and with which random numbers.
Draw = Callable[[Generator, int], QuerySet]


def _nothing() -> None:
    """What a message does that is only counted: the decision it carries is the coordinator's, and made already."""


@dataclass(frozen=True, slots=True)
class World:
    """What happens, in seconds.

    `round_every`   rounds of redistribution, and of noting how things stand
    `adapts`        whether queries are redistributed in a round
    `arrivals`      queries that come per round interval, spread over it
    `jobs`          pieces of work that a provider of capability 1 with a fair load gets per second (0: no queues)
    `busy`          the part of its time that such a provider works
    `heartbeat`     between two heartbeats; after `missed` of them a member is taken for dead
    """

    round_every: float = 200.0
    adapts: bool = True
    arrivals: int = 0
    jobs: float = 0.0
    busy: float = 0.5
    heartbeat: float = 10.0
    missed: int = 3


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stand. `stay` is how many seconds work was at a provider, on average since the moment before."""

    seconds: float
    queries: int
    edge_cut: float
    imbalance: float
    fullest: float
    moves: int
    stay: float


@dataclass(slots=True)
class Simulation:
    """One run. `start` schedules what is to happen; `events.run_until` lets it happen."""

    coordinator: LastingCoordinator
    world: World
    events: Events
    draw: Draw | None = None
    wires: Wires = field(init=False)
    queues: list[Queue] = field(init=False)
    moments: list[Moment] = field(default_factory=list)
    _heard: dict[int, int] = field(default_factory=dict)
    _moves: int = 0
    _rates: list[float] = field(default_factory=list)
    _noted: tuple[int, int] = (0, 0)
    _arrived: int = 0

    def __post_init__(self) -> None:
        network = self.coordinator.network
        self.wires = Wires(self.events, network.between)
        self.queues = [Queue(self.events, self.events.random(f"work {name}")) for name in network.providers]

    def start(self) -> None:
        """Schedules arrivals, work, heartbeats and rounds."""
        world = self.world
        self._note()
        self._weigh()
        if world.arrivals and self.draw is not None:
            self.events.every(seconds(world.round_every), self._arrive)
        if world.jobs:
            for provider in range(len(self.queues)):
                self._work_again(provider)
        if world.heartbeat:
            self.events.every(seconds(world.heartbeat), self._beat)
        self.events.every(seconds(world.round_every), self._hold_round)

    def fail(self, provider: str) -> None:
        """A provider stops without a word. What it had in its queue is lost, and its messages end."""
        number = self.coordinator.network.number[provider]
        self.wires.down.add(number)
        self.queues[number].fail()

    def recover(self, provider: str) -> None:
        """A provider that was down is there again, and joins."""
        number = self.coordinator.network.number[provider]
        self.wires.down.discard(number)
        self._heard.pop(number, None)
        if number not in providers_below(self.coordinator.tree):
            path = self._join_path(number)
            for asked in path:
                self.wires.send("join", number, asked, _nothing)
            self.coordinator.provider_joined(provider)

    def _join_path(self, number: int) -> list[int]:
        """The leaders that a provider asks on its way down: all of them on its way to the nearest leaf."""
        between, found, cluster = self.coordinator.network.between, [], self.coordinator.tree
        while True:
            found.append(cluster.leader)
            if cluster.is_leaf:
                return found
            cluster = min(cluster.children, key=lambda child: (between[number, child.leader], child.leader))

    def _arrive(self) -> None:
        assert self.draw is not None
        generator = np.random.default_rng([self.events.seed, self._arrived])
        new = self.draw(generator, self.world.arrivals)
        names = [f"new {self._arrived + number}" for number in range(len(new))]
        self._arrived += len(new)
        decisions = self.coordinator.register(names, new)
        root = self.coordinator.tree.leader
        for number, decision in enumerate(decisions):
            way = [
                int(new.home[number]),
                root,
                *(self.coordinator.network.number[step.target] for step in decision.steps),
            ]
            for a, b in pairwise(way):
                self.wires.send("route", a, b, _nothing)
        self._weigh()

    def _work_again(self, provider: int) -> None:
        """The next piece of work of a provider. How much there is depends on what it runs now."""
        rate = self._rates[provider]
        random = self.events.random(f"arrivals {provider}")
        if rate <= 0 or provider in self.wires.down:
            self.events.after(seconds(1.0), lambda: self._work_again(provider))
            return

        def work() -> None:
            if provider not in self.wires.down:
                capability = float(self.coordinator.network.capability[provider])
                self.queues[provider].arrive(self.world.busy / self.world.jobs / capability)
            self._work_again(provider)

        self.events.after(seconds(random.expovariate(rate)), work)

    def _beat(self) -> None:
        """Members of a cluster tell one another that they live; who has not been heard for too long is taken for dead.

        To tell the leader alone would not do: if it dies, those that only it has heard would be buried with it.
        """
        tree, now = self.coordinator.tree, self.events.now
        for cluster in clusters(tree):
            for member in cluster.members:
                # Who is alone is heard by nobody, and missed by nobody.
                self._heard[member] = now if len(cluster.members) == 1 else self._heard.get(member, now)
                for other in cluster.members:
                    if other != member:
                        self.wires.send("heartbeat", member, other, self._hear(member))
        allowed = seconds(self.world.heartbeat * self.world.missed)
        for provider in providers_below(tree):
            if now - self._heard[provider] > allowed:
                self._bury(provider)

    def _hear(self, member: int) -> Callable[[], None]:
        def hear() -> None:
            self._heard[member] = self.events.now

        return hear

    def _bury(self, provider: int) -> None:
        above = coordinators_above(self.coordinator.tree, provider)
        name = self.coordinator.network.providers[provider]
        plan = self.coordinator.provider_left(name)
        self._heard.pop(provider, None)
        self._moves += len(plan.moves)
        for cluster in above:
            for member in cluster.members:
                self.wires.send("leave", cluster.leader, member, _nothing)
        self._weigh()

    def _hold_round(self) -> None:
        if self.world.adapts:
            self._report()
            plan = self.coordinator.plan()
            number = self.coordinator.network.number
            for move in plan.moves:
                self.wires.send("migrate", number[move.source], number[move.target], _nothing)
            self.coordinator.moved(plan.moves)
            self._moves += len(plan.moves)
            self._weigh()
        self._note()

    def _report(self) -> None:
        """Statistics go up the tree, bundles come with them."""
        for cluster in clusters(self.coordinator.tree):
            for member in cluster.members:
                self.wires.send("statistics", member, cluster.leader, _nothing)

    def _note(self) -> None:
        coordinator = self.coordinator
        there = list(providers_below(coordinator.tree))
        load = coordinator.queries.loads(coordinator.placement, len(coordinator.network.providers))[there]
        per_capability = load / coordinator.network.capability[there]
        cut = edge_cut(coordinator.network, coordinator.substreams, coordinator.queries, coordinator.placement)
        mean = float(load.sum() / coordinator.network.capability[there].sum())
        served, stayed = sum(each.served for each in self.queues), sum(each.stayed for each in self.queues)
        served_before, stayed_before = self._noted
        self._noted = served, stayed
        self.moments.append(
            Moment(
                self.events.now / SECOND,
                len(coordinator.queries),
                cut,
                float(per_capability.std()) / mean if mean else 0.0,
                float(per_capability.max()) / mean if mean else 0.0,
                self._moves,
                (stayed - stayed_before) / max(served - served_before, 1) / SECOND,
            )
        )

    def _weigh(self) -> None:
        """By provider the pieces of work per second that its queries bring."""
        coordinator = self.coordinator
        load = coordinator.queries.loads(coordinator.placement, len(self.queues))
        there = list(providers_below(coordinator.tree))
        fair = float(load.sum() / coordinator.network.capability[there].sum())
        self._rates = (self.world.jobs * load / fair if fair else load).tolist()
