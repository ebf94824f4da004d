"""What a broker must do for a federation.

The **log** is one list of entries. A writer says what the last entry is that it knows; if there is a newer one, nothing
is appended, and the writer reads on. So an entry never rests on less than all entries before it.

**Mailboxes** hold messages, in the order in which they came. A message is there durably when `put` returns, and a
second one with the same identity is not kept. A reader remembers how far it has come. There are two kinds of mailboxes:

    kept       coordinator, home.*, source.*   Nothing is dropped: a sender waits when there is no room. Every message
                                               names the one before it in its mailbox, so a reader notices a gap.
    passing    rows.*, reply.*                 The oldest messages are dropped when there is no room. What is missing is
                                               asked for again.
"""

from __future__ import annotations

from typing import Protocol

from weft.federation.federation_errors import FederationError

#: The mailbox of the coordinator.
COORDINATOR = "coordinator"


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


def results_mailbox(site: str) -> str:
    """Where answers for the users of a site go."""
    return f"home.{site}"


def source_mailbox(site: str) -> str:
    """Where the owner of streams is asked to replay, or told what it may delete."""
    return f"source.{site}"


def rows_mailbox(stream: str) -> str:
    """Where the rows of a stream's batches are."""
    return f"rows.{stream}"


def reply_mailbox(identity: str) -> str:
    """Where the answer to a message goes."""
    return f"reply.{identity}"
