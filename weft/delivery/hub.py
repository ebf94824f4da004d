"""The hub: reads each parcel of a log once, and gives all readers in this process their parts of it.

A reader has a place in the log, a cycle. It is either *behind*, and reads the log on its own, or *live*, and is given
its items by the hub. It goes live when it has caught up, and falls behind when it lets its queue fill up: so none takes
more memory than its queue, and none holds up another. What the log deletes before a reader comes to it is dropped for
it, with a notice of how many rows these were: the hub goes on counting the rows of readers that are behind.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from weft.delivery.delivery_errors import DeliveryError
from weft.delivery.delivery_log import BEGINNING, cycles, next_parcel, read_parcel, read_routes
from weft.delivery.itinerary import Itinerary
from weft.delivery.members import Members
from weft.delivery.parcel import Gone, Parcel

Item = TypeVar("Item")

#: How often the log is looked at for what other processes have put there.
_LOOK_EVERY: Final = 0.05

#: Nanoseconds within which file systems may give two changes the same time.
_SAME_INSTANT: Final = 100_000_000


class MissedRows:
    """How many rows a reader that is behind has not taken yet, by cycle, as far as they were seen: after `seen_after`.

    Cycles whose parcels have gone are put together, since they will be missed together.
    """

    def __init__(self, after: int) -> None:
        self.seen_after = after
        self._seen: deque[tuple[int, int, int]] = deque()

    def saw(self, cycle: int, rows: int) -> None:
        self._seen.append((cycle, cycle, rows))

    def compact(self, place: int, oldest: int) -> None:
        """Forget what the reader has taken, and put together what is gone."""
        while self._seen and self._seen[0][1] <= place:
            self._seen.popleft()
        while len(self._seen) > 1 and self._seen[1][1] < oldest:
            first, second = self._seen.popleft(), self._seen.popleft()
            self._seen.appendleft((first[0], second[1], first[2] + second[2]))

    def between(self, after: int, until: int) -> int | None:
        """The rows of cycles after one, up to another; None if they were not all seen, or one by one."""
        inside = [rows for first, last, rows in self._seen if first > after and last <= until]
        is_cut = any(first <= after < last or first <= until < last for first, last, _ in self._seen)
        return None if after < self.seen_after or is_cut else sum(inside)


@dataclass(eq=False, slots=True)
class Reader(Generic[Item]):
    """A place in the log of a hub, from where a user or a link takes what comes.

    `cut` says what of a parcel is the reader's. `dropped` makes the notice that cycles after one, up to another, are
    gone, and how many rows with them, if that is known. `wake` is called, from another thread, when there may be
    something new. The hub looks the rows of a `query` up for all its readers; a reader without one is asked to `cut`.
    """

    hub: Hub
    place: int
    cut: Callable[[Parcel], Item | None]
    dropped: Callable[[int, int, int | None], Item]
    wake: Callable[[], object]
    limit: int
    query: str | None = None
    queue: deque[tuple[int, Item]] = field(default_factory=deque)
    is_live: bool = False
    #: What the hub has seen of its rows since it is behind.
    missed: MissedRows = field(init=False)
    through: int = BEGINNING
    failure: DeliveryError | None = None

    def __post_init__(self) -> None:
        self.through = self.place
        self.hub.enter(self)

    @property
    def position(self) -> int:
        """The cycle up to which everything was taken, though the last ones had nothing to take."""
        through, was_live = self.through, self.is_live
        return max(self.place, through) if was_live and not self.queue else self.place

    def take(self) -> Item | None:
        """The next item, or None if there is none yet. Raises what has made the hub stop."""
        while True:
            # First how far the hub had come, then the queue: what it had put there by then is not overlooked.
            through, was_live = self.through, self.is_live
            if self.queue:
                self.place, item = self.queue.popleft()
                return item
            if was_live:
                self.place = max(self.place, through)
                return None
            if self.failure is not None:
                raise self.failure
            reached = self.hub.through
            found = next_parcel(self.hub.directory, self.place)
            if found is None or found.through > reached:
                # The hub may know of cycles that have no parcels; what comes after them it gives itself.
                self.place = max(self.place, reached)
                if self.hub.go_live(self):
                    return None
            elif isinstance(found, Gone):
                with self.hub.lock:
                    rows = self.missed.between(self.place, found.through)
                before, self.place = self.place, found.through
                return self.dropped(before, found.through, rows)
            else:
                self.place = found.cycle
                if (own := self.cut(found)) is not None:
                    return own

    def go_back(self) -> None:
        """Drop the waiting items, to cut them again: what `cut` gives has changed."""
        self.hub.leave(self)
        self.queue.clear()

    def close(self) -> None:
        self.hub.leave(self)
        self.hub.exit(self)


class Hub:
    """Follows the log in a directory for all readers of this process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        #: The readers of each query; links are those of no query.
        self._readers: dict[str | None, list[Reader[Any]]] = {None: []}
        self._members = Members()
        self.through = max(cycles(directory), default=BEGINNING)
        #: The newest itineraries, at least up to the cycle `through`.
        self.routes: dict[str, Itinerary] = read_routes(directory)
        self._horizon = self.through
        self._new = threading.Event()
        self._closed = False
        self._failure: DeliveryError | None = None
        self._thread = threading.Thread(target=self._follow, name="weft-hub", daemon=True)
        self._thread.start()

    def enter(self, reader: Reader[Any]) -> None:
        """Take a reader in; it is live if it has nothing to catch up with."""
        with self.lock:
            self._readers.setdefault(reader.query, []).append(reader)
            if reader.query in self.routes and reader.query not in self._members.routes:
                self._members.put(self.routes[reader.query])
            reader.missed = MissedRows(self.through)
            self.go_live(reader)

    def exit(self, reader: Reader[Any]) -> None:
        with self.lock:
            reader.is_live = False
            left = [each for each in self._readers.pop(reader.query, ()) if each is not reader]
            if left or reader.query is None:
                self._readers[reader.query] = left
            else:
                self._members.remove(reader.query)

    def end_readers(self, query: str, error: DeliveryError) -> None:
        """End the readers of a query, and those that may have it among others, after what waits for them."""
        with self.lock:
            self._end([*self._readers[None], *self._readers.get(query, ())], error)

    def _end(self, readers: Iterable[Reader[Any]], error: DeliveryError) -> None:
        for reader in readers:
            reader.failure = error
            self.leave(reader)
            reader.wake()

    def go_live(self, reader: Reader[Any]) -> bool:
        """Give a reader its items from now on; false if it has something to catch up with first."""
        with self.lock:
            if self._failure is not None:
                reader.failure = self._failure
            if reader.failure is not None or reader.place < self.through:
                return False
            reader.is_live = True
            reader.through = reader.place
            return True

    def leave(self, reader: Reader[Any]) -> None:
        """Give a reader nothing more; it is behind from what it was given last."""
        with self.lock:
            if reader.is_live:
                reader.is_live = False
                last = reader.queue[-1][0] if reader.queue else max(reader.place, reader.through)
                reader.missed = MissedRows(last)

    def learn(self, routes: Iterable[Itinerary]) -> None:
        """Take new itineraries of queries, those that no parcel here has among them."""
        with self.lock:
            for each in routes:
                self.routes[each.query] = each
                if each.query in self._readers:
                    self._members.put(each)

    def advance(self, cycle: int) -> None:
        """Note that up to a cycle nothing more will come than the log has by now."""
        self._horizon = max(self._horizon, cycle)
        self.wake()

    def wake(self) -> None:
        """Look at the log at once."""
        self._new.set()

    def close(self) -> None:
        self._closed = True
        self.wake()
        self._thread.join()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        seen, was_woken = None, True
        while not self._closed:
            try:
                stamp = self._stamp()
                if was_woken or stamp is None or stamp != seen:
                    self._read_new()
                    seen = stamp
            except DeliveryError as error:
                with self.lock:
                    self._failure = error
                    self._end(self._where(is_live=True), error)
                return
            was_woken = self._new.wait(_LOOK_EVERY)
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
            if cycle > self.through and (parcel := read_parcel(self.directory, cycle)) is not None:
                self._distribute(parcel)
        with self.lock:
            self._reach(max(self.through, horizon))
            for reader in self._where(is_live=False):
                reader.missed.compact(reader.place, listed[0] if listed else 0)

    def _reach(self, cycle: int) -> None:
        self.through = cycle
        for reader in self._where(is_live=True):
            reader.through = cycle

    def _distribute(self, parcel: Parcel) -> None:
        with self.lock:
            if parcel.previous is not None and parcel.previous > self.through:
                # Live readers read on without the hub: they come to the gap, and notice it.
                for reader in self._where(is_live=True):
                    self.leave(reader)
                    reader.wake()
                for reader in self._where(is_live=False):
                    reader.missed.seen_after = max(reader.missed.seen_after, parcel.previous)
            self.learn(parcel.routes)
            for batch in self._members.batches(parcel):
                for reader in self._readers[batch.query]:
                    self._give(reader, parcel.cycle, batch, batch.table.num_rows)
            for reader in self._readers[None]:
                item = reader.cut(parcel) if reader.is_live and reader.place < parcel.cycle else None
                if item is not None:
                    self._give(reader, parcel.cycle, item, 0)
            self._reach(parcel.cycle)
            # Their queries may have ended.
            for query in (None, *(each.query for each in parcel.routes)) if parcel.routes else ():
                for reader in self._readers.get(query, ()):
                    reader.wake()

    def _give(self, reader: Reader[Any], cycle: int, item: Any, rows: int) -> None:
        if cycle <= reader.place:
            # It asked for what comes after a later cycle.
            return
        if reader.is_live and len(reader.queue) >= reader.limit:
            # What is in the queue comes first; from there the reader reads the log.
            self.leave(reader)
        if reader.is_live:
            reader.queue.append((cycle, item))
        else:
            reader.missed.saw(cycle, rows)
        reader.wake()

    def _where(self, *, is_live: bool) -> list[Reader[Any]]:
        return [reader for readers in self._readers.values() for reader in readers if reader.is_live == is_live]


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


def wake(directory: Path) -> None:
    """Have the readers of this process look at a directory that has something new."""
    if (known := _hubs.get(directory.resolve())) is not None:
        known[0].wake()


def return_hub(hub: Hub) -> None:
    with _hubs_lock:
        _, users = _hubs[hub.directory]
        if users > 1:
            _hubs[hub.directory] = hub, users - 1
            return
        del _hubs[hub.directory]
    hub.close()
