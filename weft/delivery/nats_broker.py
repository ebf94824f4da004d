"""NATS with JetStream as a broker: what publishes a project's parcels to it, and what gives them to readers.

Neither side keeps any state there beside what `nats_layout` describes.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from weft.arrays.arrow_types import table_of
from weft.delivery import itinerary
from weft.delivery.access import ACCESS, Access, AccessFile
from weft.delivery.delivery_errors import BrokerError, LogError
from weft.delivery.delivery_log import BEGINNING
from weft.delivery.itinerary import Itinerary
from weft.delivery.members import Members, share
from weft.delivery.nats_connection import NatsConnection, find, have_streams, split_address
from weft.delivery.nats_layout import Buckets, ParcelMark, Stored, Subjects, choose, mark_bytes, mark_of
from weft.delivery.parcel import Gone, Message, NoParcels, Parcel, stream_pieces

# Bytes that a message has at least, if the rows suffice: each costs some hundred bytes and a journey.
_WORTHWHILE: Final = 32 << 10
_HEADROOM: Final = 4 << 10
_AT_ONCE: Final = 64
_LOOK_EVERY: Final = 1.0


@dataclass(frozen=True, slots=True)
class NatsLimits:
    """How much NATS keeps for late readers, in bytes; and the seconds within which it recognises a message."""

    bytes: int = 1 << 30
    routes_bytes: int = 256 << 20
    duplicate_window: float = 120.0


class NatsBroker:
    """Publishes a project's parcels to a NATS server with JetStream.

    `grants` is the directory with the project's grants: readers are sent them, and refuse users without a token.
    """

    def __init__(self, server: str, project: str, limits: NatsLimits | None = None, grants: Path | None = None) -> None:
        self._connection = NatsConnection(server)
        self._subjects = Subjects(project)
        self._project = project
        self._limits = limits or NatsLimits()
        self._grants = None if grants is None else AccessFile(grants / ACCESS)
        self._known_access: bytes | None = None
        self._routes: dict[str, dict[str, Itinerary]] = {}
        self._buckets: dict[str, tuple[int, Buckets | None]] = {}
        self._is_ready = False

    def learn(self, routes: Iterable[Itinerary]) -> None:
        """Take the itineraries of before the first parcel that is sent."""
        for route in routes:
            for group in {span.stream for span in route.spans}:
                members = self._routes.setdefault(group, {})
                members[route.query] = route
                if route.ended is not None:
                    del members[route.query]

    def newest(self) -> int:
        """The newest cycle whose parcel it holds whole, or BEGINNING. Raises BrokerError when it cannot be asked."""
        self._is_ready = False
        return self._connection.call(self._newest)

    def send(self, parcel: Parcel) -> None:
        """Hold a parcel durably when this returns; it may come twice. Raises BrokerError, and then it comes again."""
        self.learn(parcel.routes)
        self._connection.call(lambda stream: self._send(stream, parcel), timeout=120)

    def close(self) -> None:
        self._connection.close()

    # -- in the connection's thread -----------------------------------------------------------------------------------

    async def _newest(self, stream: Any) -> int:
        await self._make_ready(stream)
        found = await find(stream, self._subjects.rows_stream, subject=self._subjects.mark)
        return BEGINNING if found is None else mark_of(found.data).cycle

    async def _make_ready(self, stream: Any) -> None:
        from nats.js.api import StorageType, StreamConfig

        subjects, limits = self._subjects, self._limits
        config = partial(StreamConfig, storage=StorageType.FILE, allow_direct=True)
        rows = config(
            name=subjects.rows_stream,
            subjects=[subjects.everything("res"), subjects.mark],
            max_bytes=limits.bytes,
            duplicate_window=limits.duplicate_window,
        )
        routes = config(
            name=subjects.routes_stream,
            subjects=[subjects.everything("route"), subjects.access],
            max_bytes=limits.routes_bytes,
            max_msgs_per_subject=1,
        )
        await have_streams(stream, rows, routes, update=True)
        self._known_access = None
        self._is_ready = True

    async def _send(self, stream: Any, parcel: Parcel) -> None:
        if not self._is_ready:
            await self._make_ready(stream)
        await self._send_access(stream, parcel.cycle)
        for each in parcel.routes:
            data = msgspec.json.encode(itinerary.as_json(each))
            identity = f"{self._project}/route/{each.query}/{zlib.crc32(data):08x}/{parcel.cycle}"
            await self._put(stream, self._subjects.route(each.query), data, identity)
        messages = list(enumerate(self._divided(parcel)))
        stored: list[Stored] = []
        for start in range(0, len(messages), _AT_ONCE):
            portion = messages[start : start + _AT_ONCE]
            stored += await asyncio.gather(*(self._publish(stream, parcel.cycle, at, *each) for at, each in portion))
        changed = tuple(each.query for each in parcel.routes)
        divided = {each.group: self._buckets[each.group][1] for each in stored if each.first is not None}
        buckets = {group: each.as_json() for group, each in divided.items() if each is not None}
        mark = ParcelMark(parcel.cycle, parcel.at, parcel.previous, changed, buckets, tuple(stored))
        await self._put(stream, self._subjects.mark, mark_bytes(mark), f"{self._project}/mark/{parcel.cycle}")

    async def _send_access(self, stream: Any, cycle: int) -> None:
        """Publish the grants, if they have changed."""
        try:
            grants = Access() if self._grants is None else self._grants.read()
        except LogError:
            # Rows go on to the readers of before; without grants no new one is let in.
            grants = Access(())
        data = grants.encode()
        if data != self._known_access:
            identity = f"{self._project}/access/{zlib.crc32(data):08x}/{cycle}"
            await self._put(stream, self._subjects.access, data, identity)
            self._known_access = data

    def _buckets_of(self, group: str) -> Buckets | None:
        """How a group is divided: decided again when it has twice, or half, as many members as when it was decided."""
        members = self._routes.get(group, {})
        decided, buckets = self._buckets.get(group, (0, None))
        if not decided or not decided // 2 < len(members) < 2 * decided:
            buckets = choose(group, list(members.values()))
            self._buckets[group] = len(members), buckets
        return buckets

    def _divided(self, parcel: Parcel) -> Iterator[tuple[Stored, bytes]]:
        """The messages as NATS gets them, without numbers: by buckets where that pays, and none too large."""
        for each in parcel.messages:
            buckets = self._buckets_of(each.group)
            parts: Iterable[tuple[tuple[int, ...], pa.Table]] = [((), each.rows)]
            if buckets is not None and buckets.column in each.rows.column_names:
                at_least = max(1, _WORTHWHILE * each.rows.num_rows // max(1, each.rows.nbytes))
                if each.rows.num_rows >= 2 * at_least:
                    parts = buckets.split(each.rows, at_least)
            for bucket, rows in parts:
                largest, name = self._connection.largest_payload - _HEADROOM, f"NATS at {self._connection.shown}"
                for _, data in stream_pieces(rows, largest, name):
                    yield Stored(each.group, each.epoch, each.watermark, 0, *bucket), data

    async def _publish(self, stream: Any, cycle: int, at: int, each: Stored, data: bytes) -> Stored:
        # With the checksum, since rows that are divided again after a restart are other messages.
        identity = f"{self._project}/{each.group}/{each.epoch}/{cycle}/{at}/{zlib.crc32(data):08x}"
        number = await self._put(stream, self._subjects.rows(each.group, each.first), data, identity)
        return msgspec.structs.replace(each, number=number)

    async def _put(self, stream: Any, subject: str, data: bytes, identity: str) -> int:
        """The number that NATS gave a message, now or when it got it first."""
        from nats.js.api import Header

        acknowledged = await stream.publish(subject, data, headers={Header.MSG_ID.value: identity})
        return int(acknowledged.seq)


class NatsSource:
    """The parcels of a project in NATS; of each, the messages are fetched that members can have rows in.

    Where the project has tokens, one is needed here too; what other programs may read, the accounts of NATS say.
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
            self._place = after, (await self._last_where(stream, lambda mark: mark.cycle <= after))[1]
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
        _, number = await self._last_where(stream, lambda mark: mark.cycle <= until)
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

    async def _last_where(self, stream: Any, holds: Callable[[ParcelMark], bool]) -> tuple[int, int]:
        """The cycle and the number of the last mark for which a condition holds, as for all before it."""
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
            if span.by or since <= mark.cycle < until:
                conjunctions.setdefault((span.stream, span.epoch), []).extend(subscription.any_of)
    met = {
        (group, epoch): Buckets.from_json(*mark.buckets[group]).met(wanted)
        for (group, epoch), wanted in conjunctions.items()
        if group in mark.buckets
    }
    return [
        each
        for each in mark.stored
        if (key := (each.group, each.epoch)) in conjunctions
        and (each.first is None or each.last is None or not met[key].isdisjoint(range(each.first, each.last + 1)))
    ]
