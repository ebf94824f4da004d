"""The copy of a catalog that a project's state keeps: the state is of no use without its catalog.

The engine writes it before a commit whenever the catalog has changed, as `state/catalog.copy`: one line with a
checksum, and then the SQLite file.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zlib import crc32

from weft.catalog.catalog_errors import CatalogCorrupt, CatalogLost, CatalogMissing
from weft.files.atomic import publish

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


def restore(directory: Path, catalog: Path) -> Path | None:
    """Put the copy in a project's directory in the place of its catalog; return where the file that was there is now.

    The caller holds the lock of the project.
    """
    copy = directory / "state" / COPY_FILE
    if not copy.exists():
        raise CatalogMissing(f"{copy} does not exist, so there is no copy of the catalog of {directory}")
    found = copy.read_bytes()
    data = found[_HEAD_SIZE:]
    if found[:_HEAD_SIZE] != _HEAD % crc32(data):
        raise CatalogCorrupt(f"{copy} is damaged (its checksum differs); restore {directory} from a backup")
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
    """Raise CatalogLost if there is no catalog although its project has a state."""
    directory = catalog.parent
    if catalog.exists() and catalog.stat().st_size > 0:
        return
    if any((directory / "state" / "commits").glob("[0-9]*.json")):
        wrong = "empty" if catalog.exists() else "missing"
        raise CatalogLost(
            f"{catalog} is {wrong}, but {directory / 'state'} has the state of its queries; bring the catalog back "
            f"with: weft init {directory} --recover"
        )
