"""Parcels: what one cycle publishes, the bytes as which they travel and are kept, and what users get of them.

A parcel has a message for each batch of rows (one per group, epoch and part of the epoch) and the itineraries that
changed in its cycle. As bytes, with four for each number, it is

    WEFT1 | length of the head | CRC-32 of the head | CRC-32 of the rows | head: JSON | rows: Arrow streams
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.arrays.arrow_types import streamed, table_of
from weft.delivery import itinerary
from weft.delivery.delivery_errors import BrokerError
from weft.delivery.itinerary import Itinerary
from weft.files.checked_file import Damaged

_PREFIX: Final = struct.Struct(">5sIII")
_MAGIC: Final = b"WEFT1"
_WORTH_COMPRESSING: Final = 2 << 10
#: The name of the column that says which queries take a row: no published column has it.
_TAKERS: Final = ""

#: A query that takes rows: its name, and the number of its itinerary, since the name may be another's later.
Taker: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RowTakers:
    """The queries that take each row: `of_row` has for each row the position of its set of takers in `sets`."""

    sets: tuple[frozenset[Taker], ...]
    of_row: npt.NDArray[np.uint16]

    def rows_of(self, taker: Taker) -> npt.NDArray[np.int64]:
        is_among = np.array([taker in each for each in self.sets], dtype=bool)
        return np.flatnonzero(is_among[self.of_row])


@dataclass(frozen=True, slots=True)
class Message:
    """Rows that a group publishes in one cycle, one of the parts of its epoch.

    `watermark` is that of the representative query after the cycle: what lies below it is complete. Rows that come from
    an edge may have their `takers` with them; then they lack the columns that these could be found by.
    """

    group: str
    epoch: int
    rows: pa.Table
    watermark: int | None = None
    takers: RowTakers | None = None


@dataclass(frozen=True, slots=True)
class Parcel:
    """All that one cycle publishes.

    `at` is when, in microseconds of the publisher's clock. `previous` is the cycle of the parcel before it: cycles that
    publish nothing have none. `changes` is how many itineraries were published before it. A query of `routes` takes its
    rows from here on as its itinerary there says.
    """

    project: str
    cycle: int
    at: int
    previous: int | None = None
    routes: tuple[Itinerary, ...] = ()
    messages: tuple[Message, ...] = ()
    changes: int = 0

    @property
    def through(self) -> int:
        return self.cycle


@dataclass(frozen=True, slots=True)
class Gone:
    """Parcels of cycles up to one are not there any more."""

    through: int


@dataclass(frozen=True, slots=True)
class NoParcels:
    """Up to a cycle there is nothing more for the members that were asked for."""

    through: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A query's answers of one cycle, all of them. `cycle` is their place: `subscribe(…, after=cycle)` goes on there.

    `at` is when they were published, in microseconds; answers below the `watermark` are complete.
    """

    query: str
    cycle: int
    at: int
    watermark: int | None
    table: pa.Table

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows


@dataclass(frozen=True, slots=True)
class Dropped:
    """A notice in the place of answers: those of cycles after `after` up to `until` were deleted before that.

    `rows` is how many these were; None if they were not counted, since the user was away when they were published.
    """

    query: str
    after: int | None
    until: int
    rows: int | None = None


# -- as bytes ---------------------------------------------------------------------------------------------------------


class _MessageHead(msgspec.Struct, omit_defaults=True):
    """A message without its rows: how many they are, and the bytes of their stream."""

    group: str
    epoch: int
    watermark: int | None
    rows: int
    bytes: int
    takers: list[Taker] | None = None
    sets: list[list[int]] = []


class ParcelHead(msgspec.Struct, omit_defaults=True):
    """A parcel without its rows. `rows` and `size` say, of one that was read, how many rows and bytes it has in all."""

    project: str
    cycle: int
    at: int
    previous: int | None = None
    changes: int = 0
    changed: list[dict[str, Any]] = msgspec.field(name="routes", default_factory=list)
    messages: list[_MessageHead] = []
    rows: int = 0
    size: int = 0

    @property
    def routes(self) -> tuple[Itinerary, ...]:
        return tuple(itinerary.from_json(each) for each in self.changed)


_HEADS: Final = msgspec.json.Decoder(ParcelHead)


def encode(parcel: Parcel) -> bytes:
    streams, messages = [], []
    for each in parcel.messages:
        rows, takers, sets = each.rows, None, []
        if each.takers is not None:
            rows = rows.append_column(_TAKERS, pa.array(each.takers.of_row))
            takers = sorted(frozenset().union(*each.takers.sets))
            number = {taker: at for at, taker in enumerate(takers)}
            sets = [sorted(number[taker] for taker in one) for one in each.takers.sets]
        streams.append(stream_of(rows))
        size = len(streams[-1])
        messages.append(_MessageHead(each.group, each.epoch, each.watermark, rows.num_rows, size, takers, sets))
    changed = [itinerary.as_json(each) for each in parcel.routes]
    head = msgspec.json.encode(
        ParcelHead(parcel.project, parcel.cycle, parcel.at, parcel.previous, parcel.changes, changed, messages)
    )
    body = b"".join(streams)
    return _PREFIX.pack(_MAGIC, len(head), zlib.crc32(head), zlib.crc32(body)) + head + body


def decode(data: bytes) -> Parcel:
    """The parcel that bytes hold. Raises Damaged."""
    head, rows = _checked(BytesIO(data))
    messages, start = [], 0
    for each in head.messages:
        table, takers = table_of(rows[start : start + each.bytes]), None
        if each.takers is not None:
            sets = tuple(frozenset(each.takers[at] for at in one) for one in each.sets)
            takers, table = RowTakers(sets, table[_TAKERS].to_numpy()), table.drop_columns([_TAKERS])
        messages.append(Message(each.group, each.epoch, table, each.watermark, takers))
        start += each.bytes
    return Parcel(head.project, head.cycle, head.at, head.previous, head.routes, tuple(messages), head.changes)


def read_head(file: BinaryIO) -> ParcelHead:
    """What a file says before its rows; the rows are not read, nor their checksum tested. Raises Damaged."""
    return _parsed(file)[0]


def checked_head(file: BinaryIO) -> ParcelHead:
    """What a file says before its rows, which are read and tested too. Raises Damaged."""
    return _checked(file)[0]


def stream_of(rows: pa.Table) -> bytes:
    """Rows as an Arrow stream in one batch, compressed if there are many."""
    return streamed(rows.combine_chunks(), "zstd" if rows.nbytes >= _WORTH_COMPRESSING else None)


def stream_pieces(rows: pa.Table, largest: int, broker: str) -> Iterator[tuple[pa.Table, bytes]]:
    """Rows in pieces whose streams have at most a number of bytes. Raises BrokerError for a row that is larger."""
    data = stream_of(rows)
    if len(data) <= largest:
        yield rows, data
    elif rows.num_rows <= 1:
        raise BrokerError(
            f"a row of {len(data):,} bytes is larger than {broker} takes; raise its max_payload and restart it"
        )
    else:
        half = rows.num_rows // 2
        yield from stream_pieces(rows.slice(0, half), largest, broker)
        yield from stream_pieces(rows.slice(half), largest, broker)


def _checked(file: BinaryIO) -> tuple[ParcelHead, memoryview]:
    """The head of a parcel, and the bytes of its rows. Raises Damaged."""
    head, check = _parsed(file)
    rows = file.read()
    if zlib.crc32(rows) != check:
        raise Damaged("the checksum does not fit its rows")
    return head, memoryview(rows)


def _parsed(file: BinaryIO) -> tuple[ParcelHead, int]:
    """The head of a parcel, and the checksum of its rows. Raises Damaged."""
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
        raise Damaged("it does not begin as a parcel does")
    _, length, head_check, rows_check = _PREFIX.unpack(prefix)
    data = file.read(length)
    if zlib.crc32(data) != head_check:
        raise Damaged("the checksum does not fit its head")
    head = _HEADS.decode(data)
    head.rows = sum(each.rows for each in head.messages)
    head.size = _PREFIX.size + len(data) + sum(each.bytes for each in head.messages)
    return head, rows_check
