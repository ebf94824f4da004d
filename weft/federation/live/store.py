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

from weft.federation.errors import FederationError
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
