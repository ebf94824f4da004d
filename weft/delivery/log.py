"""The delivery log: the parcels of the newest cycles, one file each, in one directory.

    000000000017.pending    written before its cycle commits, and not there yet for readers
    000000000016.parcel     of a committed cycle; it never changes again
    routes.json             the itineraries of the parcels that were let go

One process writes, any number read. A file gets its name when it is whole. The oldest parcels go when there are too
many rows or bytes; their itineraries are gathered in `routes.json` first, so that a reader needs nothing else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.delivery import itinerary
from weft.delivery.errors import LogError
from weft.delivery.itinerary import Itinerary
from weft.delivery.parcel import Damaged, Head, Parcel, decode, encode, read_head

ROUTES: Final = "routes.json"
#: How far a broker has come, see `forwarder.py`.
ACKNOWLEDGED: Final = "acknowledged.json"
_PARCEL = re.compile(r"(\d{12})\.parcel")
_PENDING = re.compile(r"(\d{12})\.pending")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept. The newest parcel is kept whatever its size.

    `rows` and `bytes` bound what late joiners can still be given. `waiting_bytes` bounds what a broker has not taken
    yet: when there is more, the next cycle waits. `queue` bounds the batches that wait in memory for one user.
    """

    rows: int = 10_000_000
    bytes: int = 256 << 20
    waiting_bytes: int = 1 << 30
    queue: int = 64


def delivery_directory(project: Path) -> Path:
    """Where the delivery log of the project in a directory is."""
    return project / "delivery"


# -- reading ----------------------------------------------------------------------------------------------------------


def cycles(directory: Path) -> list[int]:
    """The cycles whose parcels are there, oldest first."""
    return _numbered(directory, _PARCEL)


def read_parcel(directory: Path, cycle: int) -> Parcel | None:
    """The parcel of a cycle; None if it is not there, or not any more. Raises LogError if it is damaged."""
    path = parcel_path(directory, cycle)
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except Damaged as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def head_of(directory: Path, cycle: int) -> Head | None:
    """A parcel without its rows; None if it is not there. Raises LogError if it is damaged."""
    path = parcel_path(directory, cycle)
    try:
        with path.open("rb") as file:
            return read_head(file)
    except FileNotFoundError:
        return None
    except Damaged as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def read_routes(directory: Path) -> dict[str, Itinerary]:
    """The newest itinerary of every query."""
    # A parcel may go while we look; its itineraries are then in a newer routes.json, which is read again.
    while True:
        routes, before = _gathered(directory), _stamp(directory)
        for cycle in cycles(directory):
            head = head_of(directory, cycle)
            routes.update({each.query: each for each in head.parcel.routes} if head else {})
        if _stamp(directory) == before:
            return routes


def parcel_path(directory: Path, cycle: int) -> Path:
    """The file of a committed cycle."""
    return directory / f"{cycle:012d}.parcel"


def _numbered(directory: Path, pattern: re.Pattern[str]) -> list[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(found[1]) for name in names if (found := pattern.fullmatch(name)))


def _gathered(directory: Path) -> dict[str, Itinerary]:
    path = directory / ROUTES
    try:
        documents = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    return {each["query"]: itinerary.from_json(each) for each in documents}


def _stamp(directory: Path) -> tuple[int, int] | None:
    try:
        found = (directory / ROUTES).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def clear(directory: Path) -> None:
    """Let go of all that a log has. Whatever else is in its directory stays."""
    for name in (ROUTES, ACKNOWLEDGED):
        (directory / name).unlink(missing_ok=True)
    for cycle in cycles(directory):
        parcel_path(directory, cycle).unlink(missing_ok=True)
    for cycle in _numbered(directory, _PENDING):
        (directory / f"{cycle:012d}.pending").unlink(missing_ok=True)


# -- writing ----------------------------------------------------------------------------------------------------------


class LogWriter:
    """The one writer of a log. It knows the sizes of all files, so that trimming need not look."""

    def __init__(self, directory: Path, limits: Limits) -> None:
        self.directory = directory
        self._limits = limits
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(directory, error) from error
        self.kept: dict[int, Head] = {}
        for cycle in cycles(directory):
            if (head := head_of(directory, cycle)) is not None:
                self.kept[cycle] = head
        self._gathered = _gathered(directory)

    @property
    def newest(self) -> int | None:
        """The newest committed cycle that published something."""
        return max(self.kept, default=None)

    def routes(self) -> dict[str, Itinerary]:
        """The newest committed itinerary of every query."""
        amended = {each.query: each for _, head in sorted(self.kept.items()) for each in head.parcel.routes}
        return {**self._gathered, **amended}

    def write(self, parcel: Parcel) -> None:
        """Keep a parcel until its cycle is committed. One of the same cycle takes its place."""
        _write(self._pending_path(parcel.cycle), encode(parcel))

    def forget(self, cycle: int) -> None:
        """Let go of what was written for a cycle that is not committed, if anything was."""
        self._pending_path(cycle).unlink(missing_ok=True)

    def commit(self, cycle: int) -> list[int]:
        """Show readers what was written up to a cycle; returns the cycles that are new to them.

        What was written for later cycles is forgotten: after a crash they are run again.
        """
        shown = []
        for found in _numbered(self.directory, _PENDING):
            pending = self._pending_path(found)
            try:
                if found > cycle:
                    pending.unlink()
                    continue
                os.replace(pending, parcel_path(self.directory, found))
            except OSError as error:
                raise _unwritable(pending, error) from error
            head = head_of(self.directory, found)
            assert head is not None
            self.kept[found] = head
            shown.append(found)
        return shown

    def trim(self, keep_after: int | None = None) -> None:
        """Let the oldest parcels go while there are too many; those after the cycle `keep_after` stay, if given."""
        rows, size = (sum(getattr(each, key) for each in self.kept.values()) for key in ("rows", "size"))
        gone = []
        for cycle in sorted(self.kept)[:-1]:
            fits = rows <= self._limits.rows and size <= self._limits.bytes
            if fits or (keep_after is not None and cycle > keep_after):
                break
            rows, size = rows - self.kept[cycle].rows, size - self.kept[cycle].size
            gone.append(cycle)
        routes = [each for cycle in gone for each in self.kept[cycle].parcel.routes]
        if routes:
            self._gather(routes, gone[-1])
        for cycle in gone:
            parcel_path(self.directory, cycle).unlink(missing_ok=True)
            del self.kept[cycle]

    def _gather(self, routes: Sequence[Itinerary], until: int) -> None:
        """Keep itineraries whose parcels go. Of a query that ended by the cycle `until` no rows are left."""
        known = self._gathered | {each.query: each for each in routes}
        self._gathered = {name: each for name, each in known.items() if each.ended is None or each.ended > until}
        write_json(self.directory / ROUTES, [itinerary.as_json(each) for each in self._gathered.values()])

    def _pending_path(self, cycle: int) -> Path:
        return self.directory / f"{cycle:012d}.pending"


def write_json(path: Path, document: object) -> None:
    """Write a small file so that it is there whole, or as it was. Raises LogError."""
    _write(path, json.dumps(document, separators=(",", ":")).encode())


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> LogError:
    return LogError(
        f"{path} could not be written: {error.strerror}; make room or the directory writable. "
        "Nothing of this cycle was published"
    )


def _unreadable(path: Path, error: OSError) -> LogError:
    return LogError(f"{path} cannot be read: {error.strerror}")


def _damaged(path: Path, error: ValueError) -> LogError:
    return LogError(
        f"{path} is damaged ({error}); delete it to go on without the rows of its cycle, or restore it from a copy"
    )
