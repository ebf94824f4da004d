"""An eddy: it leads each item through the SteMs of its node in an order that it chooses, and then to the next node.

Both choices are lotteries (`tickets.py`). Among SteMs: which of the streams that are missing to probe next, and, where
a cycle of joins lies within the node, by which of its conditions. Among output modules: to which node the results go
first. A module takes part if the footprint of the item allows it and its queue has room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from lab.ordering.channels import Channel, Lane
from lab.ordering.items import Item, SteM
from lab.ordering.modules import Module
from lab.ordering.setting import Costs
from lab.ordering.tickets import FederationLedger, Why
from lab.simulate.events import SECOND, Events
from weft.federation import FederationError

TICK = SECOND // 10


@dataclass(slots=True, eq=False)
class Output:
    """An output module of one eddy: a channel to each site of the place at its other end, one choice all the same."""

    eddy: Eddy
    number: int
    """Among the outputs of its eddy."""
    module: Module
    channels: list[Channel] = field(default_factory=list)
    targets: Callable[[Item], list[Channel]] | None = None
    """To which of several sites an item goes."""
    routed: int = 0
    by_tick: Counter[int] = field(default_factory=Counter)
    """Items routed in each tenth of a second, if it is one of several."""

    def channels_for(self, item: Item) -> list[Channel]:
        return self.channels if self.targets is None else self.targets(item)

    def room(self, item: Item, bits: int) -> int:
        if self.targets is None and len(self.channels) == 1:
            return self.channels[0].room(bits)
        return min(channel.room(bits) for channel in self.channels_for(item))


@dataclass(frozen=True, slots=True)
class Probe:
    """A look into a SteM: by whose value, and which other conditions with what is there already have to hold."""

    number: int
    """Of the SteM, among those of its node."""
    stem: SteM
    by_stream: int
    by_values: list[int]
    checks: tuple[tuple[int, list[int], int, list[int]], ...]
    """Stream and values of either side."""
    reached: int
    """The streams of the node that are there afterwards, as bits."""


#: What has been joined so far, the items it was joined from, and the streams of the node that are there.
Partial = tuple[Item, tuple[Item, ...], int]


@dataclass(slots=True, eq=False)
class Eddy:
    """One node at one site."""

    node: int
    events: Events
    costs: Costs
    random: Random
    complete: int
    """The footprint of an answer."""
    all_streams: int
    """The streams of the node, as bits."""
    ledger: FederationLedger
    local: FederationLedger
    answer: Callable[[Item], None]
    stems: dict[int, tuple[SteM, ...]]
    """By stream."""
    builds: frozenset[int]
    """The streams whose items are kept, because something may still come that looks for them."""
    probes: dict[int, tuple[Probe, ...]]
    """What may be probed next, by the streams that are there."""
    selections: tuple[tuple[int, list[int], int, list[int]], ...]
    chooses_probes: bool
    outputs: list[Output] = field(default_factory=list)
    has_one_target_each: bool = True
    """Whether no output leads to several sites."""
    lanes: list[Lane] = field(default_factory=list)
    stuck: int = 0
    """Results that found no room yet."""
    decided: Counter[Why] = field(default_factory=Counter)
    """How often what decided where several modules were allowed."""
    _allowed: dict[int, list[Output]] = field(default_factory=dict)

    # --- within the site ---------------------------------------------------------------------------------------------

    def process(self, item: Item, stream: int) -> tuple[list[Item], float]:
        """All results that the item completes here, and what that costs."""
        own = 1 << self.node
        if self.all_streams == 1 << stream:
            cost = 0.0
            found: list[Partial] = [(Item(item.rows, item.footprint, item.latest, item.expires), (item,), own)]
        else:
            cost = self._build(item, stream)
            found, spent = self._joined(item, stream)
            cost += spent
        results = []
        for result, sources, _ in found:
            result.footprint |= own
            results.append(result)
            cost += self.costs.send if self.has_one_target_each else self.costs.send * self._copies(result)
            for source in sources:
                if source.via is not None and source.via.output.module.chooses:
                    source.via.derived()
        return results, cost

    def _build(self, item: Item, stream: int) -> float:
        if stream not in self.builds:
            return 0.0
        stems = self.stems[stream]
        for stem in stems:
            stem.build(item)
        return self.costs.build * len(stems)

    def _joined(self, item: Item, stream: int) -> tuple[list[Partial], float]:
        """Probes SteM after SteM, whichever the lottery says, until all streams are there or nothing matches."""
        found: list[Partial] = []
        waiting: list[Partial] = [(item, (item,), 1 << stream)]
        cost = 0.0
        while waiting:
            partial, sources, there = waiting.pop()
            probe = self._next_probe(there)
            matches = probe.stem.held.get(probe.by_values[partial.rows[probe.by_stream]], ())
            cost += self.costs.probe + self.costs.match * len(matches)
            reached = probe.reached
            following = found if reached == self.all_streams else waiting
            before = len(following)
            for match in matches:
                joined = self._join(partial, match, probe)
                if joined is not None:
                    following.append((joined, (*sources, match), reached))
            if self.chooses_probes:
                self.local.route(probe.number)
                self.local.give_back(probe.number, len(following) - before)
        return found, cost

    def _next_probe(self, there: int) -> Probe:
        probes = self.probes[there]
        if len(probes) == 1:
            return probes[0]
        offered = [probe.number for probe in probes]
        drawn, _ = self.local.draw(offered, [1] * len(offered), self.random)
        return probes[offered.index(drawn)]

    def _join(self, partial: Item, match: Item, probe: Probe) -> Item | None:
        latest = max(partial.latest, match.latest)
        expires = min(partial.expires, match.expires)
        if latest >= expires:
            return None
        rows = tuple(map(max, partial.rows, match.rows))
        for one, values, other, other_values in probe.checks:
            if values[rows[one]] != other_values[rows[other]]:
                return None
        for one, values, other, other_values in self.selections:
            if rows[one] >= 0 and rows[other] >= 0 and values[rows[one]] != other_values[rows[other]]:
                return None
        return Item(rows, partial.footprint | match.footprint, latest, expires)

    # --- to the next site --------------------------------------------------------------------------------------------

    def _copies(self, item: Item) -> int:
        """How many messages a result takes; an answer takes one, to whoever asked."""
        allowed = self.allowed(item.footprint)
        return max((len(output.channels_for(item)) for output in allowed), default=1)

    def allowed(self, footprint: int) -> list[Output]:
        """The outputs whose modules let such an item pass."""
        found = self._allowed.get(footprint)
        if found is None:
            found = [output for output in self.outputs if output.module.accepts(footprint)]
            if not found and footprint != self.complete:
                raise FederationError(
                    f"a tuple with the footprint {footprint:b} cannot go on from node {self.node}: "
                    "a fixed order has to keep a way through all nodes"
                )
            self._allowed[footprint] = found
        return found

    def hand_over(self, item: Item) -> bool:
        """Gives a result to an output, or to whoever asked; false if no output that may take it has room."""
        footprint = item.footprint
        if footprint == self.complete:
            self.answer(item)
            return True
        allowed = self.allowed(footprint)
        bits = footprint.bit_count()
        if len(allowed) == 1:
            output = allowed[0]
            if output.room(item, bits) <= 0:
                return False
        else:
            chosen = self._chosen(allowed, item, bits)
            if chosen is None:
                return False
            output = chosen
        output.routed += 1
        if output.module.chooses:
            self.ledger.route(output.number)
            output.by_tick[self.events.now // TICK] += 1
        channels = output.channels_for(item)
        for channel in channels[1:]:
            channel.put(Item(item.rows, footprint, item.latest, item.expires), bits)
        channels[0].put(item, bits)
        return True

    def _chosen(self, allowed: list[Output], item: Item, bits: int) -> Output | None:
        rooms = [output.room(item, bits) for output in allowed]
        offered = [output.number for output, room in zip(allowed, rooms, strict=True) if room > 0]
        if not offered:
            return None
        number, why = self.ledger.draw(offered, [room for room in rooms if room > 0], self.random)
        self.decided[why] += 1
        return self.outputs[number]
