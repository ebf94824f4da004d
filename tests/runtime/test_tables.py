"""Tables in the engine: what is read when, what a second attempt joins, what the network keeps, and bad input."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.runtime.projects import rows_of, run_to_the_end, write_rows, write_text
from tests.runtime.workload_run import Run
from weft.loom import Loom

pytestmark = pytest.mark.spark

GIVEN = (
    "CREATE STREAM s (n BIGINT, k STRING) WATERMARK FOR n AS n USING json OPTIONS (path '{0}/s');"
    "CREATE TABLE r (k STRING, w INT) USING parquet OPTIONS (path '{0}/r');"
    "CREATE CONTINUOUS QUERY q AS SELECT s.n, r.w FROM s JOIN r ON s.k = r.k"
)

_times = count(1_700_000_000)


def write_table(folder: Path, rows: Mapping[str, Sequence[object]], name: str = "r") -> Path:
    """The one file of a table; another time tells it from the one before."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    file = folder / name / "rows.parquet"
    pq.write_table(pa.table(rows), file)
    time = next(_times)
    os.utime(file, (time, time))
    return file


def snapshots(loom: Loom) -> list[str]:
    return sorted(each.name for each in (loom.directory / "state" / "tables").iterdir() if each.is_dir())


def answer(loom: Loom, name: str = "q") -> list[tuple[object, ...]]:
    return rows_of(loom.results(name))


# -- what is read, and when


def test_rows_are_read_at_the_start_and_hold_until_the_stop(loom: Loom, tmp_path: Path) -> None:
    write_table(tmp_path, {"w": [1, 2, 3], "more": ["x", "y", "z"], "K": ["a", "a", "b"]})
    loom.execute(GIVEN.format(tmp_path))
    write_rows(tmp_path / "s", "0.json", [{"n": 1, "k": "a"}, {"n": 2, "k": "c"}])
    run_to_the_end(loom)
    assert answer(loom) == [(1, 1), (1, 2)]
    before = snapshots(loom)
    write_rows(tmp_path / "s", "1.json", [{"n": 3, "k": "b"}])
    run_to_the_end(loom)
    assert answer(loom) == [(1, 1), (1, 2), (3, 3)]
    assert snapshots(loom) == before


def test_a_file_that_has_changed_is_read_again_and_nothing_is_taken_back(loom: Loom, tmp_path: Path) -> None:
    write_table(tmp_path, {"k": ["a"], "w": [1]})
    loom.execute(GIVEN.format(tmp_path))
    write_rows(tmp_path / "s", "0.json", [{"n": 1, "k": "a"}])
    run_to_the_end(loom)
    (before,) = snapshots(loom)
    write_table(tmp_path, {"k": ["a"], "w": [7]})
    write_rows(tmp_path / "s", "1.json", [{"n": 2, "k": "a"}])
    run_to_the_end(loom)
    assert answer(loom) == [(1, 1), (2, 7)]
    # The last commit before this start went by the old one; the next start drops it.
    assert before in snapshots(loom)
    run_to_the_end(loom)
    assert before not in snapshots(loom)
    assert len(snapshots(loom)) == 1


def test_text_formats_read_their_declared_columns(loom: Loom, tmp_path: Path) -> None:
    write_text(tmp_path / "c", "r.csv", "k,w\na,1\nb,\n")
    write_rows(tmp_path / "j", "r.json", [{"k": "a", "w": 5}, {"k": "b"}])
    loom.execute(
        f"CREATE STREAM s (n BIGINT, k STRING) WATERMARK FOR n AS n USING json OPTIONS (path '{tmp_path}/s');"
        f"CREATE TABLE c (k STRING, w INT) USING csv OPTIONS (path '{tmp_path}/c', header true);"
        f"CREATE TABLE j (k STRING, w INT) USING json OPTIONS (path '{tmp_path}/j');"
        "CREATE CONTINUOUS QUERY q AS SELECT s.n, c.w, j.w AS v FROM s, c, j WHERE s.k = c.k AND s.k = j.k"
    )
    write_rows(tmp_path / "s", "0.json", [{"n": 1, "k": "a"}, {"n": 2, "k": "b"}])
    run_to_the_end(loom)
    assert answer(loom) == [(1, 1, 5), (2, None, None)]


def test_a_table_from_python_is_attached_again_after_opening(spark: SparkSession, tmp_path: Path) -> None:
    project = tmp_path / "project"
    rows = pa.table({"k": ["a", "b"], "w": pa.array([1, 2], pa.int32())})
    with Loom.open(project) as loom:
        loom.table("r", rows)
        loom.table("f", spark.createDataFrame(rows))
        loom.execute(
            f"CREATE STREAM s (n BIGINT, k STRING) WATERMARK FOR n AS n USING json OPTIONS (path '{tmp_path}/s');"
            "CREATE CONTINUOUS QUERY q AS SELECT s.n, r.w + f.w AS w FROM s, r, f WHERE s.k = r.k AND s.k = f.k"
        )
        write_rows(tmp_path / "s", "0.json", [{"n": 1, "k": "b"}])
        run_to_the_end(loom)
        assert answer(loom) == [(1, 4)]
    with Loom.open(project) as loom:
        run_to_the_end(loom)
        assert loom.errors()["q"].startswith("table 'r' comes from Python: hand its rows to loom.table")
        with pytest.raises(ValueError, match="table 'r' is registered with other columns"):
            loom.table("r", rows.select(["k"]))
        assert [field.name for field in loom.table("r", rows).fields] == ["k", "w"]


def test_statements_about_tables(loom: Loom) -> None:
    loom.execute(GIVEN.format("x"))
    (shown,) = loom.execute("SHOW TABLES")
    assert shown.rows == (("r", "parquet", "x/r"),)
    (described,) = loom.execute("DESCRIBE r")
    assert described.message == "table r from parquet"
    assert described.rows == (("k", "STRING"), ("w", "INT"))
    (again,) = loom.execute("CREATE TABLE r (k STRING, w INT) USING parquet OPTIONS (path 'x/r')")
    assert again.message == "r is registered already"
    loom.execute("DROP CONTINUOUS QUERY q; DROP TABLE r")
    assert loom.catalog.tables() == ()


# -- bad input


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "table 'r' cannot be read from parquet: .*PATH_NOT_FOUND.*; check its columns and OPTIONS"),
        ({"k": ["a"]}, "table 'r' declares w, but its source has only k"),
        ({"k": ["a", "b"], "w": [1, 3_000_000_000]}, "table 'r' has 1 row whose w is no INT, such as '3000000000'"),
        ({"k": ["a", "b"], "w": [1.5, 2.5]}, "table 'r' has 2 rows whose w is no INT, such as '2.5'"),
        ({"k": ["a"], "w": [[1]]}, "table 'r' cannot be read from parquet: .*"),
    ],
)
def test_a_table_that_is_not_as_declared_stops_its_readers(
    loom: Loom, tmp_path: Path, rows: Mapping[str, Sequence[object]] | None, message: str
) -> None:
    if rows is not None:
        write_table(tmp_path, rows)
    loom.execute(GIVEN.format(tmp_path))
    write_rows(tmp_path / "s", "0.json", [{"n": 1, "k": "a"}])
    run_to_the_end(loom)
    assert re.match(message, loom.errors()["q"])
    # Once it is mended, all is well.
    write_table(tmp_path, {"k": ["a"], "w": [1]})
    run_to_the_end(loom)
    assert answer(loom) == [(1, 1)]


@pytest.mark.parametrize(
    ("format_", "text", "message"),
    [
        ("csv", "k,w\na,x\n", "table 'r' has 1 row that cannot be read as declared, such as 'a,x'"),
        ("csv", "k,v\na,1\n", "table 'r' cannot be read from csv: CSV header .* Expected: w but found: v"),
        ("json", '{"k": "a", "w": 1}\n{"k": \n', "table 'r' has 1 row that cannot be read as declared"),
    ],
)
def test_rows_that_cannot_be_read_stop_the_readers_of_their_table(
    loom: Loom, tmp_path: Path, format_: str, text: str, message: str
) -> None:
    write_text(tmp_path / "r", f"rows.{format_}", text)
    loom.execute(
        f"CREATE STREAM s (n BIGINT, k STRING) WATERMARK FOR n AS n USING json OPTIONS (path '{tmp_path}/s');"
        f"CREATE TABLE r (k STRING, w INT) USING {format_} OPTIONS (path '{tmp_path}/r', header true);"
        "CREATE CONTINUOUS QUERY q AS SELECT s.n, r.w FROM s, r WHERE s.k = r.k;"
        "CREATE CONTINUOUS QUERY p AS SELECT n FROM s WHERE n > 0"
    )
    write_rows(tmp_path / "s", "0.json", [{"n": 1, "k": "a"}])
    run_to_the_end(loom)
    assert loom.errors().keys() == {"q"}
    assert re.match(message, loom.errors()["q"])
    assert rows_of(loom.results("p")) == [(1,)]


# -- cycles

TWO = (
    "CREATE STREAM s (n BIGINT, k STRING) WATERMARK FOR n AS n - 5 USING memory;"
    "CREATE STREAM t (n BIGINT, k STRING) WATERMARK FOR n AS n - 5 USING memory;"
    "CREATE TABLE r (k STRING, w BIGINT) USING memory;"
)
ENRICHED = "CREATE CONTINUOUS QUERY q AS SELECT s.n, r.w FROM s, r WHERE s.k = r.k"
THREE = "SELECT s.n, t.n AS m, r.w FROM s [ROWS 20], r, t [ROWS 20] WHERE s.k = r.k AND r.w = t.n"


@pytest.mark.parametrize("step", ["begin", "network", "deliver", "rename"])
def test_a_second_attempt_joins_the_rows_of_the_first(beside_oracle: Callable[[str], Run], step: str) -> None:
    """The table changes between the attempts: what was perhaps delivered must not."""
    run = beside_oracle(TWO + ENRICHED)
    run.load(r=[("a", 1)])
    assert run.take(s=[(1, "a")]) == ""
    run.crash_at = step
    changed = pa.table({"k": ["a", "a"], "w": [5, 6]})
    run.tables["r"] = changed
    assert run.take(s=[(2, "a")]) == ""
    run.oracle.load(r=[("a", 5), ("a", 6)])
    assert run.take(s=[(3, "a")]) == ""


def test_rows_joined_with_a_table_are_joined_again_when_it_changes(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TWO} CREATE CONTINUOUS QUERY q AS {THREE}; CREATE CONTINUOUS QUERY p SHARING OFF AS {THREE}")
    run.load(r=[("a", 10), ("b", 11)])
    assert run.take(s=[(1, "a"), (2, "b")]) == ""
    assert any(log.startswith("joined") for log in run.engine.last.logs)
    run.load(r=[("a", 11), ("b", 12)])
    assert run.take(t=[(10, "x"), (11, "x"), (12, "x")]) == ""
    assert run.take(s=[(13, "b")]) == ""


def test_queries_that_come_later_see_the_whole_table_and_share_its_rows(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(TWO + ENRICHED)
    run.load(r=[("a", 1), ("b", 2), ("c", 3)])
    assert run.take(s=[(1, "a")]) == ""
    run.execute("CREATE CONTINUOUS QUERY p AS SELECT t.n, r.w FROM t, r WHERE t.k = r.k AND r.w > 1")
    assert run.take(s=[(2, "b")], t=[(2, "a"), (3, "c")]) == ""
    run.execute("CREATE CONTINUOUS QUERY o AS SELECT s.n, r.k FROM s, r WHERE s.n = r.w")
    assert run.take(s=[(1, "x"), (3, "y")], t=[(4, "b")]) == ""
    assert all(state.shared for state in run.engine.last.queries.values())


def test_rows_that_join_only_tables_are_not_stored(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        f"{TWO} {ENRICHED}; CREATE TABLE o (k STRING, w BIGINT) USING memory;"
        "CREATE CONTINUOUS QUERY p AS SELECT s.n, o.k FROM s, r, o WHERE s.k = r.k AND r.w = o.w;"
        "CREATE CONTINUOUS QUERY a SHARING OFF AS SELECT s.n, r.w FROM s, r WHERE s.k = r.k"
    )
    run.load(r=[("a", 1), ("b", 2)], o=[("x", 1), ("y", 2)])
    for cycle in range(3):
        assert run.take(s=[(cycle, "a"), (cycle, "b")]) == ""
        assert sorted(run.engine.last.logs) == ["table o", "table r"]
    held = run.engine._runner._joins._held
    assert {name: sum(chunk.table.num_rows for chunk in each.chunks) for name, each in held.items()} == {
        "table o": 2,
        "table r": 2,
    }


def test_kept_rows_may_stay_with_the_executors(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TWO} {ENRICHED}; CREATE CONTINUOUS QUERY p AS {THREE}")
    run.loom.execute("SET kernels = executors")
    run.load(r=[("a", 10), ("b", 11)])
    assert run.take(s=[(1, "a"), (2, "b")]) == ""
    assert run.take(t=[(10, "x"), (11, "x")], s=[(3, "a")]) == ""


def test_an_empty_table_meets_nothing(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TWO} {ENRICHED}; CREATE CONTINUOUS QUERY p AS {THREE}")
    run.load(r=[])
    assert run.take(s=[(1, "a")], t=[(1, "a")]) == ""
    run.load(r=[("a", 1)])
    assert run.take(s=[(2, "a")]) == ""


def test_windows_over_a_join_with_a_table(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        f"{TWO} CREATE VIEW placed AS SELECT s.n, s.k, r.w FROM s, r WHERE s.k = r.k;"
        "CREATE CONTINUOUS QUERY a AS"
        "  SELECT r.w, COUNT(*) AS c FROM s [ROWS 10 SLIDE 5], r WHERE s.k = r.k GROUP BY r.w;"
        "CREATE CONTINUOUS QUERY b AS SELECT w, MEDIAN(n) AS c FROM placed [ROWS 10 SLIDE 10] GROUP BY w;"
        "CREATE CONTINUOUS QUERY c AS SELECT w, MAX(n) AS c FROM TUMBLE(placed, n, 10) GROUP BY w;"
        "CREATE CONTINUOUS QUERY d AS SELECT r.k, SUM(r.w) AS c FROM s, r WHERE s.k <> r.k GROUP BY r.k;"
        "CREATE CONTINUOUS QUERY e AS SELECT DISTINCT r.w FROM s, r WHERE s.k = r.k RETAIN 10;"
        "CREATE CONTINUOUS QUERY f AS SELECT a.c, r.k FROM a, r WHERE a.w = r.w"
    )
    run.load(r=[("a", 1), ("b", 2), ("b", 3)])
    for first in (0, 8, 6, 20, 31):
        assert run.take(s=[(first, "a"), (first + 1, "b"), (first - 4, "b")]) == ""
    run.load(r=[("a", 4), ("b", 2)])
    assert run.take(s=[(40, "a"), (44, "b")]) == ""
    assert run.take({"s": 100}) == ""


def test_files_of_a_table_with_other_columns_are_refused(loom: Loom, tmp_path: Path) -> None:
    """Spark goes by the columns of one file, and would give NULLs for the others."""
    folder = tmp_path / "table"
    folder.mkdir()
    write_rows(tmp_path / "data", "a.json", [{"n": 1, "k": 1}])
    loom.execute(
        f"CREATE STREAM s (n BIGINT, k BIGINT) WATERMARK FOR n AS n USING json OPTIONS (path '{tmp_path / 'data'}');"
        f"CREATE TABLE t (k BIGINT, name STRING) USING parquet OPTIONS (path '{folder}');"
        "CREATE CONTINUOUS QUERY q AS SELECT s.n, t.name FROM s JOIN t ON s.k = t.k"
    )
    pq.write_table(pa.table({"k": [1], "name": ["a"]}), folder / "0.parquet")
    for other, said in (({"k": [2]}, "has no column name"), ({"k": ["2"], "name": ["b"]}, "k is string in ")):
        pq.write_table(pa.table(other), folder / "1.parquet")
        run_to_the_end(loom)
        assert said in loom.errors()["q"]
    pq.write_table(pa.table({"k": [2], "name": ["b"], "more": [0]}), folder / "1.parquet")
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(1, "a")]
