"""Where a stream's owner takes its batches from: a folder of files, each of which becomes one batch, in order.

    CREATE STREAM trades (…) … USING parquet OPTIONS (path 'incoming/trades')      files as they appear
    CREATE STREAM flights (…) … USING replay OPTIONS (path 'flights.parquet', step '1 day')

A file must appear whole, under its final name, as for Spark. What is taken is copied: the owner keeps every batch, with
all rows and columns, until no query can need it again, and sends it again when a query has moved.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.algebra import Stream
from weft.algebra.properties import clock_type
from weft.algebra.types import TIMESTAMP
from weft.arrays.arrow_types import arrow_type
from weft.federation.federation_errors import FederationError
from weft.federation.live.role_store import RoleStore
from weft.files.atomic import publish
from weft.files.private_files import private_folder
from weft.runtime.sources import replay

#: The formats that a federation can read.
FORMATS = ("parquet", replay.FORMAT)

#: As in the engine: clocks that leave room for the arithmetic of windows.
_INSTANTS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_ORDINALS = (-(2**62), 2**62)

#: How far a TIMESTAMP may be ahead of the owner's time: one row from the far future would make all that follow late.
_MOST_AHEAD = 86_400_000_000

TABLES = (
    "batches (stream TEXT NOT NULL, number INTEGER NOT NULL, file TEXT NOT NULL, clock INTEGER, bad INTEGER NOT NULL, "
    "PRIMARY KEY (stream, number), UNIQUE (stream, file))",
)


def check_format(stream: Stream) -> None:
    """Raises FederationError if a stream's rows cannot be taken from files."""
    if stream.format not in FORMATS:
        raise FederationError(
            f"stream '{stream.name}' comes from {stream.format}; in a federation streams are USING parquet or replay: "
            "write what comes into Parquet files, and let the stream read their folder"
        )
    if "path" not in dict(stream.options):
        raise FederationError(f"stream '{stream.name}' needs OPTIONS (path '…'): the folder that its files appear in")


class BatchFiles:
    """The batches of one stream: those that were taken, by number, and the next one."""

    def __init__(self, stream: Stream, directory: Path, store: RoleStore) -> None:
        check_format(stream)
        self.stream = stream
        self._store = store
        self._kept = directory / "kept"
        private_folder(self._kept)
        path = Path(dict(stream.options)["path"])
        if stream.format == replay.FORMAT:
            folder = directory / "replay"
            path = replay.prepare(stream, folder)
            if "speed" in dict(stream.options):
                threading.Thread(
                    target=replay.feed, args=(stream, folder, threading.Event()), daemon=True, name="weft-replay"
                ).start()
        self._folder = path

    @property
    def taken(self) -> int:
        return int(self._store.rows("SELECT count(*) FROM batches WHERE stream = ?", self.stream.name)[0][0])

    def clock(self, number: int) -> int | None:
        """The largest clock of the stream up to a batch."""
        found = self._store.rows(
            "SELECT max(clock) FROM batches WHERE stream = ? AND number <= ?", self.stream.name, number
        )
        clock = found[0][0]
        return None if clock is None else int(clock)

    def take(self) -> int | None:
        """Take the next file, if there is one; the number of the batch that it becomes."""
        name = self._next_file()
        if name is None:
            return None
        number = self.taken
        rows, clock, bad = self._judged(self._read(self._folder / name))
        path = self._path(number)
        draft = path.with_suffix(".draft")
        pq.write_table(rows, draft)
        publish(draft, path)
        with self._store.transaction():
            self._store.rows("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", self.stream.name, number, name, clock, bad)
        return number

    def rows(self, number: int) -> pa.Table | None:
        """The rows of a batch that was taken; None if they were deleted."""
        try:
            return pq.read_table(self._path(number))
        except FileNotFoundError:
            return None

    def delete(self, before: int) -> None:
        """Delete the rows of batches with smaller numbers."""
        for path in self._kept.glob("*.parquet"):
            if int(path.stem) < before:
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._kept / f"{number:012d}.parquet"

    def _next_file(self) -> str | None:
        known = {name for (name,) in self._store.rows("SELECT file FROM batches WHERE stream = ?", self.stream.name)}
        try:
            found = [each for each in os.scandir(self._folder) if _is_data(each.name) and each.name not in known]
        except FileNotFoundError:
            return None
        return min(found, key=lambda each: (each.stat().st_mtime_ns, each.name)).name if found else None

    def _read(self, path: Path) -> pa.Table:
        try:
            found = pq.read_table(path)
            columns = {name.lower(): name for name in found.column_names}
            return pa.table(
                {
                    each.name: found[columns[each.name.lower()]].cast(arrow_type(each.type))
                    for each in self.stream.fields
                }
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, OSError) as error:
            reason = f"it has no column {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0]
            raise FederationError(
                f"{path} is no batch of stream '{self.stream.name}': {reason}; mend it or take it away, and start this "
                "site again"
            ) from error

    def _judged(self, rows: pa.Table) -> tuple[pa.Table, int | None, int]:
        """The rows whose clock can be believed, the largest of these clocks, and the number of other rows.

        What is wrong with a row is decided here, once, and not by each provider that it might reach.
        """
        clocks = rows[self.stream.clock].cast(pa.int64()).combine_chunks()
        least, most = _ORDINALS
        if clock_type(self.stream) == TIMESTAMP:
            least, most = _INSTANTS[0], min(_INSTANTS[1], time.time_ns() // 1000 + _MOST_AHEAD)
        good = pc.and_(pc.greater_equal(clocks, least), pc.less_equal(clocks, most)).fill_null(False)
        if not np.asarray(good).all():
            rows, clocks = rows.filter(good), clocks.filter(good)
        return rows, pc.max(clocks).as_py() if len(clocks) else None, len(good) - len(clocks)


def _is_data(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith((".", "_"))
