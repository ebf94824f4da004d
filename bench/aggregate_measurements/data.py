"""The rows: one Parquet file for each micro-batch, in the order of time, so that no row is late for anybody."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from bench.aggregate_measurements.workload import FLIGHTS
from weft.demo import write_parquet

#: The first instant, a whole minute, and how much event time a file of readings covers.
BEGIN = 1_700_000_040_000_000
FILE_MICROS = 60_000_000

#: Spark takes files by their modification time; any past second will do to begin with.
_FIRST_MODIFIED = 1_700_000_000


def write_readings(folder: Path, files: int, rows: int, *, keys: int = 100, seed: int = 1, first: int = 0) -> Path:
    """Write files of so many rows each, numbered from `first` on; a number and a seed always give the same rows."""
    folder.mkdir(parents=True, exist_ok=True)
    names = pa.array([f"s{number:07d}" for number in range(keys)])
    for number in range(first, first + files):
        _write(readings(number, rows, names, seed), folder, number)
    return folder


def readings(number: int, rows: int, names: pa.Array, seed: int) -> pa.Table:
    """The rows of one file: a minute of event time, sensors drawn evenly."""
    draw = np.random.default_rng([seed, number])
    clock = BEGIN + number * FILE_MICROS + np.sort(draw.integers(0, FILE_MICROS, rows))
    sensors = pa.DictionaryArray.from_arrays(pa.array(draw.integers(0, len(names), rows, dtype=np.int32)), names)
    return pa.table(
        {
            "ts": pa.array(clock, pa.timestamp("us", "UTC")),
            "sensor": sensors.cast(pa.string()),
            "temperature": draw.normal(20.0, 5.0, rows),
            "humidity": draw.uniform(0.0, 100.0, rows),
        }
    )


def write_flights(folder: Path, files: int, source: Path, *, rows: int | None = None) -> Path:
    """Write the year of flights, or its first rows, as so many files in the order of time."""
    flights, _ = write_parquet(source)
    table = pq.read_table(flights, columns=list(FLIGHTS.columns)).sort_by("ts").slice(0, rows)
    folder.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, table.num_rows, files + 1).astype(int)
    for number in range(files):
        _write(table.slice(bounds[number], bounds[number + 1] - bounds[number]), folder, number)
    return folder


def _write(table: pa.Table, folder: Path, number: int) -> None:
    path = folder / f"{number:05d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (_FIRST_MODIFIED + number, _FIRST_MODIFIED + number))


def files_of(folder: str | Path) -> list[Path]:
    """The files in the order in which all contestants take them."""
    return sorted(Path(folder).glob("*.parquet"))


def rows_in(file: Path) -> int:
    return int(pq.ParquetFile(file).metadata.num_rows)


def write_csv(folder: Path, path: Path, files: int) -> int:
    """The first files as one file of text, for those who read no Parquet; gives the number of rows."""
    rows = 0
    with path.open("wb") as file:
        for each in files_of(folder)[:files]:
            table = pq.read_table(each)
            # A clock of Flink has milliseconds; without its last digits no row changes its window.
            clock = table["ts"].cast(pa.timestamp("ms"), safe=False)
            plain = table.set_column(0, "ts", pc.strftime(clock, "%Y-%m-%d %H:%M:%S"))
            pcsv.write_csv(plain, file, pcsv.WriteOptions(include_header=False, quoting_style="none"))
            rows += table.num_rows
    return rows
