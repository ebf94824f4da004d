"""The demonstration's answers, checked against DuckDB over the same year."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from weft.demo import ALL, prepare, queries
from weft.loom import Loom

_HOUR = 3_600_000_000

#: A project that has seen the whole year, and the year's rows in DuckDB.
Year = tuple[Loom, duckdb.DuckDBPyConnection]


def test_all_queries_of_the_demonstration_can_be_registered(tmp_path: Path) -> None:
    with prepare(tmp_path, ALL) as loom:
        assert len(loom.catalog.queries()) == ALL


def test_query_names_are_unique() -> None:
    names = [name for name, _ in queries(ALL)]
    assert len(set(names)) == ALL


@pytest.fixture(scope="module")
def year(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Year]:
    """All queries run over the year, and the same rows in DuckDB."""
    folder = tmp_path_factory.mktemp("demo")
    with prepare(folder, ALL, step="120 days") as loom:
        loom.execute("SET max_results = 1000000000")
        loom.start(until_idle=True)
        loom.wait()
        duck = duckdb.connect()
        duck.execute("SET TimeZone = 'UTC'")
        for name in ("flights", "weather"):
            duck.execute(f"CREATE TABLE {name} AS SELECT *, epoch_us(ts) AS t FROM '{folder / 'data' / name}.parquet'")
        duck.execute(f"CREATE TABLE airports AS SELECT * FROM '{folder / 'data' / 'airports.parquet'}'")
        yield loom, duck


def watermark(duck: duckdb.DuckDBPyConnection) -> int:
    found = duck.execute(f"SELECT max(t) - {_HOUR} FROM flights").fetchone()
    assert found is not None
    return int(found[0])


def same(ours: Sequence[object], theirs: Sequence[object]) -> bool:
    """Equal values; DOUBLEs up to what the order of adding makes of them."""
    return all(
        math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-9)
        if isinstance(mine, float) and isinstance(other, float)
        else mine == other
        for mine, other in zip(ours, theirs, strict=True)
    )


def ends(answers: pa.Table) -> list[int]:
    return [int(end.timestamp()) * 1_000_000 for end in answers["window_end"].to_pylist()]


@pytest.mark.spark
def test_carriers_by_day_equal_those_of_duckdb(year: Year) -> None:
    loom, duck = year
    answers = loom.results("carriers_by_day")
    theirs = duck.execute(
        f"""SELECT * FROM (
              SELECT t - t % {24 * _HOUR} + {24 * _HOUR} AS closes, carrier, count(*) AS flights, avg(dep_delay)
              FROM flights GROUP BY 1, 2
            ) WHERE flights > 20 AND closes <= {watermark(duck)}"""
    ).fetchall()
    columns = (answers[name].to_pylist() for name in ("carrier", "flights", "mean_delay"))
    ours = sorted(zip(ends(answers), *columns, strict=True))
    assert all(same(mine, other) for mine, other in zip(ours, sorted(theirs), strict=True))
    weeks = loom.results("worst_carrier_of_the_week")
    assert weeks.num_rows > 50


@pytest.mark.spark
def test_the_join_equals_that_of_duckdb(year: Year) -> None:
    loom, duck = year
    storms = loom.results("stormy_departures")
    pairs = duck.execute(
        f"""SELECT count(*), sum(f.dep_delay) FROM flights f JOIN weather w ON f.origin = w.origin
            WHERE w.wind_speed > 30 AND f.dep_delay > 60 AND f.t - w.t < {_HOUR} AND w.t - f.t < {_HOUR}"""
    ).fetchone()
    assert pairs == (storms.num_rows, sum(storms["dep_delay"].to_pylist()))


@pytest.mark.spark
def test_the_join_with_a_table_equals_that_of_duckdb(year: Year) -> None:
    loom, duck = year
    late = loom.results("very_late_arrivals")
    theirs = duck.execute(
        """SELECT epoch_us(f.ts), f.carrier, a.name, f.arr_delay FROM flights f JOIN airports a ON f.dest = a.faa
           WHERE f.arr_delay > 300"""
    ).fetchall()
    columns = (late[name].to_pylist() for name in ("carrier", "destination", "arr_delay"))
    clocks = [int(each.timestamp()) * 1_000_000 for each in late["ts"].to_pylist()]
    assert len(theirs) > 100
    assert sorted(zip(clocks, *columns, strict=True)) == sorted(theirs)


_DASHBOARD = re.compile(
    r"SELECT (.*) FROM flights \[RANGE (\d+) DAYS? SLIDE (\d+) (DAYS?|HOURS)\](.*?)(?: GROUP BY (.*))?$"
)


@pytest.mark.spark
@pytest.mark.parametrize(("name", "text"), list(queries(ALL))[4::9])
def test_dashboards_equal_those_of_duckdb(year: Year, name: str, text: str) -> None:
    loom, duck = year
    found = _DASHBOARD.match(text)
    assert found is not None
    listed, days, steps, unit, where, keys = found.groups()
    range_, slide = int(days) * 24 * _HOUR, int(steps) * _HOUR * (1 if unit == "HOURS" else 24)
    theirs = duck.execute(
        f"""SELECT k * {slide} + {range_} AS closes, {listed}
            FROM (SELECT *, unnest(generate_series((t - {range_}) // {slide} + 1, t // {slide})) AS k FROM flights)
            {where} GROUP BY ALL HAVING closes <= {watermark(duck)}"""
    ).fetchall()
    answers = loom.results(name)
    values = [answers[column].to_pylist() for column in answers.column_names[2:]]
    ours = list(zip(ends(answers), *values, strict=True))
    width = 1 + (len(keys.split(", ")) if keys else 0)
    expected = {row[:width]: row[width:] for row in theirs}
    assert len(ours) == len(expected) > 100
    for row in ours:
        assert same(row[width:], expected[row[:width]])
