"""The hub: reads each parcel of a log once, and gives all users in this process their parts of it.

A reader has a place in the log, a cycle. It is either *behind*, and reads the log by itself, or *live*, and is given
its items by the hub. It goes live when it has caught up, and falls behind when it lets its queue fill up. So a reader
that comes late, one that comes back and one that is slow are the same thing, none takes more memory than its queue, and
none holds up another. What the log lets go of before a reader comes to it is dropped for it, and it is told how many
rows these were, if the hub has seen them: it goes on looking up the rows of readers that are behind, to count them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weft.delivery.errors import DeliveryError
from weft.delivery.itinerary import Itinerary
from weft.delivery.log import cycles, read_parcel, read_routes
from weft.delivery.matching.members import Members
from weft.delivery.parcel import Parcel
from weft.delivery.users.reader import BEGINNING, Missed, Reader
from weft.delivery.wakeup import listen

# How often the log is looked at for what other processes have put there.
_LOOK_EVERY = 0.05

# Nanoseconds within which file systems may give two changes the same time.
_SAME_INSTANT = 100_000_000


class Hub:
    """Follows the log in a directory for all readers of this process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.RLock()
        self._of_query: dict[str, list[Reader[Any]]] = {}
        self._links: list[Reader[Any]] = []
        self._members = Members()
        self.through = max(cycles(directory), default=BEGINNING)
        self.routes: dict[str, Itinerary] = read_routes(directory)
        self._horizon = self.through
        self._new = threading.Event()
        self._closed = False
        self._failure: DeliveryError | None = None
        self._unlisten = listen(directory, self._new.set)
        self._thread = threading.Thread(target=self._follow, name="weft-hub", daemon=True)
        self._thread.start()

    def enter(self, reader: Reader[Any]) -> None:
        """Take a reader in; it is live if it has nothing to catch up with."""
        with self._lock:
            if reader.query is None:
                self._links.append(reader)
            else:
                self._of_query.setdefault(reader.query, []).append(reader)
                if reader.query not in self._members and reader.query in self.routes:
                    self._members.put(self.routes[reader.query])
            reader.missed = Missed(self.through)
            self.go_live(reader)

    def exit(self, reader: Reader[Any]) -> None:
        """Let go of a reader."""
        with self._lock:
            reader.is_live = False
            if reader.query is None:
                self._links = [each for each in self._links if each is not reader]
                return
            left = [each for each in self._of_query.get(reader.query, ()) if each is not reader]
            self._of_query[reader.query] = left
            if not left:
                del self._of_query[reader.query]
                self._members.remove(reader.query)

    def turn_out(self, query: str, error: DeliveryError) -> None:
        """End the readers of a query, and those that may have it among others, after what waits for them."""
        with self._lock:
            concerned = [*self._links, *self._of_query.get(query, ())]
            for reader in concerned:
                reader.failure = error
                self.leave(reader)
        for reader in concerned:
            reader.wake()

    def go_live(self, reader: Reader[Any]) -> bool:
        """Give a reader its items from now on; false if it has something to catch up with first."""
        with self._lock:
            if self._failure is not None:
                reader.failure = self._failure
            if reader.failure is not None or reader.place < self.through:
                return False
            reader.is_live, reader.missed = True, None
            reader.through = reader.place
            return True

    def leave(self, reader: Reader[Any]) -> None:
        """Give a reader nothing more; it is behind from what it was given last."""
        with self._lock:
            if reader.is_live:
                reader.is_live = False
                reader.missed = Missed(reader.queue[-1][0] if reader.queue else max(reader.place, reader.through))

    def missed_by(self, reader: Reader[Any], until: int) -> int | None:
        """How many rows a reader misses if it goes on after a cycle; None if that is not known."""
        with self._lock:
            return None if reader.missed is None else reader.missed.between(reader.place, until)

    def route(self, query: str) -> tuple[Itinerary | None, int]:
        """The itinerary of a query, and the cycle up to which it is the newest."""
        with self._lock:
            return self.routes.get(query), self.through

    def learn(self, route: Itinerary) -> None:
        """Know a query's itinerary that no parcel here has."""
        with self._lock:
            self._amend([route])

    def advance(self, cycle: int) -> None:
        """Know that up to a cycle there is nothing but what the log has by now."""
        self._horizon = max(self._horizon, cycle)
        self._new.set()

    def close(self) -> None:
        """Stop following."""
        self._closed = True
        self._unlisten()
        self._new.set()
        self._thread.join()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        seen, told = None, True
        while not self._closed:
            try:
                stamp = self._stamp()
                if told or stamp is None or stamp != seen:
                    self._read_new()
                    seen = stamp
            except DeliveryError as error:
                self._fail(error)
                return
            told = self._new.wait(_LOOK_EVERY)
            self._new.clear()

    def _stamp(self) -> int | None:
        """When the directory was changed last; None if that is so near that a second change could look the same."""
        try:
            changed = self.directory.stat().st_mtime_ns
        except FileNotFoundError:
            return 0
        return None if time.time_ns() - changed < _SAME_INSTANT else changed

    def _read_new(self) -> None:
        horizon = self._horizon
        listed = cycles(self.directory)
        for cycle in listed:
            if cycle > self.through:
                parcel = read_parcel(self.directory, cycle)
                if parcel is not None:
                    self._distribute(parcel)
        with self._lock:
            self._reach(max(self.through, horizon))
            for reader, missed in self._behind():
                missed.compact(reader.place, listed[0] if listed else 0)

    def _reach(self, cycle: int) -> None:
        self.through = cycle
        for reader in self._readers():
            reader.through = cycle

    def _distribute(self, parcel: Parcel) -> None:
        with self._lock:
            if parcel.previous is not None and parcel.previous > self.through:
                # Readers that are live read on by themselves: they come to the gap, and are told of it.
                for reader in self._readers():
                    self.leave(reader)
                    reader.wake()
                for _, missed in self._behind():
                    missed.lost_sight(parcel.previous)
            self._amend(parcel.routes)
            for batch in self._members.batches(parcel):
                for reader in self._of_query.get(batch.query, ()):
                    self._give(reader, parcel.cycle, batch, batch.table.num_rows)
            for reader in self._links:
                item = reader.cut(parcel) if reader.is_live and reader.place < parcel.cycle else None
                if item is not None:
                    self._give(reader, parcel.cycle, item, 0)
            self._reach(parcel.cycle)
            ended = [reader for each in parcel.routes for reader in self._of_query.get(each.query, ())]
            ended += self._links if parcel.routes else []
        for reader in ended:
            reader.wake()

    def _amend(self, routes: Iterable[Itinerary]) -> None:
        for each in routes:
            self.routes[each.query] = each
            if each.query in self._of_query:
                self._members.put(each)

    def _give(self, reader: Reader[Any], cycle: int, item: Any, rows: int) -> None:
        if cycle <= reader.place:
            # It had caught up further than the hub had come, and has taken this from the log.
            return
        if reader.is_live and len(reader.queue) >= reader.limit:
            # What is in the queue comes first; from there the reader goes on by itself.
            self.leave(reader)
        if reader.is_live:
            reader.queue.append((cycle, item))
        elif reader.missed is not None:
            reader.missed.saw(cycle, rows)
        reader.wake()

    def _readers(self) -> list[Reader[Any]]:
        """Those who are live."""
        everyone = [*self._links, *(reader for readers in self._of_query.values() for reader in readers)]
        return [reader for reader in everyone if reader.is_live]

    def _behind(self) -> list[tuple[Reader[Any], Missed]]:
        """Those who are not, with what they miss."""
        everyone = (reader for readers in self._of_query.values() for reader in readers)
        return [(reader, reader.missed) for reader in everyone if reader.missed is not None]

    def _fail(self, error: DeliveryError) -> None:
        with self._lock:
            self._failure = error
            for reader in self._readers():
                reader.failure = error
                self.leave(reader)
                reader.wake()


# -- one hub for each directory ---------------------------------------------------------------------------------------

_hubs: dict[Path, tuple[Hub, int]] = {}
_hubs_lock = threading.Lock()


def borrow_hub(directory: Path) -> Hub:
    """The hub of a directory, which is made for its first user and ends with its last: see `return_hub`."""
    path = directory.resolve()
    with _hubs_lock:
        hub, users = _hubs.get(path) or (Hub(path), 0)
        _hubs[path] = hub, users + 1
        return hub


def return_hub(hub: Hub) -> None:
    """Say that one user less needs a hub."""
    with _hubs_lock:
        _, users = _hubs[hub.directory]
        if users > 1:
            _hubs[hub.directory] = hub, users - 1
            return
        del _hubs[hub.directory]
    hub.close()
