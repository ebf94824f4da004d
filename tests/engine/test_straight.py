"""Batches of files read straight: the rows that Spark hands over, by a plan that begins with the files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from weft.algebra import Field, Stream
from weft.algebra.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from weft.engine.sources import tagged
from weft.engine.straight import StraightReader, can_be_read_straight

pytestmark = pytest.mark.spark

FIELDS = (Field("ts", TIMESTAMP), Field("k", STRING), Field("x", DOUBLE), Field("n", BIGINT))


def _stream(name: str, folder: Path, format_: str = "parquet") -> Stream:
    options = (("path", str(folder)), ("maxFilesPerTrigger", "1"))
    return Stream(name, FIELDS, "ts", 0, format_, options)


def _write(folder: Path, file: int, rows: list[tuple[int, str | None, float | None, int]]) -> None:
    folder.mkdir(exist_ok=True)
    seconds, keys, values, numbers = zip(*rows, strict=True)
    clocks = pa.array([datetime.fromtimestamp(each, UTC) for each in seconds], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": clocks, "k": keys, "x": values, "n": numbers}), folder / f"{file}.parquet")


def _each_batch(
    spark: SparkSession, streams: list[Stream], folder: Path, look: Callable[[DataFrame, DataFrame], None]
) -> None:
    """Call `look` with each batch as Spark hands it over, and as it is read straight."""
    reader = StraightReader(streams)

    def seen(batch: DataFrame, number: int) -> None:
        (query,) = (each for each in spark.streams.active if each.name == "straight")
        look(batch, reader.read(batch, query))

    name = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    spark.conf.set(name, "true")
    try:
        frame = tagged(spark, dict(enumerate(streams)), {}, folder / "replays")
        writer = frame.writeStream.queryName("straight").foreachBatch(seen).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    finally:
        spark.conf.unset(name)
    query.awaitTermination()


def test_the_rows_are_those_of_the_batch_also_when_a_stream_has_no_new_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    _write(a, 0, [(1, "p", 0.5, 1), (2, None, None, 2)])
    _write(a, 1, [(3, "q", -0.0, 3)])
    _write(b, 0, [(1, "r", 7.0, 4)])
    batches = []

    def look(batch: DataFrame, straight: DataFrame) -> None:
        assert straight.columns == batch.columns
        ours, theirs = straight.collect(), batch.collect()
        assert sorted(map(str, ours)) == sorted(map(str, theirs))
        batches.append(sorted((each["_stream"], each[f"s{each['_stream']}"]["c3"]) for each in ours))

    _each_batch(spark, [_stream("a", a), _stream("b", b)], tmp_path, look)
    assert sorted(row for batch in batches for row in batch) == [(0, 1), (0, 2), (0, 3), (1, 4)]
    assert len(batches) == 2


def test_only_columns_that_are_asked_for_are_read(spark: SparkSession, tmp_path: Path) -> None:
    a = tmp_path / "a"
    _write(a, 0, [(1, "p", 0.5, 1)])
    plans = []

    def look(batch: DataFrame, straight: DataFrame) -> None:
        asked = straight.where("_stream = 0").select("s0.*").select("c0", "c2")
        plans.append(str(asked._jdf.queryExecution().executedPlan().toString()))

    _each_batch(spark, [_stream("a", a)], tmp_path, look)
    (plan,) = plans
    assert "ReadSchema: struct<ts:timestamp,x:double>" in plan


def test_formats_with_malformed_records_are_not_read_straight(tmp_path: Path) -> None:
    """A record of CSV is malformed by a column that nobody asks for."""
    assert can_be_read_straight([_stream("a", tmp_path), _stream("b", tmp_path, "orc")])
    assert not can_be_read_straight([_stream("a", tmp_path), _stream("b", tmp_path, "csv")])
    assert not can_be_read_straight([_stream("a", tmp_path, "kafka")])
