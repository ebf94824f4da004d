"""Nodes that measure, tell, ask and give, by the decisions of `lab.placement`.

Every node has a clock of its own. Each window it measures its load, filters it, and tells its partners if that is news;
each round it asks for work if it has little. Requests that have come are served at the end of a window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from lab.placement.fragments import neighbouring_factors
from lab.placement.load import NEWS, WEIGHT, is_news, low_pass
from lab.placement.partners import (
    Bounds,
    Partners,
    answered,
    ask,
    asked,
    found,
    refreshed,
    should_look_further,
)
from lab.placement.performance import imbalance
from lab.placement.requests import APART, Request, home_requests, in_order, request
from lab.placement.selection import Movable, Strategy, allowance, select
from lab.placement.simulated.tuples import Congested, Network, Tuples
from lab.placement.simulated.units import units
from lab.placement.simulated.workload import Workload
from lab.simulate.events import SECOND, Events, seconds
from lab.simulate.wires import Wires


@dataclass(frozen=True, slots=True)
class Scheme:
    """How work is placed. Without a strategy nothing moves; `split` moves operators instead of whole fragments."""

    name: str
    strategy: Strategy | None
    split: bool = False


STATIC = Scheme("Static", None)
ELEMENTARY = Scheme("Elementary", Strategy.ELEMENTARY)
INTERMEDIATE = Scheme("Intermediate", Strategy.INTERMEDIATE)
FLOW_AWARE = Scheme("flow-aware", Strategy.FLOW_AWARE)
HOMING = Scheme("homing", Strategy.HOMING)
#: Operator by operator, and without a look at the flow of data, as balancing of single operators does it.
OP_BASED = Scheme("OP-based", Strategy.ELEMENTARY, split=True)


@dataclass(frozen=True, slots=True)
class Control:
    """The parameters of balancing, in seconds where they are times.

    `overloaded` is the load from which on a node looks beyond its partners, and `probes` how many nodes it looks at in
    a round; `refresh` is how often refusals of partnership are forgotten; `shipping` is the part of the network that
    state on the move may take: what is to move waits where it runs until there is room, because a unit that waits on
    the way is one that nobody runs. These four are our choice.
    """

    window: float = 0.1
    round: float = 1.0
    factor: float = NEWS
    weight: float = WEIGHT
    bounds: Bounds = field(default_factory=Bounds)
    overloaded: float = 0.9
    probes: int = 3
    refresh: float = 10.0
    shipping: float = 0.25


@dataclass(frozen=True, slots=True)
class Move:
    """A unit that began to move, at a second."""

    second: float
    unit: int
    giver: int
    receiver: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A second of a run: the bits that were sent in it, moves that began, and how loads stand at its end."""

    second: int
    row_bits: float
    state_bits: float
    moves: int
    imbalance: float
    mean_load: float


@dataclass(slots=True)
class _Node:
    partners: Partners = field(default_factory=Partners)
    load: float = 0.0
    offered: float = 0.0
    told: float = 0.0
    known: dict[int, float] = field(default_factory=dict)
    requests: list[Request[int]] = field(default_factory=list)
    had: float = 0.0
    given: float = 0.0
    leaving: dict[int, int] = field(default_factory=dict)
    """Units that will move as soon as the network has room, and where to."""


class Cluster:
    """A run. `advance` lets seconds pass, and `tuples` can be changed in between."""

    def __init__(
        self,
        workload: Workload,
        scheme: Scheme,
        control: Control | None = None,
        network: Network | None = None,
        horizon: float = 60.0,
        seed: int = 0,
    ) -> None:
        self.workload, self.scheme, self.control = workload, scheme, control or Control()
        self.setting = setting = workload.setting
        self.units = units(workload, split=scheme.split)
        self.network = network or Network()
        self.tuples = Tuples(setting, self.units, self.network, horizon, seed)
        self.events = Events(seed)
        self.wires = Wires(self.events, np.full((setting.nodes, setting.nodes), 0.2))
        self.moves: list[Move] = []
        self.moments: list[Moment] = []
        self.congested = False
        self._nodes = [_Node() for _ in range(setting.nodes)]
        self._unit_load = np.zeros(self.units.number)
        self._seen = self._counts()
        self._neighbours = self._ranked_neighbours()
        self._natives: list[list[int]] = [[] for _ in self._nodes]
        self._of_stream: list[list[int]] = [[] for _ in range(setting.streams)]
        for unit, (native, stream) in enumerate(zip(self.units.native, self.units.stream, strict=True)):
            self._natives[native].append(unit)
            self._of_stream[stream].append(unit)
        self._start()

    def _start(self) -> None:
        control, events = self.control, self.events
        events.every(seconds(control.window), self._window)
        events.every(SECOND, self._note)
        if self.scheme.strategy is None or not control.bounds.most_asked:
            return
        phases = events.random("phases")
        for node in range(self.setting.nodes):
            events.at(0, partial(self._ask, node))
            events.every(seconds(control.refresh), partial(self._refresh, node))
            events.at(seconds(phases.uniform(0.0, control.round)), partial(self._begin_rounds, node))

    def _begin_rounds(self, node: int) -> None:
        self.events.every(seconds(self.control.round), partial(self._round, node))

    # --- what can be done, and seen ----------------------------------------------------------------------------------

    def advance(self, until: float) -> None:
        """Lets time pass to a second of the run; less, if messages pile up."""
        if self.congested:
            return
        try:
            self.events.run_until(seconds(until))
            self.tuples.advance(seconds(until))
        except Congested:
            self.congested = True

    @property
    def loads(self) -> list[float]:
        """What nodes take for their load."""
        return [node.load for node in self._nodes]

    @property
    def partners(self) -> list[Partners]:
        return [node.partners for node in self._nodes]

    def worst_ratios(self) -> NDArray[np.float64]:
        """PR_max, second by second: of the mean performance ratios of all queries and streams the largest."""
        ended = len(self.moments)
        ratios = self.tuples.ratios()[:ended]
        return np.asarray(np.nanmax(ratios, axis=1, initial=0.0))

    # --- measuring ---------------------------------------------------------------------------------------------------

    def _counts(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        return self.tuples.busy(), self.tuples.offered(), self.tuples.spent()

    def _window(self) -> None:
        """The end of a window: loads are measured, news told, requests served."""
        self.tuples.advance(self.events.now)
        counts, window, weight = self._counts(), self.control.window, self.control.weight
        busy, offered, spent = ((now - before) / window for now, before in zip(counts, self._seen, strict=True))
        self._seen = counts
        self._unit_load = weight * self._unit_load + (1.0 - weight) * spent
        for number, node in enumerate(self._nodes):
            node.load = low_pass(node.load, float(busy[number]), weight)
            node.offered = low_pass(node.offered, float(offered[number]), weight)
            if is_news(node.load, node.told, self.control.factor):
                self._tell(number)
        for number in range(self.setting.nodes):
            self._serve(number)
        self._ship()

    def _tell(self, number: int) -> None:
        node = self._nodes[number]
        node.told = node.load
        for partner in node.partners.all:
            self.wires.send("load", number, partner, partial(self._hear, partner, number, node.load))

    def _hear(self, number: int, partner: int, load: float) -> None:
        self._nodes[number].known[partner] = load

    def _note(self) -> None:
        self.tuples.advance(self.events.now)
        second = self.events.now // SECOND - 1
        rows, states = self.tuples.bits_sent
        before = self.moments
        loads = self.loads
        self.moments.append(
            Moment(
                second,
                rows - sum(each.row_bits for each in before),
                states - sum(each.state_bits for each in before),
                len(self.moves) - sum(each.moves for each in before),
                imbalance(loads),
                sum(loads) / len(loads),
            )
        )

    # --- partners ----------------------------------------------------------------------------------------------------

    def _ranked_neighbours(self) -> list[list[int]]:
        native = self.units.native
        pairs = chain.from_iterable(
            ((native[unit], native[other]) for other in others if unit < other)
            for unit, others in enumerate(self.units.neighbours)
        )
        factors = neighbouring_factors(pairs, self.setting.nodes)
        return [[node for node, _ in sorted(each.items(), key=lambda item: (-item[1], item[0]))] for each in factors]

    def _strangers(self, number: int) -> list[int]:
        near = {number, *self._neighbours[number], *self._nodes[number].partners.all}
        others = [node for node in range(self.setting.nodes) if node not in near]
        self.events.random("strangers").shuffle(others)
        return others

    def _ask(self, number: int) -> None:
        node = self._nodes[number]
        node.partners, questions = ask(
            node.partners, self._neighbours[number], self._strangers(number), self.control.bounds
        )
        for other in questions:
            self.wires.send("partner?", number, other, partial(self._asked, other, number))

    def _asked(self, number: int, by: int) -> None:
        node = self._nodes[number]
        node.partners, yes = asked(node.partners, by, self.control.bounds)
        if yes:
            node.known[by] = self._nodes[by].load
        self.wires.send("partner!", number, by, partial(self._answered, by, number, yes, node.load))

    def _answered(self, number: int, by: int, yes: bool, load: float) -> None:
        node = self._nodes[number]
        node.partners = answered(node.partners, by, yes)
        if yes:
            node.known[by] = load
        self._ask(number)

    def _refresh(self, number: int) -> None:
        node = self._nodes[number]
        node.partners = refreshed(node.partners)
        self._ask(number)

    def _look_further(self, number: int) -> None:
        """Nodes are looked at one by one until one has clearly less to do; it becomes a partner, and may ask."""
        for other in self._strangers(number)[: self.control.probes]:
            self.wires.sent["probe"] += 1
            if self._nodes[other].load * self.control.factor < self._nodes[number].load:
                for one, two in ((number, other), (other, number)):
                    self._nodes[one].partners = found(self._nodes[one].partners, two)
                    self._nodes[one].known[two] = self._nodes[two].load
                return

    # --- asking and giving -------------------------------------------------------------------------------------------

    def _round(self, number: int) -> None:
        node = self._nodes[number]
        # Who gives work away, or has just done so, has too much of it, whatever its load will be when that has moved.
        gives = bool(node.leaving) or node.given > 0.0
        node.had, node.given = node.load, 0.0
        if should_look_further(node.load, list(node.known.values()), self.control.overloaded):
            self._look_further(number)
        homing = self.scheme.strategy is Strategy.HOMING
        questions = self._calls_home(number) if homing and not gives else []
        if not questions:
            asks = request(number, node.load, node.known, self.control.factor, APART if homing else None)
            questions = [] if asks is None else [asks]
        for asks in questions:
            self.wires.send("request", number, asks.giver, partial(self._nodes[asks.giver].requests.append, asks))

    def _calls_home(self, number: int) -> list[Request[int]]:
        """A node sends its streams to those that run its fragments, so it knows them, and they tell it their loads."""
        at, ready = self.tuples.at, self.tuples.ready
        hosts = sorted({int(at[unit]) for unit in self._natives[number] if ready[unit]} - {number})
        return home_requests(number, self._nodes[number].load, {host: self._nodes[host].load for host in hosts})

    def _serve(self, number: int) -> None:
        node = self._nodes[number]
        strategy = self.scheme.strategy
        waiting, node.requests = node.requests, []
        for asks in in_order(waiting):
            assert strategy is not None
            may_give = allowance(node.had, node.given)
            for each in select(strategy, self._movables(number), asks, node.load, may_give):
                self._give(each, asks)

    def _movables(self, number: int) -> list[Movable[int, int]]:
        """What runs on a node and is not on its way. Units' shares are scaled to what the node can do at all: of a node
        that falls behind, loads would add up to more than its time."""
        at, node = self.tuples.at, self._nodes[number]
        scale = node.load / max(node.offered, node.load) if node.load > 0 else 0.0
        fed = [tuple({int(at[unit]) for unit in each}) for each in self._of_stream]
        return [
            Movable(
                unit,
                float(self._unit_load[unit]) * scale,
                self.units.state[unit],
                self.units.native[unit],
                tuple(int(at[other]) for other in self.units.neighbours[unit]),
                fed[self.units.stream[unit]],
            )
            for unit in np.flatnonzero((at == number) & self.tuples.ready).tolist()
            if unit not in node.leaving
        ]

    def _give(self, each: Movable[int, int], asks: Request[int]) -> None:
        """A unit will go. Both nodes count its load where it will be, at once: measuring would show it late, and until
        then they would go on asking."""
        giver, receiver = self._nodes[asks.giver], self._nodes[asks.receiver]
        giver.leaving[each.unit] = asks.receiver
        giver.load -= each.load
        giver.offered -= each.load
        giver.given += each.load
        receiver.load += each.load
        receiver.offered += each.load

    def _ship(self) -> None:
        """Units begin to move, from each node as many as its part of the network carries until the next window."""
        busy = [number for number, node in enumerate(self._nodes) if node.leaving]
        links = len(busy) if self.network.shared else 1
        for number in busy:
            leaving = self._nodes[number].leaving
            room = self.control.shipping * self.network.bits_per_second / 8 * self.control.window / links
            while leaving and room > 0:
                unit, receiver = next(iter(leaving.items()))
                del leaving[unit]
                room -= self.units.state[unit]
                self.tuples.move(unit, receiver)
                self.moves.append(Move(self.events.now / SECOND, unit, number, receiver))


Change = tuple[float, Callable[[Cluster], None]]


def run(cluster: Cluster, until: float, changes: tuple[Change, ...] = ()) -> Cluster:
    """Lets a run pass to a second, with changes at their seconds."""
    for second, change in sorted(changes, key=lambda each: each[0]):
        cluster.advance(second)
        change(cluster)
    cluster.advance(until)
    return cluster
