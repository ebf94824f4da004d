"""All SQL again in every cycle, by DuckDB, over a table in memory of the history and the increments so far.

Options as those of `spark_again`.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bench import report
from bench.contest import mark, plain
from bench.network_measurements.table_sql import for_duckdb
from bench.network_measurements.tasks import Task


def contestant(task: Task) -> dict[str, Any]:
    connection = duckdb.connect()
    connection.execute(f"SET threads = {report.cores()}")
    connection.register("rows_so_far", pa.concat_tables([pq.read_table(file) for file in task.options["files"]]))
    connection.execute(f"CREATE TABLE {task.options['table']} AS SELECT * FROM rows_so_far")
    marks, answers = [mark(0)], []
    for query in task.queries:
        answers.append(connection.sql(for_duckdb(query.select)).to_arrow_table().num_rows)
        marks.append(mark(0))
    return {"marks": plain(marks), "answers": answers}
