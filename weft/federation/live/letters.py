"""What sites send each other: plain data, and rows where there are some.

As bytes a letter is one line of JSON, and after it an Arrow stream if it has rows. Every letter can come twice, and be
read again after a crash; whoever takes it must be able to tell that it knows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weft.delivery.errors import BrokerError
from weft.delivery.parcel import stream_of, table_of
from weft.federation.errors import FederationError

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
