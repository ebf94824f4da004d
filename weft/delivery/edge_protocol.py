"""The protocol between an edge and its clients: users, and other edges.

A frame is its length in four bytes, a character that says what it is, and its content:

    J   JSON: what is asked for, and what is said about it
    P   a parcel: for another edge the rows that its users need, for a user its answers as the one message

A client says first what it is and wants, {"weft": 2, "role": "user" or "link", …}; the answer is {"ok": …} or
{"error": …, "kind": …}. Then come parcels, and {"through": cycle} when there has been nothing for a while. A
link sends which queries to {"add": …} and {"remove": …}, at any time; parcels come after the first {"ready": …}.

Anyone who can connect can send anything, so a request is decoded into a record of the right types, or refused with a
sentence that says what is wrong with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any, Final

import msgspec

from weft.delivery.delivery_errors import AccessDenied, BrokerError, DeliveryError, UnknownQuery
from weft.delivery.subscriber import Number, Start

JSON, PARCEL = b"J", b"P"
VERSION: Final = 2

#: Seconds after which an edge says how far it is if it has nothing else to say.
HEARTBEAT: Final = 3.0

#: Seconds of silence after which the other side is taken to be gone.
SILENCE: Final = 30.0

#: The most bytes that a request may have. Anyone who can connect can send as many.
LARGEST_REQUEST: Final = 64 << 10

_HEAD: Final = struct.Struct(">I1s")
_KINDS: Final[dict[str, type[DeliveryError]]] = {
    "access": AccessDenied,
    "unknown": UnknownQuery,
    "broker": BrokerError,
}

# -- frames -----------------------------------------------------------------------------------------------------------


def frame(kind: bytes, content: bytes) -> bytes:
    return _HEAD.pack(len(content), kind) + content


def json_frame(**document: Any) -> bytes:
    return frame(JSON, msgspec.json.encode(document))


def document_of(content: bytes) -> dict[str, Any]:
    """The JSON in a frame. Raises the error that it reports."""
    document: dict[str, Any] = msgspec.json.decode(content)
    if "error" in document:
        raise _KINDS.get(document.get("kind", ""), DeliveryError)(document["error"])
    return document


def error_frame(error: DeliveryError) -> bytes:
    kind = next((name for name, each in _KINDS.items() if isinstance(error, each)), "other")
    return json_frame(error=str(error), kind=kind)


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
        self._input = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame. Raises OSError at the end, and after a long silence."""
        length, kind = _HEAD.unpack(self._exactly(_HEAD.size))
        return kind, self._exactly(length)

    def receive_json(self) -> dict[str, Any]:
        """The next frame, which has JSON. Raises the error that it reports."""
        return document_of(self.receive()[1])

    def close(self) -> None:
        """Close the connection, also for a thread that waits to receive."""
        # Closing alone would not wake it.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        found = self._input.read(size)
        if len(found) < size:
            raise ConnectionError("the other side has hung up")
        return found


def split_host(address: str) -> tuple[str, int]:
    """Host and port of an address like weft://localhost:7070."""
    host, _, port = address.removeprefix("weft://").strip("/").rpartition(":")
    if not host or not port.isdigit():
        raise DeliveryError(f"{address} is no address of an edge; write weft://host:port")
    return host.strip("[]"), int(port)


# -- requests ---------------------------------------------------------------------------------------------------------


class UserRequest(Start, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """A user wants a query's answers from a start; with `wait` also those of a query that is not known yet."""

    query: str
    token: str | None = None
    wait: bool = False


class LinkRequest(msgspec.Struct, frozen=True, tag_field="role", tag="link"):
    """Another edge wants parcels after a cycle, or from now on."""

    after: Number | None = None
    token: str | None = None


class StatusRequest(msgspec.Struct, frozen=True, tag_field="role", tag="status"):
    """A monitor wants to know the state of the edge."""


class LinkChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query that another edge wants, or does not want any more; `ready` says that it has named all it wants."""

    add: str | None = None
    remove: str | None = None
    ready: str | None = None


class _Hello(msgspec.Struct):
    weft: Any = None


def request_of(content: bytes) -> UserRequest | LinkRequest | StatusRequest:
    """Decode the first thing that a client says. Raises DeliveryError if it is no request."""
    if _decoded(content, _Hello).weft != VERSION:
        raise DeliveryError(f"this edge speaks version {VERSION} of the protocol; use the same release of weft")
    found: UserRequest | LinkRequest | StatusRequest = _decoded(content, UserRequest | LinkRequest | StatusRequest)
    return found


def change_of(content: bytes) -> LinkChange:
    """Decode what a link says after its request. Raises DeliveryError if an edge would not say it."""
    change: LinkChange = _decoded(content, LinkChange)
    if change == LinkChange():
        raise DeliveryError("the request is refused: a link says 'add', 'remove' or 'ready'")
    return change


def _decoded(content: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except (ValueError, RecursionError) as error:
        raise DeliveryError(f"the request is refused: {error}") from None
