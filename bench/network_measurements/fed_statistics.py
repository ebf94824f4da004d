"""What is true of a stream's rows, for the planner: how many rows and values there are, and what conditions keep.

A share is measured when it is asked for: over some rows, or over some pairs of them drawn at random.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from time import process_time

import duckdb
import numpy as np
import pyarrow as pa

from bench.network_workloads.files import RecordStream
from weft.optimizer.network.sizes import SizeKey, SizeKind, SizeStatistics
from weft.plan.log_ids import LogId, LogKind

_SAMPLE = 50_000


@dataclass
class MeasuredStatistics(SizeStatistics):
    """Statistics of one stream, joined with itself or not."""

    log: str
    log_rows: int
    connection: duckdb.DuckDBPyConnection
    known: dict[tuple[int, str], Fraction | None] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    #: CPU seconds that measuring shares took. A project knows them beforehand, so they are no part of planning.
    seconds: float = 0.0

    def step(self, known: SizeKey) -> Fraction | None:
        """None for what is written in a way that the measuring database does not read."""
        match known.kind:
            case SizeKind.ROWS:
                return Fraction(self.log_rows) if known.logs == (self.log,) else None
            case SizeKind.VALUES:
                return Fraction(self._distinct(known.of))
            case SizeKind.SHARE:
                return self._share(len(known.logs), known.of)
        return None

    def _distinct(self, column: str) -> int:
        if column not in self.counts:
            ((count,),) = self.connection.sql(f'SELECT count(DISTINCT "{column}") FROM all_rows').fetchall()
            self.counts[column] = count
        return self.counts[column]

    def _share(self, legs: int, condition: str) -> Fraction | None:
        place = legs, condition
        if place not in self.known:
            began = process_time()
            self.known[place] = self._measured(legs, condition)
            self.seconds += process_time() - began
        return self.known[place]

    def _measured(self, legs: int, condition: str) -> Fraction | None:
        source = "firsts AS T1" if legs == 1 else "firsts AS T1 POSITIONAL JOIN seconds AS T2"
        try:
            found = self.connection.sql(f"SELECT count(*) FILTER (WHERE {condition}), count(*) FROM {source}")
            ((kept, asked),) = found.fetchall()
        except duckdb.Error:
            return None
        # None rather than nothing: what no pair of a sample satisfies, some pair of all rows may.
        return Fraction(kept, asked) if kept else None


def statistics_of(stream: RecordStream, rows: int) -> MeasuredStatistics:
    connection = duckdb.connect()
    table = stream.rows(rows)
    # Clocks are whole microseconds in conditions.
    place = table.column_names.index(stream.clock)
    table = table.set_column(place, stream.clock, table[stream.clock].cast(pa.int64()))
    chance = np.random.default_rng(0)
    for name, part in {
        "all_rows": table,
        "firsts": table.take(chance.integers(0, rows, _SAMPLE)),
        "seconds": table.take(chance.integers(0, rows, _SAMPLE)),
    }.items():
        connection.register("given", part)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    connection.execute("CREATE MACRO timestamp_micros(x) AS x")
    return MeasuredStatistics(LogId(LogKind.STREAM, stream.name), rows, connection)
