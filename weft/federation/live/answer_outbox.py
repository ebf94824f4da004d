"""Answers on their way to the users' sites.

What a cycle answers is written down before it commits, and sent when it has: so an answer is sent if and only if its
cycle is true, perhaps twice, never not. A home knows an answer again by the query and the batch that it is of.

    answers/000000000012.pending    of a cycle that may still be run again
    answers/000000000012.ready      of one that is committed, and not sent yet
    answers/000000000012.written    an empty file, whose name says which cycle was the last with answers
    answers/000000000011.sent       likewise, whose answers were sent last

Each file has a checksum, and names the one before it. So a provider stops with a sentence when one is damaged or
missing, and sends nothing behind it.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from weft.delivery.log.checked_file import marker, move_marker
from weft.delivery.log.parcel import stream_of, table_of
from weft.federation.federation_errors import FederationError
from weft.federation.live.messages import send, small_enough
from weft.federation.live.site_directory import FEED_AGAIN
from weft.federation.live.transport import Transport, results_mailbox
from weft.files.atomic import write_atomically
from weft.files.private_files import private_folder

_LENGTH = struct.Struct(">I")
_PREVIOUS = struct.Struct(">q")
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


class AnswerOutbox:
    """The answers of one engine that are not with the broker yet.

    `addresses` are those of the queries in the engine, by name. `place_of` says which batch a cycle is.
    """

    def __init__(
        self,
        folder: Path,
        provider: str,
        transport: Transport,
        addresses: Mapping[str, Address],
        place_of: Callable[[int], int],
    ) -> None:
        self._folder = folder
        self._provider = provider
        self._transport = transport
        self._addresses = addresses
        self._place_of = place_of
        private_folder(folder)
        self._written, self._sent = marker(folder, "written"), marker(folder, "sent")

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
            line, data = msgspec.json.encode(head), stream_of(rows)
            chunks += [_LENGTH.pack(len(line)), line, _LENGTH.pack(len(data)), data]
        path = self._folder / f"{cycle:012d}.pending"
        before = max((number for number, _ in self._numbered() if number < cycle), default=self._sent)
        if not chunks:
            path.unlink(missing_ok=True)
            self._mark_written(before)
            return
        body = _PREVIOUS.pack(-1 if before is None else before) + b"".join(chunks)
        write_atomically(path, _LENGTH.pack(zlib.crc32(body)) + body)
        self._mark_written(cycle)

    def committed(self, cycle: int) -> None:
        """Have what was written up to a cycle sent, and forget what was written for later ones."""
        known = self._numbered()
        for number, state in known:
            path = self._folder / f"{number:012d}.{state}"
            if number > cycle:
                path.unlink()
            elif state == "pending":
                os.replace(path, path.with_suffix(".ready"))
        left = max((number for number, _ in known if number <= cycle), default=self._sent)
        if self._written is not None and self._written <= cycle and self._written != left:
            raise self._broken(self._written, "is missing")
        self._mark_written(left)

    def send(self) -> bool:
        """Send what is ready. When this returns, the broker has all answers of committed cycles."""
        ready = [number for number, state in self._numbered() if state == "ready"]
        for number in ready:
            path = self._folder / f"{number:012d}.ready"
            if self._sent is not None and number <= self._sent:
                # A crash came between the note that it was sent and the deletion.
                path.unlink()
                continue
            for head, rows in self._read(number, path):
                home = head.pop("home")
                pieces = small_enough(rows, self._transport)
                for ordinal, piece in enumerate(pieces):
                    fields = {**head, "provider": self._provider, "ordinal": ordinal, "pieces": len(pieces)}
                    identity = f"answers/{self._provider}/{head['birth']}/{head['since']}/{head['place']}/{ordinal}"
                    send(self._transport, results_mailbox(home), identity, "answers", fields, piece)
            move_marker(self._folder, "sent", self._sent, number)
            self._sent = number
            path.unlink()
        return bool(ready)

    def _mark_written(self, cycle: int | None) -> None:
        if cycle is not None:
            move_marker(self._folder, "written", self._written, cycle)
        elif self._written is not None:
            (self._folder / f"{self._written:012d}.written").unlink(missing_ok=True)
        self._written = cycle

    def _read(self, number: int, path: Path) -> list[tuple[dict[str, Any], pa.Table]]:
        """The answers in a file. Raises FederationError if it is damaged, or the one before it is missing."""
        data = path.read_bytes()
        body = data[_LENGTH.size :]
        if len(body) < _PREVIOUS.size or zlib.crc32(body) != _LENGTH.unpack_from(data)[0]:
            raise self._broken(number, "is damaged (the checksum does not fit its content)")
        (previous,) = _PREVIOUS.unpack_from(body)
        if previous != (-1 if self._sent is None else self._sent):
            raise self._broken(previous, "is missing")
        return _answers(body[_PREVIOUS.size :])

    def _broken(self, number: int, what: str) -> FederationError:
        return FederationError(
            f"{self._folder / f'{number:012d}.ready'} {what}; it has answers that were not sent yet: {FEED_AGAIN}"
        )

    def _numbered(self) -> list[tuple[int, str]]:
        found = (_NUMBERED.fullmatch(name) for name in os.listdir(self._folder))
        return sorted((int(each[1]), each[2]) for each in found if each)


def _answers(data: bytes) -> list[tuple[dict[str, Any], pa.Table]]:
    chunks, start = [], 0
    while start < len(data):
        (length,) = _LENGTH.unpack_from(data, start)
        chunks.append(data[start + _LENGTH.size : start + _LENGTH.size + length])
        start += _LENGTH.size + length
    return [(msgspec.json.decode(head), table_of(rows)) for head, rows in zip(chunks[::2], chunks[1::2], strict=True)]
