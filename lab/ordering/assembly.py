"""Puts the parts of a run together: sites, eddies with their SteMs, output modules with their channels, streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from lab.ordering.channels import Channel, Lane
from lab.ordering.distributed import Node
from lab.ordering.eddies import Eddy, Output, Probe
from lab.ordering.footprints import bits
from lab.ordering.items import NEVER, NONE, Item, SteM
from lab.ordering.join_graph import Join, stream_of
from lab.ordering.query import Query, divided_stream, matching_attribute
from lab.ordering.setting import Feed, Machine, Settings
from lab.ordering.sites import Site
from lab.ordering.tickets import FederationLedger
from lab.simulate.events import Events, seconds
from weft.federation import FederationError


class Assembly:
    """All parts of a run."""

    def __init__(
        self,
        query: Query,
        feeds: Mapping[str, Feed],
        machines: Mapping[str, Machine],
        events: Events,
        settings: Settings,
        answer: Callable[[Item], None],
    ) -> None:
        self.query, self.feeds, self.events, self.settings = query, feeds, events, settings
        self.streams = tuple(sorted(query.graph.streams))
        self.nodes = query.distributed.nodes
        self._refuse_what_cannot_run()
        self.values = {
            f"{stream}.{name}": list(values) for stream in self.streams for name, values in feeds[stream].values.items()
        }
        names = sorted({site for node in self.nodes for site in query.places[node.place].sites})
        self.sites = {name: self._site(name, machines.get(name, Machine())) for name in names}
        self.eddies = [
            [self._eddy(number, site, answer) for site in self._sites_of(node)]
            for number, node in enumerate(self.nodes)
        ]
        for number, node in enumerate(self.nodes):
            for eddy, site in zip(self.eddies[number], self._sites_of(node), strict=True):
                self._connect(eddy, site)
            for stream in node.local:
                self._read(number, stream)

    def _refuse_what_cannot_run(self) -> None:
        missing = [stream for stream in self.streams if stream not in self.feeds]
        if missing:
            raise FederationError(f"no tuples are given for {', '.join(missing)}: every stream needs a feed")
        stored = {stream for stream in self.streams if self.feeds[stream].stored}
        for node in self.nodes:
            elsewhere = stored & {*node.streams} - {*node.local}
            if elsewhere:
                names = ", ".join(sorted(elsewhere))
                raise FederationError(f"{names} is stored at its own place, but joined at {node.place}: let it be read")
        for node in self.nodes:
            if stored >= {*node.streams}:
                names = ", ".join(node.streams)
                raise FederationError(f"all of {names} is stored, so nothing would ever start: let one be read")

    # --- sites and eddies --------------------------------------------------------------------------------------------

    def _site(self, name: str, machine: Machine) -> Site:
        return Site(self.events, name, self.settings.costs, machine.speed, seconds(machine.wire), machine.others)

    def _sites_of(self, node: Node) -> list[Site]:
        return [self.sites[name] for name in self.query.places[node.place].sites]

    def _eddy(self, number: int, site: Site, answer: Callable[[Item], None]) -> Eddy:
        node = self.nodes[number]
        attributes = sorted({attribute for join in node.joins for attribute in (join.left, join.right)})
        stems = {each: SteM(self.streams.index(stream_of(each)), self.values[each]) for each in attributes}
        streams = {stream: self.streams.index(stream) for stream in node.streams}
        eddy = Eddy(
            node=number,
            events=self.events,
            costs=self.settings.costs,
            random=self.events.random(f"{node.name} at {site.name}"),
            complete=bits(range(len(self.nodes))),
            all_streams=self._bits(node.streams),
            ledger=FederationLedger.of(
                sum(module.source == number for module in self.query.modules), self.settings.lottery
            ),
            local=FederationLedger.of(len(attributes), self.settings.lottery),
            answer=answer,
            stems={at: tuple(stem for stem in stems.values() if stem.stream == at) for at in streams.values()},
            builds=frozenset(
                at
                for stream, at in streams.items()
                if any(not self.feeds[other].stored for other in streams if other != stream)
            ),
            probes=dict(self._all_probes(node, attributes, stems)),
            selections=tuple(map(self._sides, self.query.graph.selections)),
            chooses_probes=len(node.streams) > 2,
        )
        site.eddies.append(eddy)
        return eddy

    def _all_probes(
        self, node: Node, attributes: list[str], stems: Mapping[str, SteM]
    ) -> Iterable[tuple[int, tuple[Probe, ...]]]:
        """What may be probed next, from each set of streams that can be there."""
        waiting, seen = [frozenset({stream}) for stream in node.streams], set()
        while waiting:
            there = waiting.pop()
            if len(there) == len(node.streams) or there in seen:
                continue
            seen.add(there)
            probes = tuple(self._probes(node, there, attributes, stems))
            yield self._bits(there), probes
            waiting.extend(there | {self.streams[probe.stem.stream]} for probe in probes)

    def _probes(
        self, node: Node, there: frozenset[str], attributes: list[str], stems: Mapping[str, SteM]
    ) -> Iterable[Probe]:
        for join in node.joins:
            for stream in join.streams:
                other = join.other(stream)
                if stream in there or other not in there:
                    continue
                also = [each for each in node.joins if stream in each.streams and each.other(stream) in there]
                yield Probe(
                    attributes.index(join.attribute(stream)),
                    stems[join.attribute(stream)],
                    self.streams.index(other),
                    self.values[join.attribute(other)],
                    tuple(self._sides(each) for each in also if each != join),
                    self._bits(there | {stream}),
                )

    def _sides(self, join: Join) -> tuple[int, list[int], int, list[int]]:
        left, right = (self.streams.index(stream) for stream in join.streams)
        return left, self.values[join.left], right, self.values[join.right]

    def _bits(self, streams: Iterable[str]) -> int:
        return bits(self.streams.index(stream) for stream in streams)

    # --- output modules ----------------------------------------------------------------------------------------------

    def _connect(self, eddy: Eddy, here: Site) -> None:
        """Output modules of an eddy, with channels to all sites at their other ends."""
        for module in self.query.modules:
            if module.source != eddy.node:
                continue
            output = Output(eddy, len(eddy.outputs), module)
            eddy.outputs.append(output)
            target = self.nodes[module.target]
            entry = self._entry(self.nodes[module.source], target)
            output.channels.extend(
                Channel(self.events, here, site, output, receiver, self.streams.index(entry), self.settings)
                for receiver, site in zip(self.eddies[module.target], self._sites_of(target), strict=True)
            )
            if len(output.channels) > 1:
                eddy.has_one_target_each = False
                output.targets = self._division(target, entry, output.channels)

    def _entry(self, source: Node, target: Node) -> str:
        """The stream of the target that results of the source contain: the one where the ways between them end."""
        reached, waiting = set(source.streams), list(source.streams)
        while waiting:
            stream = waiting.pop()
            if stream in target.streams:
                return stream
            following = {join.other(stream) for join in self.query.graph.joins_of(stream)} - reached
            waiting.extend(following)
            reached |= following
        raise AssertionError(f"{source.name} sends to {target.name}, which has nothing to do for it")

    def _division(self, node: Node, stream: str, channels: list[Channel]) -> Callable[[Item], list[Channel]]:
        """To which of the sites of a place an item goes: to one by value, to one by turns, or to all."""
        place = self.query.places[node.place]
        at, each = self.streams.index(stream), [[channel] for channel in channels]
        attribute = matching_attribute(node, place, stream)
        if attribute is not None:
            values = self.values[attribute]
            return lambda item: each[values[item.rows[at]] % len(each)]
        if stream == divided_stream(node, place):
            return lambda item: each[item.rows[at] % len(each)]
        return lambda _: channels

    # --- local access ------------------------------------------------------------------------------------------------

    def _read(self, number: int, stream: str) -> None:
        """The tuples of a stream, at the sites of its place."""
        node, feed, at = self.nodes[number], self.feeds[stream], self.streams.index(stream)
        attribute = matching_attribute(node, self.query.places[node.place], stream)
        values = None if attribute is None else self.values[attribute]
        eddies, sites = self.eddies[number], self._sites_of(node)
        lanes = [Lane(eddy, at) for eddy in eddies]
        for lane, site in zip(lanes, sites, strict=True):
            site.opened(lane)
        before, after = (NONE,) * at, (NONE,) * (len(self.streams) - at - 1)
        for row in range(len(feed)):
            share = (row if values is None else values[row]) % len(eddies)
            instant = 0 if feed.instants is None else feed.instants[row]
            expires = NEVER if feed.window is None else instant + feed.window
            item = Item((*before, row, *after), 0, instant, expires)
            if feed.stored:
                for stem in eddies[share].stems[at]:
                    stem.build(item)
            elif feed.instants is None:
                lanes[share].queue.append(item)
            else:
                site, lane = sites[share], lanes[share]
                self.events.at(instant, partial(site.take, item, lane))
