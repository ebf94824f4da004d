"""All queries as branches of one Structured Streaming query, each with its own `window()`."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.aggregate_measurements import answers
from bench.aggregate_measurements.jobs import Job, serve
from bench.aggregate_measurements.spark_each import BatchClock, answers_of, plain_session, rows_of, run_to_the_end
from bench.aggregate_measurements.workload import AggregateQuery
from bench.contest import plain


def contestant(job: Job) -> dict[str, Any]:
    spark = plain_session()
    clock = BatchClock()
    spark.streams.addListener(clock)
    run_to_the_end(_union(spark, job, job.small, job.checked()), "memory", "small")
    answers.write(_by_query(spark.table("small").toArrow()), job.answers)
    clock.marks = []
    run_to_the_end(_union(spark, job, job.folder, job.queries()), "noop")
    return {"runs": [plain(clock.taken(job.folder))]}


def _union(spark: SparkSession, job: Job, folder: str, queries: list[AggregateQuery]) -> DataFrame:
    rows = rows_of(spark, job.about, folder)
    branches = [
        answers_of(rows, job.about, query).withColumn("query", F.lit(query.number).cast("bigint")) for query in queries
    ]
    return reduce(DataFrame.unionAll, branches)


def _by_query(table: pa.Table) -> list[pa.Table]:
    numbers = table["query"].unique().to_pylist()
    parts = {number: table.filter(pa.compute.equal(table["query"], number)) for number in numbers}
    return [
        answers.as_table(number, *(part[column].combine_chunks() for column in ("end", "key", "x")))
        for number, part in parts.items()
    ]


if __name__ == "__main__":
    serve(contestant)
