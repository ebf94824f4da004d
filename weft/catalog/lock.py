"""One writer per directory, held by the operating system.

The lock is an `flock` on `writer.lock`: it ends with the process that holds it, however that ends, so there is never a
stale one to remove. The text in the file says who holds the lock; without the lock it means nothing.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from typing import Final

from weft.catalog.errors import CatalogLocked, CatalogUnavailable

LOCK_FILE: Final = "writer.lock"

#: The locks that this process holds.
_held: set[WriterLock] = set()


class WriterLock:
    """The right to write in `directory`, from construction to `release`.

    Another one for the same directory is refused with CatalogLocked, in this process as in any other.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK_FILE
        descriptor = -1
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        except OSError as error:
            holder = _close_and_read(descriptor)
            if isinstance(error, BlockingIOError):
                raise CatalogLocked(directory, holder or "another process") from error
            raise CatalogUnavailable(
                f"{path} cannot be locked for writing: {error.strerror}; "
                "make room and the directory writable, or open the catalog for reading"
            ) from error
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Let another writer in."""
        if self in _held:
            _held.remove(self)
            # Closing alone would leave the lock with a fork that has not yet come to closing its own copy.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)


def _close_and_read(descriptor: int) -> str:
    """What the file says, if it could be opened."""
    if descriptor < 0:
        return ""
    try:
        return os.read(descriptor, 200).decode(errors="replace").strip()
    finally:
        os.close(descriptor)


def _let_go_in_fork() -> None:
    # A fork shares its parent's lock and would hold it beyond the parent's death. Closing it here leaves the parent's.
    while _held:
        os.close(_held.pop()._descriptor)


os.register_at_fork(after_in_child=_let_go_in_fork)
