"""What the same queries cost one by one: each its own Structured Streaming query, as one would write it without weft.

Running all of them that way would take most of an hour. A few are run and timed, in the Spark session that the
demonstration has warmed up; the rest is extrapolation, and is called so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from weft.algebra import Column, Query, Select, Stream
from weft.demo.cpu import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many queries are run alone.
SAMPLE = 3


@dataclass(frozen=True)
class OneByOne:
    """What some queries took, each as a Spark streaming query of its own, one after the other."""

    queries: int
    cpu: float


def sample_of(queries: Sequence[Query]) -> list[Query]:
    """A few of the dashboards, spread over all of them."""
    windowed = [
        each
        for each in queries
        if isinstance(each.relation, Select)
        and each.relation.window
        and isinstance(each.relation.inputs[0].source, Stream)
    ]
    return windowed[:: max(1, len(windowed) // SAMPLE)][:SAMPLE]


def run_one_by_one(spark: SparkSession, files: Path, queries: Sequence[Query]) -> OneByOne:
    """Run queries over the files of their stream, a file in each micro-batch, and throw the answers away."""
    spent = cpu_seconds()
    for query in queries:
        with TemporaryDirectory(prefix="weft-alone-") as checkpoint:
            _run(spark, files, query, checkpoint)
    return OneByOne(len(queries), cpu_seconds() - spent)


def _run(spark: SparkSession, files: Path, query: Query, checkpoint: str) -> None:
    from pyspark.sql import functions as F

    from weft.runtime.columnar.expressions import aggregate_sql, quoted, spark_sql, spark_type

    def leaf(expression: object) -> str:
        assert isinstance(expression, Column)
        return quoted(expression.name)

    select = query.relation
    assert isinstance(select, Select)
    stream, window = select.inputs[0].source, select.window
    assert isinstance(stream, Stream)
    assert window is not None
    schema = ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field in stream.fields)
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    rows = rows.withWatermark(stream.clock, f"{stream.delay} microseconds")
    if select.where is not None:
        rows = rows.where(spark_sql(select.where, leaf))
    instances = F.window(stream.clock, f"{window.range} microseconds", f"{window.slide} microseconds")
    keys = [F.expr(spark_sql(key, leaf)) for key in select.keys]
    aggregates = [F.expr(aggregate_sql(each, leaf)).alias(f"a{n}") for n, each in enumerate(select.aggregates)]
    answers = rows.groupBy(instances, *keys).agg(*aggregates)
    writer = answers.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()
