"""The demonstration's answers, checked against DuckDB over the same year."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from weft.demo.queries import ALL, queries
from weft.demo.show import prepare

_HOUR = 3_600_000_000


def test_all_queries_of_the_demonstration_can_be_registered(tmp_path: Path) -> None:
    with prepare(tmp_path, ALL) as loom:
        assert len(loom.catalog.queries()) == ALL


def test_query_names_are_unique() -> None:
    names = [name for name, _ in queries(ALL)]
    assert len(set(names)) == ALL


@pytest.mark.spark
def test_answers_equal_those_of_duckdb(tmp_path: Path, spark: SparkSession) -> None:
    with prepare(tmp_path, 3, step="120 days") as loom:
        loom.start(until_idle=True)
        loom.wait()
        carriers, storms = loom.results("carriers_by_day"), loom.results("stormy_departures")
        weeks = loom.results("worst_carrier_of_the_week")
    flights, weather = tmp_path / "data" / "flights.parquet", tmp_path / "data" / "weather.parquet"
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(f"CREATE VIEW flights AS SELECT *, epoch_us(ts) AS t FROM '{flights}'")
    duck.execute(f"CREATE VIEW weather AS SELECT *, epoch_us(ts) AS t FROM '{weather}'")
    watermark = duck.execute(f"SELECT max(t) - {_HOUR} FROM flights").fetchone()
    assert watermark is not None
    by_day = duck.execute(
        f"""SELECT * FROM (
              SELECT t - t % {24 * _HOUR} + {24 * _HOUR} AS closes, carrier, count(*) AS flights, avg(dep_delay)
              FROM flights GROUP BY 1, 2
            ) WHERE flights > 20 AND closes <= {watermark[0]}"""
    ).fetchall()
    ours = [
        (int(row["window_end"].timestamp()) * 1_000_000, row["carrier"], row["flights"], row["mean_delay"])
        for row in carriers.to_pylist()
    ]
    assert sorted(row[:3] for row in ours) == sorted(row[:3] for row in by_day)
    theirs = {row[:2]: row[3] for row in by_day}
    assert all(mean == pytest.approx(theirs[end, carrier], rel=1e-9) for end, carrier, _, mean in ours)

    pairs = duck.execute(
        f"""SELECT count(*), sum(f.dep_delay) FROM flights f JOIN weather w ON f.origin = w.origin
            WHERE w.wind_speed > 30 AND f.dep_delay > 60 AND f.t - w.t < {_HOUR} AND w.t - f.t < {_HOUR}"""
    ).fetchone()
    assert pairs == (storms.num_rows, sum(storms["dep_delay"].to_pylist()))
    assert weeks.num_rows > 50
