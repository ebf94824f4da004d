"""The SQLite file under the catalog: opening it, transactions, errors that say what to do, and its copy.

The state of a project keeps a copy of its catalog, without which it is of no use. The engine writes it before a commit
whenever the catalog has changed, as `state/catalog.copy`: one line with a checksum, and then the SQLite file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias
from zlib import crc32

from weft.algebra.codec import CodecError, loads
from weft.catalog import schema
from weft.catalog.catalog_errors import CatalogError
from weft.files.atomic import private, publish

Row: TypeAlias = tuple[Any, ...]

#: How long one process waits for another one's transaction to end, in seconds.
PATIENCE: Final = 10.0


class Database:
    """A connection that threads may share: each statement, and each transaction, has it to itself.

    For writing, the file is created or brought to the newest version. For reading, the file must be there, and nothing
    of ours is created; beside it SQLite keeps its `-wal` and `-shm` for as long as it is open.
    """

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path = path
        self.writable = write
        self._depth = 0
        self._turn = threading.RLock()
        #: What the file looked like when it was opened as one that cannot change; None for any other way of opening.
        self._frozen: object = None
        with self.explained():
            self._connection = self._open_for_writing() if write else self._open_for_reading()

    def close(self) -> None:
        with self._turn:
            self._connection.close()

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run one statement, in the current transaction or in one of its own, and return its rows."""
        with self._turn, self.explained():
            if self._depth and not self._connection.in_transaction:
                raise CatalogError(f"an error has ended the transaction on {self.path}; leave it and start again")
            if self._frozen is not None and not self._depth and self._frozen != self._fingerprint():
                self._connection.close()
                self._connection = self._open_for_reading()
            return self._connection.execute(statement, parameters).fetchall()

    def empty(self, *tables: str) -> None:
        """Delete all rows of some tables."""
        for table in tables:
            self.execute(f"DELETE FROM {table}")

    @property
    def changes(self) -> int:
        """How many rows this connection has changed."""
        with self._turn:
            return self._connection.total_changes

    def execute_apart(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run one change on a connection of its own, which a reader may do too, and return its rows."""
        if self.writable:
            return self.execute(statement, parameters)
        with self.explained(), closing(_connect(self.path, "mode=rw")) as connection:
            return connection.execute(statement, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the changes inside all or nothing; an inner one can fail alone. A reader sees one state of the file."""
        with self._turn:
            if self._depth:
                begin, commit, rollback = (
                    f"{verb} level{self._depth}" for verb in ("SAVEPOINT", "RELEASE", "ROLLBACK TO")
                )
            else:
                begin, commit, rollback = "BEGIN IMMEDIATE" if self.writable else "BEGIN", "COMMIT", "ROLLBACK"
            self.execute(begin)
            self._depth += 1
            try:
                yield
                self.execute(commit)
            except BaseException:
                if self._connection.in_transaction:  # SQLite has already rolled back if the disk is full
                    self.execute(rollback)
                raise
            finally:
                self._depth -= 1

    def change(self) -> AbstractContextManager[None]:
        """A transaction, if this connection was opened for writing."""
        if not self.writable:
            raise CatalogError(f"{self.path} was opened for reading; open it for writing, or submit a request")
        return self.transaction()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the file in several reads. The only writer needs no more than its turn for that."""
        with self._turn, nullcontext() if self.writable or self._depth else self.transaction():
            yield

    def decode(self, what: str, text: str, given: Callable[[str], object] | None = None) -> Any:
        """The value that a column holds as text; `what` it is, for the error."""
        try:
            return loads(text, given)
        except CodecError as error:
            raise CatalogError(_damaged(self.path, f"{what}: {error}")) from error

    def _open_for_writing(self) -> sqlite3.Connection:
        if not self.path.exists():
            # What SQLite puts beside it has the same permissions.
            os.close(private(str(self.path), os.O_RDWR | os.O_CREAT))
        connection, version = self._open("mode=rwc")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            # Change nothing, so that a file that may not be written is refused here and not at the first change.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute("ROLLBACK")
            if version:
                (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
                if verdict != "ok":
                    raise CatalogError(_damaged(self.path, verdict.splitlines()[-1]))
                self._check(connection)
            else:
                schema.create(connection)
            schema.maintain_checksums(connection)
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_for_reading(self) -> sqlite3.Connection:
        if not self.path.exists():
            raise CatalogError(f"there is no catalog at {self.path}; create one by opening it for writing")
        self._frozen = None
        try:
            connection, version = self._open("mode=rw")
        except sqlite3.OperationalError as error:
            # SQLite wants to create its -wal and -shm, and may not. Without a -wal the file is complete in itself.
            seen = self._fingerprint()
            if _code(error) not in ("SQLITE_READONLY", "SQLITE_CANTOPEN") or self._wal().exists():
                raise
            connection, version = self._open("immutable=1")
            self._frozen = seen
        if version == 0:
            connection.close()
            raise CatalogError(f"{self.path} is still empty; open it for writing first")
        self._check(connection)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raise CatalogError if the rows of some table are not those that were written."""
        table = schema.damaged_table(connection)
        if table is not None:
            connection.close()
            raise CatalogError(_damaged(self.path, f"the checksum of its table '{table}' differs"))

    def _open(self, options: str) -> tuple[sqlite3.Connection, int]:
        """A connection to a file that is ours, and its schema version; 0 for one that is still empty."""
        connection = _connect(self.path, options)
        try:
            connection.execute("BEGIN")  # so that a file that is being created is seen before or after, not in between
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            connection.execute("COMMIT")
            if application != schema.APPLICATION_ID and (application or version or tables):
                raise CatalogError(f"{self.path} is another program's database; move it away, or use another directory")
            if version > schema.VERSION:
                raise CatalogError(
                    f"{self.path} has schema version {version} and this weft knows versions up to {schema.VERSION}: "
                    "a newer weft wrote it; upgrade weft"
                )
            if 0 < version < schema.VERSION:
                raise CatalogError(
                    f"{self.path} has schema version {version} and this weft reads {schema.VERSION}: an older weft "
                    "wrote it; move it away, with the state beside it, and register everything again"
                )
        except BaseException:
            connection.close()
            raise
        return connection, version

    def _wal(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def _fingerprint(self) -> object:
        """What differs once the file has been written to."""
        seen = self.path.stat()
        return seen.st_ino, seen.st_size, seen.st_mtime_ns, self._wal().exists()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what the file or SQLite refuses inside into a CatalogError."""
        try:
            yield
        except sqlite3.Error as error:
            raise CatalogError(_sentence(error, self.path)) from error
        except OSError as error:
            raise CatalogError(f"{self.path} cannot be reached ({error.strerror}); check its directory") from error
        except UnicodeEncodeError as error:
            raise CatalogError(f"text with a lone surrogate cannot be stored: {error}") from error


def _connect(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,  # transactions begin and end where `Database.transaction` says
        check_same_thread=False,
    )


def _code(error: sqlite3.Error) -> str:
    """SQLite's name for the error, without its refinement: SQLITE_READONLY_DIRECTORY is SQLITE_READONLY."""
    return "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])


def _damaged(path: Path, details: str) -> str:
    return (
        f"{path} is damaged ({details}); restore it from a backup, bring it back with `weft init {path.parent} "
        "--recover` if its queries have run, or move it away and register everything again"
    )


def _sentence(error: sqlite3.Error, path: Path) -> str:
    """What an error of SQLite means for the file, and what to do."""
    match _code(error):
        case "SQLITE_NOTADB":
            return f"{path} is not an SQLite file; move it away, or use another directory"
        case "SQLITE_CORRUPT":
            return _damaged(path, str(error))
        case "SQLITE_FULL":
            return f"the disk that holds {path} is full; nothing was changed; make room and repeat"
        case "SQLITE_READONLY":
            return f"{path} cannot be written; make the file and its directory writable"
        case "SQLITE_CANTOPEN":
            return f"{path} cannot be opened; check that it is a file and that you may read it"
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return f"another process kept {path} busy for {PATIENCE:.0f} s; repeat when it is done"
        case "SQLITE_IOERR":
            return f"{path} cannot be read or written ({error}); check the disk"
    return f"{path}: {error}"


#: The name of the copy in the state directory.
COPY_FILE: Final = "catalog.copy"

_HEAD: Final = b"weft catalog copy %08x\n"
_HEAD_SIZE: Final = len(_HEAD % 0)


def copy_of(catalog: Path) -> bytes:
    """Return the copy of a catalog's file as it is now; other processes may write to the file meanwhile."""
    with TemporaryDirectory(prefix="weft-catalog-") as folder:
        file = Path(folder, "copy.sqlite")
        with closing(sqlite3.connect(catalog)) as connection:
            connection.execute("VACUUM INTO ?", (str(file),))
        data = file.read_bytes()
    return _HEAD % crc32(data) + data


def restore(catalog: Path) -> Path | None:
    """Put its copy in the place of a catalog; return where the file that was there is now.

    The caller holds the lock of the project.
    """
    directory = catalog.parent
    copy = directory / "state" / COPY_FILE
    if not copy.exists():
        raise CatalogError(f"{copy} does not exist, so there is no copy of the catalog of {directory}")
    found = copy.read_bytes()
    data = found[_HEAD_SIZE:]
    if found[:_HEAD_SIZE] != _HEAD % crc32(data):
        raise CatalogError(f"{copy} is damaged (its checksum differs); restore {directory} from a backup")
    fresh = catalog.with_name(f"{catalog.name}.new")
    fresh.touch(0o600)
    fresh.write_bytes(data)
    with closing(sqlite3.connect(fresh)) as connection, connection:
        # They were asked for by processes that have ended.
        connection.execute("DELETE FROM requests")
    replaced = _rename_replaced(catalog)
    publish(fresh, catalog)
    return replaced


def _rename_replaced(catalog: Path) -> Path | None:
    """Rename a catalog's file, with what SQLite keeps beside it."""
    if not catalog.exists():
        for beside in ("-wal", "-shm"):
            catalog.with_name(f"{catalog.name}{beside}").unlink(missing_ok=True)
        return None
    number = 1
    while (aside := catalog.with_name(f"{catalog.name}.replaced-{number}")).exists():
        number += 1
    for beside in ("", "-wal", "-shm"):
        file = catalog.with_name(f"{catalog.name}{beside}")
        if file.exists():
            file.rename(aside.with_name(f"{aside.name}{beside}"))
    return aside


def refuse_lost(catalog: Path) -> None:
    """Raise CatalogError if there is no catalog although its project has a state."""
    directory = catalog.parent
    if catalog.exists() and catalog.stat().st_size > 0:
        return
    if any((directory / "state" / "commits").glob("[0-9]*.json")):
        wrong = "empty" if catalog.exists() else "missing"
        raise CatalogError(
            f"{catalog} is {wrong}, but {directory / 'state'} has the state of its queries; bring the catalog back "
            f"with: weft init {directory} --recover"
        )
