"""Feeds: what comes to an edge over the one link that it has to where its rows come from.

A feed gives parcels with the rows that the added queries need, each row once:

    add, remove    ask for a query's rows, or for them no more; `Added` comes when they do
    items          what comes after a cycle, for some queries and those that are added, until the feed is closed;
                   without a cycle, what comes from now on: how far that is comes first
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.delivery.log import itinerary
from weft.delivery.log.delivery_errors import AccessDenied, BrokerError, DeliveryError, LogError, retry_pause
from weft.delivery.log.itinerary import Itinerary
from weft.delivery.log.parcel import Gone, NoParcels, Parcel, decode
from weft.delivery.matching.members import Members
from weft.delivery.subscribers.edge_protocol import PARCEL, VERSION, FrameSocket, document_of, json_frame, split_host
from weft.delivery.subscribers.local import LogSource, ParcelSource


@dataclass(frozen=True, slots=True)
class Added:
    """From the parcel after a cycle on, a query's rows come too.

    Without an itinerary they do not: it is not known upstream, or was refused for a reason.
    """

    query: str
    route: Itinerary | None
    through: int
    refused: str | None = None


Came = Added | Parcel | Gone | NoParcels


class SourceFeed:
    """Takes parcels from the log of this machine, or from a broker."""

    def __init__(self, source: ParcelSource) -> None:
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
                    yield NoParcels(place)
                while waiting:
                    yield from self._change(*waiting[0], members, place)
                    waiting.pop(0)
                item = self._source.next(place, members, 0.1)
                failures, self.problem = 0, None
            except (BrokerError, LogError) as error:
                self.problem = str(error)
                self._closing.wait(retry_pause(failures))
                failures += 1
                continue
            if item is not None:
                place = _place(item)
            yield item or NoParcels(place)

    def close(self) -> None:
        self._closing.set()

    @property
    def bytes_from_broker(self) -> int:
        return int(getattr(self._source, "bytes_received", 0))

    def finish(self) -> None:
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
                socket, began = self._connect(place)
                failures, self.problem = 0, None
                if place is None:
                    place = began
                    yield NoParcels(place)
                while not self._closing.is_set():
                    item = _received(*socket.receive())
                    if not isinstance(item, Added):
                        place = _place(item)
                    yield item
            except (OSError, DeliveryError) as error:
                self.problem = f"the edge {self._shown} cannot be reached ({error})"
                self._closing.wait(retry_pause(failures))
                failures += 1

    def close(self) -> None:
        self._closing.set()
        if self._socket is not None:
            self._socket.close()

    @property
    def bytes_from_broker(self) -> int:
        return 0

    def finish(self) -> None:
        """Nothing is left to close."""

    def _connect(self, place: int | None) -> tuple[FrameSocket, int]:
        """Make the connection; returns it and the cycle after which it goes on."""
        opened = FrameSocket(*self._address)
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = opened
            opened.send(json_frame(weft=VERSION, role="link", after=place, token=self._token))
            for query in sorted(self._queries):
                self._say(add=query)
            self._say(ready="")
        return opened, int(opened.receive_json()["ok"])

    def _say(self, **document: str) -> None:
        """Send something to the other edge, if it is there; if not, it is sent with the next connection."""
        if self._socket is not None:
            try:
                self._socket.send(json_frame(**document))
            except OSError:
                self._socket.close()


def feed_from(upstream: str, token: str | None) -> SourceFeed | LinkFeed:
    """The feed from an address: another edge, NATS, or a delivery directory of this machine."""
    if upstream.startswith("weft://"):
        return LinkFeed(upstream, token)
    if upstream.startswith("nats://"):
        from weft.delivery.nats.nats_source import NatsSource

        return SourceFeed(NatsSource(upstream, token))
    if not Path(upstream).is_dir():
        raise DeliveryError(f"{upstream} is no directory; give that of a project's delivery, nats://… or weft://…")
    return SourceFeed(LogSource(Path(upstream)))


def _received(kind: bytes, content: bytes) -> Came:
    """What a frame of another edge says."""
    if kind == PARCEL:
        return decode(content)
    document = document_of(content)
    if "added" in document:
        route = document["route"] and itinerary.from_json(document["route"])
        return Added(document["added"], route, document["through"], document.get("refused"))
    return Gone(document["gone"]) if "gone" in document else NoParcels(document["through"])


def _place(item: Parcel | Gone | NoParcels) -> int:
    if isinstance(item, Parcel):
        return item.cycle
    return item.until if isinstance(item, Gone) else item.through
