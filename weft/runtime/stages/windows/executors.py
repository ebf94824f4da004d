"""Kernels on the executors: one Spark job in a cycle, for all key sets of all streams that live there.

    partial log  ─ read ─→  rows by (key set, hash of its keys)  ─ shuffle ─→  shards  ─ mapInArrow ─→  answers

Executors keep no state. A shard gets the live partials of its keys and answers them with the driver's own code: trees
are built, take in what came before the cycle, and advance through it. The log is the state, as it is for the driver
after a restart. A stateful operator (`transformWithState`) would have to read and write back the same partials in every
batch, in a checkpoint of its own that has to agree with the commit. This way there is one truth, a key set may move
between hosts at any time, and a cycle in which no window closes costs nothing.

Files of several layouts and streams go into one job: columns of a type share slots, which are columns named by type and
number, and each row says which source it is from. Nothing in the plan of the job grows with the number of queries.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from weft.algebra import Select, Stream
from weft.arrays.arrow_types import streamed, table_of
from weft.optimizer.aggregates.stream_shapes import Woven, woven
from weft.plan.event_time import Clock
from weft.plan.nodes import WindowTreeNode
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.spark.rows import typed_slots
from weft.runtime.spark.session import own_session
from weft.runtime.stages.windows.partials import SLICE, Layout, PartialFiles, Partials
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.window_answers import answers

#: Partials in a shard: enough to outweigh its overhead, few enough for the memory of a worker.
_SHARD = 500_000

_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}


#: Which source a row is from, and which task it is for; its other columns are named by `_PartialSource`.
_SOURCE, _KEY_SET = "source", "key_set"

#: What a shard returns: the answers of a query as an Arrow stream, or, without a query, its number of keys.
_ANSWERED = pa.schema([(_KEY_SET, pa.int32()), ("query", pa.string()), ("answers", pa.binary()), ("keys", pa.int64())])


@dataclass(frozen=True)
class _PartialSource:
    """Files of partials with one layout: whether they are this cycle's, and what their columns (`k0`, `p3`, …) are
    called on the way to the executors."""

    layout: Layout
    arrived: bool
    columns: Mapping[str, str]


@dataclass(frozen=True)
class KeySetTask:
    """What a cycle computes for a key set of a stream."""

    stream: str
    keys: tuple[str, ...]
    #: The aggregates that its measures are read from.
    aggregates: frozenset[str]
    #: Partials before this clock are in no open window.
    since: Clock
    #: The queries and their trees, pickled.
    plan: bytes
    #: The watermark before the cycle and after it, and from when on each query is answered.
    before: Clock
    until: Clock
    after: Mapping[str, Clock]


def pickled_plan(selects: Mapping[str, Select], trees: Mapping[str, WindowTreeNode]) -> bytes:
    """Selects and their trees, to be sent; measures are not sent, since each process makes them from the selects."""
    return pickle.dumps((dict(selects), dict(trees)))


@lru_cache(maxsize=64)
def _unpickled_plan(data: bytes) -> tuple[dict[str, Woven], dict[str, WindowTreeNode]]:
    """Selects and their trees as they were sent; cached, so that a worker has them ready for the next cycle."""
    selects, trees = pickle.loads(data)
    return {id_: woven(select) for id_, select in selects.items()}, trees


class Executors:
    """Answers key sets by Spark jobs, in a session of its own, whose settings concern no other job."""

    def __init__(self, spark: SparkSession) -> None:
        self._parallelism = spark.sparkContext.defaultParallelism
        self._spark = own_session(spark, _SETTINGS)

    def answers(
        self, files: Sequence[PartialFiles], tasks: Sequence[KeySetTask]
    ) -> tuple[dict[str, pa.Table], list[int]]:
        """The answers of the queries that have some, from all partials that are live, and each task's number of keys.

        One Spark job.
        """
        sources: list[_PartialSource] = []
        frames, partials = [], 0
        for each in files:
            # Tasks of the same stream, whose keys are not younger than the files.
            known = {number: task for number, task in enumerate(tasks) if task.stream == each.stream}
            wanted = {number: task for number, task in known.items() if set(task.keys) <= set(each.layout.keys)}
            if wanted:
                source = _PartialSource(each.layout, each.arrived, _slots(each, wanted.values()))
                frames.append(self._rows(len(sources), each, source.columns, wanted))
                sources.append(source)
                partials += each.rows
        keys, found = [0] * len(tasks), dict[str, list[pa.Table]]()
        if not sources:
            return {}, keys
        rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
        shards = rows.repartition(max(self._parallelism, -(-partials // _SHARD)), _KEY_SET, "hash").drop("hash")
        schema = f"{_KEY_SET} INT, query STRING, answers BINARY, keys BIGINT"
        try:
            table = shards.mapInArrow(partial(_answered, sources, tasks), schema).toArrow()
        except PySparkException as error:
            raise _explained(error) from error
        for row in table.to_pylist():
            if row["query"] is None:
                keys[row[_KEY_SET]] += row["keys"]
            else:
                found.setdefault(row["query"], []).append(table_of(row["answers"]))
        return {query: pa.concat_tables(tables) for query, tables in found.items()}, keys

    def _rows(
        self, number: int, files: PartialFiles, columns: Mapping[str, str], wanted: Mapping[int, KeySetTask]
    ) -> DataFrame:
        """The rows of some files, once for every task that wants them, with columns named by their slots."""
        rows = self._spark.read.schema(from_arrow_schema(files.schema)).parquet(*files.paths)
        since = [task.since for task in wanted.values()]
        if all(clock is not None and files.oldest < clock for clock in since):
            # Only then: a plan without constants of the cycle is compiled once and for all.
            rows = rows.where(F.col(SLICE) >= min(clock for clock in since if clock is not None))
        at = []
        for place, task in wanted.items():
            keys = [F.col(f"k{files.layout.keys.index(key)}") for key in task.keys]
            at.append(F.struct(F.lit(place).alias(_KEY_SET), F.xxhash64(*keys).alias("hash")))
        placed = [F.col(name).alias(slot) for name, slot in columns.items()]
        spread = rows.select(F.explode(F.array(*at)).alias("at") if len(at) > 1 else at[0].alias("at"), SLICE, *placed)
        return spread.select(F.lit(number).alias(_SOURCE), "at.*", SLICE, *columns.values())


def _slots(files: PartialFiles, tasks: Iterable[KeySetTask]) -> dict[str, str]:
    """The columns of some files that are needed, and the slot of each: the name that all sources share."""
    layout, wanted = files.layout, list(tasks)
    keys = {key for task in wanted for key in task.keys}
    aggregates = {text for task in wanted for text in task.aggregates}
    names = [
        *layout.group_names[: layout.signature_columns],
        *(f"k{number}" for number, key in enumerate(layout.keys) if key in keys),
        *(f"p{number}" for number, text in enumerate(layout.aggregates) if text in aggregates),
    ]
    types = from_arrow_schema(files.schema)
    slots = typed_slots(types[name].dataType for name in names)
    return {name: f"{type_.simpleString()} {place}" for name, (type_, place) in zip(names, slots, strict=True)}


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


# -- on an executor ---------------------------------------------------------------------------------------------------


def _answered(
    sources: Sequence[_PartialSource], tasks: Sequence[KeySetTask], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The answers of a shard's keys, task by task. Rows name their source and their task by number."""
    parts = [batch for batch in batches if batch.num_rows]
    if parts:
        table = pa.Table.from_batches(parts).combine_chunks()
        for number, rows in _by_number(table, _KEY_SET):
            yield _answers_of(number, tasks[number], sources, rows)


def _by_number(rows: pa.Table, column: str) -> Iterator[tuple[int, pa.Table]]:
    numbers = np.asarray(rows[column])
    for number in np.unique(numbers).tolist():
        yield number, rows if (numbers == number).all() else rows.filter(pa.array(numbers == number))


def _answers_of(number: int, task: KeySetTask, sources: Sequence[_PartialSource], rows: pa.Table) -> pa.RecordBatch:
    shapes, trees = _unpickled_plan(task.plan)
    stream = next(iter(shapes.values())).select.inputs[0].source
    assert isinstance(stream, Stream)
    earlier, arrived = [], None
    for place, mine in _by_number(rows, _SOURCE):
        source = sources[place]
        table = pa.table({SLICE: mine[SLICE], **{name: mine[slot] for name, slot in source.columns.items()}})
        if source.arrived:
            arrived = Partials(source.layout, table)
        else:
            earlier.append(Partials(source.layout, table))
    weave = StreamWeave(stream, shapes, trees)
    weave.remember(earlier, task.before)
    found: list[dict[str, object]] = []
    for name, part in weave.advance(arrived, task.before, task.until).items():
        table = answers(shapes[name].select, shapes[name].measures, part.since(task.after[name]))
        if table.num_rows:
            # Answers go through two virtual machines on their way: compressing them pays.
            found.append({_KEY_SET: number, "query": name, "answers": streamed(table, "lz4"), "keys": None})
    found.append({_KEY_SET: number, "query": None, "answers": None, "keys": sum(weave.key_counts().values())})
    return pa.RecordBatch.from_pylist(found, schema=_ANSWERED)
