"""NATS with JetStream as the broker of a federation.

    stream WEFT_FED_<name>            fed.<name>.log              the log: its sequence numbers are the places
    stream WEFT_FED_<name>_MAIL       fed.<name>.box.<box>        letters of kept boxes, numbered by the stream
    stream WEFT_FED_<name>_PASSING    fed.<name>.passing.<box>    letters of passing boxes, likewise

That an entry is appended only behind the last one that is known is JetStream's own check of the expected sequence. The
same check, for one subject, has every letter of a kept box name the letter before it. The log is never cut, a kept box
takes no more letters when it is full, and passing letters are dropped when there are too many bytes of them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from weft.delivery.log.delivery_errors import BrokerError
from weft.delivery.nats.connection import NatsConnection, subject_token
from weft.federation.live.transport import LostError, is_passing, lost_letters

Result = TypeVar("Result")

_LOOK_EVERY: Final = 1.0
_AT_ONCE: Final = 256
_HEADROOM: Final = 4 << 10
_WRONG_SEQUENCE: Final = 10071
_FULL: Final = 10077
_PREVIOUS: Final = "Weft-Previous"


@dataclass(frozen=True, slots=True)
class MailLimits:
    """How many bytes of letters the broker keeps, and for how many seconds a letter that comes twice is known again."""

    kept_bytes: int = 2 << 30
    passing_bytes: int = 2 << 30
    duplicate_window: float = 120.0


class NatsWire:
    """A site's connection to the federation's broker."""

    def __init__(self, server: str, federation: str, limits: MailLimits | None = None) -> None:
        self._connection = NatsConnection(server)
        self._federation = federation
        self._limits = limits or MailLimits()
        token = subject_token(federation)
        self._log, self._mail, self._passing = (f"WEFT_FED_{token}{each}" for each in ("", "_MAIL", "_PASSING"))
        self._log_subject, self._subjects = f"fed.{token}.log", f"fed.{token}"
        self._is_ready = False
        #: By kept box the newest letter that is known, and the boxes that still have the letter that was read last.
        self._newest: dict[str, int] = {}
        self._whole: set[str] = set()
        self._has_log = False
        self._new = threading.Event()
        self._connection.on_connected(self._listen)

    @property
    def name(self) -> str:
        return f"NATS at {self._connection.shown}"

    @property
    def largest(self) -> int:
        self._call(_nothing)
        return self._connection.largest_payload - _HEADROOM

    def append(self, data: bytes, after: int) -> int | None:
        async def work(stream: Any) -> int | None:
            import nats.js.errors
            from nats.js.api import Header

            headers = {Header.EXPECTED_LAST_SEQUENCE.value: str(after)}
            try:
                return int((await stream.publish(self._log_subject, data, headers=headers)).seq)
            except nats.js.errors.APIError as error:
                if error.err_code == _WRONG_SEQUENCE:
                    return None
                raise

        return self._call(work)

    def entries(self, after: int, wait: float = 0.0) -> list[tuple[int, bytes]]:
        self._new.clear()
        found = self._call(lambda stream: self._entries(stream, after))
        if not found and wait:
            self._new.wait(min(wait, _LOOK_EVERY))
            found = self._call(lambda stream: self._entries(stream, after))
        return found

    def put(self, box: str, identity: str, data: bytes) -> int:
        async def work(stream: Any) -> int:
            from nats.js.api import Header

            headers = {Header.MSG_ID.value: identity}
            if is_passing(box):
                return int((await stream.publish(self._subject(box), data, headers=headers)).seq)
            return await self._put_in_order(stream, box, headers, data)

        return self._call(work)

    def take(self, box: str, after: int | None) -> tuple[int, bytes] | None:
        async def work(stream: Any) -> tuple[int, bytes] | None:
            name, subject = self._passing if is_passing(box) else self._mail, self._subject(box)
            found = await _get(stream, name, seq=(after or 0) + 1, subject=subject, next=True)
            if after is not None and not is_passing(box):
                await self._check_order(stream, box, after, found)
            return None if found is None else (int(found.seq), found.data or b"")

        return self._call(work)

    def let_go(self, box: str, before: int) -> None:
        self._call(lambda stream: stream.purge_stream(self._mail, seq=before, subject=self._subject(box)))

    def get(self, number: int) -> bytes | None:
        async def work(stream: Any) -> bytes | None:
            found = await _get(stream, self._passing, seq=number)
            return None if found is None else found.data or b""

        return self._call(work)

    def wait(self, seconds: float) -> None:
        """Wait until the log may have something new."""
        self._new.wait(seconds)
        self._new.clear()

    def close(self) -> None:
        self._connection.close()

    # --- in the connection's thread ------------------------------------------------------------------------------

    def _call(self, work: Callable[[Any], Awaitable[Result]]) -> Result:
        async def ready(stream: Any) -> Result:
            if not self._is_ready:
                await self._make_ready(stream)
            return await work(stream)

        return self._connection.call(ready)

    async def _make_ready(self, stream: Any) -> None:
        """Have the three streams there."""
        import nats.js.errors
        from nats.js.api import DiscardPolicy, StorageType, StreamConfig

        log = StreamConfig(
            name=self._log, subjects=[self._log_subject], storage=StorageType.FILE, allow_direct=True, deny_delete=True
        )
        limits = self._limits
        mail, passing = (
            StreamConfig(
                name=name,
                subjects=[f"{self._subjects}.{kind}.>"],
                max_bytes=size,
                discard=discard,
                duplicate_window=limits.duplicate_window,
                storage=StorageType.FILE,
                allow_direct=True,
            )
            for name, kind, size, discard in (
                (self._mail, "box", limits.kept_bytes, DiscardPolicy.NEW),
                (self._passing, "passing", limits.passing_bytes, DiscardPolicy.OLD),
            )
        )
        for config in (log, mail, passing):
            try:
                await stream.stream_info(config.name)
            except nats.js.errors.NotFoundError:
                await stream.add_stream(config)
            except nats.js.errors.ServiceUnavailableError as error:
                raise BrokerError("this NATS server has no JetStream; start it with: nats-server -js") from error
        self._is_ready = True

    async def _listen(self, client: Any) -> None:
        async def told(message: Any) -> None:
            self._new.set()

        # The server may have been started again, and its store may be another one.
        self._is_ready = self._has_log = False
        self._newest.clear()
        self._whole.clear()
        await client.subscribe(self._log_subject, cb=told)

    async def _put_in_order(self, stream: Any, box: str, headers: dict[str, str], data: bytes) -> int:
        """Put a letter into a kept box behind the newest one, which it names."""
        import nats.js.errors
        from nats.js.api import Header

        while True:
            previous = self._newest.get(box)
            if previous is None:
                previous = await self._newest_in(stream, box)
            known = {_PREVIOUS: str(previous), Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(previous)}
            try:
                acknowledged = await stream.publish(self._subject(box), data, headers={**headers, **known})
            except nats.js.errors.APIError as error:
                self._newest.pop(box, None)
                if error.err_code == _FULL:
                    raise BrokerError(
                        f"{self.name} has no room for more letters of federation '{self._federation}': sites that do "
                        "not run leave theirs unread; start them. What could not be sent waits, and is sent then"
                    ) from error
                if error.err_code != _WRONG_SEQUENCE:
                    raise
                continue
            if not acknowledged.duplicate:
                self._newest[box] = int(acknowledged.seq)
            return int(acknowledged.seq)

    async def _newest_in(self, stream: Any, box: str) -> int:
        """The number of the newest letter in a kept box; 0 if there is none."""
        import nats.js.errors

        try:
            return int((await stream.get_last_msg(self._mail, self._subject(box), direct=True)).seq)
        except nats.js.errors.NotFoundError:
            return 0

    async def _check_order(self, stream: Any, box: str, after: int, found: Any) -> None:
        """Raise LostError if the next letter of a kept box does not follow the last that was read, or that is gone."""
        if found is not None:
            previous = int((found.headers or {}).get(_PREVIOUS, -1))
            if previous != after:
                raise lost_letters(self.name, box, after, previous)
        elif after and box not in self._whole:
            last = await _get(stream, self._mail, seq=after)
            if last is None or last.subject != self._subject(box):
                raise lost_letters(self.name, box, after, None)
        self._whole.add(box)

    async def _entries(self, stream: Any, after: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        while len(found) < _AT_ONCE:
            message = await _get(stream, self._log, seq=after + len(found) + 1)
            if message is None:
                if not found and after and not self._has_log:
                    await self._check_log(stream, after)
                break
            found.append((int(message.seq), message.data or b""))
        return found

    async def _check_log(self, stream: Any, after: int) -> None:
        """Raise LostError if the log ends before a place that was read."""
        newest = (await stream.stream_info(self._log)).state.last_seq
        if newest < after:
            raise LostError(
                f"the log of federation '{self._federation}' ends at entry {newest}, and {after} was read before; "
                f"{self.name} has lost entries: restore its store"
            )
        self._has_log = True

    def _subject(self, box: str) -> str:
        kind = "passing" if is_passing(box) else "box"
        return ".".join([self._subjects, kind, *(subject_token(part) for part in re.split(r"\.", box, maxsplit=1))])


async def _nothing(stream: Any) -> None:
    """To be connected is all."""


async def _get(stream: Any, name: str, **which: Any) -> Any:
    import nats.js.errors

    try:
        return await stream.get_msg(name, direct=True, **which)
    except nats.js.errors.NotFoundError:
        return None
