"""Every query anew for each batch, by Polars, if it is installed: slides first, windows from them, as with DuckDB."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from bench.aggregate_measurements import answers
from bench.aggregate_measurements.data import files_of
from bench.aggregate_measurements.jobs import Job, serve
from bench.aggregate_measurements.workload import AggregateQuery, Topic
from bench.contest import Mark, mark, plain

_V = pl.col("v")
_OF_A_SLIDE = {
    "SUM": [_V.sum().alias("s")],
    "AVG": [_V.sum().alias("s"), _V.count().alias("n")],
    "MAX": [_V.max().alias("s")],
    "STDDEV": [_V.sum().alias("s"), _V.count().alias("n"), (_V * _V).sum().alias("q")],
}
_S, _N, _Q = pl.col("s").sum(), pl.col("n").sum(), pl.col("q").sum()
_OF_A_WINDOW = {
    "SUM": _S,
    "AVG": _S / _N,
    "MAX": pl.col("s").max(),
    "STDDEV": pl.when(_N > 1).then(((_Q - _S * _S / _N) / (_N - 1)).clip(lower_bound=0).sqrt()),
}


def contestant(job: Job) -> dict[str, Any]:
    checked, _ = _run(job.about, job.small, job.checked(), collect=True)
    answers.write(checked, job.answers)
    _, marks = _run(job.about, job.folder, job.queries(), collect=False)
    return {"runs": [plain(marks)]}


def _run(topic: Topic, folder: str, queries: list[AggregateQuery], collect: bool) -> tuple[list[pa.Table], list[Mark]]:
    kept: pl.DataFrame | None = None
    before: int | None = None
    tables: list[pa.Table] = []
    marks = []
    longest = max(query.range for query in queries)
    for file in files_of(folder):
        rows = pl.read_parquet(file).select(
            pl.col(topic.clock).dt.epoch("us").alias("clock"),
            pl.col(topic.key).alias("key"),
            pl.col(topic.value).alias("v"),
            pl.col(topic.compared).alias("c"),
        )
        kept = rows if kept is None else pl.concat([kept, rows])
        watermark = int(kept["clock"].max() or 0) // topic.unit_micros - topic.delay
        before = int(kept["clock"].min() or 0) // topic.unit_micros if before is None else before
        for query in queries:
            table = _answers(kept, topic, query, before, watermark).to_arrow()
            if collect:
                columns = (table[name].combine_chunks() for name in ("e", "key", "x"))
                tables.append(answers.as_table(query.number, *columns))
        before = watermark
        kept = kept.filter(pl.col("clock") >= (watermark - longest) * topic.unit_micros)
        marks.append(mark(rows.height))
    return tables, marks


def _answers(rows: pl.DataFrame, topic: Topic, query: AggregateQuery, before: int, watermark: int) -> pl.DataFrame:
    """The instances that end after `before` and not after the watermark, both in units."""
    slide = query.slide * topic.unit_micros
    first, last = before // query.slide + 1, watermark // query.slide
    lazy = rows.lazy().filter(pl.col("clock").is_between((first - query.slides) * slide, last * slide, closed="left"))
    if query.above is not None:
        lazy = lazy.filter(pl.col("c") > query.above)
    slides = lazy.group_by((pl.col("clock") // slide).alias("at"), "key").agg(_OF_A_SLIDE[query.function])
    lowest, highest = pl.max_horizontal(pl.col("at") + 1, first), pl.min_horizontal(pl.col("at") + query.slides, last)
    ends = slides.with_columns(pl.int_ranges(lowest, highest + 1).alias("e")).explode("e").drop_nulls("e")
    answered = ends.group_by("e", "key").agg(_OF_A_WINDOW[query.function].alias("x"))
    return answered.select((pl.col("e") * slide).alias("e"), "key", "x").collect()


if __name__ == "__main__":
    serve(contestant)
