"""Requests to an edge, checked before anything is done for them.

Anyone who can connect can send anything, so a request is read into a record of the right types, or refused with a
sentence that says what is wrong with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Final

from weft.delivery.edges.frames import VERSION
from weft.delivery.errors import DeliveryError
from weft.delivery.users.start import Start

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
