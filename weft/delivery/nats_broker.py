"""NATS with JetStream as a broker: the publisher's side."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from weft.delivery import itinerary
from weft.delivery.access import ACCESS, Access, AccessFile
from weft.delivery.delivery_errors import LogError
from weft.delivery.delivery_log import BEGINNING
from weft.delivery.itinerary import Itinerary
from weft.delivery.nats_connection import NatsConnection, find, have_streams
from weft.delivery.nats_layout import Buckets, ParcelMark, Stored, Subjects, choose, mark_bytes, mark_of
from weft.delivery.parcel import Parcel, stream_pieces

# Bytes that a message has at least, if the rows suffice: each costs some hundred bytes and a journey.
_WORTHWHILE: Final = 32 << 10
_HEADROOM: Final = 4 << 10
_AT_ONCE: Final = 64


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

    @property
    def name(self) -> str:
        return f"NATS at {self._connection.shown}"

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
        rows = StreamConfig(
            name=subjects.rows_stream,
            subjects=[subjects.everything("res"), subjects.mark],
            max_bytes=limits.bytes,
            duplicate_window=limits.duplicate_window,
            storage=StorageType.FILE,
            allow_direct=True,
        )
        routes = StreamConfig(
            name=subjects.routes_stream,
            subjects=[subjects.everything("route"), subjects.access],
            max_bytes=limits.routes_bytes,
            max_msgs_per_subject=1,
            storage=StorageType.FILE,
            allow_direct=True,
        )
        await have_streams(stream, rows, routes, update=True)
        self._known_access = None
        self._is_ready = True

    async def _send(self, stream: Any, parcel: Parcel) -> None:
        if not self._is_ready:
            await self._make_ready(stream)
        await self._send_access(stream, parcel.cycle)
        await self._send_routes(stream, parcel)
        messages = list(enumerate(self._divided(parcel)))
        stored: list[Stored] = []
        for start in range(0, len(messages), _AT_ONCE):
            portion = (
                self._publish(stream, parcel.cycle, at, *each) for at, each in messages[start : start + _AT_ONCE]
            )
            stored += await asyncio.gather(*portion)
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

    async def _send_routes(self, stream: Any, parcel: Parcel) -> None:
        for each in parcel.routes:
            data = msgspec.json.encode(itinerary.as_json(each))
            identity = f"{self._project}/route/{each.query}/{zlib.crc32(data):08x}/{parcel.cycle}"
            await self._put(stream, self._subjects.route(each.query), data, identity)

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
                for _, data in stream_pieces(rows, self._connection.largest_payload - _HEADROOM, self.name):
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
