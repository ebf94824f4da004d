"""What a site must not forget: one small SQLite file for each role, written in transactions.

Whoever takes letters from a box, or batches from a folder, writes down what it did and how far it has come at once. So
a crash either finds both or neither, and nothing is done twice or left out.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.federation.federation_errors import FederationError
from weft.federation.live.messages import Letter, letter_bytes, letter_of
from weft.federation.live.transport import Wire
from weft.files.private_files import private, private_folder


class Store:
    """A SQLite file with the tables that a role needs, and how far each box was read."""

    def __init__(self, path: Path, tables: Sequence[str] = ()) -> None:
        private_folder(path.parent)
        # What SQLite puts beside it has the same permissions.
        os.close(private(str(path), os.O_RDWR | os.O_CREAT))
        # Roles are made in one thread and run in another, one at a time.
        self._path = path
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._execute("PRAGMA journal_mode = WAL")
        self._execute("PRAGMA synchronous = FULL")
        for table in ("boxes (box TEXT PRIMARY KEY, number INTEGER NOT NULL)", *tables):
            self._execute(f"CREATE TABLE IF NOT EXISTS {table}")
        ((found,),) = self._execute("PRAGMA quick_check(1)")
        if found != "ok":
            raise self._broken(found)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is kept, or nothing of it."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """What a statement finds."""
        return self._execute(statement, *values)

    def note(self, statement: str, *values: object) -> None:
        """Write something that may be lost in a power cut: the disk is not waited for."""
        self._execute("PRAGMA synchronous = NORMAL")
        self._execute(statement, *values)
        self._execute("PRAGMA synchronous = FULL")

    def read_up_to(self, box: str) -> int:
        """The number of the last letter that was taken from a box."""
        found = self.rows("SELECT number FROM boxes WHERE box = ?", box)
        return int(found[0][0]) if found else 0

    def has_read(self, box: str, number: int) -> None:
        """A letter was taken from a box."""
        self.rows("INSERT OR REPLACE INTO boxes VALUES (?, ?)", box, number)

    def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._broken(str(error)) from error

    def _broken(self, what: str) -> FederationError:
        return FederationError(
            f"{self._path} is damaged or cannot be written ({what}); make room, or restore it from a copy"
        )

    def close(self) -> None:
        self._database.close()


#: Letters that are read before the broker is told to delete them.
_AT_ONCE = 100
_OPENED = "opened"


class Mailbox:
    """The letters of one box. The caller calls `read` in the transaction that keeps what follows from a letter.

    A reader with an empty store `may_begin_late` if it needs no letter that another one has read.
    """

    def __init__(self, wire: Wire, store: Store, box: str, *, may_begin_late: bool = False) -> None:
        self._wire = wire
        self._store = store
        self._box = box
        self._may_begin_late = may_begin_late
        self._read = 0

    def next(self) -> tuple[int, Letter] | None:
        """The next letter and its number. Raises LostError if the one before it is not the last that was read."""
        while True:
            after = self._store.read_up_to(self._box)
            found = self._wire.take(self._box, None if self._may_begin_late and not after else after)
            if found is None:
                self._delete()
                if after:
                    return None
                self._wire.put(self._box, f"{_OPENED}/{self._box}", letter_bytes(Letter(_OPENED, {})))
                continue
            if self._read >= _AT_ONCE:
                self._delete()
            number, data = found
            letter = letter_of(data)
            if letter.kind != _OPENED:
                return number, letter
            self.read(number)

    def read(self, number: int) -> None:
        """The letter with a number was read."""
        self._store.has_read(self._box, number)
        self._read += 1

    def _delete(self) -> None:
        """Delete the letters at the broker that were read, all but the last one."""
        if self._read:
            self._wire.let_go(self._box, self._store.read_up_to(self._box))
            self._read = 0
