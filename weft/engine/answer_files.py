"""The newest answers on disk, so that another process can read them: one file per cycle for all queries.

A file is a sequence of Arrow streams, one per query, then a JSON index {query: [start, length, rows]} and its length in
eight bytes. Only files of committed cycles count.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import pyarrow as pa

from weft.engine.storage import Storage

#: The folder in the state directory.
FOLDER = "answers"
_INDEX_LENGTH = 8


class AnswerFiles:
    """Answers of the newest cycles, up to about `limit` rows in all."""

    def __init__(self, storage: Storage, limit: int) -> None:
        self._storage = storage
        self._limit = limit
        files = [name for name in storage.names(FOLDER) if not name.startswith(".")]
        self._kept = {name: _rows(storage.read_bytes(f"{FOLDER}/{name}")) for name in files}

    def write(self, cycle: int, answers: Mapping[str, pa.Table]) -> None:
        """Write a cycle's answers; the oldest files give way."""
        if not answers:
            return
        name = f"{cycle:012d}.arrows"
        self._storage.write_bytes(f"{FOLDER}/{name}", _packed(answers))
        self._kept[name] = sum(table.num_rows for table in answers.values())
        while len(self._kept) > 1 and sum(self._kept.values()) > self._limit:
            oldest = min(self._kept)
            self._storage.delete(f"{FOLDER}/{oldest}")
            del self._kept[oldest]


def unpacked(data: bytes, query: str) -> pa.Table | None:
    """A query's answers from the content of a file; None if it has none there."""
    index = _index(data)
    if query not in index:
        return None
    start, size, _ = index[query]
    return pa.ipc.open_stream(data[start : start + size]).read_all()


def _index(data: bytes) -> dict[str, list[int]]:
    length = int.from_bytes(data[-_INDEX_LENGTH:], "big")
    index: dict[str, list[int]] = json.loads(data[-_INDEX_LENGTH - length : -_INDEX_LENGTH])
    return index


def _rows(data: bytes) -> int:
    return sum(rows for _, _, rows in _index(data).values())


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
