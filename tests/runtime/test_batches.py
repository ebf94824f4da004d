"""Micro-batches in parts: the rows that Spark hands over, by plans that begin with the new files of each stream."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.runtime.projects import write_rows
from weft.algebra import Field, Stream
from weft.algebra.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from weft.runtime.sources.batches import Batch, BatchReader
from weft.runtime.sources.stream_sources import sources

pytestmark = pytest.mark.spark

FIELDS = (Field("ts", TIMESTAMP), Field("k", STRING), Field("x", DOUBLE), Field("n", BIGINT))


def _stream(name: str, folder: Path, format_: str = "parquet") -> Stream:
    options = (("path", str(folder)), ("maxFilesPerTrigger", "1"))
    return Stream(name, FIELDS, "ts", 0, format_, options)


def _write(folder: Path, file: int, rows: list[tuple[int, str | None, float | None, int]]) -> None:
    folder.mkdir(exist_ok=True)
    seconds, keys, values, numbers = zip(*rows, strict=True)
    clocks = pa.array([datetime.fromtimestamp(each, UTC) for each in seconds], pa.timestamp("us", "UTC"))
    path = folder / f"{file}.parquet"
    pq.write_table(pa.table({"ts": clocks, "k": keys, "x": values, "n": numbers}), path)
    # Spark takes files in the order in which they were written.
    os.utime(path, (1_700_000_000 + file,) * 2)


@contextmanager
def _sources_by_name(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    spark.conf.set(name, "true")
    try:
        yield
    finally:
        spark.conf.unset(name)


def _each_batch(spark: SparkSession, streams: list[Stream], folder: Path, look: Callable[[Batch], None]) -> None:
    """Call `look` with each micro-batch."""

    def seen(batch: DataFrame, number: int) -> None:
        (query,) = (each for each in spark.streams.active if each.name == "read")
        look(BatchReader(read, query).read(batch))

    with _sources_by_name(spark):
        read = sources(spark, dict(enumerate(streams)), {}, folder / "replays")
        writer = read.union.writeStream.queryName("read").foreachBatch(seen).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination()


def _numbers(batch: Batch) -> dict[str, list[int]]:
    """The column n of each stream's rows."""
    return {
        stream.name: sorted(row["c3"] for row in batch.part_of(index).rows(index).collect())
        for index, stream in batch.streams.items()
    }


def test_streams_without_new_rows_are_in_no_part(spark: SparkSession, tmp_path: Path) -> None:
    a, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    _write(a, 0, [(1, "p", 0.5, 1), (2, None, None, 2)])
    _write(a, 1, [(3, "q", -0.0, 3)])
    write_rows(b, "0.json", [{"ts": "1970-01-01T00:00:01Z", "k": "r", "x": 7.0, "n": 4}])
    c.mkdir()
    batches: list[dict[str, list[int]]] = []
    streams = [_stream("a", a), _stream("c", c, "orc"), _stream("b", b, "json")]
    _each_batch(spark, streams, tmp_path, lambda batch: batches.append(_numbers(batch)))
    assert batches == [{"a": [1, 2], "b": [4]}, {"a": [3]}]


def test_the_plan_that_fixes_offsets_has_no_columns_of_files(spark: SparkSession, tmp_path: Path) -> None:
    streams = [_stream(name, tmp_path / name, format_) for name, format_ in (("a", "parquet"), ("b", "json"))]
    for stream in streams:
        (tmp_path / stream.name).mkdir()
    ticking = Stream("t", (Field("timestamp", TIMESTAMP), Field("value", BIGINT)), "timestamp", 0, "rate", ())
    with _sources_by_name(spark):
        read = sources(spark, dict(enumerate([*streams[:1], ticking, *streams[1:]])), {}, tmp_path / "replays")
    assert read.union.columns == ["_stream", "timestamp_0", "bigint_0", "_corrupt", "_tick"]
    assert (list(read.files), list(read.others)) == ([0, 2], [1])


def test_only_columns_that_are_needed_are_read_from_parquet(spark: SparkSession, tmp_path: Path) -> None:
    _write(tmp_path / "a", 0, [(1, "p", 0.5, 1)])
    plans = []

    def look(batch: Batch) -> None:
        needed = batch.part_of(0).rows(0).select("c0", "c2")
        plans.append(str(needed._jdf.queryExecution().executedPlan().toString()))

    _each_batch(spark, [_stream("a", tmp_path / "a")], tmp_path, look)
    (plan,) = plans
    assert "ReadSchema: struct<ts:timestamp,x:double>" in plan


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("json", json.dumps({"ts": "1970-01-01T00:00:01Z", "k": "p", "x": "no number", "n": 1})),
        ("csv", "1970-01-01T00:00:01Z,p,no number,1"),
    ],
)
def test_a_record_is_malformed_by_columns_that_are_not_needed(
    spark: SparkSession, tmp_path: Path, format_: str, text: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0").write_text(text + "\n")
    found = []

    def look(batch: Batch) -> None:
        found.extend(row["_corrupt"] for row in batch.part_of(0).rows(0).select("c3", "_corrupt").collect())

    _each_batch(spark, [_stream("a", tmp_path / "a", format_)], tmp_path, look)
    assert found == [text]
