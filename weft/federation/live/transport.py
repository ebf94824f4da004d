"""What a broker must do for a federation.

The **log** is one list of entries. Who appends says what the last entry is that it knows; if there is a newer one,
nothing is appended, and it looks again. So an entry never rests on less than all entries before it.

**Boxes** hold letters, in the order in which they came. A letter is there durably when `put` returns, and a second one
with the same identity is not kept. A reader remembers how far it has come. There are two kinds of boxes:

    kept       coordinator, home.*, source.*   Nothing is dropped: a sender waits when there is no room. Every letter
                                               names the one before it in its box, so a reader sees that one is missing.
    passing    rows.*, reply.*                 The oldest letters are dropped when there is no room. What is missing is
                                               asked for again.
"""

from __future__ import annotations

from typing import Protocol

from weft.federation.federation_errors import FederationError

#: The box of the coordinator.
COORDINATOR = "coordinator"


class LostError(FederationError):
    """The broker has lost entries of the log, or letters that must not be lost."""


class Wire(Protocol):
    """The log and the boxes of one federation. Raises BrokerError when the broker cannot be reached or is full."""

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
        """Entries behind a place, oldest first, perhaps not all; none if none come within so many seconds.

        Raises LostError if the log ends before the place.
        """

    def put(self, box: str, identity: str, data: bytes) -> int:
        """Put a letter into a box; its number, which grows from letter to letter over all boxes."""

    def take(self, box: str, after: int | None) -> tuple[int, bytes] | None:
        """The first letter in a box with a larger number, which stays where it is; without a number the first there is.

        Raises LostError if the box is a kept one, and the letter before it is not the one with the number `after`.
        """

    def let_go(self, box: str, before: int) -> None:
        """Delete the letters of a box with smaller numbers. The newest one that was read must stay."""

    def get(self, number: int) -> bytes | None:
        """The letter of a passing box with a number; None if the broker has dropped it."""

    def close(self) -> None:
        """Let go of the connection."""


def is_passing(box: str) -> bool:
    """Whether letters of a box may be dropped, since they can be asked for again."""
    return box.startswith(("rows.", "reply."))


def lost_letters(broker: str, box: str, after: int, previous: int | None) -> LostError:
    """What to say when a letter that should have been read next is not in a kept box."""
    if after == 0:
        return LostError(
            f"the letters of the box '{box}' up to number {previous} were read before, into another directory of this "
            "site; restore that directory, or take part under another name with an empty one"
        )
    found = "is not there any more" if previous is None else f"is followed by one that came after letter {previous}"
    return LostError(
        f"{broker} has lost letters of the box '{box}': letter {after}, the last that was read, {found}; "
        "answers may be missing, so nothing more is read. Restore the broker's store, or begin a federation of another "
        "name with new directories"
    )


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
