"""One writer per directory, held by the operating system.

The lock is an `flock` on `writer.lock`: it ends with the process that holds it, however that ends, so there is never a
stale one to remove. The text in the file says who holds the lock, and whether that process answers requests; without
the lock it means nothing.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.catalog.catalog_errors import CatalogError, CatalogLocked

LOCK_FILE: Final = "writer.lock"

#: The second line of the file while the writer answers requests.
_ANSWERS: Final = "answers requests"

#: Seconds for which a writer that answers requests is believed to be one. Another process may look at the lock, which
#: holds it for an instant, while the text is that of a process which has died.
_LONGEST_TRUST: Final = 0.3

#: Seconds between two attempts.
_PAUSE: Final = 0.02

#: The locks that this process holds.
_locks_of_process: set[WriterLock] = set()


@dataclass(frozen=True, slots=True)
class Writer:
    """The process that holds a lock, as it writes about itself, and whether it answers requests of others."""

    name: str
    answers: bool


class WriterLock:
    """The right to write in `directory`, from construction to `release`.

    Another one for the same directory waits for at most `patience` seconds, and is then refused with CatalogLocked. It
    is refused at once if the lock is held by this process, or by one that answers requests.
    """

    def __init__(self, directory: Path, patience: float = 0.0) -> None:
        self._directory = directory
        try:
            self._descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unavailable(directory, error) from error
        try:
            self._lock(patience)
            self._write(_own_name())
        except OSError as error:
            os.close(self._descriptor)
            raise _unavailable(directory, error) from error
        except BaseException:
            os.close(self._descriptor)
            raise
        _locks_of_process.add(self)

    def announce(self) -> None:
        """Say in the file that this process answers requests."""
        self._write(f"{_own_name()}\n{_ANSWERS}")

    def release(self) -> None:
        """Let another writer in."""
        if self in _locks_of_process:
            _locks_of_process.remove(self)
            os.truncate(self._descriptor, 0)
            # Closing alone would leave the lock with a fork that has not yet come to closing its own copy.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)

    def _lock(self, patience: float) -> None:
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                writer = _read(self._descriptor)
                waited = time.monotonic() - began
                limit = min(patience, _LONGEST_TRUST) if writer.answers else patience
                if writer.name == _own_name() or waited >= limit:
                    raise CatalogLocked(self._directory, writer.name, answers=writer.answers) from error
            time.sleep(_PAUSE)

    def _write(self, text: str) -> None:
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{text}\n".encode(), 0)


def find_writer(directory: Path) -> Writer | None:
    """The process that holds the lock of a directory; None if it is free."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unavailable(directory, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return None
    except BlockingIOError:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _unavailable(directory: Path, error: OSError) -> CatalogError:
    return CatalogError(
        f"{directory / LOCK_FILE} cannot be locked for writing: {error.strerror}; "
        "make room and the directory writable, or open the catalog for reading"
    )


def _own_name() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _read(descriptor: int) -> Writer:
    """What the file says of its writer, which may be about to write it."""
    name, _, rest = os.pread(descriptor, 200, 0).decode(errors="replace").partition("\n")
    return Writer(name or "another process", rest.strip() == _ANSWERS)


def _close_in_child() -> None:
    # A fork shares its parent's lock and would hold it beyond the parent's death. Closing it here leaves the parent's.
    while _locks_of_process:
        os.close(_locks_of_process.pop()._descriptor)


os.register_at_fork(after_in_child=_close_in_child)
