"""One Flink job of all queries: a statement set with a hopping window for each, over one source.

Flink's Python package reads text and not Parquet, so it gets the same rows as CSV; what reading them costs is measured
by itself (`reading`) and taken off. There are no batches: a run over half of the rows is taken off one over all.
The interpreter that runs this is named by WEFT_BENCH_FLINK_PYTHON; it needs apache-flink, pyarrow and rich.

Options: `half`, `all`, `small`: the text files, and `half_rows`, `all_rows`.
"""

from __future__ import annotations

import csv
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

from bench.aggregate_measurements.jobs import Job, serve
from bench.aggregate_measurements.workload import AggregateQuery, Topic
from bench.contest import Spent, mark

_FUNCTIONS = {"STDDEV": "STDDEV_SAMP"}
_SETTINGS = {
    "parallelism.default": "2",
    "table.local-time-zone": "UTC",
    # A hundred window operators share it; with Flink's 128 MB for all of them none can start.
    "taskmanager.memory.managed.size": "2gb",
}
_NOWHERE = "'connector' = 'blackhole'"


def contestant(job: Job) -> dict[str, Any]:
    options = job.options
    _write_answers(job)
    result: dict[str, Any] = {}
    for name, queries in (("reading", []), ("windows", job.queries())):
        _run(job.about, options["half"], queries, _NOWHERE)  # the plan is compiled, and the machine code of it
        half = _timed(job.about, options["half"], options["half_rows"], queries)
        whole = _timed(job.about, options["all"], options["all_rows"], queries)
        result[name] = asdict(Spent(whole.cpu - half.cpu, whole.wall - half.wall, whole.rows - half.rows))
    return result


def _environment() -> TableEnvironment:
    configuration = Configuration()
    for name, value in _SETTINGS.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    return TableEnvironment.create(settings)


def _source(environment: TableEnvironment, topic: Topic, path: str) -> None:
    # One file is one split, which one reader takes in its order: no row is late.
    environment.execute_sql(
        f"CREATE TABLE source ({topic.clock} TIMESTAMP(3), {topic.key} STRING, {topic.value} DOUBLE, "
        f"{topic.compared} DOUBLE, WATERMARK FOR {topic.clock} AS {topic.clock} - INTERVAL '{topic.delay}' "
        f"{topic.unit}) WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')"
    )


def _select(topic: Topic, query: AggregateQuery) -> str:
    seconds = {"slide": query.slide * topic.unit_seconds, "range": query.range * topic.unit_seconds}
    hop = (
        f"TABLE(HOP(TABLE source, DESCRIPTOR({topic.clock}), INTERVAL '{seconds['slide']}' SECOND(6), "
        f"INTERVAL '{seconds['range']}' SECOND(6)))"
    )
    where = "" if query.above is None else f" WHERE {topic.compared} > {query.above}"
    function = f"{_FUNCTIONS.get(query.function, query.function)}({topic.value})"
    return (
        f"SELECT CAST({query.number} AS BIGINT), window_end, {topic.key}, {function} FROM {hop}{where} "
        f"GROUP BY window_start, window_end, {topic.key}"
    )


def _run(topic: Topic, path: str, queries: list[AggregateQuery], sink: str) -> None:
    environment = _environment()
    _source(environment, topic, path)
    statements = environment.create_statement_set()
    if not queries:
        names = ", ".join(f"{name} {_flink_type(type_)}" for name, type_ in topic.columns.items())
        environment.execute_sql(f"CREATE TABLE rows_read ({names}) WITH ({_NOWHERE})")
        statements.add_insert_sql("INSERT INTO rows_read SELECT * FROM source")
    else:
        environment.execute_sql(
            f"CREATE TABLE answers (query BIGINT, window_end TIMESTAMP(3), key STRING, x DOUBLE) WITH ({sink})"
        )
        for query in queries:
            statements.add_insert_sql(f"INSERT INTO answers {_select(topic, query)}")
    statements.execute().wait()


def _flink_type(type_: str) -> str:
    return "TIMESTAMP(3)" if type_ == "TIMESTAMP" else type_


def _timed(topic: Topic, path: str, rows: int, queries: list[AggregateQuery]) -> Spent:
    before = mark(0)
    _run(topic, path, queries, _NOWHERE)
    after = mark(rows)
    return Spent(after.cpu - before.cpu, after.wall - before.wall, rows)


def _write_answers(job: Job) -> None:
    """Run the checked queries over the small file, and write their answers as everybody does."""
    with TemporaryDirectory(prefix="weft-bench-flink-") as folder:
        sink = f"'connector' = 'filesystem', 'path' = 'file://{folder}/answers', 'format' = 'csv'"
        _run(job.about, job.options["small"], job.checked(), sink)
        rows = [row for file in sorted(Path(folder, "answers").rglob("*")) if file.is_file() for row in _read(file)]
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        [
            pa.array([int(each) for each in columns[0]]),
            pa.array([_micros(each) for each in columns[1]]),
            pa.array(columns[2], pa.string()),
            pa.array([float(each) if each else None for each in columns[3]], pa.float64()),
        ],
        names=["query", "end", "key", "x"],
    )
    pq.write_table(table, job.answers)


def _read(file: Path) -> list[list[str]]:
    with file.open(newline="") as opened:
        return list(csv.reader(opened))


def _micros(text: str) -> int:
    instant = datetime.fromisoformat(text.replace(" ", "T")).replace(tzinfo=UTC)
    return int(instant.timestamp()) * 1_000_000


if __name__ == "__main__":
    serve(contestant)
