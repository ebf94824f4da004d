"""The newest answers on disk, so that another process can read them: one file per cycle for all queries.

A file is a sequence of Arrow streams, one per query, then a JSON index {query: [start, length, rows]} and its length in
eight bytes. Only files of committed cycles count.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import BinaryIO

import pyarrow as pa

from weft.engine.storage import Storage

#: The folder in the state directory.
FOLDER = "answers"
_INDEX_LENGTH = 8


class AnswerFiles:
    """Answers of the newest cycles, up to about `limit` rows in all, or of the newest one up to so many per query.

    None are kept if the limit is 0.
    """

    def __init__(self, storage: Storage, limit: int) -> None:
        self._storage = storage
        self._limit = limit
        files = [name for name in storage.names(FOLDER) if not name.startswith(".")]
        self._kept = {name: _rows(storage.read_bytes(f"{FOLDER}/{name}")) for name in files}

    def write(self, cycle: int, answers: Mapping[str, pa.Table]) -> None:
        """Write a cycle's answers; the oldest files give way."""
        if not answers or not self._limit:
            return
        name = f"{cycle:012d}.arrows"
        newest = {query: table.slice(max(0, table.num_rows - self._limit)) for query, table in answers.items()}
        self._storage.write_bytes(f"{FOLDER}/{name}", _packed(newest))
        self._kept[name] = sum(table.num_rows for table in newest.values())
        while len(self._kept) > 1 and sum(self._kept.values()) > self._limit:
            oldest = min(self._kept)
            self._storage.delete(f"{FOLDER}/{oldest}")
            del self._kept[oldest]


def answers_in(file: BinaryIO, query: str) -> pa.Table | None:
    """A query's answers in a file, of which nothing else is read; None if it has none there."""
    index = _index(file)
    if query not in index:
        return None
    start, size, _ = index[query]
    file.seek(start)
    return pa.ipc.open_stream(file.read(size)).read_all()


def _index(file: BinaryIO) -> dict[str, list[int]]:
    file.seek(-_INDEX_LENGTH, io.SEEK_END)
    length = int.from_bytes(file.read(), "big")
    file.seek(-_INDEX_LENGTH - length, io.SEEK_END)
    index: dict[str, list[int]] = json.loads(file.read(length))
    return index


def _rows(data: bytes) -> int:
    return sum(rows for _, _, rows in _index(io.BytesIO(data)).values())


def _packed(answers: Mapping[str, pa.Table]) -> bytes:
    buffer = io.BytesIO()
    index = {}
    for name, table in answers.items():
        start = buffer.tell()
        with pa.ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table)
        index[name] = [start, buffer.tell() - start, table.num_rows]
    packed = json.dumps(index).encode()
    buffer.write(packed)
    buffer.write(len(packed).to_bytes(_INDEX_LENGTH, "big"))
    return buffer.getvalue()
