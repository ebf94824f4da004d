"""Tuples on their way, and how to change the world while they are: rates, other work, and units that move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from lab.placement.simulated import kernel
from lab.placement.simulated.kernel import Constants, World
from lab.placement.simulated.units import Units
from lab.placement.simulated.workload import Setting
from lab.simulate.events import SECOND, seconds

#: Rows of a table of messages that are there at first; it doubles when it gets full.
_ROOM = 1 << 16

#: Messages on the way beyond which a run is given up: the network, or a node, is far behind and gets no nearer.
_MOST = 1 << 22

_AD_HOC_SECONDS = 0.001


class Congested(Exception):
    """Millions of messages wait. What the run has shown until then stands; going on would only show more of it."""


@dataclass(frozen=True, slots=True)
class Network:
    """What connects nodes: one medium that all of them share, or a switch with a link for each."""

    bits_per_second: float = 100e6
    shared: bool = True
    latency_seconds: float = 0.0001


class Tuples:
    """The data of a run. `advance` lets time pass; everything else happens at the moment reached."""

    def __init__(self, setting: Setting, units: Units, network: Network, horizon: float, seed: int) -> None:
        self._setting, self.now = setting, 0
        self._constants = Constants(
            seed,
            float(setting.row_bytes),
            8.0 / network.bits_per_second * SECOND,
            seconds(network.latency_seconds),
            seconds(_AD_HOC_SECONDS),
            SECOND,
        )
        self.world = _world(setting, units, 1 if network.shared else setting.nodes, int(horizon))
        random = np.random.default_rng((seed, 4))
        for stream in range(setting.streams):
            self._schedule(seconds(random.exponential(1.0 / setting.rate)), kernel.SOURCE, stream=stream)

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, until: int) -> None:
        """Lets everything happen that is due before an instant."""
        while not kernel.advance(self.world, self._constants, until):
            self._grow()
        self.now = until

    def drain(self) -> None:
        """No more tuples come; all that are on their way arrive."""
        self.world.streams["rate"] = 0.0
        self.world.nodes["ad_hoc"] = 0.0
        self.advance(np.iinfo(np.int64).max)

    # --- what can be done to it --------------------------------------------------------------------------------------

    def change_rates(self, streams: Iterable[int], factor: float) -> None:
        """Tuples of streams come so many times as often as at first, from the next tuple on."""
        self.world.streams["rate"][list(streams)] = self._setting.rate * factor

    def add_work(self, node: int, load: float) -> None:
        """Other work keeps a node busy for a part of its time, from now on."""
        idle = self.world.nodes["ad_hoc"][node] == 0
        self.world.nodes["ad_hoc"][node] = load / _AD_HOC_SECONDS
        if idle:
            self._schedule(self.now, kernel.AD_HOC, node=node)

    def move(self, unit: int, target: int) -> None:
        """A unit begins to move. It must not be moving."""
        moving, giver = self.world.units[unit], int(self.world.units[unit]["at"])
        if not moving["ready"]:
            raise ValueError(f"unit {unit} is on its way already")
        moving["leaving"], moving["at"], moving["ready"] = giver, target, 0
        moving["since"] = self.world.streams["next_number"][moving["stream"]]
        arrived = max(int(self.world.links.max()), self.now) + self._constants.latency + 1
        self._schedule(arrived, kernel.ARRIVED, node=giver, unit=unit)

    # --- what can be seen --------------------------------------------------------------------------------------------

    @property
    def at(self) -> NDArray[np.int64]:
        """The node that each unit's inputs go to."""
        return np.asarray(self.world.units["at"])

    @property
    def ready(self) -> NDArray[np.bool_]:
        """Whether each unit is there, and can move."""
        return np.asarray(self.world.units["ready"] == 1)

    @property
    def answers(self) -> tuple[int, int]:
        """How many answers there were, and a checksum of which they were, in whatever order."""
        return int(self.world.tally["answers"][0]), int(self.world.tally["check"][0])

    @property
    def bits_sent(self) -> tuple[float, float]:
        """Of rows, and of state."""
        return 8.0 * float(self.world.tally["row_bytes"][0]), 8.0 * float(self.world.tally["state_bytes"][0])

    def busy(self) -> NDArray[np.float64]:
        """Seconds that each node has worked so far."""
        nodes = self.world.nodes
        return np.asarray((nodes["accepted"] - np.maximum(nodes["free_at"] - self.now, 0)) / SECOND)

    def offered(self) -> NDArray[np.float64]:
        """Seconds of work that have come to each node so far, done or not."""
        return np.asarray(self.world.nodes["accepted"] / SECOND)

    def spent(self) -> NDArray[np.float64]:
        """Seconds of work that have come for each unit so far."""
        return np.asarray(self.world.units["spent"] / SECOND)

    def ratios(self) -> NDArray[np.float64]:
        """By second and path: the mean performance ratio of answers; NaN where there was none."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.world.ratios["sum"] / self.world.ratios["number"])

    # --- messages ----------------------------------------------------------------------------------------------------

    def _schedule(self, due: int, kind: int, node: int = 0, unit: int = 0, stream: int = 0) -> None:
        if self.world.tally["unused"][0] == 0:
            self._grow()
        place = kernel.write(self.world, kind, node, unit, 0, stream, 0, 0, 0, -1)
        kernel.push(self.world, due, place)

    def _grow(self) -> None:
        """Twice the room for messages."""
        world, room = self.world, len(self.world.messages)
        if room >= _MOST:
            raise Congested(f"{room:,} messages wait at {self.now / SECOND:.1f} s")
        unused = int(world.tally["unused"][0])
        more = np.concatenate([world.unused[:unused], np.arange(room, 2 * room)])
        self.world = world._replace(
            messages=np.concatenate([world.messages, np.zeros(room, kernel.MESSAGE)]),
            heap=np.concatenate([world.heap, np.zeros(room, kernel.DUE)]),
            unused=np.concatenate([more, np.zeros(2 * room - len(more), np.int64)]),
        )
        world.tally["unused"] += room


def _world(setting: Setting, units: Units, links: int, horizon: int) -> World:
    most_filters = int(np.bincount(units.stream).max()) * ceil(setting.filters)
    tally = np.zeros(1, kernel.TALLY)
    tally["unused"] = _ROOM
    nodes = np.zeros(setting.nodes, kernel.NODES)
    nodes["sent_to"] = -1
    return World(
        operators=units.operators,
        units=units.table.copy(),
        streams=units.streams.copy(),
        beginning=units.beginning,
        nodes=nodes,
        links=np.zeros(links, np.int64),
        tally=tally,
        ratios=np.zeros((horizon, len(units.paths)), kernel.RATIOS),
        messages=np.zeros(_ROOM, kernel.MESSAGE),
        heap=np.zeros(_ROOM, kernel.DUE),
        unused=np.arange(_ROOM),
        sharers=np.zeros(setting.attributes, np.int64),
        uses=np.zeros(most_filters + 1, kernel.USE),
    )
