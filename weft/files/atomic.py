"""Files and folders of a local disk: there whole or not at all, also after a power cut, and private ones.

draft       the content under a name that readers pass over, written through to the disk
publish     the rename that gives it its name, and the folder written through: the instant at which readers see it
"""

from __future__ import annotations

import os
from pathlib import Path


def draft_path(path: Path) -> Path:
    """Return where the content of a file is before it is published."""
    return path.with_name(f".{path.name}.draft")


def write_atomically(path: Path, data: bytes, *, is_private: bool = True) -> None:
    """Write a file; if that fails, the path is as it was. Only its user can read a private file."""
    try:
        write_draft(path, data, is_private=is_private)
        publish(draft_path(path), path, is_flushed=True)
    except OSError:
        draft_path(path).unlink(missing_ok=True)
        raise


def write_draft(path: Path, data: bytes, *, is_private: bool) -> None:
    """Write what a file will hold, and flush it."""
    with open(draft_path(path), "wb", opener=private if is_private else None) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def publish(draft: Path, path: Path, *, is_flushed: bool = False) -> None:
    """Give a draft, a file or a folder, its name. It is flushed first, unless it `is_flushed` already."""
    if not is_flushed:
        flush_all(draft)
    os.replace(draft, path)
    flush(path.parent)


def private_folder(path: Path) -> Path:
    """Make a folder, and those that it is in, for this user alone. A folder that exists stays as it is."""
    if not path.is_dir():
        private_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def private(path: str, flags: int) -> int:
    """Open a file, which only this user can read if it is new: `open(path, "wb", opener=private)`."""
    return os.open(path, flags, 0o600)


def make_folder(path: Path) -> None:
    """Make a folder and those that it is in, so that they survive a power cut."""
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


def flush_all(path: Path) -> None:
    """Write what the system holds of a file, or of a folder and all that is in it, to the disk."""
    for each in [*path.rglob("*"), path]:
        flush(each)
