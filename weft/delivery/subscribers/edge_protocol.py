"""What an edge and those who connect to it say to each other.

A frame is its length in four bytes, a letter that says what it is, and its content:

    J   JSON: what is asked for, and what is said about it
    P   a parcel, for another edge
    B   a batch, for a user: the length of its head in four bytes, the head as JSON, rows as an Arrow stream

Who connects says first what it is and wants, {"weft": 1, "role": "user" or "link", …}; the answer is {"ok": …} or
{"error": …, "kind": …}. Then come batches or parcels, and {"through": cycle} when there has been nothing for a while. A
link is told which queries to {"add": …} and {"remove": …}, at any time; parcels come after the first {"ready": …}.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from dataclasses import dataclass, fields
from typing import Any, Final

from weft.delivery.log.delivery_errors import AccessDenied, BrokerError, DeliveryError, UnknownQuery
from weft.delivery.log.parcel import Batch, stream_of, table_of
from weft.delivery.subscribers.subscriber import Start

JSON, PARCEL, BATCH = b"J", b"P", b"B"
VERSION: Final = 1

#: Seconds after which an edge says how far it is if it has nothing else to say.
HEARTBEAT: Final = 3.0

#: Seconds of silence after which the other side is taken to be gone.
SILENCE: Final = 30.0

_HEAD: Final = struct.Struct(">I1s")
_LENGTH: Final = struct.Struct(">I")

#: The most bytes that what is asked for may have. Anyone who can connect can send so much.
LARGEST_REQUEST: Final = 64 << 10
_KINDS: Final[dict[str, type[DeliveryError]]] = {
    "access": AccessDenied,
    "unknown": UnknownQuery,
    "broker": BrokerError,
}


def frame(kind: bytes, content: bytes) -> bytes:
    """A frame as bytes."""
    return _HEAD.pack(len(content), kind) + content


def json_frame(**document: Any) -> bytes:
    """A frame with JSON."""
    return frame(JSON, json.dumps(document, separators=(",", ":")).encode())


def batch_frame(batch: Batch) -> bytes:
    """A frame with a batch."""
    head = json.dumps({"cycle": batch.cycle, "at": batch.at, "watermark": batch.watermark}).encode()
    return frame(BATCH, _LENGTH.pack(len(head)) + head + stream_of(batch.table))


def batch_of(query: str, content: bytes) -> Batch:
    """The batch in a frame."""
    (length,) = _LENGTH.unpack(content[: _LENGTH.size])
    start = _LENGTH.size + length
    head = json.loads(content[_LENGTH.size : start])
    return Batch(query, head["cycle"], head["at"], head["watermark"], table_of(memoryview(content)[start:]))


def error_frame(error: DeliveryError) -> bytes:
    """A frame that says what went wrong."""
    kind = next((name for name, each in _KINDS.items() if isinstance(error, each)), "other")
    return json_frame(error=str(error), kind=kind)


def error_of(document: dict[str, Any]) -> DeliveryError:
    """What a frame says went wrong."""
    return _KINDS.get(document.get("kind", ""), DeliveryError)(document["error"])


async def read_frame(reader: asyncio.StreamReader, largest: int = 1 << 30) -> tuple[bytes, bytes]:
    """The next frame, in a coroutine. Raises ConnectionError at the end, and when it is larger than it may be."""
    try:
        length, kind = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if length > largest:
            raise ConnectionError("what came is no frame")
        return kind, await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("the other side has hung up") from error


class FrameSocket:
    """A connection to an edge, for code that waits in threads."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=5.0)
        self._socket.settimeout(SILENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame. Raises OSError at the end, and after a long silence."""
        length, kind = _HEAD.unpack(self._exactly(_HEAD.size))
        return kind, self._exactly(length)

    def receive_json(self) -> dict[str, Any]:
        """The next frame, which has JSON. Raises what it says went wrong."""
        _, content = self.receive()
        document: dict[str, Any] = json.loads(content)
        if "error" in document:
            raise error_of(document)
        return document

    def close(self) -> None:
        # Closing alone would not wake a thread that waits to receive.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise ConnectionError("the other side has hung up")
            parts += part
        return bytes(parts)


def split_host(address: str) -> tuple[str, int]:
    """Host and port of an address like weft://localhost:7070."""
    host, _, port = address.removeprefix("weft://").strip("/").rpartition(":")
    if not host or not port.isdigit():
        raise DeliveryError(f"{address} is no address of an edge; write weft://host:port")
    return host.strip("[]"), int(port)


#: Cycles, times and counts are 64-bit integers everywhere.
_LARGEST: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class UserRequest:
    """A user wants a query's answers; with `wait` also those of a query that is not known yet."""

    query: str
    start: Start
    token: str | None
    wait: bool


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """Another edge wants parcels after a cycle, or from now on."""

    after: int | None
    token: str | None


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Somebody wants to know how the edge is."""


@dataclass(frozen=True, slots=True)
class Change:
    """A query that another edge wants, or does not want any more; neither means that it has named all it wants."""

    add: str | None = None
    remove: str | None = None


def request_of(content: bytes) -> UserRequest | LinkRequest | StatusRequest:
    """Read the first thing that a connection says. Raises DeliveryError if it is no request."""
    document = _document(content)
    if document.get("weft") != VERSION:
        raise DeliveryError(f"this edge speaks version {VERSION} of the protocol; use the same release of weft")
    role = document.get("role")
    if role == "user":
        try:
            start = Start(*(_number(document, each.name) for each in fields(Start)))
        except ValueError as error:
            raise DeliveryError(f"the request is refused: {error}") from None
        return UserRequest(_required(document, "query"), start, _text(document, "token"), bool(document.get("wait")))
    if role == "link":
        return LinkRequest(_number(document, "after"), _text(document, "token"))
    if role == "status":
        return StatusRequest()
    raise DeliveryError("the request is refused: 'role' is 'user', 'link' or 'status'")


def change_of(content: bytes) -> Change:
    """Read what a link says after its request. Raises DeliveryError if an edge would not say it."""
    document = _document(content)
    if not document.keys() & {"add", "remove", "ready"}:
        raise DeliveryError("the request is refused: a link says 'add', 'remove' or 'ready'")
    return Change(_text(document, "add"), _text(document, "remove"))


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise DeliveryError("the request is refused: it is not JSON, or nested too deeply") from None
    if not isinstance(document, dict):
        raise DeliveryError("the request is refused: it is not a JSON object")
    return document


def _required(document: dict[str, Any], name: str) -> str:
    found = _text(document, name)
    if found is None:
        raise DeliveryError(f"the request is refused: '{name}' is missing")
    return found


def _text(document: dict[str, Any], name: str) -> str | None:
    found = document.get(name)
    if found is None:
        return None
    if not isinstance(found, str):
        raise DeliveryError(f"the request is refused: '{name}' is a text")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise DeliveryError(f"the request is refused: '{name}' has half a character (a lone surrogate)") from None
    return found


def _number(document: dict[str, Any], name: str) -> int | None:
    found = document.get(name)
    if found is not None and (type(found) is not int or abs(found) > _LARGEST):
        raise DeliveryError(f"the request is refused: '{name}' is a whole number of 64 bits")
    return found
