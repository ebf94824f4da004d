"""What the log of a federation can say, and as which bytes.

An entry's place in the log is when it happens. Whatever concerns queries is said between two batches, and holds from
the next batch on; so all providers cut time at the same batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from weft.delivery.log.delivery_errors import BrokerError
from weft.delivery.log.parcel import stream_of, table_of
from weft.federation.federation_errors import FederationError


@dataclass(frozen=True, slots=True)
class Joined:
    """A site takes part: from now on it may be given queries, if it has a capability."""

    id: str
    site: str


@dataclass(frozen=True, slots=True)
class Declared:
    """A CREATE or DROP of a stream or view. The stream's owner is the site where it was said."""

    id: str
    site: str
    text: str


@dataclass(frozen=True, slots=True)
class Created:
    """A continuous query: where its user is, and which provider runs it."""

    id: str
    query: str
    home: str
    provider: str
    text: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """The end of a query."""

    id: str
    query: str


@dataclass(frozen=True, slots=True)
class Handover:
    """A query that goes from one provider to another. The first one's last answers are those up to the place `after`.

    Without it that is the place of the entry itself. `birth` is the place of the entry that created the query.
    """

    query: str
    birth: int
    source: str
    target: str
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """Queries migrate."""

    id: str
    moves: tuple[Handover, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """A site is not there any more, and who runs its queries now."""

    site: str
    moves: tuple[Handover, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a batch that just these sites want: the numbers that the broker has them under, and how many they are."""

    sites: tuple[str, ...]
    numbers: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows that came to a stream. `number` counts the stream's batches from 0.

    `clock` is the largest clock of the whole stream so far, whoever wants the row that has it; None before the first.
    """

    stream: str
    number: int
    clock: int | None
    rows: int
    parts: tuple[Part, ...] = ()


Entry: TypeAlias = Joined | Declared | Created | Dropped | Moved | Left | Batch

_KINDS: dict[str, type[Any]] = {
    each.__name__.lower(): each for each in (Joined, Declared, Created, Dropped, Moved, Left, Batch)
}


def entry_bytes(entry: Entry) -> bytes:
    """An entry as the broker keeps it."""
    document = {"kind": type(entry).__name__.lower(), **asdict(entry)}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def entry_of(data: bytes) -> Entry:
    """The entry that the broker keeps as bytes."""
    document: dict[str, Any] = json.loads(data)
    kind = document.pop("kind")
    if kind not in _KINDS:
        raise FederationError(f"the log of this federation has an entry '{kind}': it was written by a newer weft")
    if "moves" in document:
        document["moves"] = tuple(Handover(**each) for each in document["moves"])
    if "parts" in document:
        document["parts"] = tuple(
            Part(tuple(each["sites"]), tuple(each["numbers"]), each["rows"]) for each in document["parts"]
        )
    entry: Entry = _KINDS[kind](**document)
    return entry


#: What a letter has besides its rows, at most.
_HEADROOM = 8 << 10


@dataclass(frozen=True)
class Letter:
    """`kind` says what the `fields` are."""

    kind: str
    fields: dict[str, Any]
    rows: pa.Table | None = None

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


def letter_bytes(letter: Letter) -> bytes:
    """A letter as the broker keeps it."""
    line = json.dumps({"kind": letter.kind, **letter.fields}, separators=(",", ":"), ensure_ascii=False).encode()
    return line if letter.rows is None else line + b"\n" + stream_of(letter.rows)


def letter_of(data: bytes) -> Letter:
    """The letter that the broker keeps as bytes."""
    line, _, rows = data.partition(b"\n")
    try:
        fields: dict[str, Any] = json.loads(line)
        return Letter(fields.pop("kind"), fields, table_of(rows) if rows else None)
    except (ValueError, KeyError, TypeError, AttributeError, OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise FederationError(
            f"a letter of {len(data)} bytes at the broker is damaged ({reason}); restore the broker's store"
        ) from error


def small_enough(rows: pa.Table, largest: int, broker: str) -> Iterator[pa.Table]:
    """Rows in pieces that fit into letters."""
    size = len(stream_of(rows))
    if size <= largest - _HEADROOM:
        yield rows
    elif rows.num_rows <= 1:
        raise BrokerError(
            f"a row of {size:,} bytes is larger than {broker} takes; raise its max_payload and restart it"
        )
    else:
        half = rows.num_rows // 2
        yield from small_enough(rows.slice(0, half), largest, broker)
        yield from small_enough(rows.slice(half), largest, broker)
