"""What Spark needs for the rows alone: one plain batch job over all files, warm.

Three of them: reading the columns; an aggregation by (fragment, key) with the statistics that the four functions need;
and the same by (fragment, signature, key), which is what predicates add. Of a few runs of each the cheapest counts.
Nothing is checked here: there are no answers yet, only partials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.aggregate_measurements.data import files_of, rows_in
from bench.aggregate_measurements.jobs import Job, serve
from bench.aggregate_measurements.workload import Topic
from bench.contest import RUNS, Spent, mark
from weft.runtime.spark.session import session

#: So many rows are enough for a batch job, which has as much to do for each of more.
_ENOUGH = 40_000_000


def contestant(job: Job) -> dict[str, Any]:
    spark = session()
    rows = spark.read.parquet(*_enough(job.folder))
    count = rows.count()
    plans: dict[str, Callable[[], DataFrame]] = {
        "scan": lambda: rows,
        "aggregation": lambda: _reduced(rows, job.about, []),
        "with_signatures": lambda: _reduced(rows, job.about, [_signature(job)]),
    }
    return {name: asdict(min(_runs(spark, plan, count), key=lambda each: each.cpu)) for name, plan in plans.items()}


def _enough(folder: str) -> list[str]:
    files = files_of(folder)
    return [str(file) for file in files[: max(1, _ENOUGH // rows_in(files[0]))]]


def _runs(spark: SparkSession, plan: Callable[[], DataFrame], rows: int) -> list[Spent]:
    """What each run took, without the first one."""
    spent = []
    for number in range(RUNS + 1):
        before = mark(0)
        plan().write.format("noop").mode("overwrite").save()
        after = mark(rows)
        if number:
            spent.append(Spent(after.cpu - before.cpu, after.wall - before.wall, rows))
    return spent


def _reduced(rows: DataFrame, topic: Topic, more: list[Any]) -> DataFrame:
    clock = f"unix_micros({topic.clock})"
    fragment = F.expr(f"{clock} - pmod({clock}, {topic.unit_micros}L)").alias("fragment")
    functions = ("count", "sum", "max", "var_pop")
    statistics = [F.expr(f"{function}({topic.value})").alias(function) for function in functions]
    return rows.groupBy(fragment, *more, F.col(topic.key)).agg(*statistics)


def _signature(job: Job) -> Any:
    """Between which two constants the compared column lies; they are evenly spread, so a division tells."""
    step = (job.about.high - job.about.low) / (job.literals + 1)
    return F.expr(f"CAST(ceil(({job.about.compared} - {job.about.low}D) / {step}D) AS INT)").alias("signature")


if __name__ == "__main__":
    serve(contestant)
