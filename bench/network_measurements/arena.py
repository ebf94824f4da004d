"""Where contestants meet: rows are written once, and an effort says how much of everything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bench.network_measurements.table_sql import for_duckdb
from bench.network_measurements.tasks import Contestants, Task
from bench.network_workloads.fed_chains import small_chains
from bench.network_workloads.fed_examples import plain_examples
from bench.network_workloads.files import FED, MED, RecordStream, files_of, write_files
from bench.network_workloads.query import WorkloadQuery
from bench.network_workloads.selections import selections

#: Cycles that do not count: the history, and the first increment.
COLD = 2

#: The transfer after those that answers are checked with: the six made by hand are among the last thousand.
_CHECKED_END = 301_000

T = TypeVar("T")


@dataclass(frozen=True)
class Effort:
    quick: bool
    checked: tuple[int, ...]
    """The rows that answers are checked with, by cycle."""
    checked_chains: int
    history: dict[str, int]
    """Rows before the increments, by stream."""
    increments: int
    settling: int
    """Increments more for chains, until what is measured has put their joins in order: 32 queries in a cycle."""
    chain_sizes: tuple[int, ...]
    alone: int
    """So many queries stand for all where each is computed by itself."""
    again: int
    """And so many where SQL is run again."""
    registrations: int
    selection_files: int
    selection_rows: int


FULL = Effort(
    quick=False, checked=(58_000, 1_000, 1_000), checked_chains=16, history={"fed": 300_000, "med": 600_000},
    increments=3, settling=28, chain_sizes=(10, 768), alone=4, again=16, registrations=10_000, selection_files=16,
    selection_rows=100_000,
)  # fmt: skip
QUICK = Effort(
    quick=True, checked=(4_000, 1_000), checked_chains=4, history={"fed": 10_000}, increments=2, settling=0,
    chain_sizes=(10,), alone=1, again=1, registrations=0, selection_files=3, selection_rows=20_000,
)  # fmt: skip


class Arena:
    """The folder of a benchmark, and everything that is done once in it."""

    def __init__(self, folder: Path, effort: Effort) -> None:
        self.folder, self.effort = folder, effort
        self.compared = 0
        self._writing = Lock()
        self._contestants = Contestants(lambda: self._check, self._compare, together=effort.quick)

    def run(self, contestant: str, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Let a contestant do some tasks; weft's answers are checked first, if it has just been started."""
        return self._contestants.run(contestant, tasks)

    @cached_property
    def _check(self) -> Task:
        """Queries of all forms over a few rows, so that no figure is for wrong answers; and everything gets warm."""
        folder, sizes = self.folder / "checked", self.effort.checked
        write_files(FED.rows(_CHECKED_END).slice(_CHECKED_END - sum(sizes)), folder, list(sizes))
        queries = [*spread(small_chains(), self.effort.checked_chains), *plain_examples(), *selections(10)]
        return Task("checking", FED.statement(folder), queries, options={"count_answers": True})

    def _compare(self, result: dict[str, Any]) -> None:
        """With what DuckDB answers over the same rows."""
        connection = duckdb.connect()
        connection.register("given", pa.concat_tables(map(pq.read_table, files_of(self.folder / "checked"))))
        connection.execute(f"CREATE TABLE {FED.name} AS SELECT * FROM given")
        for query in self._check.queries:
            expected = connection.sql(for_duckdb(query.select)).to_arrow_table().num_rows
            answered = result["answered"].get(query.name, 0)
            if answered != expected:
                raise ValueError(f"{query.name} has {answered} answers and should have {expected}: {query.select}")
        self.compared = len(self._check.queries)

    def close(self) -> None:
        self._contestants.close()

    def rows(self, stream: RecordStream) -> Path:
        """History and increments of a stream."""
        with self._writing:
            history = self.effort.history[stream.name]
            return stream.write(self.folder / stream.name, self.effort.increments, history=history)

    def rows_of(self, stream: RecordStream, increments: int, increment: int) -> Path:
        """History, and so many increments of another size."""
        history = self.effort.history[stream.name]
        with self._writing:
            folder = self.folder / f"{stream.name}-{increments}-{increment}"
            return stream.write(folder, increments, history=history, increment=increment)

    def few_rows(self, stream: RecordStream) -> Path:
        """Enough to see whether somebody runs a query at all."""
        return stream.write(self.folder / f"few-{stream.name}", 1, history=500, increment=500)

    def selection_rows(self) -> Path:
        """Transfers in files of one size, for queries without history."""
        each = self.effort.selection_rows
        with self._writing:
            return FED.write(self.folder / "selections", self.effort.selection_files - 1, history=each, increment=each)

    def task(self, name: str, stream: RecordStream, queries: Sequence[WorkloadQuery], **more: object) -> Task:
        """For weft: queries over history and increments."""
        return Task(name, stream.statement(self.rows(stream)), queries, **more)  # type: ignore[arg-type]

    def table_task(
        self, name: str, stream: RecordStream, queries: Sequence[WorkloadQuery], total: int, *, warm: int = 0
    ) -> Task:
        """For those who run SQL again: over the history and one increment, after `warm` runs that do not count."""
        files = [str(file) for file in files_of(self.rows(stream))[:2]]
        return Task(name, "", queries, total, options={"table": stream.name, "files": files, "warm": warm})

    def stream_task(
        self,
        name: str,
        stream: RecordStream,
        queries: Sequence[WorkloadQuery],
        folder: Path,
        *,
        only_check: bool = False,
    ) -> Task:
        """For Structured Streaming."""
        options = {
            "table": stream.name,
            "schema": stream.schema(),
            "clock": stream.clock,
            "folder": str(folder),
            "only_check": only_check,
        }
        return Task(name, "", queries, options=options)


def spread(items: Sequence[T], size: int) -> list[T]:
    """So many items, spread evenly over all of them."""
    if size >= len(items):
        return list(items)
    step = len(items) / size
    return [items[int(step * (place + 0.5))] for place in range(size)]


STREAMS = {each.name: each for each in (FED, MED)}
