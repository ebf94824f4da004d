"""Parcels: what one cycle publishes, and the bytes as which they travel and are kept.

A parcel has a message for each batch of rows (one per group, epoch and part of the epoch) and the itineraries that
changed in its cycle. As bytes it is

    WEFT1 | length of the head | CRC-32 of the head | CRC-32 of the rows | head: JSON | rows: Arrow streams

with four bytes for each number, and is read back whole or not at all. The head has all that is not rows, and can be
read alone.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.delivery.log import itinerary
from weft.delivery.log.checked_file import Damaged
from weft.delivery.log.itinerary import Itinerary

_PREFIX: Final = struct.Struct(">5sIII")
_MAGIC: Final = b"WEFT1"
_WORTH_COMPRESSING: Final = 2 << 10
#: The name of the column that says whose rows are: none that is published has it.
_TAKERS: Final = ""


#: A query that takes rows: its name, and the number of its itinerary, since the name may be another's later.
Taker: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Told:
    """Whose rows are: `of_row` has for each of them the place of a set of takers in `sets`."""

    sets: tuple[frozenset[Taker], ...]
    of_row: npt.NDArray[np.uint16]

    def rows_of(self, taker: Taker) -> npt.NDArray[np.int64]:
        """The positions of a query's rows."""
        is_among = np.array([taker in each for each in self.sets], dtype=bool)
        return np.flatnonzero(is_among[self.of_row])


@dataclass(frozen=True, slots=True)
class Message:
    """Rows that a group publishes in one cycle. `ordinal` counts the messages of one group and epoch in the cycle.

    `watermark` is that of the representative query after the cycle: what lies below it is complete. Rows that come from
    an edge may be `told` apart already; then they have not the columns that their takers could be found by.
    """

    group: str
    epoch: int
    ordinal: int
    watermark: int | None
    rows: pa.Table
    told: Told | None = None


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


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a parcel without its rows."""

    parcel: Parcel
    rows: int
    size: int


def encode(parcel: Parcel) -> bytes:
    """A parcel as bytes."""
    streams = [stream_of(_with_takers(each)) for each in parcel.messages]
    document = {
        "project": parcel.project,
        "cycle": parcel.cycle,
        "at": parcel.at,
        "previous": parcel.previous,
        "changes": parcel.changes,
        "routes": [itinerary.as_json(each) for each in parcel.routes],
        "messages": [
            {
                "group": each.group,
                "epoch": each.epoch,
                "ordinal": each.ordinal,
                "watermark": each.watermark,
                "schema": schema_id(each.rows.schema),
                "rows": each.rows.num_rows,
                "bytes": len(stream),
                **_told_document(each),
            }
            for each, stream in zip(parcel.messages, streams, strict=True)
        ],
    }
    head = json.dumps(document, separators=(",", ":")).encode()
    rows = b"".join(streams)
    return _PREFIX.pack(_MAGIC, len(head), zlib.crc32(head), zlib.crc32(rows)) + head + rows


def decode(data: bytes) -> Parcel:
    """The parcel that bytes hold. Raises Damaged."""
    document, rows = _checked(data)
    messages, start = [], 0
    for each in document["messages"]:
        table, told = _told_apart(table_of(rows[start : start + each["bytes"]]), each)
        messages.append(Message(each["group"], each["epoch"], each["ordinal"], each["watermark"], table, told))
        start += each["bytes"]
    return replace(_without_rows(document), messages=tuple(messages))


def read_head(file: BinaryIO) -> Head:
    """What a file says before its rows; the rows are not read, nor their checksum tested. Raises Damaged."""
    length, check, _ = _prefix(file.read(_PREFIX.size))
    return _head(_document(file.read(length), check), length)


def checked_head(file: BinaryIO) -> Head:
    """What a file says before its rows, which are read and tested too. Raises Damaged."""
    data = file.read()
    document, _ = _checked(data)
    return _head(document, _prefix(data)[0])


def _head(document: dict[str, Any], length: int) -> Head:
    rows, size = (sum(each[key] for each in document["messages"]) for key in ("rows", "bytes"))
    return Head(_without_rows(document), rows, _PREFIX.size + length + size)


def _checked(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """The head of a parcel, and the bytes of its rows. Raises Damaged."""
    length, head_check, rows_check = _prefix(data)
    body = memoryview(data)[_PREFIX.size :]
    document = _document(bytes(body[:length]), head_check)
    if zlib.crc32(body[length:]) != rows_check:
        raise Damaged("the checksum does not fit its rows")
    return document, body[length:]


def schema_id(schema: pa.Schema) -> str:
    """A short name of a schema: the same for equal schemas, and hardly ever for others."""
    return hashlib.blake2b(schema.serialize(), digest_size=8).hexdigest()


def stream_of(rows: pa.Table) -> bytes:
    """Rows as an Arrow stream in one batch, compressed if there are many."""
    sink = pa.BufferOutputStream()
    compression = "zstd" if rows.nbytes >= _WORTH_COMPRESSING else None
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


def table_of(stream: bytes | memoryview) -> pa.Table:
    """The rows of an Arrow stream."""
    return pa.ipc.open_stream(pa.py_buffer(stream)).read_all()


def _with_takers(message: Message) -> pa.Table:
    """The rows of a message as they travel: whose they are is a column without a name."""
    if message.told is None:
        return message.rows
    return message.rows.append_column(_TAKERS, pa.array(message.told.of_row))


def _told_document(message: Message) -> dict[str, Any]:
    if message.told is None:
        return {}
    takers = sorted(frozenset().union(*message.told.sets))
    number = {taker: at for at, taker in enumerate(takers)}
    return {"takers": takers, "sets": [sorted(number[taker] for taker in each) for each in message.told.sets]}


def _told_apart(rows: pa.Table, document: dict[str, Any]) -> tuple[pa.Table, Told | None]:
    if "takers" not in document:
        return rows, None
    takers: list[Taker] = [(query, number) for query, number in document["takers"]]
    sets = tuple(frozenset(takers[at] for at in each) for each in document["sets"])
    return rows.drop_columns([_TAKERS]), Told(sets, rows[_TAKERS].to_numpy())


def _without_rows(document: dict[str, Any]) -> Parcel:
    routes = tuple(itinerary.from_json(each) for each in document["routes"])
    named = {name: document[name] for name in ("project", "cycle", "at", "previous", "changes")}
    return Parcel(**named, routes=routes)


def _document(head: bytes, check: int) -> dict[str, Any]:
    """What the head of a parcel says. Raises Damaged."""
    if zlib.crc32(head) != check:
        raise Damaged("the checksum does not fit its head")
    document: dict[str, Any] = json.loads(head)
    return document


def _prefix(data: bytes) -> tuple[int, int, int]:
    if len(data) < _PREFIX.size or data[: len(_MAGIC)] != _MAGIC:
        raise Damaged("it does not begin as a parcel does")
    _, length, head_check, rows_check = _PREFIX.unpack(data[: _PREFIX.size])
    return length, head_check, rows_check


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
        """The answers as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def newest(self, count: int) -> Batch:
        """The batch with at most so many of its answers, the last ones."""
        return replace(self, table=self.table.slice(max(0, self.table.num_rows - count)))


@dataclass(frozen=True, slots=True)
class Dropped:
    """A notice: answers of cycles after `after` up to `until` were let go before the user took them.

    It comes where the answers would have. The log keeps a limited number of rows, whoever has not read them. `rows` is
    how many answers these were; None if nobody counted them, since the user was away when they were published.
    """

    query: str
    after: int | None
    until: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """Parcels of cycles up to `until` are not there any more."""

    until: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """Up to a cycle there is nothing more for the members that were asked for."""

    through: int
