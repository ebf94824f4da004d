"""`subscribe`: the one way to take a query's answers, from the log of this machine, from an edge or from NATS.

Subscribers of an edge and of NATS reconnect, from where they were, until they are closed.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

from weft.delivery.log.delivery_errors import DeliveryError, UnknownQuery
from weft.delivery.log.delivery_log import Limits
from weft.delivery.log.parcel import Batch, Dropped, Gone, Parcel
from weft.delivery.nats.nats_source import NatsSource
from weft.delivery.subscribers.edge_protocol import (
    BATCH,
    VERSION,
    FrameSocket,
    batch_of,
    document_of,
    json_frame,
    split_host,
)
from weft.delivery.subscribers.local import LocalSubscriber, QueryAnswers
from weft.delivery.subscribers.subscriber import QueuedSubscriber, Start, Subscriber, microseconds


class EdgeSubscriber(QueuedSubscriber):
    """Takes a query's answers from an edge."""

    def __init__(self, address: str, query: str, start: Start, token: str | None, limits: Limits, wait: bool) -> None:
        super().__init__(query, limits.queue)
        self._address = split_host(address)
        self._shown = address
        self._start = start
        self._token = token
        self._wait = wait
        self._socket: FrameSocket | None = None
        try:
            self._connect()
        except OSError as error:
            raise DeliveryError(f"the edge {address} cannot be reached ({error}); is it running?") from error
        self._position = self._from
        if not start.last and start.since is None and start.since_clock is None:
            # "From now on" was then, also when the edge is asked again.
            self._go_on_after(self._from)
        self._thread.start()

    def close(self) -> None:
        super().close()
        if self._socket is not None:
            self._socket.close()
        self._thread.join(10)

    def _connect(self) -> None:
        opened = FrameSocket(*self._address)
        try:
            hello = {"weft": VERSION, "role": "user", "query": self.query, "token": self._token, "wait": self._wait}
            opened.send(json_frame(**hello, **asdict(self._start)))
            self._from = int(opened.receive_json()["ok"])
        except BaseException:
            opened.close()
            raise
        self._socket = opened

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _feed(self) -> bool:
        if self._socket is None:
            self._connect()
        assert self._socket is not None
        kind, content = self._socket.receive()
        if kind == BATCH:
            batch = batch_of(self.query, content)
            self._take_up(batch.cycle, batch)
            return True
        document = document_of(content)
        if "until" in document:
            until = document["until"]
            self._take_up(until, Dropped(self.query, document["after"], until, document.get("rows")))
        elif "through" in document:
            self._take_up(document["through"], None)
        return "end" not in document

    def _take_up(self, place: int, item: Batch | Dropped | None) -> None:
        self._put(place, item)
        self._go_on_after(place)

    def _go_on_after(self, cycle: int) -> None:
        self._start = replace(self._start, last=None, since=None, since_clock=None, after=cycle)


class NatsSubscriber(QueuedSubscriber):
    """Takes a query's messages from NATS. A broker that is away is waited for."""

    def __init__(self, address: str, query: str, start: Start, token: str | None, limits: Limits, wait: bool) -> None:
        super().__init__(query, limits.queue)
        self._until = start.until
        self._source = NatsSource(address, token)
        try:
            route = self._source.route(query)
            while route is None and wait and not self._closing.wait(0.2):
                route = self._source.route(query)
            if route is None:
                raise UnknownQuery(f"query '{query}' is not known to this broker; is its project running?")
            self._answers = QueryAnswers(query, route)
            newest = self._source.newest()
            here = newest if start.until is None else min(newest, start.until)
            self._place, first = self._answers.begin(self._source, start, here)
        except BaseException:
            self._source.close()
            raise
        self._position = first[0].cycle - 1 if first else self._place
        self._queue.extend((batch.cycle, batch) for batch in first)
        self._queue.append((self._place, None))
        self._thread.start()

    def close(self) -> None:
        if self._closing.is_set():
            return
        super().close()
        self._thread.join(10)
        self._source.close()

    def _feed(self) -> bool:
        if self._has_ended():
            return False
        item = self._source.next(self._place, self._answers.members, 1.0)
        if isinstance(item, Gone):
            self._go_to(item.through, self._answers.dropped(self._place, item.through))
        elif isinstance(item, Parcel):
            if self._until is not None and item.cycle > self._until:
                return False
            self._go_to(item.cycle, self._answers.of(item))
        elif item is not None:
            self._go_to(item.through, None)
        return True

    def _go_to(self, place: int, item: Batch | Dropped | None) -> None:
        self._place = place
        self._put(place, item)

    def _has_ended(self) -> bool:
        is_over = self._until is not None and self._place >= self._until
        return is_over or self._answers.members.routes[self.query].has_ended(self._place)


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
    start = Start(
        last,
        None if since is None else microseconds(since),
        after,
        since_clock=None if since_clock is None else microseconds(since_clock),
    )
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
