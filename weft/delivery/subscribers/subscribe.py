"""`subscribe`: the one way to take a query's answers, wherever they come from."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from weft.delivery.log.delivery_log import Limits
from weft.delivery.subscribers.local import LocalSubscriber
from weft.delivery.subscribers.remote import RemoteSubscriber
from weft.delivery.subscribers.subscriber import Start, Subscriber, microseconds


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
        return RemoteSubscriber(address, query, start, token, limits, wait)
    if address.startswith("nats://"):
        from weft.delivery.subscribers.remote import NatsSubscriber

        return NatsSubscriber(address, query, start, token, limits, wait)
    return LocalSubscriber(Path(source), query, start, token, limits, wait)
