"""The delivery log: the parcels of the newest cycles, one file each, in one directory.

    000000000017.pending         written before its cycle commits, and not there yet for readers
    000000000016.parcel          of a committed cycle; it never changes again
    000000000016.newest          an empty file, whose name says which parcel is the newest
    000000000015.acknowledged    likewise, how far a broker has come, see `publisher.py`
    routes.json                  the itineraries of deleted parcels, and how many changes of them these were

One process writes, any number read. The oldest parcels are deleted when there are too many rows or bytes; their
itineraries are gathered in `routes.json` first, so that a reader needs nothing else.

Each parcel names the one before it, so that readers notice one that is missing between two others, and says how many
changes of itineraries were published before it, so that none of these can be missing either.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from weft.delivery import itinerary
from weft.delivery.delivery_errors import DamagedLog, LogError
from weft.delivery.itinerary import Itinerary
from weft.delivery.parcel import Gone, Parcel, ParcelHead, checked_head, decode, encode, read_head
from weft.files.atomic import private_folder, write_atomically
from weft.files.checked_file import Damaged, marker, move_marker, read_checked, write_checked

_Found = TypeVar("_Found", Parcel, ParcelHead)

#: The place before all cycles.
BEGINNING: Final = -1

#: The kind of the marker that says how far a broker has come.
ACKNOWLEDGED: Final = "acknowledged"
_ROUTES: Final = "routes.json"
_KINDS: Final = ("parcel", "pending", "newest", ACKNOWLEDGED)

_ADVICE: Final = (
    "restore it from a copy, or start what writes it again: that puts the log aside and begins a new one, and tells "
    "users which cycles they lack"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept beside the newest parcel.

    `rows` and `bytes` bound what late joiners can still be given; `waiting_bytes`, what a broker has not taken when the
    next cycle begins; `queue`, the batches that wait in memory for one user.
    """

    rows: int = 10_000_000
    bytes: int = 256 << 20
    waiting_bytes: int = 1 << 30
    queue: int = 64


def delivery_directory(project: Path) -> Path:
    """Where the delivery log of the project in a directory is."""
    return project / "delivery"


def parcel_path(directory: Path, cycle: int) -> Path:
    return directory / f"{cycle:012d}.parcel"


# -- reading ----------------------------------------------------------------------------------------------------------


def cycles(directory: Path) -> list[int]:
    """The cycles whose parcels are there, oldest first."""
    return _numbered(directory, "parcel")


def read_parcel(directory: Path, cycle: int) -> Parcel | None:
    """The parcel of a cycle; None if it is not there, or not any more. Raises DamagedLog if it is damaged."""
    return _read(directory, cycle, lambda file: decode(file.read()))


def next_parcel(directory: Path, after: int) -> Parcel | Gone | None:
    """The parcel after a cycle, or that others were there before it; None if there is none. Raises DamagedLog."""
    for cycle in cycles(directory):
        parcel = read_parcel(directory, cycle) if cycle > after else None
        if parcel is not None:
            return Gone(parcel.previous) if parcel.previous is not None and parcel.previous > after else parcel
    return None


def head_of(directory: Path, cycle: int, read: Callable[[BinaryIO], ParcelHead] = read_head) -> ParcelHead | None:
    """A parcel without its rows; None if it is not there. Raises DamagedLog if it is damaged."""
    return _read(directory, cycle, read)


def read_routes(directory: Path) -> dict[str, Itinerary]:
    """The newest itinerary of every query."""
    # A parcel may be deleted meanwhile; its itineraries are then in a newer routes.json, which is read again.
    while True:
        newest, before = marker(directory, "newest"), _stamp(directory)
        changes, routes = _gathered(directory)
        heads = _heads(directory)
        for head in heads.values():
            routes.update({each.query: each for each in head.routes})
        if _stamp(directory) == before:
            _check_whole(directory, heads, newest, changes)
            return routes


def _heads(directory: Path, read: Callable[[BinaryIO], ParcelHead] = read_head) -> dict[int, ParcelHead]:
    return {cycle: head for cycle in cycles(directory) if (head := head_of(directory, cycle, read)) is not None}


def check_published(directory: Path, query: str) -> None:
    """Raise DamagedLog if the log does not know a query whose answers were published."""
    if query not in read_routes(directory):
        raise DamagedLog(f"{directory} lacks what query '{query}' published; {_ADVICE}")


def _check_whole(directory: Path, heads: Mapping[int, ParcelHead], newest: int | None, changes: int) -> None:
    """Raise DamagedLog if the newest parcel is missing, or one that changed itineraries after `changes`."""
    if newest is not None and max(heads, default=BEGINNING) < newest:
        raise missing(parcel_path(directory, newest))
    for number, (_, head) in enumerate(sorted(heads.items())):
        previous = head.previous
        if head.changes > changes:
            if number == 0 or previous is None:
                raise _damaged(directory / _ROUTES, ValueError("it lacks itineraries, or is an older copy"))
            raise missing(parcel_path(directory, previous))
        changes = max(changes, head.changes + len(head.changed))


def _read(directory: Path, cycle: int, read: Callable[[BinaryIO], _Found]) -> _Found | None:
    path = parcel_path(directory, cycle)
    try:
        with reading(path), path.open("rb") as file:
            found = read(file)
            if found.cycle != cycle:
                raise Damaged(f"it is the parcel of cycle {found.cycle}")
            return found
    except FileNotFoundError:
        return None


def _numbered(directory: Path, kind: str) -> list[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(name[:12]) for name in names if name[12:] == f".{kind}" and name[:12].isdecimal())


def _gathered(directory: Path) -> tuple[int, dict[str, Itinerary]]:
    """How many changes of itineraries were gathered, and the newest itinerary of each query among them."""
    with reading(directory / _ROUTES):
        document = read_checked(directory / _ROUTES)
    if document is None:
        return 0, {}
    return document["changes"], {each["query"]: itinerary.from_json(each) for each in document["routes"]}


def _stamp(directory: Path) -> tuple[int, int] | None:
    try:
        found = (directory / _ROUTES).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


# -- writing ----------------------------------------------------------------------------------------------------------


def clear(directory: Path) -> None:
    """Delete the files of a log. Other files in its directory stay."""
    for path in _files(directory):
        path.unlink(missing_ok=True)


def put_aside(directory: Path) -> Path:
    """Move all files of a damaged log into a directory of their own; returns that directory."""
    aside = directory / f"damaged-{1 + sum(1 for _ in directory.glob('damaged-*'))}"
    private_folder(aside)
    for path in _files(directory):
        os.replace(path, aside / path.name)
    return aside


def _files(directory: Path) -> list[Path]:
    routes = directory / _ROUTES
    found = [path for kind in _KINDS for path in directory.glob(f"*.{kind}")]
    return [*([routes] if routes.exists() else []), *found]


class LogWriter:
    """The one writer of a log. It knows the sizes of all files, so that trimming need not look.

    A new log that `begins_after` a cycle tells readers that all up to there is gone. Raises DamagedLog.
    """

    def __init__(self, directory: Path, limits: Limits, begins_after: int | None = None) -> None:
        self.directory = directory
        self.begins_after = BEGINNING if begins_after is None else begins_after
        self._limits = limits
        with writing(directory):
            private_folder(directory)
        self.heads = _heads(directory, checked_head)
        self._changes, self._gathered = _gathered(directory)
        self._marked = marker(directory, "newest")
        _check_whole(directory, self.heads, self._marked, self._changes)

    def routes(self) -> dict[str, Itinerary]:
        """The newest committed itinerary of every query."""
        amended = {each.query: each for _, head in sorted(self.heads.items()) for each in head.routes}
        return {**self._gathered, **amended}

    def write(self, parcel: Parcel) -> None:
        """Keep a parcel, after those before it, until its cycle is committed. It replaces one of the same cycle."""
        before = max((each for each in self.heads if each < parcel.cycle), default=BEGINNING)
        changes = self._changes_up_to(before) if before in self.heads else self._changes
        previous = max(before, self.begins_after)
        chained = replace(parcel, previous=None if previous == BEGINNING else previous, changes=changes)
        with writing(self._pending_path(parcel.cycle)):
            write_atomically(self._pending_path(parcel.cycle), encode(chained))

    def forget(self, cycle: int) -> None:
        """Delete what was written for a cycle that is not committed, if anything was."""
        self._pending_path(cycle).unlink(missing_ok=True)

    def commit(self, cycle: int) -> bool:
        """Show readers what was written up to a cycle; whether there was anything new to them.

        What was written for later cycles is deleted: after a crash they are run again.
        """
        shown: int | None = None
        for found in _numbered(self.directory, "pending"):
            pending = self._pending_path(found)
            with writing(pending):
                if found > cycle:
                    pending.unlink()
                    continue
                os.replace(pending, parcel_path(self.directory, found))
            head = head_of(self.directory, found)
            assert head is not None
            self.heads[found] = head
            shown = found
        if shown is None:
            return False
        with writing(self.directory):
            move_marker(self.directory, "newest", self._marked, shown)
        self._marked = shown
        return True

    def trim(self, keep_after: int | None = None) -> None:
        """Delete the oldest parcels while there are too many; those after the cycle `keep_after` stay, if given."""
        rows, size = (sum(getattr(each, key) for each in self.heads.values()) for key in ("rows", "size"))
        gone = []
        for cycle in sorted(self.heads)[:-1]:
            fits = rows <= self._limits.rows and size <= self._limits.bytes
            if fits or (keep_after is not None and cycle > keep_after):
                break
            rows, size = rows - self.heads[cycle].rows, size - self.heads[cycle].size
            gone.append(cycle)
        routes = [each for cycle in gone for each in self.heads[cycle].routes]
        if routes:
            self._changes = max(self._changes, self._changes_up_to(gone[-1]))
            self._gather(routes, gone[-1])
        for cycle in gone:
            parcel_path(self.directory, cycle).unlink(missing_ok=True)
            del self.heads[cycle]

    def _gather(self, routes: Sequence[Itinerary], until: int) -> None:
        """Keep itineraries whose parcels go. Of a query that ended by the cycle `until` no rows are left."""
        known = self._gathered | {each.query: each for each in routes}
        self._gathered = {name: each for name, each in known.items() if each.ended is None or each.ended > until}
        documents = [itinerary.as_json(each) for each in self._gathered.values()]
        with writing(self.directory / _ROUTES):
            write_checked(self.directory / _ROUTES, {"changes": self._changes, "routes": documents})

    def _changes_up_to(self, cycle: int) -> int:
        """How many changes of itineraries were published up to a parcel, with its own."""
        return self.heads[cycle].changes + len(self.heads[cycle].changed)

    def _pending_path(self, cycle: int) -> Path:
        return self.directory / f"{cycle:012d}.pending"


# -- small files, and errors ------------------------------------------------------------------------------------------


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise LogError if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise LogError(
            f"{path} could not be written: {error.strerror}; make room or the directory writable. "
            "Nothing of this cycle was published"
        ) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise LogError if a file that is there cannot be read, and DamagedLog if it is not what was written."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Damaged as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}") from error


def missing(path: Path) -> DamagedLog:
    """The error for a parcel that should be there and is not."""
    return DamagedLog(f"{path} is missing; {_ADVICE}")


def _damaged(path: Path, error: Exception) -> DamagedLog:
    return DamagedLog(f"{path} is damaged ({error}); {_ADVICE}")
