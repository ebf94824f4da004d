"""The relay: brings what its users need to an edge, over one link, into a log of the edge's own.

The log is the edge's durable place: one that was killed goes on after the last parcel that it kept. What it knows
beside the log is in `relay.json`: for each query the cycle after which the log has all its rows.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from weft.delivery.edges.feed import Added, Came, LinkFeed, SourceFeed
from weft.delivery.log import itinerary
from weft.delivery.log.delivery_errors import BrokerError, DamagedLog, DeliveryError, LogError, UnknownQuery
from weft.delivery.log.delivery_log import BEGINNING, Limits, LogWriter, reading, wake, writing
from weft.delivery.log.itinerary import Itinerary
from weft.delivery.log.parcel import Gone, NoParcels, Parcel
from weft.delivery.subscribers.hub import borrow_hub, return_hub
from weft.files.checked_file import read_checked, write_checked

STATE: Final = "relay.json"
_KEEP_EVERY: Final = 0.5


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

    def __init__(self, directory: Path, feed: SourceFeed | LinkFeed, limits: Limits) -> None:
        self._directory, self._state = directory, directory / STATE
        self._feed = feed
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
        return self._trouble or self._feed.problem

    @property
    def bytes_from_broker(self) -> int:
        """What has come from a broker, by the count of its client; 0 if rows come from elsewhere."""
        return self._feed.bytes_from_broker

    def cover(self, query: str) -> Future[Covered]:
        """Have a query's rows brought here. The future fails with UnknownQuery if they are not known upstream."""
        promise: Future[Covered] = Future()
        with self._lock:
            if query in self.covered:
                promise.set_result(self.covered[query])
            else:
                self._promises.setdefault(query, []).append(promise)
                self._feed.add(query)
        return promise

    def uncover(self, query: str) -> None:
        with self._lock:
            if self.covered.pop(query, None) is not None:
                self._feed.remove(query)

    def close(self) -> None:
        self._closing.set()
        self._feed.close()
        self._thread.join(20)
        self._feed.finish()
        self._keeping_took = 0.0
        self._keep(0.0)
        return_hub(self.hub)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        after = None if self._is_new else self._place
        for item in self._feed.items(after, list(self.covered)):
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
            self._gone = self._place = item.until
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
        previous = max(self._log.newest if self._log.newest is not None else BEGINNING, self._gone)
        written = replace(parcel, previous=None if previous == BEGINNING else previous)
        self._log.write(written)
        self._log.commit(parcel.cycle)
        self._place = parcel.cycle
        self.count.add(parcel, self._log.heads[parcel.cycle].size)
        with self._lock:
            for each in parcel.routes:
                if each.query in self.covered:
                    self.covered[each.query] = replace(self.covered[each.query], route=each)
        wake(self._directory)
        self._log.trim()

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
        self._place = max(document["place"], self._log.newest if self._log.newest is not None else BEGINNING)
        self.covered = {
            query: Covered(each["after"], itinerary.from_json(each["route"]))
            for query, each in document["queries"].items()
        }
        return True
