"""NATS with JetStream as a source of parcels: the reader's side. It keeps no state for a reader."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from weft.delivery import itinerary
from weft.delivery.access import Access
from weft.delivery.delivery_errors import BrokerError, LogError
from weft.delivery.delivery_log import BEGINNING
from weft.delivery.itinerary import Itinerary
from weft.delivery.members import Members, share
from weft.delivery.nats_connection import NatsConnection, find, split_address
from weft.delivery.nats_layout import Buckets, ParcelMark, Stored, Subjects, mark_of
from weft.delivery.parcel import Gone, Message, NoParcels, Parcel, table_of

_LOOK_EVERY = 1.0
_AT_ONCE = 64


class NatsSource:
    """The parcels of a project in NATS; of each, the messages are fetched that members can have rows in.

    Where the project has tokens, one is needed here too. Another program that reads NATS is not asked for it: what that
    may read is for the accounts of NATS to say.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        server, project = split_address(address)
        self._connection = NatsConnection(server, self._listen)
        self._project = project
        self._subjects = Subjects(project)
        self._token = token
        # The cycle up to which parcels were taken, and the number of its mark in the stream.
        self._place: tuple[int, int] | None = None
        self._new = threading.Event()

    @property
    def bytes_received(self) -> int:
        return self._connection.bytes_received

    def route(self, query: str) -> Itinerary | None:
        access = self._connection.call(self._access)
        if access is not None:
            access.check(self._token, query)
        found = self._connection.call(lambda stream: self._route(stream, query))
        if found is not None and access is None:
            raise BrokerError(
                f"NATS at {self._connection.shown} does not say who may read project '{self._project}', so nobody may; "
                "restart the project, which says it again"
            )
        return found

    def last_where(self, holds: Callable[[ParcelMark], bool]) -> int:
        return self._connection.call(lambda stream: self._last_where(stream, holds))[0]

    def next(self, after: int, members: Members, timeout: float) -> Parcel | Gone | NoParcels | None:
        waited = 0.0
        while True:
            self._new.clear()
            found = self._connection.call(lambda stream: self._next(stream, after, members), timeout=60)
            if found is not None or waited >= timeout:
                return found
            pause = min(_LOOK_EVERY, timeout - waited)
            self._new.wait(pause)
            waited += pause

    def backwards(self, until: int, members: Members) -> Iterator[tuple[int, Parcel | None]]:
        while (found := self._connection.call(partial(self._newest_up_to, until, members), timeout=60)) is not None:
            yield found
            until = found[0] - 1

    def close(self) -> None:
        self._connection.close()

    # -- in the connection's thread -----------------------------------------------------------------------------------

    async def _listen(self, client: Any) -> None:
        async def wake(message: Any) -> None:
            self._new.set()

        # A server that lost its store counts from the beginning again.
        self._place = None
        await client.subscribe(self._subjects.mark, cb=wake)

    async def _access(self, stream: Any) -> Access | None:
        """The grants that the publisher has sent; None if there are none, since it has sent nothing yet, say."""
        found = await find(stream, self._subjects.routes_stream, subject=self._subjects.access)
        return None if found is None else Access.decode(found.data)

    async def _route(self, stream: Any, query: str) -> Itinerary | None:
        found = await find(stream, self._subjects.routes_stream, subject=self._subjects.route(query))
        return None if found is None else itinerary.from_json(msgspec.json.decode(found.data))

    async def _next(self, stream: Any, after: int, members: Members) -> Parcel | Gone | NoParcels | None:
        if self._place is None or self._place[0] != after:
            self._place = after, (await self._locate(stream, after))[1]
        number = self._place[1]
        found = await self._mark_from(stream, number + 1)
        while found is not None and found[1].cycle <= after:
            # A mark that was stored twice.
            found = await self._mark_from(stream, found[0] + 1)
        if found is None:
            return None
        number, mark = found
        if mark.previous is not None and mark.previous > after:
            return Gone(mark.previous)
        parcel = await self._parcel(stream, mark, members)
        self._place = mark.cycle, number
        if parcel is None:
            return Gone(mark.cycle)
        return share(parcel, members) or NoParcels(mark.cycle)

    async def _newest_up_to(self, until: int, members: Members, stream: Any) -> tuple[int, Parcel | None] | None:
        """The newest cycle up to one, with its parcel; None if there is none."""
        _, number = await self._locate(stream, until)
        found = await self._mark_from(stream, number) if number else None
        return None if found is None else (found[1].cycle, await self._parcel(stream, found[1], members))

    async def _parcel(self, stream: Any, mark: ParcelMark, members: Members) -> Parcel | None:
        """A parcel with the messages that members can have rows in; None if one of these is gone."""
        routes = []
        for query in mark.routes:
            if query in members.routes:
                route = await self._route(stream, query)
                if route is None:
                    raise LogError(
                        f"NATS at {self._connection.shown} has lost where answers of query '{query}' are found: its "
                        f"stream {self._subjects.routes_stream} was cut; restore it, or take the answers from the "
                        "project itself"
                    )
                routes.append(route)
                members.put(route)
        wanted = _wanted(mark, members)
        messages = []
        for start in range(0, len(wanted), _AT_ONCE):
            portion = wanted[start : start + _AT_ONCE]
            rows = self._subjects.rows_stream
            fetched = await asyncio.gather(*(find(stream, rows, number=each.number) for each in portion))
            for each, message in zip(portion, fetched, strict=True):
                if message is None:
                    return None
                table = table_of(message.data)
                messages.append(Message(each.group, each.epoch, table, each.watermark))
        return Parcel(self._project, mark.cycle, mark.at, mark.previous, tuple(routes), tuple(messages))

    # -- marks --------------------------------------------------------------------------------------------------------

    async def _locate(self, stream: Any, cycle: int) -> tuple[int, int]:
        """The newest parcel up to a cycle, and the number of its mark."""
        return await self._last_where(stream, lambda mark: mark.cycle <= cycle)

    async def _last_where(self, stream: Any, holds: Callable[[ParcelMark], bool]) -> tuple[int, int]:
        """The last mark that a condition holds for, which holds for all before it: the newest, or found by halving."""
        best, low = (BEGINNING, 0), 1
        newest = await find(stream, self._subjects.rows_stream, subject=self._subjects.mark)
        middle = high = 0 if newest is None else int(newest.seq)
        while low <= high:
            found = await self._mark_from(stream, middle)
            if found is not None and holds(found[1]):
                best = found[1].cycle, found[0]
                low = found[0] + 1
            else:
                high = middle - 1
            middle = (low + high) // 2
        return best

    async def _mark_from(self, stream: Any, number: int) -> tuple[int, ParcelMark] | None:
        """The first mark with a number or a later one."""
        found = await find(stream, self._subjects.rows_stream, number, self._subjects.mark)
        return None if found is None else (int(found.seq), mark_of(found.data))


def _wanted(mark: ParcelMark, members: Members) -> list[Stored]:
    """The messages of the epochs that members take rows of, in the buckets that these rows can be in."""
    conjunctions: dict[tuple[str, int], list[Any]] = {}
    for route in members.routes.values():
        for subscription, span in route.legs:
            since, until = span.since or mark.cycle, mark.cycle + 1 if span.until is None else span.until
            if not span.by and not since <= mark.cycle < until:
                continue
            conjunctions.setdefault((span.stream, span.epoch), []).extend(subscription.any_of)
    met: dict[tuple[str, int], frozenset[int]] = {}
    wanted = []
    for each in mark.stored:
        key = each.group, each.epoch
        if key not in conjunctions:
            continue
        if each.first is not None and key not in met:
            met[key] = Buckets.from_json(*mark.buckets[each.group]).met(conjunctions[key])
        if each.first is None or each.last is None or not met[key].isdisjoint(range(each.first, each.last + 1)):
            wanted.append(each)
    return wanted
