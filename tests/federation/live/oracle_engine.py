"""The oracle as a provider's engine: no Spark, no state but the rows, and a file that outlives a crash."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.oracle import Oracle
from weft.algebra import Kind, Query, Stream
from weft.arrays.arrow_types import arrow_type
from weft.federation.live.provider_engine import ProviderEngine, SparkEngine
from weft.runtime.sinks.publishing import PublishedRows


class Crash(BaseException):
    """The end of a process, as far as one can have it in a test."""


class OracleEngine(SparkEngine):
    """Runs cycles on the oracle. `at` is called at each step, and may raise Crash."""

    def __init__(self, directory: Path, answers: ProviderEngine, at: Callable[[str], None] = lambda step: None) -> None:
        self._path = directory / "done"
        directory.mkdir(parents=True, exist_ok=True)
        self._answers, self._at = answers, at
        self._oracle = Oracle([])
        self._streams: dict[str, Stream] = {}
        self._queries: dict[str, Query] = {}
        self._applied, self._last_cycle = 0, -1
        self._done: list[tuple[Any, ...]] = pickle.loads(self._path.read_bytes()) if self._path.exists() else []
        for each in self._done:
            getattr(self, f"_{each[0]}")(*each[1:])

    @property
    def applied(self) -> int:
        return self._applied

    @property
    def last_cycle(self) -> int:
        return self._last_cycle

    def declare(self, streams: Sequence[Stream]) -> None:
        self._do("declare", [each for each in streams if each.name not in self._streams])

    def change(self, place: int, create: Sequence[Query] = (), drop: Sequence[str] = ()) -> None:
        self._do("change", place, list(create), list(drop))

    def cycle(self, rows: Mapping[str, Path], clocks: Mapping[str, int]) -> None:
        number = self.last_cycle + 1
        read = {name: _rows(self._streams[name], pq.read_table(path)) for name, path in rows.items()}
        self._at("cycle")
        found = self._cycle(number, read, dict(clocks))
        tables = {name: _table(self._queries[name], answers) for name, answers in found.items()}
        self._answers.write(number, [PublishedRows(name, 0, 0, rows, None) for name, rows in tables.items()])
        self._at("written")
        self._keep(("cycle", number, read, dict(clocks)))
        self._at("committed")
        self._answers.committed(number)

    def close(self) -> None:
        pass

    def _keep(self, done: tuple[Any, ...]) -> None:
        self._done.append(done)
        draft = self._path.with_suffix(".draft")
        draft.write_bytes(pickle.dumps(self._done))
        draft.rename(self._path)

    def _do(self, kind: str, *what: Any) -> None:
        self._at("change")
        self._keep((kind, *what))
        getattr(self, f"_{kind}")(*what)
        self._at("changed")

    def _declare(self, streams: Sequence[Stream]) -> None:
        for stream in streams:
            self._streams[stream.name] = stream
            self._oracle.declare(stream)

    def _change(self, place: int, create: Sequence[Query], drop: Sequence[str]) -> None:
        for name in drop:
            self._oracle.drop(name)
        for query in create:
            self._queries[query.name] = query
            self._oracle.create(query)
        self._applied = place

    def _cycle(self, number: int, rows: Mapping[str, Any], clocks: Mapping[str, int]) -> dict[str, list[Any]]:
        self._last_cycle = number
        return self._oracle.cycle(rows, clocks)


def _rows(stream: Stream, table: pa.Table) -> list[dict[str, Any]]:
    """Rows as the oracle has them: columns that were not sent are NULL, since nobody may look at them."""
    empty = {field.name: None for field in stream.fields}
    return [{**empty, **row} for row in table.to_pylist()]


def _table(query: Query, answers: Sequence[Sequence[Any]]) -> pa.Table:
    fields = query.relation.fields
    assert all(each.type.kind is not Kind.TIMESTAMP for each in fields)
    columns = [pa.array([row[at] for row in answers], arrow_type(each.type)) for at, each in enumerate(fields)]
    return pa.table(columns, names=[each.name for each in fields])
