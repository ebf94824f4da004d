"""Kernels on the executors: one Spark job in a cycle, for all key sets of all streams that live there.

    partial log  ─ read ─→  rows by (key set, hash of its keys)  ─ shuffle ─→  shards  ─ mapInArrow ─→  answers

Executors keep no state. A shard gets the live partials of its keys and answers them with the driver's own code
(`shard.py`); the log is the state, as it is for the driver after a restart. A stateful operator (`transformWithState`)
would have to read and write back the same partials in every batch, in a checkpoint of its own that has to agree with
the commit. This way there is one truth, a key set may move between hosts at any time, and a cycle in which no window
closes costs nothing.

Files of several layouts and streams go into one job: columns of a type share slots, and each row says which source it
is from. Nothing in the plan of the job grows with the number of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType

from weft.arrays.slots import typed_slots, typed_slots_of_all
from weft.runtime.failures.errors import EngineError
from weft.runtime.spark.session import own_session
from weft.runtime.stages.windows.partials import SLICE, Layout
from weft.runtime.stages.windows.shard import (
    KEY_SET,
    SOURCE,
    PartialSource,
    ShardOrder,
    ShardTask,
    answered,
    streamed_back,
)
from weft.runtime.state.commits import Segment

#: Partials in a shard: enough to outweigh its overhead, few enough for the memory of a worker.
_SHARD = 500_000

_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}


@dataclass(frozen=True)
class PartialFiles:
    """Files of partials with one layout and schema, all of earlier cycles or all of this one."""

    stream: str
    layout: Layout
    schema: pa.Schema
    arrived: bool
    paths: tuple[str, ...]
    rows: int
    #: The start of the oldest slice.
    oldest: int


def files_by_layout(
    stream: str, segments: Iterable[tuple[Segment, Layout, pa.Schema, bool]], path: Callable[[str], str]
) -> list[PartialFiles]:
    """Segments, with what is in them and whether they are of this cycle, grouped by layout and schema."""
    alike: dict[object, list[tuple[Segment, Layout, pa.Schema, bool]]] = {}
    for each in segments:
        _, layout, schema, arrived = each
        alike.setdefault((repr(layout), str(schema.remove_metadata()), arrived), []).append(each)
    return [
        PartialFiles(
            stream,
            parts[0][1],
            parts[0][2].remove_metadata(),
            parts[0][3],
            tuple(path(segment.path) for segment, *_ in parts),
            sum(segment.rows for segment, *_ in parts),
            min(segment.min_clock or 0 for segment, *_ in parts),
        )
        for parts in alike.values()
    ]


@dataclass(frozen=True)
class KeySetRequest:
    """A key set that has windows to answer: its keys, the aggregates it needs, and the task of its shards."""

    keys: tuple[str, ...]
    aggregates: frozenset[str]
    #: Partials before this clock are in no open window.
    since: int | None
    asked: ShardTask


@dataclass(frozen=True)
class KeySetAnswers:
    """The answers of the queries that have some, and the number of keys of each key set, in the order of the wanted."""

    answers: Mapping[str, pa.Table]
    keys: Sequence[int]


class Executors:
    """Answers key sets by Spark jobs, in a session of its own, whose settings concern no other job."""

    def __init__(self, spark: SparkSession) -> None:
        self._parallelism = spark.sparkContext.defaultParallelism
        self._spark = own_session(spark, _SETTINGS)

    def answers(self, files: Sequence[PartialFiles], wanted: Sequence[KeySetRequest]) -> KeySetAnswers:
        """The answers of some key sets from all partials that are live. One Spark job."""
        sources = [(each, _columns(each, wanted)) for each in files if _key_sets_of(each, wanted)]
        if not sources:
            return KeySetAnswers({}, [0] * len(wanted))
        shared = typed_slots_of_all(_types(each, columns).values() for each, columns in sources)
        slots = {slot: f"c{number}" for number, slot in enumerate(shared)}
        described, frames = [], []
        for number, (each, columns) in enumerate(sources):
            types = _types(each, columns)
            placed = {name: slots[slot] for name, slot in zip(types, typed_slots(types.values()), strict=True)}
            described.append(PartialSource(each.stream, each.layout, each.arrived, placed))
            frames.append(self._rows(number, each, placed, slots, wanted))
        order = ShardOrder(tuple(described), tuple(each.asked for each in wanted))
        shards = max(self._parallelism, -(-sum(each.rows for each, _ in sources) // _SHARD))
        rows = reduce(DataFrame.unionAll, frames).repartition(shards, KEY_SET, "hash")
        schema = f"{KEY_SET} INT, query STRING, answers BINARY, keys BIGINT"
        try:
            table = rows.drop("hash").mapInArrow(partial(answered, order), schema).toArrow()
        except PySparkException as error:
            raise _explained(error) from error
        return _put_together(table, len(wanted))

    def _rows(
        self,
        number: int,
        files: PartialFiles,
        placed: Mapping[str, str],
        slots: Mapping[tuple[DataType, int], str],
        wanted: Sequence[KeySetRequest],
    ) -> DataFrame:
        """The rows of some files, once for every key set of their stream, in the columns that all sources share."""
        key_sets = _key_sets_of(files, wanted)
        rows = self._spark.read.schema(from_arrow_schema(files.schema)).parquet(*files.paths)
        since = [wanted[place].since for place in key_sets]
        if all(clock is not None and files.oldest < clock for clock in since):
            # Only then: a plan without constants of the cycle is compiled once and for all.
            rows = rows.where(F.col(SLICE) >= min(clock for clock in since if clock is not None))
        at = []
        for place in key_sets:
            keys = [F.col(f"k{files.layout.keys.index(key)}") for key in wanted[place].keys]
            at.append(F.struct(F.lit(place).alias(KEY_SET), F.xxhash64(*keys).alias("hash")))
        back = {slot: name for name, slot in placed.items()}
        columns = [
            (F.col(back[slot]) if slot in back else F.lit(None).cast(type_)).alias(slot)
            for (type_, _), slot in slots.items()
        ]
        spread = rows.select(F.explode(F.array(*at)).alias("at") if len(at) > 1 else at[0].alias("at"), SLICE, *columns)
        return spread.select(F.lit(number).alias(SOURCE), "at.*", SLICE, *slots.values())


def _key_sets_of(files: PartialFiles, wanted: Sequence[KeySetRequest]) -> list[int]:
    """The key sets that need some files: of the same stream, and not younger than the files."""
    return [
        place
        for place, each in enumerate(wanted)
        if each.asked.stream == files.stream and all(key in files.layout.keys for key in each.keys)
    ]


def _columns(files: PartialFiles, wanted: Sequence[KeySetRequest]) -> list[str]:
    """The columns of some files that are needed."""
    layout, mine = files.layout, [each for each in wanted if each.asked.stream == files.stream]
    keys = {key for each in mine for key in each.keys}
    aggregates = {text for each in mine for text in each.aggregates}
    signature = layout.group_names[: layout.signature_columns]
    return [
        *signature,
        *(f"k{number}" for number, key in enumerate(layout.keys) if key in keys),
        *(f"p{number}" for number, text in enumerate(layout.aggregates) if text in aggregates),
    ]


def _types(files: PartialFiles, columns: Sequence[str]) -> dict[str, DataType]:
    fields = from_arrow_schema(files.schema)
    return {name: fields[name].dataType for name in columns}


def _put_together(table: pa.Table, sets: int) -> KeySetAnswers:
    parts: dict[str, list[pa.Table]] = {}
    keys = [0] * sets
    for row in table.to_pylist():
        if row["query"] is None:
            keys[row[KEY_SET]] += row["keys"]
        else:
            parts.setdefault(row["query"], []).append(streamed_back(row["answers"]))
    return KeySetAnswers({query: pa.concat_tables(tables) for query, tables in parts.items()}, keys)


def _explained(error: PySparkException) -> EngineError:
    text: Any = str(error)
    if "No module named 'weft'" in text:
        return EngineError(
            "the executors cannot import weft: install the same version of it in their Python, or SET kernels = driver"
        )
    if "maxResultSize" in text:
        return EngineError(
            "the answers of one cycle exceed spark.driver.maxResultSize: SET it higher, or take fewer rows "
            "in a cycle; nothing of this cycle was committed"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = next((line for line in reversed(lines) if "Error" in line), lines[0] if lines else "no reason given")
    return EngineError(f"kernels on the executors have failed: {reason}; nothing of this cycle was committed")
