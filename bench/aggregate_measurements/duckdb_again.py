"""Every query anew for each batch, by DuckDB: a table of the rows that are still needed, and SQL over it.

The SQL is the better of two ways to write it: rows are grouped by slide first, and windows are put together from
slides, so that no row is copied range/slide times.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from bench.aggregate_measurements import answers
from bench.aggregate_measurements.data import files_of, rows_in
from bench.aggregate_measurements.jobs import Job, serve
from bench.aggregate_measurements.workload import AggregateQuery, Topic
from bench.contest import Mark, mark, plain

#: The statistics of a slide, and how a function is put together from those of several slides.
_OF_A_SLIDE = {
    "SUM": "sum(v) AS s",
    "AVG": "sum(v) AS s, count(v) AS n",
    "MAX": "max(v) AS s",
    "STDDEV": "sum(v) AS s, count(v) AS n, sum(v * v) AS q",
}
_OF_A_WINDOW = {
    "SUM": "sum(s)",
    "AVG": "sum(s) / sum(n)",
    "MAX": "max(s)",
    "STDDEV": "CASE WHEN sum(n) > 1 THEN sqrt(greatest(0, (sum(q) - sum(s) * sum(s) / sum(n)) / (sum(n) - 1))) END",
}


def contestant(job: Job) -> dict[str, Any]:
    checked, _ = _run(job.about, job.small, job.checked(), collect=True)
    answers.write(checked, job.answers)
    _, marks = _run(job.about, job.folder, job.queries(), collect=False)
    return {"runs": [plain(marks)]}


def _run(topic: Topic, folder: str, queries: list[AggregateQuery], collect: bool) -> tuple[list[pa.Table], list[Mark]]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE kept (clock BIGINT, key VARCHAR, v DOUBLE, c DOUBLE)")
    before: int | None = None
    tables: list[pa.Table] = []
    marks = []
    longest = max(query.range for query in queries)
    for file in files_of(folder):
        connection.execute(
            f"INSERT INTO kept SELECT epoch_us({topic.clock}), {topic.key}, {topic.value}, {topic.compared} "
            "FROM read_parquet(?)",
            [str(file)],
        )
        ((first, last),) = connection.execute("SELECT min(clock), max(clock) FROM kept").fetchall()
        watermark = last // topic.unit_micros - topic.delay
        before = first // topic.unit_micros if before is None else before
        for query in queries:
            table = connection.sql(_text(topic, query, before, watermark)).to_arrow_table()
            if collect:
                columns = (table[name].combine_chunks() for name in ("e", "key", "x"))
                tables.append(answers.as_table(query.number, *columns))
        before = watermark
        connection.execute("DELETE FROM kept WHERE clock < ?", [(watermark - longest) * topic.unit_micros])
        marks.append(mark(rows_in(file)))
    return tables, marks


def _text(topic: Topic, query: AggregateQuery, before: int, watermark: int) -> str:
    """The instances that end after `before` and not after the watermark, both in units."""
    slide = query.slide * topic.unit_micros
    first, last = before // query.slide + 1, watermark // query.slide
    above = "" if query.above is None else f" AND c > {query.above}"
    return (
        f"WITH slides AS (SELECT clock // {slide} AS slide, key, {_OF_A_SLIDE[query.function]} FROM kept "
        f"WHERE clock >= {(first - query.slides) * slide} AND clock < {last * slide}{above} GROUP BY ALL) "
        f"SELECT e * {slide} AS e, key, {_OF_A_WINDOW[query.function]} AS x "
        f"FROM (SELECT unnest(range({first}, {last + 1})) AS e) "
        f"JOIN slides ON slide < e AND slide >= e - {query.slides} GROUP BY e, key"
    )


if __name__ == "__main__":
    serve(contestant)
