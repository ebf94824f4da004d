"""Asking the coordinator, and waiting for what it says."""

from __future__ import annotations

import time
import uuid
from typing import Any

from weft.federation.errors import FederationError
from weft.federation.live.letters import Letter, letter_bytes, letter_of
from weft.federation.live.wire import COORDINATOR, Wire, reply_box

_LOOK_EVERY = 0.05


def asked(wire: Wire, kind: str, timeout: float = 30.0, **fields: Any) -> dict[str, Any]:
    """What the coordinator answers. Raises FederationError if it refuses, or does not answer in so many seconds."""
    identity = uuid.uuid4().hex
    wire.put(COORDINATOR, identity, letter_bytes(Letter(kind, {"id": identity, **fields})))
    end = time.monotonic() + timeout
    while (found := wire.take(reply_box(identity), 0)) is None:
        if time.monotonic() > end:
            raise FederationError(
                f"the coordinator has not answered for {timeout:.0f} s; start it with: weft coordinator. "
                "What was asked waits for it, and will be done"
            )
        time.sleep(_LOOK_EVERY)
    answer = letter_of(found[1])
    if not answer["ok"]:
        raise FederationError(answer["error"])
    return answer.fields
