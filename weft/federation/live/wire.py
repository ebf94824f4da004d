"""What a broker must do for a federation.

The **log** is one list of entries. Who appends says what the last entry is that it knows; if there is a newer one,
nothing is appended, and it looks again. So an entry never rests on less than all entries before it.

**Boxes** hold letters, in the order in which they came. A letter is there durably when `put` returns, and a second one
with the same identity is not kept. Who takes letters remembers by itself how far it has come.
"""

from __future__ import annotations

from typing import Protocol

#: The box of the coordinator.
COORDINATOR = "coordinator"


class Wire(Protocol):
    """The log and the boxes of one federation. Raises BrokerError when the broker cannot be reached."""

    @property
    def name(self) -> str:
        """What to call it, without what is secret in its address."""

    @property
    def largest(self) -> int:
        """The most bytes that a letter may have."""

    def append(self, data: bytes, after: int) -> int | None:
        """Append an entry if the last one is at a place (0: there is none); its place, or None if there is a newer one.

        An entry may have been appended although an error was raised: whoever appends recognises its own.
        """

    def entries(self, after: int, wait: float = 0.0) -> list[tuple[int, bytes]]:
        """Entries behind a place, oldest first, perhaps not all; none if none come within so many seconds."""

    def put(self, box: str, identity: str, data: bytes) -> int:
        """Put a letter into a box; its number, which grows from letter to letter over all boxes."""

    def take(self, box: str, after: int) -> tuple[int, bytes] | None:
        """The first letter in a box with a larger number, which stays where it is."""

    def get(self, number: int) -> bytes | None:
        """The letter with a number; None if the broker has let go of it."""

    def close(self) -> None:
        """Let go of the connection."""


def home_box(site: str) -> str:
    """Where answers for the users of a site go."""
    return f"home.{site}"


def source_box(site: str) -> str:
    """Where the owner of streams is asked to replay, or told what it may let go of."""
    return f"source.{site}"


def rows_box(stream: str) -> str:
    """Where the rows of a stream's batches are."""
    return f"rows.{stream}"


def reply_box(identity: str) -> str:
    """Where the answer to a letter goes."""
    return f"reply.{identity}"
