"""What a user does today: one Structured Streaming query for each, one after the other.

Tuned: two shuffle partitions, the settings that make small batches cheap, the better of the two state stores, which is
found out with the first query. They run one after the other, which spares Spark the memory and the threads of all at
once. Spark closes a window one batch later than weft does, and the last ones in a batch without rows that comes at the
end; that one is not counted.

Options: `stores`, the state stores that are tried; both of them if nothing is said.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from tempfile import mkdtemp
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from bench.aggregate_measurements import answers
from bench.aggregate_measurements.data import files_of, rows_in
from bench.aggregate_measurements.jobs import Job, serve
from bench.aggregate_measurements.workload import AggregateQuery, Topic
from bench.contest import Mark, mark, plain, warm
from weft.runtime.spark.session import session

STORES = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_LONGEST_WAIT = 30.0

_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # One more store instance for each of many queries is no reason to log.
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.memory": "4g",
}


def plain_session() -> SparkSession:
    """A session for queries of Spark's own, which close their windows when the rows end."""
    spark = session(settings=_SETTINGS)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    return spark


def contestant(job: Job) -> dict[str, Any]:
    spark = plain_session()
    clock = BatchClock()
    spark.streams.addListener(clock)
    answers.write([_collected(spark, job, query) for query in job.checked()], job.answers)
    queries = job.queries()
    tried = {store: _one(spark, job, queries[0], store, clock) for store in job.options.get("stores", STORES)}
    store = min(tried, key=lambda name: warm(tried[name]).cpu)
    runs = [tried[store], *(_one(spark, job, query, store, clock) for query in queries[1:])]
    return {
        "runs": [plain(marks) for marks in runs],
        "store": store,
        "stores": {name: warm(marks).cpu for name, marks in tried.items()},
    }


class BatchClock(StreamingQueryListener):  # type: ignore[misc]
    """Reads the time at the end of every batch that has rows."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        if event.progress.numInputRows:
            # How many rows: Spark counts those of a union once for each branch, so the files are asked, later.
            self.marks.append(mark(0))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass

    def taken(self, folder: str) -> list[Mark]:
        """The marks of a query that has ended. Spark tells listeners a little later than they would like."""
        rows = [rows_in(file) for file in files_of(folder)]
        deadline = time.monotonic() + _LONGEST_WAIT
        while len(self.marks) < len(rows):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Spark told of {len(self.marks)} batches and not of {len(rows)}")
            time.sleep(0.01)
        marks, self.marks = self.marks, []
        return [replace(each, rows=number) for each, number in zip(marks, rows, strict=True)]


def rows_of(spark: SparkSession, topic: Topic, folder: str) -> DataFrame:
    """The stream, a file in each batch, with the watermark that weft has."""
    schema = ", ".join(f"{name} {type_}" for name, type_ in topic.columns.items())
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
    return rows.withWatermark(topic.clock, f"{topic.delay * topic.unit_seconds} seconds")


def answers_of(rows: DataFrame, topic: Topic, query: AggregateQuery) -> DataFrame:
    """What one query answers: the end of the window, the key, the value."""
    if query.above is not None:
        rows = rows.where(F.col(topic.compared) > F.lit(query.above))
    length, slide = (f"{number * topic.unit_seconds} seconds" for number in (query.range, query.slide))
    grouped = rows.groupBy(F.window(topic.clock, length, slide).alias("window"), F.col(topic.key).alias("key"))
    value = grouped.agg(F.expr(f"{query.function}({topic.value})").alias("x"))
    return value.select(F.col("window.end").alias("end"), "key", "x")


def run_to_the_end(frame: DataFrame, sink: str, name: str | None = None) -> None:
    """Run a streaming query over all files that are there."""
    checkpoint = mkdtemp(prefix="weft-bench-spark-")
    writer = frame.writeStream.format(sink).outputMode("append").trigger(availableNow=True)
    if name is not None:
        writer = writer.queryName(name)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)


def _one(spark: SparkSession, job: Job, query: AggregateQuery, store: str, clock: BatchClock) -> list[Mark]:
    spark.conf.set(_PROVIDER, STORES[store])
    clock.marks = []
    run_to_the_end(answers_of(rows_of(spark, job.about, job.folder), job.about, query), "noop")
    return clock.taken(job.folder)


def _collected(spark: SparkSession, job: Job, query: AggregateQuery) -> Any:
    """The answers of a query over the small files."""
    name = f"small_{query.name}"
    run_to_the_end(answers_of(rows_of(spark, job.about, job.small), job.about, query), "memory", name)
    table = spark.table(name).toArrow()
    return answers.as_table(query.number, *(table[column].combine_chunks() for column in ("end", "key", "x")))


if __name__ == "__main__":
    serve(contestant)
