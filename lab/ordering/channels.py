"""Channels: how items get from an output module to the site at its other end, and how little of them may wait.

    output queue  ──▶  the wire, one item after the other  ──▶  input queue (remote access)

Both queues are short. If the receiver is slow, its input queue fills, then the wire stands still, then the output queue
fills, and the sender's eddy sees that there is no room: back-pressure, across sites. Nothing else is needed to learn
that a site or a wire is slow.

Short queues in a ring would come to a standstill: two sites, each waiting for room at the other. So items wait in
lanes, one for each number of bits in their footprints, and only equals can be in each other's way. Every step sets one
more bit, so the lane with the most bits always moves.

An input queue also counts what becomes of its items. Whenever `threshold` results have been derived from them, it sends
that number back, and the sender's meta-operator gives its eddy as many virtual tuples.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lab.ordering.items import Item
from lab.simulate.events import Events

if TYPE_CHECKING:  # they know each other
    from lab.ordering.eddies import Eddy, Output
    from lab.ordering.setting import Settings
    from lab.ordering.sites import Site

#: Bytes of the number that says how many results there were.
REPORT_BYTES = 4


@dataclass(slots=True, eq=False)
class Lane:
    """Items that wait to be processed by an eddy, and results of the last one that found no room yet."""

    eddy: Eddy
    stream: int
    """By which of its streams an item joins here."""
    channel: Channel | None = None
    """How they came, if they were not read here."""
    queue: deque[Item] = field(default_factory=deque)
    stuck: deque[Item] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Channel:
    """From one eddy to one other."""

    events: Events
    source: Site
    target: Site
    output: Output
    receiver: Eddy
    stream: int
    """By which stream its items join at the receiver."""
    settings: Settings
    waiting: dict[int, deque[Item]] = field(default_factory=dict)
    lanes: dict[int, Lane] = field(default_factory=dict)
    """At the receiver, by bits."""
    on_wire: list[Item] = field(default_factory=list)
    results: int = 0
    """Derived from its items, and not yet reported."""
    reports: int = 0

    def room(self, bits: int) -> int:
        """How many more items with so many bits its output queue takes."""
        queue = self.waiting.get(bits)
        return self.settings.capacity - (0 if queue is None else len(queue))

    def put(self, item: Item, bits: int) -> None:
        queue = self.waiting.get(bits)
        if queue is None:
            queue = self.waiting[bits] = deque()
            lane = self.lanes[bits] = Lane(self.receiver, self.stream, self)
            self.target.opened(lane)
        queue.append(item)
        self.move()

    def move(self) -> None:
        """Puts the next item on the wire if nothing is there; those with the most bits first, where there is room."""
        if self.on_wire:
            return
        for bits in sorted(self.waiting, reverse=True) if len(self.waiting) > 1 else self.waiting:
            queue, lane = self.waiting[bits], self.lanes[bits]
            if queue and len(lane.queue) < self.settings.capacity:
                self.on_wire.append(queue.popleft())
                self.events.after(self._duration(), partial(self._arrive, lane))
                if self.output.eddy.stuck:
                    self.source.has_room(self.output.eddy)
                return

    def _duration(self) -> int:
        return max(self.source.wire, self.target.wire)

    def _arrive(self, lane: Lane) -> None:
        item = self.on_wire.pop()
        item.via = self
        self.target.take(item, lane)
        self.move()

    def derived(self) -> None:
        """A result contains an item that came this way."""
        self.results += 1
        if self.results >= self.settings.threshold:
            number, self.results = self.results, 0
            self.reports += 1
            self.target.owe_message()
            self.events.after(self._duration(), partial(self._reported, number))

    def _reported(self, number: int) -> None:
        self.source.owe_message()
        self.output.eddy.ledger.give_back(self.output.number, number)

    @property
    def report_bytes(self) -> int:
        return self.reports * REPORT_BYTES
