"""Asking the coordinator, and waiting for what it says."""

from __future__ import annotations

import time
import uuid
from typing import Any

from weft.federation.errors import FederationError
from weft.federation.live.letters import Letter, letter_bytes, letter_of
from weft.federation.live.scripts import ScriptRefused
from weft.federation.live.wire import COORDINATOR, Wire, reply_box
from weft.loom.registration import Registration

_LOOK_EVERY = 0.05

#: Requests that change nothing. An answer to them is of no use later, so it is not waited for long.
_READING = ("status", "explain", "picture")
_READING_SECONDS = 5.0


def asked(wire: Wire, kind: str, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
    """What the coordinator answers. Raises FederationError if it refuses, or does not answer in so many seconds."""
    if timeout is None:
        timeout = _READING_SECONDS if kind in _READING else 30.0
    identity = uuid.uuid4().hex
    wire.put(COORDINATOR, identity, letter_bytes(Letter(kind, {"id": identity, **fields})))
    end = time.monotonic() + timeout
    while (found := wire.take(reply_box(identity), 0)) is None:
        if time.monotonic() > end:
            later = "" if kind in _READING else "; what was asked waits for it, and will be done"
            raise FederationError(
                f"the coordinator has not answered for {timeout:.0f} s{later}. Is it running? Start it with: "
                "weft coordinator"
            )
        time.sleep(_LOOK_EVERY)
    answer = letter_of(found[1])
    if "registration" in answer.fields and not answer["ok"]:
        raise ScriptRefused(Registration.from_text(answer["registration"]))
    if not answer["ok"]:
        raise FederationError(answer["error"])
    return answer.fields
