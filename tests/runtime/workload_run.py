"""Runs a drawn workload on the engine and on the oracle, cycle by cycle, and says where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.oracle import LATE, NULL_CLOCK
from tests.oracle_script import Script
from tests.support.generator import Cycle, Workload
from tests.support.peers import arrow_table, as_values, difference
from weft.algebra import Field, Kind, Relation, Stream, Table, Value
from weft.catalog import Catalog
from weft.loom import Loom
from weft.runtime.engine import Engine
from weft.runtime.project_state import state_directory
from weft.runtime.sources.batches import Batch, BatchPart
from weft.runtime.spark.rows import CORRUPT, STREAM, TICK, slots, slots_of
from weft.runtime.stages.joins.stage import JoinStage

#: The steps after which a second attempt finds the cycle undone.
UNCOMMITTED = ("begin", "ingest", "weave", "keep", "answer", "compact", "deliver", "commit", "rename")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def batch_of(
    spark: SparkSession,
    streams: Sequence[Stream],
    rows: Mapping[str, Sequence[Mapping[str, Value]]],
    *,
    is_cheap: bool = False,
) -> Batch | None:
    """The rows of a cycle as the engine gets them: from files, which are cheap to read, or together; None without."""
    tables = {index: arrow_table(stream, rows.get(stream.name, ()), "UTC") for index, stream in enumerate(streams)}
    there = {index: table for index, table in tables.items() if table.num_rows}
    if not there:
        return None
    parts = [[index] for index in there] if is_cheap else [list(tables)]
    return Batch([_part(spark, {at: streams[at] for at in part}, tables, is_cheap=is_cheap) for part in parts])


def _part(
    spark: SparkSession, streams: Mapping[int, Stream], tables: Mapping[int, pa.Table], *, is_cheap: bool
) -> BatchPart:
    layout = slots_of(streams.values())
    found = []
    for index, stream in streams.items():
        table = tables[index]
        own = table.rename_columns(slots(stream.fields))
        nothing = {CORRUPT: pa.nulls(table.num_rows, pa.string()), TICK: pa.nulls(table.num_rows, pa.int64())}
        tags = pa.array([index] * table.num_rows, pa.int32())
        found.append(pa.table({STREAM: tags, **dict(zip(own.column_names, own.columns, strict=True)), **nothing}))
    rows = pa.concat_tables(found, promote_options="default").select([STREAM, *layout, CORRUPT, TICK])
    return BatchPart(streams, spark.createDataFrame(rows), is_cheap=is_cheap)


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


class Crash(BaseException):
    """The end of an engine in the middle of a cycle, as far as one can have it without the end of the process."""


class Run:
    """One project directory with an engine, and an oracle beside it."""

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        workload: Workload | None = None,
        network: Callable[[Catalog], JoinStage] | None = None,
    ) -> None:
        """`network` makes the network of each engine."""
        self.spark = spark
        self._make_network = network
        self.queries = workload.queries if workload else {}
        self.oracle = Script()
        self.loom = Loom(Catalog.open(directory))
        self.directory = directory
        self.tables: dict[str, pa.Table] = {}
        for text in [*workload.streams.values(), *workload.tables.values()] if workload else ():
            self.execute(text)
        self.crash_at: str | None = None
        self.straight: bool | None = None
        self.restart()
        self.cycles = 0

    def restart(self) -> None:
        """A new engine over the same state, as after a stop."""
        state = state_directory(self.directory)
        network = self._make_network(self.loom.catalog) if self._make_network is not None else None
        self.engine = Engine(self.spark, self.loom.catalog, state, on_step=self._crash, network=network)
        self.engine.tables.update(self.tables)

    def _crash(self, step: str, cycle: int) -> None:
        if step == self.crash_at:
            raise Crash

    def execute(self, script: str) -> None:
        """Run statements on both, between two cycles."""
        self.oracle.run(script)
        self.loom.execute(script)

    def load(self, **rows: Sequence[Sequence[Value]]) -> None:
        """Stop, put other rows into tables, and start again."""
        named = {
            name: [
                {field.name: value for field, value in zip(self.loom.catalog.get(Table, name).fields, row, strict=True)}
                for row in loaded
            ]
            for name, loaded in rows.items()
        }
        self._load(named)

    def _load(self, rows: Mapping[str, Sequence[Mapping[str, Value]]]) -> None:
        self.oracle.load_named(rows)
        for name, loaded in rows.items():
            table = self.loom.catalog.get(Table, name)
            self.tables[name] = arrow_table(table, loaded, "UTC").rename_columns([each.name for each in table.fields])
        self.restart()

    def cycle(self, cycle: Cycle) -> str:
        """One cycle on both; how they differ in answers or in rows set aside, or nothing."""
        if cycle.tables:
            self._load(cycle.tables)
        for name in cycle.drop:
            self.execute(f"DROP CONTINUOUS QUERY {name}")
        for name in cycle.create:
            self.execute(self.queries[name])
        expected = self.oracle.oracle.cycle(cycle.rows, cycle.heartbeats)
        batch = batch_of(self.spark, self.loom.catalog.streams(), cycle.rows, is_cheap=self._is_straight)
        actual = self._survived(batch, cycle.heartbeats)
        self.cycles += 1
        return "\n".join([*self._differing_answers(expected, actual), *self._differing_counts()])

    def _survived(self, batch: Batch | None, heartbeats: Mapping[str, int]) -> dict[str, pa.Table]:
        """The answers of the next cycle, from a second engine if the first one crashes on the way."""
        try:
            return self.engine.cycle(batch, self.cycles, heartbeats)
        except Crash:
            self.crash_at = None
            self.restart()
            return self.engine.cycle(batch, self.cycles, heartbeats)

    @property
    def _is_straight(self) -> bool:
        """Every other batch may be read as often as one likes, unless all or none may."""
        return self.cycles % 2 == 0 if self.straight is None else self.straight

    def take(self, heartbeats: Mapping[str, int] | None = None, **rows: Sequence[Sequence[Value]]) -> str:
        """One cycle on both, with rows as tuples in the order of the stream's columns."""
        named = {
            name: [
                {field.name: value for field, value in zip(self.oracle.oracle.streams[name].fields, row, strict=True)}
                for row in arrived
            ]
            for name, arrived in rows.items()
        }
        return self.cycle(Cycle(named, heartbeats or {}))

    def _differing_answers(
        self, expected: Mapping[str, Sequence[Any]], actual: Mapping[str, pa.Table]
    ) -> Iterator[str]:
        for name, answers in expected.items():
            query = self.oracle.query(name)
            differs = difference(query.relation, answers, values_of(actual.get(name), query.relation))
            if differs:
                yield f"cycle {self.cycles - 1}, query {name} ({query.text}):{differs}"

    def _differing_counts(self) -> Iterator[str]:
        for name, state in self.engine.last.streams.items():
            reasons = Counter(letter.reason for letter in self.oracle.dead_letters(name))
            if (state.late, state.bad) != (reasons[LATE], reasons[NULL_CLOCK]):
                yield f"cycle {self.cycles - 1}, {name}: {state.late} late, {state.bad} bad; expected {dict(reasons)}"
        for name in self.oracle.oracle.queries:
            lost, expected = self.engine.last.late.get(name, 0), self.oracle.oracle.lost[name]
            if lost != expected:
                text = self.oracle.query(name).text
                yield f"cycle {self.cycles - 1}, query {name} ({text}) lost {lost} late rows; expected {expected}"

    def close(self) -> None:
        self.loom.close()
