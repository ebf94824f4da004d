"""Rows that come too late for one query, and not for all, are counted for that query."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.runtime.projects import dead_letters, run_to_the_end, write_rows
from tests.runtime.workload_run import Run
from weft.algebra import Value
from weft.cli import app
from weft.loom import Loom

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

STREAMS = """
    CREATE STREAM s (n BIGINT, k STRING, v BIGINT) WATERMARK FOR n AS n - 2 USING memory;
    CREATE STREAM t (n BIGINT, k STRING, v BIGINT) WATERMARK FOR n AS n - 9 USING memory;
    CREATE TABLE names (k STRING, name STRING) USING memory;
    CREATE VIEW some AS SELECT n, k, v + 1 AS w FROM s WHERE v > 1;
"""

QUERIES = {
    # Takes every row, so that none is late for all.
    "everything": "SELECT n, v FROM s WHERE v > 100",
    "everything_of_t": "SELECT n, v FROM t WHERE v > 100",
    "windowed": "SELECT k, SUM(v) AS total FROM s [ROWS 10 SLIDE 5] WHERE v > 2 AND k = 'a' GROUP BY k",
    "wide": "SELECT COUNT(*) AS c FROM s [ROWS 40 SLIDE 20]",
    "gaps": "SELECT COUNT(*) AS c FROM s [ROWS 3 SLIDE 10] WHERE v IS NOT NULL",
    "alone": "SELECT MEDIAN(v) AS m FROM s [ROWS 10 SLIDE 5] WHERE v > 2",
    "rows": "SELECT n, w FROM some [ROWS 10 SLIDE 10] WHERE w < 9",
    "running": "SELECT k, COUNT(*) AS c FROM s GROUP BY k",
    "joined": "SELECT a.n, b.v FROM s [ROWS 9] a, t [ROWS 9] b WHERE a.k = b.k AND a.v > 2 AND b.v < 8 AND a.v <= b.v",
    "paired": "SELECT a.n, b.w FROM s [ROWS 9] a, some [ROWS 9] b WHERE a.k = b.k AND a.v > 3",
    "distinct_values": "SELECT DISTINCT k FROM s WHERE v > 4 RETAIN 10",
    "united": "SELECT k FROM s WHERE v > 2 UNION SELECT k FROM t RETAIN 10",
    "remembered": "SELECT k FROM s UNION SELECT k FROM t RETAIN UNBOUNDED",
    "both": "SELECT COUNT(*) AS c FROM (SELECT n, v FROM s WHERE v > 1 UNION ALL SELECT n, w AS v FROM some) u "
    "[ROWS 5] WHERE v < 7",
    "nested": "SELECT MAX(total) AS top FROM (SELECT SUM(v) AS total FROM s [ROWS 5 SLIDE 5] WHERE v > 1) i "
    "[ROWS 20 SLIDE 20]",
    "named": "SELECT m.name, COUNT(*) AS c FROM s JOIN names m ON s.k = m.k WHERE s.v > 2 AND m.name > 'b' "
    "GROUP BY m.name, window(s.n, 10, 10)",
    "reader": "SELECT COUNT(*) AS c FROM windowed [ROWS 20 SLIDE 20]",
}


def drawn(cycle: int, chance: random.Random) -> list[tuple[Value, ...]]:
    """Rows of which a third are older than the watermark."""
    return [
        (10 * cycle + chance.randint(-60, 9), chance.choice(("a", "b", None)), chance.choice((None, *range(10))))
        for _ in range(chance.randint(3, 12))
    ]


@pytest.mark.parametrize("sharing", ["on", pytest.param("off", marks=pytest.mark.prove)])
def test_late_rows_of_every_kind_of_query_are_counted_like_the_oracle(
    sharing: str, beside_oracle: Callable[[str], Run]
) -> None:
    run = beside_oracle(STREAMS)
    if sharing == "off":
        run.loom.execute("SET sharing = off")
    for name, query in QUERIES.items():
        run.execute(f"CREATE CONTINUOUS QUERY {name} AS {query}")
    run.load(names=[("a", "anna"), ("b", "bea")])
    chance = random.Random(7)
    for cycle in range(6):
        if cycle == 4:
            # What is counted belongs to the query: another one under its name begins again.
            run.execute(f"DROP CONTINUOUS QUERY gaps; CREATE CONTINUOUS QUERY gaps AS {QUERIES['gaps']}")
            run.restart()
        assert run.take(s=drawn(cycle, chance), t=drawn(cycle, chance)) == ""
    lost = run.engine.last.late
    never = {"everything", "everything_of_t", "running", "remembered", "reader"}
    assert lost.keys() == QUERIES.keys() - never


def test_rows_that_are_late_for_all_queries_belong_to_the_stream(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{STREAMS} CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) AS c FROM s [ROWS 5]")
    assert run.take(s=[(1, "a", 1), (50, "a", 1)]) == ""
    assert run.take(s=[(2, "a", 1), (3, "a", 1)]) == ""
    assert run.engine.last.streams["s"].late == 2
    assert run.engine.last.late == {}


def test_late_rows_can_be_kept_with_the_queries_that_lost_them(loom: Loom, tmp_path: Path) -> None:
    """Also of files that are read straight, and by queries that share partials and others."""
    loom.execute(
        f"CREATE STREAM s (n BIGINT, x BIGINT) WATERMARK FOR n AS n USING parquet "
        f"OPTIONS (path '{tmp_path / 'in'}', maxFilesPerTrigger '1');"
        "CREATE CONTINUOUS QUERY `it's` AS SELECT COUNT(*) AS c FROM s [ROWS 10] WHERE x > 1;"
        "CREATE CONTINUOUS QUERY pairs AS SELECT a.n FROM s [ROWS 9] a, s [ROWS 9] b WHERE a.x = b.x AND b.x > 2;"
        "CREATE CONTINUOUS QUERY sel AS SELECT n, x FROM s WHERE x > 100; SET late_rows = 'dead letter'"
    )
    write_parquet(tmp_path / "in", 1, n=[1, 50], x=[1, 1])
    write_parquet(tmp_path / "in", 2, n=[2, 3, 4, 60], x=[1, 2, 3, 3])
    run_to_the_end(loom)
    assert loom.start(until_idle=True).last.late == {"it's": 2, "pairs": 4}
    loom.wait()
    kept = [(each["row"], each["queries"]) for each in dead_letters(loom, "s") if each["reason"] == "late for some"]
    assert sorted(kept, key=lambda each: each[0]["n"]) == [
        ({"n": 2, "x": 1}, ["pairs"]),
        ({"n": 3, "x": 2}, ["it's", "pairs"]),
        ({"n": 4, "x": 3}, ["it's", "pairs"]),
    ]


def write_parquet(folder: Path, number: int, **columns: list[int]) -> None:
    """A file of a stream; later numbers are taken later."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{number}.parquet"
    pq.write_table(pa.table(columns), file)
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def test_operands_of_a_union_are_judged_by_the_watermark_of_both(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{STREAMS} CREATE CONTINUOUS QUERY q AS {QUERIES['united']}")
    assert run.take(s=[(100, "a", 5)], t=[(50, "a", 5)]) == ""
    # Below the watermark of s, which is 98, and not below that of t, which is 41.
    assert run.take(s=[(60, "b", 5)]) == ""
    assert run.engine.last.streams["s"].late == 0


def test_status_shows_what_each_query_lost(spark: SparkSession, loom: Loom, tmp_path: Path) -> None:
    loom.execute(
        f"CREATE STREAM s (n BIGINT, x BIGINT) WATERMARK FOR n AS n USING json OPTIONS (path '{tmp_path / 'in'}');"
        "CREATE CONTINUOUS QUERY win AS SELECT COUNT(*) AS c FROM s [ROWS 10];"
        "CREATE CONTINUOUS QUERY sel AS SELECT n, x FROM s WHERE x > 100"
    )
    write_rows(tmp_path / "in", "1.json", [{"n": 1, "x": 1}, {"n": 50, "x": 1}])
    run_to_the_end(loom)
    write_rows(tmp_path / "in", "2.json", [{"n": 2, "x": 1}, {"n": 3, "x": 1}, {"n": 60, "x": 3}])
    run_to_the_end(loom)
    found = CliRunner().invoke(app, ["status", "--project", str(loom.directory), "--json"])
    document = json.loads(found.output)
    assert document["late"] == {"win": 2, "sel": 0}
    assert document["streams"]["s"]["late"] == 0
    shown = CliRunner().invoke(app, ["status", "--project", str(loom.directory)])
    assert "late rows" in shown.output
