"""The newest answers on disk, so that another process can read them: one file per cycle for all queries.

A file is a sequence of Arrow streams, one per query, then a JSON index {query: [start, length]} and its length in eight
bytes. Only files of committed cycles count.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import pyarrow as pa

from weft.engine.storage import Storage

_FOLDER = "answers"
_INDEX_LENGTH = 8


class AnswerFiles:
    """Answers of the newest cycles, up to about `limit` rows in all."""

    def __init__(self, storage: Storage, limit: int) -> None:
        self._storage = storage
        self._limit = limit
        self._kept: dict[str, int] = dict.fromkeys(storage.names(_FOLDER), 0)

    def write(self, cycle: int, answers: Mapping[str, pa.Table]) -> None:
        """Write a cycle's answers; the oldest files give way."""
        if not answers:
            return
        name = f"{cycle:012d}.arrows"
        self._storage.write_bytes(f"{_FOLDER}/{name}", _packed(answers))
        self._kept[name] = sum(table.num_rows for table in answers.values())
        while len(self._kept) > 1 and sum(self._kept.values()) > self._limit:
            oldest = min(self._kept)
            self._storage.delete(f"{_FOLDER}/{oldest}")
            del self._kept[oldest]

    def read(self, query: str) -> pa.Table | None:
        """All kept answers of a query, oldest first."""
        tables = []
        for name in self._storage.names(_FOLDER):
            if name.endswith(".arrows"):
                table = _unpacked(self._storage.read_bytes(f"{_FOLDER}/{name}"), query)
                if table is not None and (not tables or table.schema == tables[-1].schema):
                    tables.append(table)
        return pa.concat_tables(tables) if tables else None


def _packed(answers: Mapping[str, pa.Table]) -> bytes:
    buffer = io.BytesIO()
    index = {}
    for name, table in answers.items():
        start = buffer.tell()
        with pa.ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table)
        index[name] = [start, buffer.tell() - start]
    packed = json.dumps(index).encode()
    buffer.write(packed)
    buffer.write(len(packed).to_bytes(_INDEX_LENGTH, "big"))
    return buffer.getvalue()


def _unpacked(data: bytes, query: str) -> pa.Table | None:
    length = int.from_bytes(data[-_INDEX_LENGTH:], "big")
    index = json.loads(data[-_INDEX_LENGTH - length : -_INDEX_LENGTH])
    if query not in index:
        return None
    start, size = index[query]
    return pa.ipc.open_stream(data[start : start + size]).read_all()
