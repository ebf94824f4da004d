"""What the log of a federation can say, and what sites send each other.

The **log** and the rules that hold for it are in `docs/federation.md` ("One log"). What concerns queries is said
between two batches, and holds from the next batch on; so all providers cut time at the same batches.

A **message** is plain data, and rows where it has some. It can be read again after a crash; its reader must be able to
tell that it knows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from weft.arrays.arrow_types import table_of
from weft.delivery.parcel import stream_of, stream_pieces
from weft.federation import FederationError
from weft.federation.live.transport import Transport

#: What a message has besides its rows, at most.
_HEADROOM = 8 << 10

#: The mailboxes of the coordinator, of the users of a site, and of the owner of streams at a site.
COORDINATOR, results_mailbox, source_mailbox = "coordinator", "home.{}".format, "source.{}".format

#: The mailboxes of a stream's rows, and of the answer to a message.
rows_mailbox, reply_mailbox = "rows.{}".format, "reply.{}".format


class SiteJoined(msgspec.Struct, frozen=True, tag_field="kind", tag="joined"):
    """A site takes part: from now on it may be given queries, if it has a capability."""

    id: str
    site: str


class Declared(msgspec.Struct, frozen=True, tag_field="kind", tag="declared"):
    """A CREATE or DROP of a stream or view. The stream's owner is the site where it was said."""

    id: str
    site: str
    text: str


class QueryCreated(msgspec.Struct, frozen=True, tag_field="kind", tag="created"):
    """A continuous query: where its user is, and which provider runs it."""

    id: str
    query: str
    home: str
    provider: str
    text: str


class QueryDropped(msgspec.Struct, frozen=True, tag_field="kind", tag="dropped"):
    """The end of a query."""

    id: str
    query: str


class Handover(msgspec.Struct, frozen=True):
    """A query that goes from one provider to another. The first one's last answers are those up to the place `after`.

    Without it that is the place of the entry itself. `birth` is the place of the entry that created the query.
    """

    query: str
    birth: int
    source: str
    target: str
    after: int | None = None


class QueriesMoved(msgspec.Struct, frozen=True, tag_field="kind", tag="moved"):
    """Queries migrate."""

    id: str
    moves: tuple[Handover, ...]


class SiteLeft(msgspec.Struct, frozen=True, tag_field="kind", tag="left"):
    """A site takes part no more; other providers run its queries now."""

    site: str
    moves: tuple[Handover, ...] = ()


class PublishedPart(msgspec.Struct, frozen=True):
    """Rows of a batch that just these sites want: the numbers that the broker has them under, and how many they are."""

    sites: tuple[str, ...]
    numbers: tuple[int, ...]
    rows: int


class BatchPublished(msgspec.Struct, frozen=True, tag_field="kind", tag="batch"):
    """The rows that came to a stream. `number` counts the stream's batches from 0.

    `clock` is the largest clock of the whole stream so far, that of unwanted rows included; None before the first row.
    """

    stream: str
    number: int
    clock: int | None
    rows: int
    parts: tuple[PublishedPart, ...] = ()


Entry: TypeAlias = SiteJoined | Declared | QueryCreated | QueryDropped | QueriesMoved | SiteLeft | BatchPublished

_ENTRIES: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)
entry_bytes = msgspec.json.encode


def entry_of(data: bytes) -> Entry:
    try:
        return _ENTRIES.decode(data)
    except msgspec.ValidationError as error:
        raise FederationError(
            f"the log of this federation has an entry that this weft does not know ({error}): it was written by a "
            "newer one"
        ) from error


@dataclass(frozen=True)
class SiteMessage:
    """`kind` says what the `fields` are. As bytes a message is a line of JSON, and an Arrow stream if it has rows."""

    kind: str
    fields: dict[str, Any]
    rows: pa.Table | None = None

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


def message_bytes(message: SiteMessage) -> bytes:
    line = msgspec.json.encode({"kind": message.kind, **message.fields})
    return line if message.rows is None else line + b"\n" + stream_of(message.rows)


def message_of(data: bytes) -> SiteMessage:
    line, _, rows = data.partition(b"\n")
    try:
        fields: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        return SiteMessage(fields.pop("kind"), fields, table_of(rows) if rows else None)
    except (ValueError, KeyError, OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise FederationError(
            f"a message of {len(data)} bytes at the broker is damaged ({reason}); restore the broker's store"
        ) from error


def send(
    transport: Transport, mailbox: str, identity: str, kind: str, fields: dict[str, Any], rows: pa.Table | None = None
) -> int:
    return transport.put(mailbox, identity, message_bytes(SiteMessage(kind, fields, rows)))


def small_enough(rows: pa.Table, transport: Transport) -> list[pa.Table]:
    """Rows in pieces that fit into messages."""
    return [piece for piece, _ in stream_pieces(rows, transport.largest - _HEADROOM, transport.name)]
