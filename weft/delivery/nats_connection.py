"""A connection to NATS for code that does not wait in coroutines: the client runs in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

from weft.algebra.secrets import shown
from weft.delivery.delivery_errors import BrokerError

Result = TypeVar("Result")

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")
_HASHED: Final = re.compile(r"x[0-9a-f]{24}")
_CONNECT_SECONDS: Final = 3
_CALL_SECONDS: Final = 5.0


def subject_token(name: str) -> str:
    """A name as one token of a subject: itself if it can be, else a hash of it."""
    is_plain = _PLAIN.fullmatch(name) and not _HASHED.fullmatch(name)
    return name if is_plain else "x" + hashlib.blake2b(name.encode(), digest_size=12).hexdigest()


def split_address(address: str) -> tuple[str, str]:
    """The server, with what opens it, and the project of an address like nats://localhost:4222/project?creds=file."""
    parts = urlsplit(address)
    project = parts.path.strip("/")
    if not project or "/" in project:
        raise BrokerError(f"{shown(address)} names no project; write nats://host:port/project")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{query}", project


class NatsConnection:
    """One connection, made when it is first needed and made again when it is lost.

    What a server asks for is part of its address: nats://user:password@host, nats://token@host, or a file of
    credentials, nats://host?creds=/path/to/file. `on_connected` is called with each new client, to subscribe, say.
    """

    def __init__(self, server: str, on_connected: Callable[[Any], Coroutine[Any, Any, None]] | None = None) -> None:
        self.shown = shown(server.partition("?")[0])
        parts = urlsplit(server)
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._credentials = parse_qs(parts.query).get("creds", [None])[0]
        self._client: Any = None
        self._stream: Any = None
        self._connecting = asyncio.Lock()
        self._on_connected = on_connected
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="weft-nats", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[Any], Coroutine[Any, Any, Result]], timeout: float = 30.0) -> Result:
        """Do something with JetStream, and wait for it. Raises BrokerError for all that can go wrong on the way."""
        import nats.errors

        if self._is_closed:
            raise BrokerError(f"the connection to NATS at {self.shown} is closed")
        future = asyncio.run_coroutine_threadsafe(self._do(work), self._loop)
        try:
            return future.result(timeout)
        except BrokerError:
            raise
        except nats.errors.MaxPayloadError as error:
            raise BrokerError(f"a message is larger than NATS at {self.shown} takes; raise its max_payload") from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            future.cancel()
            raise BrokerError(f"NATS at {self.shown} does not answer ({error or type(error).__name__})") from error

    @property
    def bytes_received(self) -> int:
        return int(self._client.stats["in_bytes"]) if self._client is not None else 0

    @property
    def largest_payload(self) -> int:
        return int(self._client.max_payload)

    def close(self) -> None:
        self._is_closed = True

        async def end() -> None:
            if self._client is not None:
                await self._client.close()

        # A failure to say goodbye has no consequence.
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(_CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _do(self, work: Callable[[Any], Coroutine[Any, Any, Result]]) -> Result:
        async with self._connecting:
            if self._client is None or not self._client.is_connected:
                if self._client is not None:
                    await self._client.close()
                self._client = await self._connect()
                self._stream = self._client.jetstream(timeout=_CALL_SECONDS)
                if self._on_connected is not None:
                    await self._on_connected(self._client)
        return await work(self._stream)

    async def _connect(self) -> Any:
        try:
            import nats
            import nats.errors
        except ImportError as error:
            raise BrokerError("NATS needs the package nats-py; install it with: pip install 'weft[nats]'") from error

        async def silent(error: Exception) -> None:
            """Failures are raised where the call was made."""

        try:
            return await nats.connect(
                self._server,
                allow_reconnect=False,
                connect_timeout=_CONNECT_SECONDS,
                error_cb=silent,
                name="weft",
                max_reconnect_attempts=1,
                **({"user_credentials": self._credentials} if self._credentials is not None else {}),
            )
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BrokerError(
                f"NATS at {self.shown} cannot be reached ({error or type(error).__name__}); "
                "start it with JetStream: nats-server -js"
            ) from error


async def have_streams(stream: Any, *configs: Any, update: bool = False) -> None:
    """Make the streams that are not there; with `update`, the others get these limits."""
    import nats.js.errors

    for config in configs:
        try:
            await stream.stream_info(config.name)
            if update:
                await stream.update_stream(config)
        except nats.js.errors.NotFoundError:
            await stream.add_stream(config)
        except nats.js.errors.ServiceUnavailableError as error:
            raise BrokerError("this NATS server has no JetStream; start it with: nats-server -js") from error


async def find(stream: Any, name: str, number: int | None = None, subject: str | None = None) -> Any:
    """A message of a stream, or None: the one with a number, the newest one of a subject, or the next from a number."""
    import nats.js.errors

    follows = number is not None and subject is not None
    try:
        return await stream.get_msg(name, seq=number, subject=subject, direct=True, next=follows)
    except nats.js.errors.NotFoundError:
        return None
