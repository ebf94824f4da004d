"""NATS with JetStream as the broker of a federation.

    stream WEFT_FED_<name>        fed.<name>.log           the log: its sequence numbers are the places
    stream WEFT_FED_<name>_MAIL   fed.<name>.box.<box>     letters: their sequence numbers are those of the stream

That an entry is appended only behind the last one that is known is JetStream's own check of the expected sequence. The
log is never cut; letters go when there are too many bytes of them, and are asked for again where that matters.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from weft.delivery.errors import BrokerError
from weft.delivery.nats.connection import NatsConnection, subject_token

Result = TypeVar("Result")

_LOOK_EVERY: Final = 1.0
_AT_ONCE: Final = 256
_HEADROOM: Final = 4 << 10
_WRONG_SEQUENCE: Final = 10071


@dataclass(frozen=True, slots=True)
class MailLimits:
    """How many bytes of letters are kept, and for how many seconds a letter that comes twice is known again."""

    bytes: int = 2 << 30
    duplicate_window: float = 120.0


class NatsWire:
    """A site's connection to the federation's broker."""

    def __init__(self, server: str, federation: str, limits: MailLimits | None = None) -> None:
        self._connection = NatsConnection(server)
        self._federation = federation
        self._limits = limits or MailLimits()
        token = subject_token(federation)
        self._log, self._mail = f"WEFT_FED_{token}", f"WEFT_FED_{token}_MAIL"
        self._log_subject, self._box_prefix = f"fed.{token}.log", f"fed.{token}.box"
        self._is_ready = False
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
            return int((await stream.publish(self._subject(box), data, headers=headers)).seq)

        return self._call(work)

    def take(self, box: str, after: int) -> tuple[int, bytes] | None:
        async def work(stream: Any) -> tuple[int, bytes] | None:
            found = await _get(stream, self._mail, seq=after + 1, subject=self._subject(box), next=True)
            return None if found is None else (int(found.seq), found.data or b"")

        return self._call(work)

    def get(self, number: int) -> bytes | None:
        async def work(stream: Any) -> bytes | None:
            found = await _get(stream, self._mail, seq=number)
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
        """Have the two streams there."""
        import nats.js.errors
        from nats.js.api import StorageType, StreamConfig

        log = StreamConfig(
            name=self._log, subjects=[self._log_subject], storage=StorageType.FILE, allow_direct=True, deny_delete=True
        )
        mail = StreamConfig(
            name=self._mail,
            subjects=[f"{self._box_prefix}.>"],
            max_bytes=self._limits.bytes,
            duplicate_window=self._limits.duplicate_window,
            storage=StorageType.FILE,
            allow_direct=True,
        )
        for config in (log, mail):
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

        await client.subscribe(self._log_subject, cb=told)

    async def _entries(self, stream: Any, after: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        while len(found) < _AT_ONCE:
            message = await _get(stream, self._log, seq=after + len(found) + 1)
            if message is None:
                break
            found.append((int(message.seq), message.data or b""))
        return found

    def _subject(self, box: str) -> str:
        return ".".join([self._box_prefix, *(subject_token(part) for part in re.split(r"\.", box, maxsplit=1))])


async def _nothing(stream: Any) -> None:
    """To be connected is all."""


async def _get(stream: Any, name: str, **which: Any) -> Any:
    import nats.js.errors

    try:
        return await stream.get_msg(name, direct=True, **which)
    except nats.js.errors.NotFoundError:
        return None
