"""Rows as Parquet files, one for each cycle: the history first, then increments. And the streams that read them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.network_workloads import fed_rows, med_rows

#: Spark takes files by their modification time; any past second will do to begin with.
_FIRST_MODIFIED = 1_700_000_000


@dataclass(frozen=True)
class RecordStream:
    """A stream of records: its name in queries, its columns, its clock, its rows and its usual sizes."""

    name: str
    columns: dict[str, str]
    clock: str
    rows: Callable[[int], pa.Table]
    history: int
    increment: int

    def statement(self, folder: Path | str) -> str:
        """CREATE STREAM for weft: one file in each cycle, no row late."""
        columns = ", ".join(f"{name} {type_}" for name, type_ in self.columns.items())
        return (
            f"CREATE STREAM {self.name} ({columns}) WATERMARK FOR {self.clock} AS {self.clock} "
            f"USING parquet OPTIONS (path '{folder}', maxFilesPerTrigger '1')"
        )

    def schema(self) -> str:
        """The columns as Spark reads them."""
        return ", ".join(f"{name} {type_}" for name, type_ in self.columns.items())

    def write(self, folder: Path, increments: int, history: int | None = None, increment: int | None = None) -> Path:
        """Write the history and so many increments; a folder that is there already is left as it is."""
        if folder.exists():
            return folder
        first = self.history if history is None else history
        each = self.increment if increment is None else increment
        table = self.rows(first + increments * each)
        write_files(table, folder, [first, *[each] * increments])
        return folder


FED = RecordStream("fed", fed_rows.COLUMNS, "tran_date", fed_rows.fed_rows, fed_rows.HISTORY, fed_rows.INCREMENT)
MED = RecordStream("med", med_rows.COLUMNS, "adate", med_rows.med_rows, med_rows.HISTORY, med_rows.INCREMENT)


def write_files(table: pa.Table, folder: Path, sizes: list[int]) -> None:
    """Rows in their order, as files of such sizes, which Spark will read in the order of their numbers."""
    folder.mkdir(parents=True)
    begin = 0
    for number, size in enumerate(sizes):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(table.slice(begin, size), path)
        os.utime(path, (_FIRST_MODIFIED + number, _FIRST_MODIFIED + number))
        begin += size


def files_of(folder: Path | str) -> list[Path]:
    """The files in the order in which they are read."""
    return sorted(Path(folder).glob("*.parquet"))
