"""Runs a drawn workload on the engine and on the oracle, cycle by cycle, and says where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.generator import Cycle, Workload
from tests.oracle_script import Script
from tests.peers import arrow_table, as_values, difference
from weft.algebra import Field, Kind, Relation, Stream, Value
from weft.catalog import Catalog
from weft.engine.engine import Engine
from weft.engine.sources import schemas, tag
from weft.loom import Loom

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def batch_of(spark: SparkSession, streams: Sequence[Stream], rows: Mapping[str, Sequence[Mapping[str, Value]]]) -> Any:
    """The rows of a cycle as the engine gets them from Spark; None without rows."""
    parts = []
    for index, stream in enumerate(streams):
        if rows.get(stream.name):
            table = arrow_table(stream, rows[stream.name], "UTC").rename_columns([f.name for f in stream.fields])
            parts.append(tag(spark.createDataFrame(table), stream, index, schemas(streams)))
    return reduce(DataFrame.unionAll, parts) if parts else None


def values_of(table: pa.Table | None, relation: Relation) -> list[tuple[Value, ...]]:
    """Answers of the engine in the oracle's values."""
    if table is None:
        return []
    columns = [
        [_value(v, f) for v in column.to_pylist()] for column, f in zip(table.columns, relation.fields, strict=True)
    ]
    return [as_values(row, relation.fields) for row in zip(*columns, strict=True)]


def _value(value: Any, field: Field) -> Value:
    if value is None:
        return None
    if field.type.kind is Kind.TIMESTAMP:
        return (value - _EPOCH) // timedelta(microseconds=1)
    if field.type.kind is Kind.INTERVAL:
        return value // timedelta(microseconds=1)
    result: Value = value
    return result


class Run:
    """One project directory with an engine, and an oracle beside it."""

    def __init__(self, spark: SparkSession, directory: Path, workload: Workload) -> None:
        self.spark = spark
        self.workload = workload
        self.oracle = Script()
        self.loom = Loom(Catalog.open(directory))
        self.directory = directory
        for text in workload.streams.values():
            self.oracle.run(text)
            self.loom.execute(text)
        self.restart()
        self.cycles = 0

    def restart(self) -> None:
        """A new engine over the same state, as after a stop."""
        self.engine = Engine(self.spark, self.loom.catalog, (self.directory / "state").as_uri())

    def cycle(self, cycle: Cycle) -> str:
        """One cycle on both; how their answers differ, or nothing."""
        for name in cycle.drop:
            self._both(f"DROP CONTINUOUS QUERY {name}")
        for name in cycle.create:
            self._both(self.workload.queries[name])
        expected = self.oracle.oracle.cycle(cycle.rows, cycle.heartbeats)
        batch = batch_of(self.spark, self.loom.catalog.streams(), cycle.rows)
        actual = self.engine.cycle(batch, self.cycles, cycle.heartbeats)
        self.cycles += 1
        found = []
        for name, answers in expected.items():
            relation = self.oracle.query(name).relation
            differs = difference(relation, answers, values_of(actual.get(name), relation))
            if differs:
                found.append(f"cycle {self.cycles - 1}, query {name} ({self.workload.queries[name]}):{differs}")
        return "\n".join(found)

    def _both(self, statement: str) -> None:
        self.oracle.run(statement)
        self.loom.execute(statement)

    def close(self) -> None:
        self.loom.close()
