"""Seals: the size and the checksum of every file that the state relies on.

A commit has the seals of all files that it names. Before a process uses a commit, it compares the files with their
seals; a folder, which Spark's tasks have written, must hold the sealed files and no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias
from zlib import crc32

from weft.runtime.state.records import damaged

#: Bytes of a file that are read at once.
_READ_AT_ONCE = 1 << 20


class Seal(NamedTuple):
    """The size of a file and the CRC-32 of its bytes."""

    size: int
    checksum: int


#: The seals of what is at a path: of the files in a folder, by name, or of a file, whose name here is empty.
Seals: TypeAlias = Mapping[str, Seal]


def seal_of(data: bytes) -> Seal:
    """Return the seal of a file that has these bytes."""
    return Seal(len(data), crc32(data))


def seal_of_file(path: Path) -> Seal:
    """Return the seal of a file."""
    size = checksum = 0
    with path.open("rb") as file:
        while piece := file.read(_READ_AT_ONCE):
            size, checksum = size + len(piece), crc32(piece, checksum)
    return Seal(size, checksum)


def fault(seal: Seal, found: Seal | None) -> str | None:
    """Return what is wrong with a file, as the end of a sentence that begins with its name; None if it is as sealed."""
    if found is None:
        return "is missing"
    if found.size != seal.size:
        return f"has {found.size:,} bytes instead of {seal.size:,}"
    return None if found == seal else "has been changed (its checksum differs)"


def faults(place: str, sealed: Seals, found: Seals) -> list[tuple[str, str]]:
    """Return the files at a place that are not as sealed, each with what is wrong."""
    wrong = [(_at(place, name), fault(seal, found.get(name))) for name, seal in sealed.items()]
    wrong += [(_at(place, name), "does not belong to the project") for name in found.keys() - sealed.keys()]
    return [(file, text) for file, text in wrong if text is not None]


def check(place: str, sealed: Seals, found: Seals) -> None:
    """Raise StorageError unless the files at a place are as sealed."""
    for file, wrong in faults(place, sealed, found):
        raise damaged(file, wrong)


def _at(place: str, name: str) -> str:
    return f"{place}/{name}" if name else place
