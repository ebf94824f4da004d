"""Files of a local disk that survive a power cut, and their seals."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

from weft.runtime.state.seals import Seal

#: Bytes of a file that are read at once.
_PIECE = 1 << 20


def make_folder(path: Path) -> None:
    """Make a folder and those that it is in."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        flush(path.parent)


def flush(path: Path) -> None:
    """Write what the system holds of a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_all(folder: Path) -> None:
    """Write what the system holds of a folder, and of all that is in it, to the disk."""
    for each in [*folder.rglob("*"), folder]:
        flush(each)


def seal_of_file(path: Path) -> Seal:
    """Return the seal of a file."""
    size = checksum = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            size, checksum = size + len(piece), crc32(piece, checksum)
    return Seal(size, checksum)
