"""The relay: brings what its users need to an edge, over one link, into a log of the edge's own.

A **feed** gives parcels with the rows that the added queries need, each row once: from a log or a broker, or from
another edge. It begins after a cycle; without one, with what comes from then on, and says first how far that is.

The log is the edge's durable place: one that was killed goes on after the last parcel that it kept. What it knows
beside the log is in `relay.json`: for each query the cycle after which the log has all its rows.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from weft.delivery.log import itinerary
from weft.delivery.log.delivery_errors import (
    AccessDenied,
    BrokerError,
    DamagedLog,
    DeliveryError,
    LogError,
    UnknownQuery,
    retry_pause,
)
from weft.delivery.log.delivery_log import BEGINNING, Limits, LogWriter, reading, wake, writing
from weft.delivery.log.itinerary import Itinerary
from weft.delivery.log.parcel import Gone, NoParcels, Parcel, decode
from weft.delivery.matching.members import Members
from weft.delivery.subscribers.edge_protocol import PARCEL, VERSION, FrameSocket, document_of, json_frame, split_host
from weft.delivery.subscribers.hub import borrow_hub, return_hub
from weft.delivery.subscribers.local import LogSource, ParcelSource
from weft.files.checked_file import read_checked, write_checked

STATE: Final = "relay.json"
_KEEP_EVERY: Final = 0.5


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


class Feed(ABC):
    """What comes to an edge over the one link that it has to where its rows come from."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._failures = 0
        #: What keeps rows from coming, if anything does.
        self.problem: str | None = None

    @abstractmethod
    def add(self, query: str) -> None:
        """Ask for a query's rows; `Added` comes when they do."""

    @abstractmethod
    def remove(self, query: str) -> None:
        """Ask for a query's rows no more."""

    @abstractmethod
    def items(self, after: int | None, queries: Iterable[str]) -> Iterator[Came]:
        """What comes after a cycle, for some queries and those that are added, until the feed is closed."""

    @property
    def bytes_from_broker(self) -> int:
        """What has come from a broker, by the count of its client; 0 if rows come from elsewhere."""
        return 0

    def close(self) -> None:
        self._closing.set()

    def _failed(self, problem: str) -> None:
        """Wait a while before the link is tried again."""
        self.problem = problem
        self._closing.wait(retry_pause(self._failures))
        self._failures += 1

    def _works(self) -> None:
        self._failures, self.problem = 0, None


class SourceFeed(Feed):
    """Takes parcels from the log of this machine, or from a broker."""

    def __init__(self, source: ParcelSource) -> None:
        super().__init__()
        self._source = source
        self._changes: deque[tuple[bool, str]] = deque()

    def add(self, query: str) -> None:
        self._changes.append((True, query))

    def remove(self, query: str) -> None:
        self._changes.append((False, query))

    def items(self, after: int | None, queries: Iterable[str]) -> Iterator[Came]:
        members, place = Members(), after
        self._changes.extendleft((True, query) for query in queries)
        while not self._closing.is_set():
            try:
                if place is None:
                    place = self._source.newest()
                    yield NoParcels(place)
                while self._changes:
                    yield from self._change(*self._changes[0], members, place)
                    self._changes.popleft()
                item = self._source.next(place, members, 0.1)
            except (BrokerError, LogError) as error:
                self._failed(str(error))
                continue
            self._works()
            place = place if item is None else item.through
            yield item or NoParcels(place)
        self._source.close()

    @property
    def bytes_from_broker(self) -> int:
        return int(getattr(self._source, "bytes_received", 0))

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


class LinkFeed(Feed):
    """Takes parcels from another edge. When that is away it is asked again, with all queries and from where it was."""

    def __init__(self, address: str, token: str | None) -> None:
        super().__init__()
        self._address = split_host(address)
        self._shown = address
        self._token = token
        self._queries: set[str] = set()
        self._lock = threading.Lock()
        self._socket: FrameSocket | None = None

    def add(self, query: str) -> None:
        with self._lock:
            self._queries.add(query)
            self._say(add=query)

    def remove(self, query: str) -> None:
        with self._lock:
            self._queries.discard(query)
            self._say(remove=query)

    def items(self, after: int | None, queries: Iterable[str]) -> Iterator[Came]:
        place = after
        with self._lock:
            self._queries.update(queries)
        while not self._closing.is_set():
            try:
                socket, began = self._connect(place)
                self._works()
                if place is None:
                    place = began
                    yield NoParcels(place)
                while not self._closing.is_set():
                    item = _received(*socket.receive())
                    if not isinstance(item, Added):
                        place = item.through
                    yield item
            except (OSError, DeliveryError) as error:
                self._failed(f"the edge {self._shown} cannot be reached ({error})")

    def close(self) -> None:
        super().close()
        if self._socket is not None:
            self._socket.close()

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


def feed_from(upstream: str, token: str | None) -> Feed:
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


# -- the relay --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LinkCount:
    """What has crossed a link."""

    parcels: int = 0
    messages: int = 0
    rows: int = 0
    bytes: int = 0

    def add(self, parcel: Parcel, size: int) -> None:
        self.parcels += 1
        self.messages += len(parcel.messages)
        self.rows += sum(each.rows.num_rows for each in parcel.messages)
        self.bytes += size


@dataclass(frozen=True, slots=True)
class Covered:
    """A query whose rows the edge's log has, all of those after a cycle."""

    after: int
    route: Itinerary


class Relay:
    """A thread that writes what comes from a feed to the log in a directory."""

    def __init__(self, directory: Path, feed: Feed, limits: Limits) -> None:
        self._directory, self._state = directory, directory / STATE
        self.feed = feed
        self.count = LinkCount()
        self.covered: dict[str, Covered] = {}
        self._promises: dict[str, list[Future[Covered]]] = {}
        self._place, self._gone = BEGINNING, BEGINNING
        try:
            self._log = LogWriter(directory, limits)
            self._is_new = not self._restore()
        except DamagedLog as error:
            damage = str(error).partition(";")[0]
            raise DeliveryError(f"{damage}; delete the edge's directory {directory}: it is filled again") from error
        self._log.commit(self._place)
        self.hub = borrow_hub(directory)
        for each in self.covered.values():
            if each.route.query not in self.hub.routes:
                self.hub.learn(each.route)
        self.hub.advance(self._place)
        self._lock = threading.Lock()
        self._trouble: str | None = None
        self._kept_at, self._keeping_took, self._has_changed = 0.0, 0.0, False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft-relay", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """What keeps rows from coming, if anything does."""
        return self._trouble or self.feed.problem

    def cover(self, query: str) -> Future[Covered]:
        """Have a query's rows brought here. The future fails with UnknownQuery if they are not known upstream."""
        promise: Future[Covered] = Future()
        with self._lock:
            if query in self.covered:
                promise.set_result(self.covered[query])
            else:
                self._promises.setdefault(query, []).append(promise)
                self.feed.add(query)
        return promise

    def uncover(self, query: str) -> None:
        with self._lock:
            if self.covered.pop(query, None) is not None:
                self.feed.remove(query)

    def close(self) -> None:
        self._closing.set()
        self.feed.close()
        self._thread.join(20)
        self._keeping_took = 0.0
        self._keep(0.0)
        return_hub(self.hub)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        after = None if self._is_new else self._place
        for item in self.feed.items(after, list(self.covered)):
            while not self._closing.is_set():
                try:
                    self._take(item)
                    self._keep(_KEEP_EVERY)
                    self._trouble = None
                    break
                except LogError as error:
                    # The disk is full, or worse: what has come waits here until there is room.
                    self._trouble = str(error)
                    self._closing.wait(1.0)

    def _take(self, item: Came) -> None:
        self._has_changed |= not isinstance(item, NoParcels) or item.through > self._place
        if isinstance(item, Added):
            self._added(item)
        elif isinstance(item, Parcel):
            self._write(item)
        elif isinstance(item, Gone):
            self._gone = self._place = item.through
        else:
            self._place = max(self._place, item.through)
            self.hub.advance(self._place)

    def _added(self, item: Added) -> None:
        with self._lock:
            promises = self._promises.pop(item.query, [])
            known = self.covered.pop(item.query, None)
            if item.route is None:
                problem = item.refused or f"query '{item.query}' is not known where this edge takes its rows from"
                for promise in promises:
                    promise.set_exception(DeliveryError(problem) if item.refused else UnknownQuery(problem))
                return
            after = item.through
            if known is not None and item.through <= self._place:
                # The same feed goes on at our place, so that what was covered before still is.
                after = known.after
            elif known is not None:
                # The other side has begun again, and what came meanwhile is not in the log here. Users must ask again
                # from where they are: they are then given it from where it can be had.
                self.hub.end_readers(item.query, BrokerError("the edge has begun anew; ask again"))
            self.covered[item.query] = covered = Covered(after, item.route)
            self.hub.learn(item.route)
        for promise in promises:
            promise.set_result(covered)

    def _write(self, parcel: Parcel) -> None:
        previous = max(self._newest, self._gone)
        self._log.write(replace(parcel, previous=None if previous == BEGINNING else previous))
        self._log.commit(parcel.cycle)
        self._place = parcel.cycle
        self.count.add(parcel, self._log.heads[parcel.cycle].size)
        with self._lock:
            for each in parcel.routes:
                if each.query in self.covered:
                    self.covered[each.query] = replace(self.covered[each.query], route=each)
        wake(self._directory)
        self._log.trim()

    @property
    def _newest(self) -> int:
        return BEGINNING if self._log.newest is None else self._log.newest

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _keep(self, every: float) -> None:
        """Write down what has changed, unless that was done just now, or takes long and was done not long ago."""
        now = time.monotonic()
        if not self._has_changed or now - self._kept_at < max(every, 20 * self._keeping_took):
            return
        self._has_changed = False
        with self._lock:
            covered = self.covered.items()
            queries = {query: {"after": each.after, "route": itinerary.as_json(each.route)} for query, each in covered}
        with writing(self._state):
            write_checked(self._state, {"place": self._place, "gone": self._gone, "queries": queries})
        self._kept_at = time.monotonic()
        self._keeping_took = self._kept_at - now

    def _restore(self) -> bool:
        """Take up what the last process had; false if there was none."""
        with reading(self._state):
            document = read_checked(self._state)
        if document is None:
            return False
        self._gone = document["gone"]
        self._place = max(document["place"], self._newest)
        self.covered = {
            query: Covered(each["after"], itinerary.from_json(each["route"]))
            for query, each in document["queries"].items()
        }
        return True
