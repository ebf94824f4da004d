"""Rows on a provider's disk: one folder for each cycle, there whole or not at all.

    rows/000000000012/mark.json       the place in the log, and the clocks of all streams there
    rows/000000000012/rows.parquet    the rows of the batch's stream that the provider's queries want; perhaps none

Cycles are numbered by the provider, without gaps. A batch that none of its queries reads has none; so the folder also
says which batch a cycle is. A batch that comes again, after a crash, finds its folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weft.delivery.log.checked_file import Damaged, read_checked, write_checked
from weft.federation.federation_errors import FederationError
from weft.federation.live.site_directory import FEED_AGAIN
from weft.files.atomic import publish, write_atomically
from weft.files.private_files import private_folder
from weft.runtime.state.checksums import Seal, fault, seal_of

#: Folders of committed cycles that stay, for those who want to look.
_KEPT = 3


@dataclass(frozen=True)
class InboxCycle:
    """A cycle that can be run: the batch's place, the file of its rows by stream, and the clocks after it."""

    cycle: int
    place: int
    is_batch: bool
    rows: Mapping[str, Path]
    clocks: Mapping[str, int]


class RowInbox:
    """The cycles that one engine can run, or has run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder)
        for each in folder.glob("*.draft"):
            shutil.rmtree(each)
        self._cycles = sorted(int(each.name) for each in folder.iterdir())

    @property
    def last(self) -> InboxCycle | None:
        return self.at(self._cycles[-1]) if self._cycles else None

    def at(self, cycle: int) -> InboxCycle:
        mark = self._mark(cycle)
        rows = {mark["stream"]: self._path(cycle) / "rows.parquet"} if mark["rows"] else {}
        return InboxCycle(cycle, mark["place"], mark["stream"] is not None, rows, mark["clocks"])

    def put(self, place: int, stream: str | None, rows: pa.Table | None, clocks: Mapping[str, int]) -> InboxCycle:
        """Keep a batch for the next cycle; one that is here already is not kept again.

        Without a stream the cycle is no batch, and only brings the clocks forward.
        """
        last = self.last
        if last is not None and (last.place, last.is_batch) == (place, stream is not None):
            self._check_rows(last.cycle)
            return last
        cycle = self._cycles[-1] + 1 if self._cycles else 0
        draft = self._path(cycle).with_suffix(".draft")
        private_folder(draft)
        seal = _write_rows(rows, draft / "rows.parquet") if rows is not None and rows.num_rows else None
        mark = {"place": place, "stream": stream, "rows": seal is not None, "seal": seal, "clocks": dict(clocks)}
        write_checked(draft / "mark.json", mark)
        publish(draft, self._path(cycle))
        self._cycles.append(cycle)
        return self.at(cycle)

    def delete(self, before: int) -> None:
        """Delete the rows of cycles that are committed, but for a few."""
        while len(self._cycles) > _KEPT and self._cycles[0] < before - _KEPT:
            shutil.rmtree(self._path(self._cycles.pop(0)))

    def _mark(self, cycle: int) -> dict[str, Any]:
        path = self._path(cycle) / "mark.json"
        try:
            mark = read_checked(path)
        except Damaged as error:
            raise _broken(path, f"is damaged ({error})") from error
        if mark is None:
            raise _broken(path, "is missing")
        return mark

    def _check_rows(self, cycle: int) -> None:
        """Raise FederationError if the rows of a cycle, which may be run again on them, are not those that came."""
        seal, path = self._mark(cycle)["seal"], self._path(cycle) / "rows.parquet"
        if seal is not None:
            wrong = fault(Seal(*seal), seal_of(path.read_bytes()) if path.exists() else None)
            if wrong is not None:
                raise _broken(path, wrong)

    def _path(self, cycle: int) -> Path:
        return self._folder / f"{cycle:012d}"


def _write_rows(rows: pa.Table, path: Path) -> Seal:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    data = sink.getvalue().to_pybytes()
    write_atomically(path, data)
    return seal_of(data)


def _broken(path: Path, what: str) -> FederationError:
    return FederationError(f"{path} {what}; {FEED_AGAIN}")
