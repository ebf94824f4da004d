"""One Structured Streaming query for each, one after the other; and which queries Spark accepts as streams at all.

Options: `table` and `schema` of the stream, its `clock`, and the `folder` it reads. With `only_check`, answers are not
asked for, only whether Spark runs the query over the few rows in that folder, in any output mode: some queries it
refuses at once, others when it plans their first batch. The settings are those that make Spark's small batches cheap;
answers go nowhere.
"""

from __future__ import annotations

import re
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from bench.aggregate_measurements.spark_each import BatchClock, plain_session, run_to_the_end
from bench.contest import Mark, plain
from bench.network_measurements.table_sql import over_a_table
from bench.network_measurements.tasks import Task
from weft.runtime.spark.session import compile_plans

#: Clocks are days, and Spark drops rows that are as old as its watermark: without a day's delay, most of them.
_LATEST = "1 day"

_MODES = ("append", "update")
_REASON = re.compile(r"\[([A-Z_.]{6,})\] ([^.]*)")


def contestant(task: Task) -> dict[str, Any]:
    """The result: why queries are refused, by name; or the marks of each batch of each query."""
    spark = plain_session()
    compile_plans(spark, wanted=True)
    _stream(spark, task).createOrReplaceTempView(task.options["table"])
    if task.options.get("only_check"):
        reasons = {query.name: _why_refused(spark, query.select) for query in task.queries}
        return {"refused": {name: reason for name, reason in reasons.items() if reason is not None}}
    clock = BatchClock()
    spark.streams.addListener(clock)
    runs = [plain(_run(spark, task, query.select, clock)) for query in task.queries]
    spark.streams.removeListener(clock)
    return {"runs": runs}


def _stream(spark: SparkSession, task: Task) -> DataFrame:
    options = task.options
    rows = spark.readStream.schema(options["schema"]).option("maxFilesPerTrigger", 1).parquet(options["folder"])
    return rows.withWatermark(options["clock"], _LATEST)


def _run(spark: SparkSession, task: Task, select: str, clock: BatchClock) -> list[Mark]:
    clock.marks = []
    run_to_the_end(spark.sql(over_a_table(select)), "noop")
    return clock.taken(task.options["folder"])


def _why_refused(spark: SparkSession, select: str) -> str | None:
    """Nothing if Spark runs it in some output mode; otherwise what it says in the first."""
    reasons = []
    for mode in _MODES:
        reason = _why_refused_in(spark, select, mode)
        if reason is None:
            return None
        reasons.append(reason)
    return reasons[0]


def _why_refused_in(spark: SparkSession, select: str, mode: str) -> str | None:
    with TemporaryDirectory(prefix="weft-bench-spark-") as checkpoint:
        try:
            writer = spark.sql(over_a_table(select)).writeStream.format("noop").outputMode(mode)
            query = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
            query.awaitTermination()
        except (AnalysisException, StreamingQueryException) as error:
            return _reason(str(error))
    return None


def _reason(message: str) -> str:
    """The name that Spark gives the mistake, without that of the wrapping it comes in."""
    found = [match for match in _REASON.findall(message) if match[0] != "STREAM_FAILED"]
    return " ".join(found[0]) if found else message[:200]
