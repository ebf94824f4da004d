"""Where parcels can be had from, in the order of their cycles: the log of this machine, or a broker."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol

from weft.delivery.log import itinerary
from weft.delivery.log.delivery_errors import AccessDenied, BrokerError, DeliveryError, LogError
from weft.delivery.log.delivery_log import BEGINNING, cycles, listen, read_parcel, read_routes
from weft.delivery.log.itinerary import Itinerary
from weft.delivery.log.parcel import Gone, Nothing, Parcel, decode
from weft.delivery.matching.members import Members
from weft.delivery.matching.sharing import share
from weft.delivery.subscribers.edge_protocol import PARCEL, VERSION, FrameSocket, error_of, json_frame, split_host

_LOOK_EVERY = 0.05


class Source(Protocol):
    """Gives parcels, as far as they are of use to some members."""

    def route(self, query: str) -> Itinerary | None:
        """The newest itinerary of a query."""

    def newest(self) -> int:
        """The newest cycle whose parcel is there."""

    def next(self, after: int, members: Members, timeout: float) -> Parcel | Gone | Nothing | None:
        """What comes after a cycle; None if nothing does within so many seconds. Members are amended on the way."""

    def close(self) -> None:
        """Let go of it."""


class LogSource:
    """The log in a directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._new = Event()
        self._unlisten = listen(directory, self._new.set)

    def route(self, query: str) -> Itinerary | None:
        return read_routes(self._directory).get(query)

    def newest(self) -> int:
        return max(cycles(self._directory), default=BEGINNING)

    def next(self, after: int, members: Members, timeout: float) -> Parcel | Gone | Nothing | None:
        waited = 0.0
        while True:
            for cycle in cycles(self._directory):
                parcel = read_parcel(self._directory, cycle) if cycle > after else None
                if parcel is not None:
                    if parcel.previous is not None and parcel.previous > after:
                        return Gone(parcel.previous)
                    return share(parcel, members) or Nothing(cycle)
            if waited >= timeout:
                return None
            self._new.wait(_LOOK_EVERY)
            self._new.clear()
            waited += _LOOK_EVERY

    def close(self) -> None:
        self._unlisten()


_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Added:
    """From the parcel after a cycle on, a query's rows come too.

    Without an itinerary they do not: it is not known upstream, or was refused for a reason.
    """

    query: str
    route: Itinerary | None
    through: int
    refused: str | None = None


Came = Added | Parcel | Gone | Nothing


class Feed(Protocol):
    """Gives parcels with the rows that the queries need that were added, each row once."""

    problem: str | None

    def add(self, query: str) -> None:
        """Ask for a query's rows; `Added` comes when they do."""

    def remove(self, query: str) -> None:
        """Ask for a query's rows no more."""

    def items(self, after: int | None, queries: Iterable[str]) -> Iterator[Came]:
        """What comes after a cycle, for these queries and those that are added, until the feed is closed.

        Without a cycle: what comes from now on; how far that is comes first.
        """

    def close(self) -> None:
        """Let go."""


class SourceFeed:
    """Takes parcels from the log of this machine, or from a broker."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._changes: deque[tuple[bool, str]] = deque()
        self._closing = threading.Event()
        self.problem: str | None = None

    def add(self, query: str) -> None:
        self._changes.append((True, query))

    def remove(self, query: str) -> None:
        self._changes.append((False, query))

    def items(self, after: int | None, queries: Iterable[str]) -> Iterator[Came]:
        members, place, failures = Members(), after, 0
        waiting = [(True, query) for query in queries]
        while not self._closing.is_set():
            while self._changes:
                waiting.append(self._changes.popleft())
            try:
                if place is None:
                    place = self._source.newest()
                    yield Nothing(place)
                while waiting:
                    yield from self._change(*waiting[0], members, place)
                    waiting.pop(0)
                item = self._source.next(place, members, 0.1)
                failures, self.problem = 0, None
            except (BrokerError, LogError) as error:
                self.problem = str(error)
                self._closing.wait(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
                continue
            if item is not None:
                place = _place(item)
            yield item or Nothing(place)

    def close(self) -> None:
        self._closing.set()

    @property
    def bytes_from_broker(self) -> int:
        """What has come from a broker."""
        return int(getattr(self._source, "bytes_received", 0))

    def finish(self) -> None:
        """Let go of the source, when nobody takes items any more."""
        self._source.close()

    def _change(self, is_wanted: bool, query: str, members: Members, place: int) -> Iterator[Added]:
        if not is_wanted:
            members.remove(query)
            return
        try:
            route = self._source.route(query)
        except AccessDenied as error:
            yield Added(query, None, place, f"this edge may not take it: {error}")
            return
        if route is not None:
            members.put(route)
        yield Added(query, route, place)


class LinkFeed:
    """Takes parcels from another edge. When that is away it is asked again, with all queries and from where it was."""

    def __init__(self, address: str, token: str | None) -> None:
        self._address = split_host(address)
        self._shown = address
        self._token = token
        self._queries: set[str] = set()
        self._lock = threading.Lock()
        self._socket: FrameSocket | None = None
        self._closing = threading.Event()
        self.problem: str | None = None

    def add(self, query: str) -> None:
        with self._lock:
            self._queries.add(query)
            self._say(add=query)

    def remove(self, query: str) -> None:
        with self._lock:
            self._queries.discard(query)
            self._say(remove=query)

    def items(self, after: int | None, queries: Iterable[str]) -> Iterator[Came]:
        place, failures = after, 0
        with self._lock:
            self._queries.update(queries)
        while not self._closing.is_set():
            try:
                began = self._connect(place)
                failures, self.problem = 0, None
                if place is None:
                    place = began
                    yield Nothing(place)
                for item in self._received():
                    if not isinstance(item, Added):
                        place = _place(item)
                    yield item
            except (OSError, DeliveryError) as error:
                self.problem = f"the edge {self._shown} cannot be reached ({error})"
                self._closing.wait(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1

    def close(self) -> None:
        self._closing.set()
        if self._socket is not None:
            self._socket.close()

    @property
    def bytes_from_broker(self) -> int:
        """Nothing comes from a broker."""
        return 0

    def finish(self) -> None:
        """Nothing is left to let go of."""

    def _connect(self, place: int | None) -> int:
        """Make the connection; returns the cycle after which it goes on."""
        opened = FrameSocket(*self._address)
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = opened
            opened.send(json_frame(weft=VERSION, role="link", after=place, token=self._token))
            for query in sorted(self._queries):
                self._say(add=query)
            self._say(ready="")
        return int(opened.receive_json()["ok"])

    def _say(self, **document: str) -> None:
        """Tell the other edge, if it is there; if it is not, it is told when it is."""
        if self._socket is not None:
            try:
                self._socket.send(json_frame(**document))
            except OSError:
                self._socket.close()

    def _received(self) -> Iterator[Came]:
        assert self._socket is not None
        while not self._closing.is_set():
            kind, content = self._socket.receive()
            if kind == PARCEL:
                yield decode(content)
                continue
            document = json.loads(content)
            if "error" in document:
                raise error_of(document)
            if "added" in document:
                route = document["route"] and itinerary.from_json(document["route"])
                yield Added(document["added"], route, document["through"], document.get("refused"))
            elif "gone" in document:
                yield Gone(document["gone"])
            else:
                yield Nothing(document["through"])


def feed_from(upstream: str, token: str | None) -> SourceFeed | LinkFeed:
    """The feed from an address: another edge, NATS, or a delivery directory of this machine."""
    from pathlib import Path

    if upstream.startswith("weft://"):
        return LinkFeed(upstream, token)
    if upstream.startswith("nats://"):
        from weft.delivery.nats.nats_source import NatsSource

        return SourceFeed(NatsSource(upstream, token))
    if not Path(upstream).is_dir():
        raise DeliveryError(f"{upstream} is no directory; give that of a project's delivery, nats://… or weft://…")
    return SourceFeed(LogSource(Path(upstream)))


def _place(item: Parcel | Gone | Nothing) -> int:
    if isinstance(item, Parcel):
        return item.cycle
    return item.until if isinstance(item, Gone) else item.through
