"""The relay: brings what its users need to an edge, over one link, into a log of the edge's own.

A **feed** gives parcels with the rows that the added queries need, each row once. It begins after a cycle; without one,
with what comes from then on, and says first how far that is. One thread writes what it gives to the log, and asks again
after a failure. An edge that was killed goes on after the last parcel in its log; beside that it knows, in
`relay.json`, for each query the cycle after which the log has all its rows.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from weft.delivery import itinerary
from weft.delivery.delivery_errors import (
    AccessDenied,
    BrokerError,
    DamagedLog,
    DeliveryError,
    UnknownQuery,
    retry_pause,
)
from weft.delivery.delivery_log import BEGINNING, Limits, LogWriter, reading, writing
from weft.delivery.edge_protocol import PARCEL, VERSION, FrameSocket, document_of, json_frame, split_host
from weft.delivery.hub import borrow_hub, return_hub
from weft.delivery.itinerary import Itinerary
from weft.delivery.members import Members
from weft.delivery.nats_broker import NatsSource
from weft.delivery.nats_connection import split_address
from weft.delivery.parcel import Gone, NoParcels, Parcel, decode
from weft.delivery.subscribe import LogSource, ParcelSource
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


class SourceFeed:
    """Takes parcels from the log of this machine, or from a broker."""

    def __init__(self, open_source: Callable[[], contextlib.AbstractContextManager[ParcelSource]]) -> None:
        self.closing = threading.Event()
        self._open = open_source
        self._source: ParcelSource | None = None
        self._changes: deque[tuple[str, bool]] = deque()

    def change(self, query: str, *, is_wanted: bool) -> None:
        """Ask for a query's rows too, so that `Added` comes; or for them no more."""
        self._changes.append((query, is_wanted))

    def items(self, after: int | None, wanted: Callable[[], Iterable[str]]) -> Iterator[Came]:
        """What comes after a cycle for the queries that are wanted, until the feed is closed.

        Raises DeliveryError when it cannot go on. Then it is called again.
        """
        with self._open() as self._source:
            members, place = Members(), self._source.last_where(lambda parcel: True) if after is None else after
            yield NoParcels(place)
            self._changes.extendleft((query, True) for query in wanted())
            while not self.closing.is_set():
                while self._changes:
                    query, is_wanted = self._changes.popleft()
                    if is_wanted:
                        yield self._added(self._source, query, members, place)
                    else:
                        members.remove(query)
                item = self._source.next(place, members, 0.1) or NoParcels(place)
                place = item.through
                yield item

    def close(self) -> None:
        self.closing.set()

    @property
    def bytes_from_broker(self) -> int:
        """What has come from a broker, by the count of its client; 0 if rows come from elsewhere."""
        return self._source.bytes_received if isinstance(self._source, NatsSource) else 0

    def _added(self, source: ParcelSource, query: str, members: Members, place: int) -> Added:
        try:
            route = source.route(query)
        except AccessDenied as error:
            return Added(query, None, place, f"this edge may not take it: {error}")
        if route is not None:
            members.put(route)
        return Added(query, route, place)


class LinkFeed:
    """Takes parcels from another edge, as `SourceFeed` does from elsewhere."""

    bytes_from_broker = 0

    def __init__(self, address: str, token: str | None) -> None:
        self.closing = threading.Event()
        self._address = split_host(address)
        self._shown = address
        self._token = token
        self._lock = threading.Lock()
        self._socket: FrameSocket | None = None

    def change(self, query: str, *, is_wanted: bool) -> None:
        # Without a connection, or when it breaks, it is sent with the next one.
        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.send(json_frame(**{"add" if is_wanted else "remove": query}))

    def items(self, after: int | None, wanted: Callable[[], Iterable[str]]) -> Iterator[Came]:
        try:
            with contextlib.closing(FrameSocket(*self._address)) as opened:
                with self._lock:
                    self._socket = opened
                    opened.send(json_frame(weft=VERSION, role="link", after=after, token=self._token))
                    for query in sorted(wanted()):
                        opened.send(json_frame(add=query))
                    opened.send(json_frame(ready=""))
                yield NoParcels(int(opened.receive_json()["ok"]))
                while not self.closing.is_set():
                    yield _received(*opened.receive())
        except (OSError, ValueError, DeliveryError) as error:
            raise BrokerError(f"the edge {self._shown} cannot be reached ({error})") from error

    def close(self) -> None:
        self.closing.set()
        if self._socket is not None:
            self._socket.close()


def _received(kind: bytes, content: bytes) -> Came:
    """What a frame of another edge says."""
    if kind == PARCEL:
        return decode(content)
    document = document_of(content)
    if "added" in document:
        route = document["route"] and itinerary.from_json(document["route"])
        return Added(document["added"], route, document["through"], document.get("refused"))
    return Gone(document["gone"]) if "gone" in document else NoParcels(document["through"])


Feed: TypeAlias = SourceFeed | LinkFeed


def feed_from(upstream: str, token: str | None) -> Feed:
    """The feed from an address: another edge, NATS, or a delivery directory of this machine."""
    if upstream.startswith("weft://"):
        return LinkFeed(upstream, token)
    if upstream.startswith("nats://"):
        split_address(upstream)
        return SourceFeed(lambda: contextlib.closing(NatsSource(upstream, token)))
    if not Path(upstream).is_dir():
        raise DeliveryError(f"{upstream} is no directory; give that of a project's delivery, nats://… or weft://…")
    return SourceFeed(lambda: contextlib.nullcontext(LogSource(Path(upstream))))


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
        #: What keeps rows from coming, if anything does.
        self.problem: str | None = None
        self._promises: dict[str, Future[Covered]] = {}
        self._place = BEGINNING
        try:
            self._log = LogWriter(directory, limits)
            self._is_new = not self._restore()
        except DamagedLog as error:
            damage = str(error).partition(";")[0]
            raise DeliveryError(f"{damage}; delete the edge's directory {directory}: it is filled again") from error
        self._log.commit(self._place)
        self.hub = borrow_hub(directory)
        self.hub.learn(each.route for query, each in self.covered.items() if query not in self.hub.routes)
        self.hub.advance(self._place)
        self._lock = threading.Lock()
        self._kept_at, self._keeping_took, self._has_changed = 0.0, 0.0, False
        self._thread = threading.Thread(target=self._run, name="weft-relay", daemon=True)
        self._thread.start()

    def cover(self, query: str) -> Future[Covered]:
        """Have a query's rows brought here. The future fails with UnknownQuery if they are not known upstream."""
        with self._lock:
            if query in self._promises:
                return self._promises[query]
            promise: Future[Covered] = Future()
            # A user that waits no more cannot cancel it: it is kept all the same.
            promise.set_running_or_notify_cancel()
            if query in self.covered:
                promise.set_result(self.covered[query])
                return promise
            self._promises[query] = promise
        self.feed.change(query, is_wanted=True)
        return promise

    def uncover(self, query: str) -> None:
        with self._lock:
            known = self.covered.pop(query, None)
        if known is not None:
            self.feed.change(query, is_wanted=False)

    def close(self) -> None:
        self.feed.close()
        self._thread.join(20)
        self._kept_at = float("-inf")
        self._keep()
        return_hub(self.hub)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self.feed.closing.is_set():
            try:
                for item in self.feed.items(None if self._is_new else self._place, self._wanted):
                    self._take(item)
                    self._keep()
                    failures, self.problem = 0, None
            except DeliveryError as error:
                # The other side is away, or the disk here is full: what was not kept is asked for again.
                self.problem = str(error)
                self.feed.closing.wait(retry_pause(failures))
                failures += 1

    def _wanted(self) -> list[str]:
        with self._lock:
            return [*self.covered, *self._promises]

    def _take(self, item: Came) -> None:
        self._has_changed |= not isinstance(item, NoParcels) or item.through > self._place
        self._is_new = False
        if isinstance(item, Added):
            self._added(item)
        elif isinstance(item, Parcel):
            self._write(item)
        elif isinstance(item, Gone):
            self._log.begins_after = self._place = item.through
        else:
            self._place = max(self._place, item.through)
            self.hub.advance(self._place)

    def _added(self, item: Added) -> None:
        with self._lock:
            promise = self._promises.pop(item.query, None)
            known = self.covered.pop(item.query, None)
            if item.route is None:
                problem = item.refused or f"query '{item.query}' is not known where this edge takes its rows from"
                if promise is not None:
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
            self.hub.learn([item.route])
        if promise is not None:
            promise.set_result(covered)

    def _write(self, parcel: Parcel) -> None:
        self._log.write(parcel)
        self._log.commit(parcel.cycle)
        self._place = parcel.cycle
        self.count.add(parcel, self._log.heads[parcel.cycle].size)
        with self._lock:
            for each in parcel.routes:
                if each.query in self.covered:
                    self.covered[each.query] = replace(self.covered[each.query], route=each)
        self.hub.wake()
        self._log.trim()

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Write down what has changed, unless that was done just now, or takes long and was done not long ago."""
        now = time.monotonic()
        if not self._has_changed or now - self._kept_at < max(_KEEP_EVERY, 20 * self._keeping_took):
            return
        self._has_changed = False
        with self._lock:
            covered = self.covered.items()
            queries = {query: {"after": each.after, "route": itinerary.as_json(each.route)} for query, each in covered}
        with writing(self._state):
            write_checked(self._state, {"place": self._place, "gone": self._log.begins_after, "queries": queries})
        self._kept_at = time.monotonic()
        self._keeping_took = self._kept_at - now

    def _restore(self) -> bool:
        """Take up what the last process had; false if there was none."""
        with reading(self._state):
            document = read_checked(self._state)
        if document is None:
            return False
        self._log.begins_after = document["gone"]
        self._place = max([document["place"], *self._log.heads])
        self.covered = {
            query: Covered(each["after"], itinerary.from_json(each["route"]))
            for query, each in document["queries"].items()
        }
        return True
