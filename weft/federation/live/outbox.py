"""Answers on their way to the homes of users.

What a cycle answers is written down before it commits, and sent when it has: so an answer is sent if and only if its
cycle is true, perhaps twice, never not. A home knows an answer again by the query and the batch that it is of.

    outbox/000000000012.pending    of a cycle that may still be run again
    outbox/000000000012.ready      of one that is committed, and not sent yet
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.delivery.parcel import stream_of, table_of
from weft.federation.live.letters import Letter, letter_bytes, small_enough
from weft.federation.live.wire import Wire, home_box

_LENGTH = struct.Struct(">I")
_NUMBERED = re.compile(r"(\d{12})\.(pending|ready)")


@dataclass(frozen=True, slots=True)
class Address:
    """Which query of the log one in the engine is, where its user is, and which of its answers are given here.

    Those behind the place `after`, on the strength of the entry at the place `since`.
    """

    birth: int
    home: str
    after: int
    since: int


class Outbox:
    """The answers of one engine that are not with the broker yet.

    `addresses` are those of the queries in the engine, by name. `place_of` says which batch a cycle is.
    """

    def __init__(
        self,
        folder: Path,
        provider: str,
        wire: Wire,
        addresses: Mapping[str, Address],
        place_of: Callable[[int], int],
    ) -> None:
        self._folder = folder
        self._provider = provider
        self._wire = wire
        self._addresses = addresses
        self._place_of = place_of
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, cycle: int, answers: Mapping[str, tuple[pa.Table, int | None]]) -> None:
        """Keep the answers of a cycle until it is committed."""
        place = self._place_of(cycle)
        chunks = []
        for name, (rows, watermark) in answers.items():
            address = self._addresses[name]
            if place <= address.after or not rows.num_rows:
                continue
            whose = {"query": name, "birth": address.birth, "home": address.home, "since": address.since}
            head = {**whose, "place": place, "watermark": watermark}
            line, data = json.dumps(head).encode(), stream_of(rows)
            chunks += [_LENGTH.pack(len(line)), line, _LENGTH.pack(len(data)), data]
        path = self._folder / f"{cycle:012d}.pending"
        if not chunks:
            path.unlink(missing_ok=True)
            return
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            file.write(b"".join(chunks))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)

    def committed(self, cycle: int) -> None:
        """Have what was written up to a cycle sent, and forget what was written for later ones."""
        for number, state in self._numbered():
            path = self._folder / f"{number:012d}.{state}"
            if number > cycle:
                path.unlink()
            elif state == "pending":
                os.replace(path, path.with_suffix(".ready"))

    def send(self) -> bool:
        """Send what is ready. When this returns, the broker has all answers of committed cycles."""
        ready = [number for number, state in self._numbered() if state == "ready"]
        for number in ready:
            path = self._folder / f"{number:012d}.ready"
            for head, rows in _read(path.read_bytes()):
                home = head.pop("home")
                pieces = list(small_enough(rows, self._wire.largest, self._wire.name))
                for ordinal, piece in enumerate(pieces):
                    fields = {**head, "provider": self._provider, "ordinal": ordinal, "pieces": len(pieces)}
                    identity = f"answers/{self._provider}/{head['birth']}/{head['since']}/{head['place']}/{ordinal}"
                    self._wire.put(home_box(home), identity, letter_bytes(Letter("answers", fields, piece)))
            path.unlink()
        return bool(ready)

    def _numbered(self) -> list[tuple[int, str]]:
        found = (_NUMBERED.fullmatch(name) for name in os.listdir(self._folder))
        return sorted((int(each[1]), each[2]) for each in found if each)


def _read(data: bytes) -> list[tuple[dict[str, Any], pa.Table]]:
    chunks, start = [], 0
    while start < len(data):
        (length,) = _LENGTH.unpack_from(data, start)
        chunks.append(data[start + _LENGTH.size : start + _LENGTH.size + length])
        start += _LENGTH.size + length
    return [(json.loads(head), table_of(rows)) for head, rows in zip(chunks[::2], chunks[1::2], strict=True)]
