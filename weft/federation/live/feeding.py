"""Asking the owners of streams for batches again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from weft.delivery.errors import BrokerError
from weft.federation.errors import FederationError
from weft.federation.live.interest import Interest, as_json
from weft.federation.live.ledger import Ledger
from weft.federation.live.letters import Letter, letter_bytes, letter_of
from weft.federation.live.wire import Wire, reply_box, source_box

#: Seconds without a batch after which it is said that the owner is waited for.
_PATIENCE = 10.0


class BatchGoneError(FederationError):
    """The owner of a stream has let go of a batch, since no answer to it is missing."""


def fetched(
    wire: Wire,
    ledger: Ledger,
    interests: Mapping[str, Interest],
    numbers: Mapping[str, Sequence[int]],
    idle: Callable[[], None],
    say: Callable[[str], None] = lambda sentence: None,
) -> dict[tuple[str, int], pa.Table]:
    """The wanted rows of batches, by stream and number. Owners that are away are waited for: `idle` is called.

    Raises BatchGoneError if one is not kept any more.
    """
    found: dict[tuple[str, int], pa.Table] = {}
    for stream, listed in numbers.items():
        identity = uuid.uuid4().hex
        box = reply_box(identity)
        fields = {"stream": stream, "numbers": list(listed), "interest": as_json(interests[stream]), "reply": box}
        wire.put(source_box(ledger.streams[stream].owner), identity, letter_bytes(Letter("replay", fields)))
        owner = ledger.streams[stream].owner
        late = f"waiting for site {owner} to send batches of stream '{stream}' again; is it running?"
        for number, rows in _answered(wire, box, len(listed), idle, partial(say, late)).items():
            found[stream, number] = rows
    return found


def _answered(
    wire: Wire, box: str, count: int, idle: Callable[[], None], say: Callable[[], None]
) -> dict[int, pa.Table]:
    heard, has_said = time.monotonic(), False
    pieces: dict[int, list[pa.Table]] = {}
    whole: set[int] = set()
    place = at = 0
    while len(whole) < count:
        letter_found = wire.take(box, place)
        if letter_found is None:
            if not has_said and time.monotonic() > heard + _PATIENCE:
                say()
                has_said = True
            idle()
            continue
        heard, has_said = time.monotonic(), False
        place, data = letter_found
        letter = letter_of(data)
        if letter.kind == "gone":
            raise BatchGoneError(letter["error"])
        if letter["at"] > at:
            raise BrokerError(
                f"{wire.name} has dropped rows that were sent again for this site; they are asked for once more"
            )
        if letter["at"] < at:
            # The owner was started again in the middle, and began its answer anew.
            continue
        at += 1
        pieces.setdefault(letter["number"], []).append(letter.rows)
        if letter["left"] == 0:
            whole.add(letter["number"])
    return {number: pa.concat_tables(each) for number, each in pieces.items()}
