"""The log and the mailboxes of a federation, which NATS with JetStream keeps.

    stream WEFT_FED_<name>            fed.<name>.log                  the log: its sequence numbers are the places
    stream WEFT_FED_<name>_MAIL       fed.<name>.mail.<mailbox>       messages of kept mailboxes, numbered by the stream
    stream WEFT_FED_<name>_PASSING    fed.<name>.passing.<mailbox>    messages of passing mailboxes, likewise

That an entry is appended only behind the last one that is known is JetStream's own check of the expected sequence. The
log is never cut. A message is there durably when `put` returns, and a second one with the same identity is not kept.

    kept       coordinator, home.*, source.*   Nothing is dropped: a sender waits when there is no room. Every message
                                               names the one before it in its mailbox, so a reader notices a gap.
    passing    rows.*, reply.*                 The oldest messages are dropped when there is no room. What is missing is
                                               asked for again.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from weft.delivery.delivery_errors import BrokerError
from weft.delivery.nats_connection import NatsConnection, find, have_streams, subject_token
from weft.federation import FederationError

Result = TypeVar("Result")

_LOOK_EVERY: Final = 1.0
_AT_ONCE: Final = 256
_HEADROOM: Final = 4 << 10
_WRONG_SEQUENCE: Final = 10071
_FULL: Final = 10077
_PREVIOUS: Final = "Weft-Previous"
_PASSING_BYTES: Final = 2 << 30
#: The seconds for which the broker recognises a message that comes twice.
_DUPLICATE_WINDOW: Final = 120.0


class LostError(FederationError):
    """The broker has lost entries of the log, or messages that must not be lost."""


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


class Transport:
    """A site's connection to the federation's broker. Raises BrokerError when it is full or cannot be reached."""

    def __init__(self, server: str, federation: str, kept_bytes: int = 2 << 30) -> None:
        self._connection = NatsConnection(server, self._listen)
        self._federation = federation
        self._kept_bytes = kept_bytes
        token = subject_token(federation)
        self._log, self._mail, self._passing = (f"WEFT_FED_{token}{each}" for each in ("", "_MAIL", "_PASSING"))
        self._log_subject, self._subjects = f"fed.{token}.log", f"fed.{token}"
        self._is_ready = False
        #: By kept mailbox the newest known message.
        self._newest: dict[str, int] = {}
        self._new = threading.Event()

    @property
    def name(self) -> str:
        """What to call it, without what is secret in its address."""
        return f"NATS at {self._connection.shown}"

    @property
    def largest(self) -> int:
        """The most bytes that a message may have."""
        self._call(lambda stream: asyncio.sleep(0))  # to be connected is all
        return self._connection.largest_payload - _HEADROOM

    def append(self, data: bytes, after: int) -> int | None:
        """Append an entry if the last one is at a place (0: there is none); its place, or None if there is a newer one.

        An entry may have been appended although an error was raised: the writer recognises its own.
        """

        async def work(stream: Any) -> int | None:
            import nats.js.errors

            headers = {"Nats-Expected-Last-Sequence": str(after)}
            try:
                return int((await stream.publish(self._log_subject, data, headers=headers)).seq)
            except nats.js.errors.APIError as error:
                if error.err_code == _WRONG_SEQUENCE:
                    return None
                raise

        return self._call(work)

    def entries(self, after: int, wait: float = 0.0) -> list[tuple[int, bytes]]:
        """Entries behind a place, oldest first, perhaps not all; none if none come within `wait` seconds.

        Raises LostError if the log ends before the place.
        """
        self._new.clear()
        found = self._call(lambda stream: self._entries(stream, after))
        if not found and wait:
            self._new.wait(min(wait, _LOOK_EVERY))
            found = self._call(lambda stream: self._entries(stream, after))
        return found

    def put(self, mailbox: str, identity: str, data: bytes) -> int:
        """Put a message into a mailbox; its number, which grows from message to message over all mailboxes."""
        return self._call(lambda stream: self._put(stream, mailbox, {"Nats-Msg-Id": identity}, data))

    def take(self, mailbox: str, after: int | None) -> tuple[int, bytes] | None:
        """The first message in a mailbox with a larger number, which stays there; without a number the first of all.

        Raises LostError if the mailbox is a kept one, and the message before it is not the one with the number `after`.
        """

        async def work(stream: Any) -> tuple[int, bytes] | None:
            name, subject = self._passing if is_passing(mailbox) else self._mail, self._subject(mailbox)
            found = await find(stream, name, (after or 0) + 1, subject)
            if after is not None and not is_passing(mailbox):
                # A message of a kept mailbox follows the last one that was read, which is still there.
                if found is not None:
                    previous = int((found.headers or {}).get(_PREVIOUS, -1))
                    if previous != after:
                        raise lost_messages(self.name, mailbox, after, previous)
                elif after:
                    last = await find(stream, self._mail, number=after)
                    if last is None or last.subject != subject:
                        raise lost_messages(self.name, mailbox, after, None)
            return None if found is None else (int(found.seq), found.data or b"")

        return self._call(work)

    def delete(self, mailbox: str, before: int) -> None:
        """Delete the messages of a mailbox with smaller numbers. The newest one that was read must stay."""
        self._call(lambda stream: stream.purge_stream(self._mail, seq=before, subject=self._subject(mailbox)))

    def get(self, number: int) -> bytes | None:
        """The message of a passing mailbox with a number; None if the broker has dropped it."""
        found = self._call(lambda stream: find(stream, self._passing, number=number))
        return None if found is None else found.data or b""

    def close(self) -> None:
        self._connection.close()

    def _call(self, work: Callable[[Any], Awaitable[Result]]) -> Result:
        async def ready(stream: Any) -> Result:
            if not self._is_ready:
                await self._make_ready(stream)
            return await work(stream)

        return self._connection.call(ready)

    async def _make_ready(self, stream: Any) -> None:
        from nats.js.api import DiscardPolicy, StorageType, StreamConfig

        lasting: dict[str, Any] = {"storage": StorageType.FILE, "allow_direct": True}
        mailboxes = {**lasting, "duplicate_window": _DUPLICATE_WINDOW}
        kept = {"max_bytes": self._kept_bytes, "discard": DiscardPolicy.NEW}
        dropped = {"max_bytes": _PASSING_BYTES, "discard": DiscardPolicy.OLD}
        await have_streams(
            stream,
            StreamConfig(name=self._log, subjects=[self._log_subject], deny_delete=True, **lasting),
            StreamConfig(name=self._mail, subjects=[f"{self._subjects}.mail.>"], **kept, **mailboxes),
            StreamConfig(name=self._passing, subjects=[f"{self._subjects}.passing.>"], **dropped, **mailboxes),
        )
        self._is_ready = True

    async def _listen(self, client: Any) -> None:
        async def wake(message: Any) -> None:
            self._new.set()

        # The server may have been started again, and its store may be another one.
        self._is_ready = False
        self._newest.clear()
        await client.subscribe(self._log_subject, cb=wake)

    async def _put(self, stream: Any, mailbox: str, headers: dict[str, str], data: bytes) -> int:
        """Put a message into a mailbox; into a kept one behind the newest one, which it names."""
        import nats.js.errors

        if is_passing(mailbox):
            return int((await stream.publish(self._subject(mailbox), data, headers=headers)).seq)
        while True:
            previous = self._newest.get(mailbox)
            if previous is None:
                newest = await find(stream, self._mail, subject=self._subject(mailbox))
                previous = 0 if newest is None else int(newest.seq)
            known = {_PREVIOUS: str(previous), "Nats-Expected-Last-Subject-Sequence": str(previous)}
            try:
                acknowledged = await stream.publish(self._subject(mailbox), data, headers={**headers, **known})
            except nats.js.errors.APIError as error:
                self._newest.pop(mailbox, None)
                if error.err_code == _FULL:
                    raise BrokerError(
                        f"{self.name} has no room for more messages of federation '{self._federation}': sites that do "
                        "not run leave theirs unread; start them. What could not be sent waits, and is sent then"
                    ) from error
                if error.err_code != _WRONG_SEQUENCE:
                    raise
                continue
            if not acknowledged.duplicate:
                self._newest[mailbox] = int(acknowledged.seq)
            return int(acknowledged.seq)

    async def _entries(self, stream: Any, after: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        while len(found) < _AT_ONCE:
            message = await find(stream, self._log, number=after + len(found) + 1)
            if message is None:
                newest = (await stream.stream_info(self._log)).state.last_seq if not found else after
                if newest < after:
                    raise LostError(
                        f"the log of federation '{self._federation}' ends at entry {newest}, and {after} was read "
                        f"before; {self.name} has lost entries: restore its store"
                    )
                break
            found.append((int(message.seq), message.data or b""))
        return found

    def _subject(self, mailbox: str) -> str:
        kind = "passing" if is_passing(mailbox) else "mail"
        return ".".join([self._subjects, kind, *(subject_token(part) for part in re.split(r"\.", mailbox, maxsplit=1))])
