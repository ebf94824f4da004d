"""Subscribers of the delivery log itself: in the process that publishes, or in another one of the same machine."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pyarrow as pa

from weft.delivery.log.access import ACCESS, Access
from weft.delivery.log.delivery_errors import UnknownQuery
from weft.delivery.log.delivery_log import (
    BEGINNING,
    Limits,
    cycles,
    head_of,
    missing,
    parcel_path,
    read_parcel,
    read_routes,
)
from weft.delivery.log.itinerary import Itinerary, from_clock
from weft.delivery.log.parcel import Batch, Dropped, Parcel
from weft.delivery.matching.members import Members
from weft.delivery.subscribers.hub import Reader, borrow_hub, return_hub
from weft.delivery.subscribers.subscriber import Start, Subscriber, not_known_before


class LocalSubscriber(Subscriber):
    """A reader of the hub that this process has for the directory."""

    def __init__(
        self, directory: Path, query: str, start: Start, token: str | None, limits: Limits, wait: bool = False
    ) -> None:
        super().__init__(query)
        Access.read(directory / ACCESS).check(token, query)
        self._hub = borrow_hub(directory)
        self._is_closed = False
        route, self._as_of = self._hub.route(query)
        if route is None and not wait:
            known = self._hub.routes
            self.close()
            raise UnknownQuery(unknown(query, known))
        self._members = Members([route] if route else [])
        self._first: deque[Batch] = deque()
        self._narrowed: tuple[Members, int] | None = None
        self._until = start.until
        after = self._first_place(start)
        self._reader: Reader[Batch | Dropped] = Reader(
            self._hub, after, self._cut, self._dropped, self._wake, limits.queue, query
        )

    @property
    def position(self) -> int:
        return self._first[0].cycle - 1 if self._first else self._reader.position

    def _take(self) -> Batch | Dropped | None:
        if self._first:
            return self._first.popleft()
        if self._is_closed:
            raise StopIteration
        item = self._reader.take()
        if item is None and self._has_ended():
            raise StopIteration
        if self._until is not None and (self.position > self._until or (item is None and self.position == self._until)):
            raise StopIteration
        return item

    def _takes_long(self) -> bool:
        return not self._reader.is_live

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if hasattr(self, "_reader"):
                self._reader.close()
            return_hub(self._hub)
            self._wake()

    # -- where to begin -----------------------------------------------------------------------------------------------

    def _first_place(self, start: Start) -> int:
        if start.after is not None:
            return start.after
        here = self._as_of if start.until is None else min(self._as_of, start.until)
        route, _ = self._hub.route(self.query)
        if start.since is not None:
            return self._known_after(self._before(start.since), route)
        if start.since_clock is not None:
            if route is not None:
                self._narrowed = Members([from_clock(route, start.since_clock)]), here
            return self._known_after(BEGINNING, route)
        if start.last is not None:
            self._first.extend(self._newest(start.last, here))
        return here

    def _before(self, since: int) -> int:
        """The place before the first parcel that was published at a time or later."""
        listed = [cycle for cycle in cycles(self._hub.directory) if cycle <= self._as_of]
        for at, cycle in enumerate(listed):
            head = head_of(self._hub.directory, cycle)
            if head is not None and head.parcel.at >= since:
                if at:
                    return listed[at - 1]
                return BEGINNING
        return self._as_of

    def _newest(self, count: int, until: int) -> list[Batch]:
        """The newest answers up to a cycle, as many as were asked for or as there are."""
        found: list[Batch] = []
        missing = count
        route, _ = self._hub.route(self.query)
        for cycle in reversed(cycles(self._hub.directory)):
            if missing > 0 and route is not None and _is_unknown(cycle, route):
                raise not_known_before(route)
            parcel = read_parcel(self._hub.directory, cycle) if cycle <= until and missing > 0 else None
            for batch in self._members.batches(parcel) if parcel is not None else ():
                found.append(batch.newest(missing))
                missing -= batch.table.num_rows
        return found[::-1]

    # -- catching up --------------------------------------------------------------------------------------------------

    def _known_after(self, place: int, route: Itinerary | None) -> int:
        """A place, if the itinerary tells of all that comes after it."""
        if route is not None and any(place < each and _is_unknown(each, route) for each in cycles(self._hub.directory)):
            raise not_known_before(route)
        return place

    def _cut(self, parcel: Parcel) -> Batch | Dropped | None:
        route, as_of = self._hub.route(self.query)
        if route is not None and as_of > self._as_of:
            self._members.put(route)
            self._as_of = as_of
        if parcel.cycle > self._as_of:
            for each in parcel.routes:
                if each.query == self.query:
                    self._members.put(each)
            self._as_of = parcel.cycle
        if self.query in self._members and _is_unknown(parcel.cycle, self._members.route(self.query)):
            return self._dropped(parcel.cycle - 1, parcel.cycle, None)
        if self._narrowed is not None and parcel.cycle <= self._narrowed[1]:
            return next(self._narrowed[0].batches(parcel), None)
        return next(self._members.batches(parcel), None)

    def _dropped(self, after: int, until: int, rows: int | None) -> Dropped:
        return Dropped(self.query, None if after == BEGINNING else after, until, rows)

    def _has_ended(self) -> bool:
        route, _ = self._hub.route(self.query)
        return route is not None and route.ended is not None and self.position >= route.ended


def _is_unknown(cycle: int, route: Itinerary) -> bool:
    return route.complete_from is not None and cycle < route.complete_from


def unknown(query: str, known: dict[str, Itinerary]) -> str:
    """The sentence for a query that has no itinerary."""
    names = ", ".join(sorted(name for name, each in known.items() if each.ended is None)[:10]) or "none yet"
    return f"query '{query}' does not deliver its answers here; queries that do: {names}"


def kept_answers(directory: Path, query: str, most: int) -> list[pa.Table]:
    """A query's newest answers, oldest first: of as many cycles as it takes to have `most` of them, or of all.

    Raises DamagedLog if one of these cycles is missing.
    """
    route = read_routes(directory).get(query)
    if route is None:
        return []
    members = Members()
    members.put(route)
    found: list[pa.Table] = []
    rows = 0
    previous: int | None = None
    for cycle in reversed(cycles(directory)):
        if rows >= most:
            break
        if previous is not None and previous != cycle:
            raise missing(parcel_path(directory, previous))
        parcel = read_parcel(directory, cycle)
        if parcel is None:
            break
        previous = parcel.previous
        tables = [each.table for each in members.batches(parcel)]
        rows += sum(each.num_rows for each in tables)
        found = [*tables, *found]
    return found
