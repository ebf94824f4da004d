"""`subscribe`: the one way to take a query's answers, from the log of this machine, from an edge or from NATS.

Subscribers of an edge and of NATS reconnect, from where they were, until they are closed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from weft.delivery.delivery_errors import DeliveryError, UnknownQuery
from weft.delivery.delivery_log import Limits
from weft.delivery.edge_protocol import PARCEL, VERSION, FrameSocket, document_of, json_frame, split_host
from weft.delivery.local import LocalSubscriber, QueryAnswers
from weft.delivery.nats_broker import NatsSource
from weft.delivery.parcel import Batch, Dropped, Gone, Parcel, decode
from weft.delivery.subscriber import QueuedSubscriber, Start, Subscriber, microseconds


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
