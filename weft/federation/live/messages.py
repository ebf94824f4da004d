"""What the log of a federation can say, what sites send each other, and what a broker must do for them.

The **log** and the rules that hold for it are in `docs/federation.md` ("One log"). What concerns queries is said
between two batches, and holds from the next batch on; so all providers cut time at the same batches.

A **message** is plain data, and rows where it has some. It is there durably when `put` returns, and a second one with
the same identity is not kept. It can be read again after a crash; its reader must be able to tell that it knows it.
There are two kinds of **mailboxes**:

    kept       coordinator, home.*, source.*   Nothing is dropped: a sender waits when there is no room. Every message
                                               names the one before it in its mailbox, so a reader notices a gap.
    passing    rows.*, reply.*                 The oldest messages are dropped when there is no room. What is missing is
                                               asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from weft.delivery.parcel import stream_of, stream_pieces, table_of
from weft.federation import FederationError

#: What a message has besides its rows, at most.
_HEADROOM = 8 << 10

#: The mailboxes of the coordinator, of the users of a site, and of the owner of streams at a site.
COORDINATOR, results_mailbox, source_mailbox = "coordinator", "home.{}".format, "source.{}".format

#: The mailboxes of a stream's rows, and of the answer to a message.
rows_mailbox, reply_mailbox = "rows.{}".format, "reply.{}".format


class LostError(FederationError):
    """The broker has lost entries of the log, or messages that must not be lost."""


class Transport(Protocol):
    """The log and the mailboxes of one federation. Raises BrokerError when the broker is full or cannot be reached."""

    @property
    def name(self) -> str:
        """What to call it, without what is secret in its address."""

    @property
    def largest(self) -> int:
        """The most bytes that a message may have."""

    def append(self, data: bytes, after: int) -> int | None:
        """Append an entry if the last one is at a place (0: there is none); its place, or None if there is a newer one.

        An entry may have been appended although an error was raised: the writer recognises its own.
        """

    def entries(self, after: int, wait: float = 0.0) -> list[tuple[int, bytes]]:
        """Entries behind a place, oldest first, perhaps not all; none if none come within `wait` seconds.

        Raises LostError if the log ends before the place.
        """

    def put(self, mailbox: str, identity: str, data: bytes) -> int:
        """Put a message into a mailbox; its number, which grows from message to message over all mailboxes."""

    def take(self, mailbox: str, after: int | None) -> tuple[int, bytes] | None:
        """The first message in a mailbox with a larger number, which stays there; without a number the first of all.

        Raises LostError if the mailbox is a kept one, and the message before it is not the one with the number `after`.
        """

    def delete(self, mailbox: str, before: int) -> None:
        """Delete the messages of a mailbox with smaller numbers. The newest one that was read must stay."""

    def get(self, number: int) -> bytes | None:
        """The message of a passing mailbox with a number; None if the broker has dropped it."""

    def close(self) -> None:
        """Close the connection."""


def is_passing(mailbox: str) -> bool:
    """Whether messages of a mailbox may be dropped, since they can be asked for again."""
    return mailbox.startswith(("rows.", "reply."))


def lost_messages(broker: str, mailbox: str, after: int, previous: int | None) -> LostError:
    """The error for a message that should have been read next and is not in a kept mailbox."""
    if after == 0:
        return LostError(
            f"the messages of the mailbox '{mailbox}' up to number {previous} were read before, into another directory "
            "of this site; restore that directory, or take part under another name with an empty one"
        )
    found = "is not there any more" if previous is None else f"is followed by one that came after message {previous}"
    return LostError(
        f"{broker} has lost messages of the mailbox '{mailbox}': message {after}, the last that was read, {found}; "
        "answers may be missing, so nothing more is read. Restore the broker's store, or begin a federation of another "
        "name with new directories"
    )


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
