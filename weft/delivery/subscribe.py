"""`subscribe`: the one way to take a query's answers, from the log of this machine, from an edge or from NATS.

Subscribers of an edge and of NATS reconnect, from where they were, until they are closed.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa

from weft.delivery import delivery_log
from weft.delivery.access import ACCESS, Access
from weft.delivery.delivery_errors import DeliveryError, UnknownQuery
from weft.delivery.delivery_log import BEGINNING, Limits, cycles
from weft.delivery.edge_protocol import PARCEL, VERSION, FrameSocket, document_of, json_frame, split_host
from weft.delivery.hub import Reader, borrow_hub, return_hub
from weft.delivery.itinerary import Itinerary, from_clock
from weft.delivery.members import Members, share
from weft.delivery.nats_broker import NatsSource
from weft.delivery.parcel import Batch, Dropped, Gone, NoParcels, Parcel, ParcelHead, decode
from weft.delivery.subscriber import Ended, QueuedSubscriber, Start, Subscriber, microseconds

_LOOK_EVERY: Final = 0.05


class LogSource:
    """The log in a directory of this machine, which gives parcels in the order of their cycles, like `NatsSource`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def route(self, query: str) -> Itinerary | None:
        """The newest itinerary of a query."""
        return delivery_log.read_routes(self._directory).get(query)

    def last_where(self, holds: Callable[[ParcelHead], bool]) -> int:
        """The newest cycle with a parcel that a condition holds for, as for all before it; or BEGINNING."""
        for cycle in reversed(cycles(self._directory)):
            head = delivery_log.head_of(self._directory, cycle)
            if head is not None and holds(head):
                return cycle
        return BEGINNING

    def next(self, after: int, members: Members, timeout: float) -> Parcel | Gone | NoParcels | None:
        """What comes after a cycle; None if nothing does within `timeout` seconds. Members are amended on the way."""
        end = time.monotonic() + timeout
        while (item := delivery_log.next_parcel(self._directory, after)) is None and time.monotonic() < end:
            time.sleep(_LOOK_EVERY)
        return share(item, members) or NoParcels(item.cycle) if isinstance(item, Parcel) else item

    def backwards(self, until: int, members: Members) -> Iterator[tuple[int, Parcel | None]]:
        """Cycles from one back to the oldest, each with what its parcel has for some members."""
        # The parcels are whole: their itineraries are older than those of the members, and must not amend these.
        previous: int | None = None
        for cycle in reversed(cycles(self._directory)):
            if cycle > until:
                continue
            if previous is not None and previous != cycle:
                raise delivery_log.missing(delivery_log.parcel_path(self._directory, previous))
            parcel = delivery_log.read_parcel(self._directory, cycle)
            if parcel is None:
                # It was deleted meanwhile, with all before it.
                return
            previous = parcel.previous
            yield cycle, parcel


ParcelSource: TypeAlias = LogSource | NatsSource


class QueryAnswers:
    """What one query has of parcels, by its newest itinerary, from where its user has begun."""

    def __init__(self, query: str, route: Itinerary | None) -> None:
        self._query = query
        self.members = Members([] if route is None else [route])
        #: Up to a cycle the user takes only answers from a clock on.
        self._narrowed: tuple[Members, int] | None = None

    def begin(self, source: ParcelSource, start: Start, newest: int) -> tuple[int, list[Batch]]:
        """The place after which answers come, and the answers from before it that the user gets first.

        Without a start that is the newest place. Raises DeliveryError for answers from before the time that the
        itinerary still covers.
        """
        here = newest if start.until is None else min(newest, start.until)
        route = self.members.routes.get(self._query)
        if start.after is not None:
            return start.after, []
        if (since := start.since) is not None:
            return self._known_after(source.last_where(lambda parcel: parcel.at < since), source), []
        if start.since_clock is not None:
            if route is not None:
                self._narrowed = Members([from_clock(route, start.since_clock)]), here
            return self._known_after(BEGINNING, source), []
        return here, self._newest(start.last or 0, here, source)

    def of(self, parcel: Parcel) -> Batch | Dropped | None:
        """The query's answers in a parcel."""
        if parcel.cycle < self._complete_from:
            return self.dropped(parcel.cycle - 1, parcel.cycle)
        narrowed, until = self._narrowed or (self.members, BEGINNING)
        return next((narrowed if parcel.cycle <= until else self.members).batches(parcel), None)

    def dropped(self, after: int, until: int, rows: int | None = None) -> Dropped:
        """The notice that cycles are gone."""
        return Dropped(self._query, None if after == BEGINNING else after, until, rows)

    def _newest(self, count: int, until: int, source: ParcelSource) -> list[Batch]:
        """The newest answers up to a cycle, as many as were asked for or as there are."""
        found: list[Batch] = []
        for cycle, batches in _newest_first(source, self.members, until, count):
            if cycle < self._complete_from:
                raise self._not_known()
            found[:0] = batches
        if found:
            surplus = sum(each.table.num_rows for each in found) - count
            found[0] = replace(found[0], table=found[0].table.slice(max(0, surplus)))
        return found

    def _known_after(self, place: int, source: ParcelSource) -> int:
        """A place, if the itinerary tells of all that comes after it."""
        known = self._complete_from
        if known > BEGINNING and place < source.last_where(lambda parcel: parcel.cycle < known):
            raise self._not_known()
        return place

    @property
    def _complete_from(self) -> int:
        """The cycle from which on the itinerary says all."""
        route = self.members.routes.get(self._query)
        return BEGINNING if route is None or route.complete_from is None else route.complete_from

    def _not_known(self) -> DeliveryError:
        return DeliveryError(
            f"query '{self._query}' has changed its group so often that nobody knows which rows before cycle "
            f"{self._complete_from} were its own; begin later: with after={self._complete_from - 1}, or fewer answers"
        )


def kept_answers(directory: Path, query: str, most: int) -> list[pa.Table]:
    """A query's newest answers, oldest first: of as many cycles as it takes to have `most` of them, or of all.

    Raises DamagedLog if one of these cycles is missing.
    """
    route = delivery_log.read_routes(directory).get(query)
    if route is None:
        return []
    steps = _newest_first(LogSource(directory), Members([route]), max(cycles(directory), default=BEGINNING), most)
    return [each.table for _, batches in steps for each in batches][::-1]


def _newest_first(source: ParcelSource, members: Members, until: int, most: int) -> Iterator[tuple[int, list[Batch]]]:
    """Cycles from one back, with what members have in each, until there are `most` answers."""
    steps = source.backwards(until, members)
    while most > 0 and (step := next(steps, None)) is not None:
        cycle, parcel = step
        batches = list(members.batches(parcel)) if parcel is not None else []
        most -= sum(each.table.num_rows for each in batches)
        yield cycle, batches


# -- subscribers ------------------------------------------------------------------------------------------------------


class LocalSubscriber(Subscriber):
    """A reader of the hub that this process has for the directory of a log."""

    def __init__(
        self, directory: Path, query: str, start: Start, token: str | None, limits: Limits, wait: bool = False
    ) -> None:
        super().__init__(query)
        Access.read(directory / ACCESS).check(token, query)
        self._hub = borrow_hub(directory)
        self._is_closed = False
        self._until = start.until
        try:
            newest = self._hub.through
            route = self._hub.routes.get(query)
            if route is None and not wait:
                known = sorted(name for name, each in self._hub.routes.items() if each.ended is None)
                raise UnknownQuery(
                    f"query '{query}' does not deliver its answers here; "
                    f"queries that do: {', '.join(known[:10]) or 'none yet'}"
                )
            self._answers = QueryAnswers(query, route)
            after, first = self._answers.begin(LogSource(directory), start, newest)
        except BaseException:
            return_hub(self._hub)
            raise
        self._first = deque(first)
        self._reader: Reader[Batch | Dropped] = Reader(
            self._hub, after, self._cut, self._answers.dropped, self._wake, limits.queue, query
        )

    @property
    def position(self) -> int:
        return self._first[0].cycle - 1 if self._first else self._reader.position

    def _take(self) -> Batch | Dropped | Ended | None:
        if self._first:
            return self._first.popleft()
        if self._is_closed:
            return Ended()
        item = self._reader.take()
        place = self._reader.place if item is not None else self.position + 1
        is_over = self._until is not None and place > self._until
        if item is None and (route := self._hub.routes.get(self.query)) is not None:
            is_over |= route.has_ended(self.position)
        return Ended() if is_over else item

    def _takes_long(self) -> bool:
        return not self._reader.is_live

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._reader.close()
            return_hub(self._hub)
            self._wake()

    def _cut(self, parcel: Parcel) -> Batch | Dropped | None:
        route = self._hub.routes.get(self.query)
        if route is not None and route is not self._answers.members.routes.get(self.query):
            self._answers.members.put(route)
        return self._answers.of(parcel)


class EdgeSubscriber(QueuedSubscriber):
    """Takes a query's answers from an edge."""

    def __init__(self, address: str, query: str, start: Start, token: str | None, limits: Limits, wait: bool) -> None:
        super().__init__(query, limits.queue)
        self._address = split_host(address)
        self._start = start
        self._hello = {"weft": VERSION, "role": "user", "query": query, "token": token, "wait": wait}
        try:
            self._socket, self._position = self._connect()
        except OSError as error:
            raise DeliveryError(f"the edge {address} cannot be reached ({error}); is it running?") from error
        if not start.last and start.since is None and start.since_clock is None:
            # "From now on" was then, also when the edge is asked again.
            self._place = self._position
        self._is_connected = True
        self._thread.start()

    def close(self) -> None:
        super().close()
        self._socket.close()
        self._thread.join(10)

    def _connect(self) -> tuple[FrameSocket, int]:
        """A connection, and the cycle after which it goes on."""
        start = self._start if self._place is None else Start(after=self._place, until=self._start.until)
        opened = FrameSocket(*self._address)
        try:
            opened.send(json_frame(**self._hello, **msgspec.structs.asdict(start)))
            return opened, int(opened.receive_json()["ok"])
        except BaseException:
            opened.close()
            raise

    def _items(self) -> Iterator[tuple[int, Batch | Dropped | None]]:
        if not self._is_connected:
            self._socket, _ = self._connect()
        self._is_connected = False
        with contextlib.closing(self._socket) as socket:
            while True:
                kind, content = socket.receive()
                if kind == PARCEL:
                    parcel = decode(content)
                    (message,) = parcel.messages
                    yield parcel.cycle, Batch(self.query, parcel.cycle, parcel.at, message.watermark, message.rows)
                    continue
                document = document_of(content)
                if "end" in document:
                    return
                if "until" in document:
                    dropped = Dropped(self.query, **document)
                    yield dropped.until, dropped
                else:
                    yield document["through"], None


class NatsSubscriber(QueuedSubscriber):
    """Takes a query's messages from NATS. A broker that is away is waited for."""

    def __init__(self, address: str, query: str, start: Start, token: str | None, limits: Limits, wait: bool) -> None:
        super().__init__(query, limits.queue)
        self._until = start.until
        self._source = NatsSource(address, token)
        try:
            while (route := self._source.route(query)) is None and wait:
                self._closing.wait(0.2)
            if route is None:
                raise UnknownQuery(f"query '{query}' is not known to this broker; is its project running?")
            self._answers = QueryAnswers(query, route)
            newest = self._source.last_where(lambda parcel: True)
            self._after, first = self._answers.begin(self._source, start, newest)
        except BaseException:
            self._source.close()
            raise
        self._position = first[0].cycle - 1 if first else self._after
        self._queue.extend((batch.cycle, batch) for batch in first)
        self._queue.append((self._after, None))
        self._thread.start()

    def close(self) -> None:
        if self._closing.is_set():
            return
        super().close()
        self._thread.join(10)
        self._source.close()

    def _items(self) -> Iterator[tuple[int, Batch | Dropped | None]]:
        place = self._after if self._place is None else self._place
        while not self._closing.is_set() and not self._has_ended(place):
            item = self._source.next(place, self._answers.members, 1.0)
            if item is None:
                continue
            if isinstance(item, Parcel) and self._until is not None and item.cycle > self._until:
                return
            before, place = place, item.through
            if isinstance(item, Gone):
                yield place, self._answers.dropped(before, place)
            else:
                yield place, self._answers.of(item) if isinstance(item, Parcel) else None

    def _has_ended(self, place: int) -> bool:
        is_over = self._until is not None and place >= self._until
        return is_over or self._answers.members.routes[self.query].has_ended(place)


def subscribe(
    source: str | Path,
    query: str,
    *,
    last: int | None = None,
    since: datetime | int | None = None,
    since_clock: datetime | int | None = None,
    after: int | None = None,
    token: str | None = None,
    limits: Limits | None = None,
    wait: bool = False,
) -> Subscriber:
    """Take the answers of a query, from now on unless `last`, `since`, `since_clock` or `after` say otherwise.

    `source` is the delivery directory of a project on this machine, an edge (weft://host:port), or a project in NATS
    (nats://host:port/project).
    `last`: a number of the newest answers first.
    `since`: what was published at a time (in UTC, or microseconds) or later.
    `since_clock`: first, of what has been published, the answers whose own clock is at a time or later, be it a time or
    the number of a row.
    `after`: what comes after a cycle, to go on at the `position` of an earlier subscriber.
    With `wait`, a query that is not known there yet is waited for.

    Raises UnknownQuery, AccessDenied, and other DeliveryErrors if it cannot be had.
    """
    start = Start(last, microseconds(since), after, since_clock=microseconds(since_clock))
    return open_subscriber(source, query, start, token, limits or Limits(), wait)


def open_subscriber(
    source: str | Path, query: str, start: Start, token: str | None, limits: Limits, wait: bool = False
) -> Subscriber:
    """Take a query's answers from a start, which may also say where to end."""
    address = str(source)
    if address.startswith("weft://"):
        return EdgeSubscriber(address, query, start, token, limits, wait)
    if address.startswith("nats://"):
        return NatsSubscriber(address, query, start, token, limits, wait)
    return LocalSubscriber(Path(source), query, start, token, limits, wait)
