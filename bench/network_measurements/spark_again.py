"""All SQL again in every cycle, by Spark, over a cached table of the history and the increments so far.

The queries of a task are usually a sample. The first of them runs once before the time is taken, or all of them several
times if they are few: `warm` says how often. Loading the table is not counted. Options: `table`, its name; `files`,
those of the history and of the increments.
"""

from __future__ import annotations

from typing import Any

from bench.aggregate_measurements.spark_each import plain_session
from bench.contest import mark, plain
from bench.network_measurements.table_sql import over_a_table
from bench.network_measurements.tasks import Task
from weft.runtime.spark.session import compile_plans


def contestant(task: Task) -> dict[str, Any]:
    """The result: a mark before the first query and one after each, and the number of answers."""
    spark = plain_session()
    compile_plans(spark, wanted=True)
    rows = spark.read.parquet(*task.options["files"]).coalesce(2).cache()
    rows.count()
    rows.createOrReplaceTempView(task.options["table"])
    passes = int(task.options.get("warm", 0))
    for query in [*task.queries[:1], *list(task.queries) * passes]:
        spark.sql(over_a_table(query.select)).toArrow()
    marks, answers = [mark(0)], []
    for query in task.queries:
        answers.append(spark.sql(over_a_table(query.select)).toArrow().num_rows)
        marks.append(mark(0))
    rows.unpersist()
    return {"marks": plain(marks), "answers": answers}
