"""Where answers go: memory and disk that stay bounded, files written exactly once, the console, functions."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.runtime.projects import rows_of, run_to_the_end, write_rows
from weft.loom import Loom
from weft.runtime.sinks.results import AnswerFiles, answers_in
from weft.runtime.sinks.sinks import write_answers
from weft.runtime.state.checksums import Seals
from weft.runtime.state.storage import Storage
from weft.sql import SqlError

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM s (n BIGINT, v BIGINT) WATERMARK FOR n AS n USING json"
COUNT = "SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10]"


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": list(values)})


# The newest answers on disk


def test_the_answers_on_disk_stay_bounded_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    storage = Storage.at(spark, tmp_path.as_uri())
    sealed: dict[str, Seals] = {}
    for cycle in range(30):
        files = AnswerFiles(storage, 6, sealed)
        files.write(cycle, {"q": numbers(cycle, cycle)})
        files.committed()
        sealed = files.seals
    kept = sorted((tmp_path / "answers").glob("*.msgpack"))
    assert [int(file.stem) for file in kept] == [27, 28, 29]


def test_answers_of_many_queries_share_a_file(spark: SparkSession, tmp_path: Path) -> None:
    answers = {"a": numbers(1, 2), "b": pa.table({"y": ["z"]})}
    AnswerFiles(Storage.at(spark, tmp_path.as_uri()), 10, {}).write(3, answers)
    (file,) = (tmp_path / "answers").glob("*.msgpack")
    data = file.read_bytes()
    assert answers_in(data, "a") == answers["a"]
    assert answers_in(data, "b") == answers["b"]
    assert answers_in(data, "c") is None


def test_the_answers_of_one_cycle_on_disk_are_bounded_per_query(spark: SparkSession, tmp_path: Path) -> None:
    AnswerFiles(Storage.at(spark, tmp_path.as_uri()), 3, {}).write(0, {"q": numbers(*range(10)), "r": numbers(1)})
    (file,) = (tmp_path / "answers").glob("*.msgpack")
    assert answers_in(file.read_bytes(), "q") == numbers(7, 8, 9)
    assert answers_in(file.read_bytes(), "r") == numbers(1)


# Files


def test_a_cycle_that_comes_again_replaces_its_file(spark: SparkSession, tmp_path: Path) -> None:
    sink = partial(write_answers, Storage.at(spark, tmp_path.as_uri()), "parquet")
    sink(numbers(1, 2), 7)
    sink(numbers(1, 2), 7)
    sink(numbers(3), 8)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["000000000007.parquet", "000000000008.parquet"]
    assert pq.read_table(tmp_path / "000000000007.parquet") == numbers(1, 2)


def test_an_unfinished_file_is_hidden_from_those_who_read_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    sink = partial(write_answers, Storage.at(spark, tmp_path.as_uri()), "json")
    sink(numbers(1), 0)
    Storage.at(spark, tmp_path.as_uri()).draft("000000000001.json", b'{"x": ')
    assert [row.x for row in spark.read.schema("x BIGINT").json(str(tmp_path)).collect()] == [1]


def test_json_has_a_form_for_every_value(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table(
        {
            "at": pa.array([datetime(2024, 2, 29, 12, 30, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "day": [date(2024, 2, 29)],
            "took": pa.array([timedelta(seconds=90)], pa.duration("us")),
            "exact": [Decimal("10.50")],
            "huge": pa.array([Decimal(2**80)], pa.decimal128(38, 0)),
            "bytes": [b"\x00\xff"],
            "nan": [float("nan")],
            "most": [float("inf")],
            "nothing": pa.array([None], pa.int64()),
        }
    )
    write_answers(Storage.at(spark, tmp_path.as_uri()), "json", table, 0)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads((tmp_path / "000000000000.json").read_text(), parse_constant=refuse) == {
        "at": "2024-02-29T12:30:00+00:00",
        "day": "2024-02-29",
        "took": 90.0,
        "exact": "10.50",
        "huge": 2**80,
        "bytes": "00ff",
        "nan": "NaN",
        "most": "Infinity",
        "nothing": None,
    }


# Queries


def test_each_query_writes_where_it_says(loom: Loom, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_rows(data, "a.json", [{"n": 1, "v": 1}, {"n": 12, "v": 1}])
    loom.execute(
        f"{STREAM} OPTIONS (path '{data}', maxFilesPerTrigger '1');"
        f"CREATE CONTINUOUS QUERY lines INTO json OPTIONS (path '{out / 'lines'}') AS {COUNT};"
        f"CREATE CONTINUOUS QUERY columns INTO parquet OPTIONS (path '{out / 'columns'}') AS {COUNT};"
        f"CREATE CONTINUOUS QUERY shown INTO console AS {COUNT};"
        f"CREATE CONTINUOUS QUERY kept AS {COUNT};"
    )
    called: list[tuple[int, list[tuple[object, ...]]]] = []
    loom.sink("kept", lambda answers, cycle: called.append((cycle, rows_of(answers))))
    run_to_the_end(loom)
    write_rows(data, "b.json", [{"n": 13, "v": 1}, {"n": 20, "v": 1}])
    run_to_the_end(loom)

    first, second = (0, 10, 1), (10, 20, 2)
    lines = [json.loads(file.read_text()) for file in sorted((out / "lines").glob("*.json"))]
    assert [tuple(line.values()) for line in lines] == [first, second]
    assert rows_of(pq.read_table(out / "columns")) == [first, second]
    assert rows_of(loom.results("kept")) == [first, second]
    assert called == [(0, [first]), (1, [second])]
    printed = capsys.readouterr().out
    assert "shown, cycle 0" in printed
    assert "shown, cycle 1" in printed


def test_results_are_those_of_the_query_that_stands_now(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_rows(data, "a.json", [{"n": 1, "v": 1}, {"n": 12, "v": 1}])
    loom.execute(f"{STREAM} OPTIONS (path '{data}'); CREATE CONTINUOUS QUERY q AS {COUNT}")
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(0, 10, 1)]
    loom.execute(f"DROP CONTINUOUS QUERY q; CREATE CONTINUOUS QUERY q AS {COUNT}")
    assert rows_of(loom.results("q")) == []
    write_rows(data, "b.json", [{"n": 25, "v": 1}, {"n": 40, "v": 1}])
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(20, 30, 1)]


# Folders


def test_a_folder_of_answers_has_one_writer(loom: Loom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    write_rows(tmp_path / "data", "1.json", [{"n": 1, "v": 1}])
    query = "CREATE CONTINUOUS QUERY {} INTO json OPTIONS (path '{}') AS SELECT v FROM s"
    loom.execute(f"{STREAM} OPTIONS (path '{tmp_path / 'data'}'); {query.format('a', tmp_path / 'out')}")
    for same in ("out", "./out/", "link", "other/../out", f"file://{tmp_path}/out"):
        with pytest.raises(SqlError, match=r"W702: query 'a' writes to .* already"):
            loom.execute(query.format("b", same))
    assert not loom.register(f"{query.format('b', 'c')}; {query.format('d', 'c/')}").ok
    run_to_the_end(loom)

    with Loom.open(tmp_path / "other") as other:
        other.execute(f"{STREAM} OPTIONS (path '{tmp_path / 'data'}'); {query.format('q', tmp_path / 'out')}")
        said: list[str] = []
        other.start(until_idle=True, say=said.append)
        other.wait()
        assert any("/out belongs to query 'a' of another project" in sentence for sentence in said), said

    loom.execute(f"DROP CONTINUOUS QUERY a; {query.format('a', tmp_path / 'out')}")
    write_rows(tmp_path / "data", "2.json", [{"n": 2, "v": 2}])
    run_to_the_end(loom)
    # Another query may have the folder when the first one is gone.
    loom.execute(f"DROP CONTINUOUS QUERY a; {query.format('b', tmp_path / 'out')}")
    write_rows(tmp_path / "data", "3.json", [{"n": 3, "v": 3}])
    run_to_the_end(loom)
    assert [file.read_text() for file in sorted((tmp_path / "out").glob("*.json"))] == [
        f'{{"v": {value}}}\n' for value in (1, 2, 3)
    ]
