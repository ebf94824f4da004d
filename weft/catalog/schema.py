"""The tables of the catalog, and checksums of what they hold.

`names` is the one namespace that streams, tables, views and queries share: a name in FROM means one thing. Numbers in
it are never used twice, and what is stored under one never changes, so a number is also the key under which a process
may keep what it has decoded.

SQLite sees that a file is out of shape, not that a value is another one. The table `checksums` has, for each other
table, the sum of the CRC-32 of its rows. Triggers of the writing connection keep the sums, within the transaction of
each change; they are compared with the rows when the file is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final
from zlib import crc32

#: In the header of each of our files (`PRAGMA application_id`): "weft" in ASCII.
APPLICATION_ID: Final = 0x77656674

#: The version of the schema, in the header too (`PRAGMA user_version`). Files of other versions are refused.
VERSION: Final = 12

#: Tables without a sum: no answer depends on statistics, other processes write requests, a commit has the digest of its
#: plan, and the nodes of the shared plan are checked when they are read, and made again.
_UNCHECKED: Final = frozenset({"checksums", "nodes", "plans", "requests", "shared_plan", "statistics"})

_TABLES: Final = """
CREATE TABLE project (id TEXT NOT NULL);
INSERT INTO project (id) VALUES (lower(hex(randomblob(16))));

-- `key` is the name without its case; `kind` is stream, table, view, query or representative.
CREATE TABLE names (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    key  TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    kind TEXT NOT NULL
);

-- Which definition reads which; what is read cannot be deleted.
CREATE TABLE dependencies (
    reader INTEGER NOT NULL REFERENCES names (id) ON DELETE CASCADE,
    read   INTEGER NOT NULL REFERENCES names (id) ON DELETE RESTRICT,
    PRIMARY KEY (reader, read)
) WITHOUT ROWID;
CREATE INDEX dependencies_by_read ON dependencies (read);

-- A member is a query whose answers go to subscribers. `folder` is where the answers of a query are written, as
-- `weft/sql/names.py` names it.
CREATE TABLE definitions (
    id       INTEGER PRIMARY KEY REFERENCES names (id) ON DELETE CASCADE,
    document TEXT NOT NULL,
    member   INTEGER NOT NULL,
    folder   TEXT
);
CREATE INDEX definitions_by_folder ON definitions (folder) WHERE folder IS NOT NULL;

-- Where the answers of each member are found, since which cycle, and whether the member has ended with that.
CREATE TABLE itineraries (
    member   INTEGER PRIMARY KEY,
    cycle    INTEGER NOT NULL,
    ended    INTEGER NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX itineraries_by_cycle ON itineraries (cycle);
CREATE TABLE delivery_groups (name TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE statistics (
    key     TEXT NOT NULL,
    cycle   INTEGER NOT NULL,
    numbers TEXT NOT NULL,
    PRIMARY KEY (key, cycle)
) WITHOUT ROWID;

CREATE TABLE plans (number INTEGER PRIMARY KEY, plan TEXT NOT NULL);

CREATE TABLE requests (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    script   TEXT NOT NULL,
    answer   TEXT,
    answered REAL
);
CREATE INDEX requests_pending ON requests (id) WHERE answer IS NULL;

-- The nodes of the shared plan that ran last, each as one document, and what is known of them together.
CREATE TABLE nodes (id TEXT PRIMARY KEY, document TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE shared_plan (next_number INTEGER NOT NULL, made_by TEXT NOT NULL, digest TEXT NOT NULL);
INSERT INTO shared_plan (next_number, made_by, digest) VALUES (1, '', '');

CREATE TABLE checksums (name TEXT PRIMARY KEY, total INTEGER NOT NULL) WITHOUT ROWID;
"""


def create(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file, all or none."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";\n")[:-1]:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        write_checksums(connection)


def write_checksums(connection: sqlite3.Connection) -> None:
    """Write down the sums of all tables as they are now."""
    _add_checksum_function(connection)
    for table, columns in _tables(connection):
        total = _SUM.format(_row(columns))
        connection.execute(f"INSERT OR REPLACE INTO checksums SELECT '{table}', {total} FROM {table}")


def maintain_checksums(connection: sqlite3.Connection) -> None:
    """Let a connection that writes keep the sums."""
    _add_checksum_function(connection)
    for table, columns in _tables(connection):
        old, new = (_row(columns, version) for version in ("OLD.", "NEW."))
        for event, change in (("INSERT", f"+ {new}"), ("DELETE", f"- {old}"), ("UPDATE", f"- {old} + {new}")):
            connection.execute(
                f"CREATE TEMP TRIGGER checked_{table}_{event} AFTER {event} ON main.{table} "
                f"BEGIN UPDATE checksums SET total = total {change} WHERE name = '{table}'; END"
            )
    # A row that INSERT OR REPLACE replaces is deleted, and counts as such.
    connection.execute("PRAGMA recursive_triggers = ON")


def damaged_table(connection: sqlite3.Connection) -> str | None:
    """Return a table whose rows are not those that were written; None if all are."""
    _add_checksum_function(connection)
    with connection:
        connection.execute("BEGIN")
        known = dict(connection.execute("SELECT name, total FROM checksums").fetchall())
        for table, columns in _tables(connection):
            ((total,),) = connection.execute(f"SELECT {_SUM.format(_row(columns))} FROM {table}").fetchall()
            if known.get(table) != total:
                return table
        return None


_SUM: Final = "coalesce(sum({}), 0)"


def _tables(connection: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    """The tables that have a sum, with their columns."""
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    for (name,) in listed:
        if name not in _UNCHECKED and not name.startswith("sqlite_"):
            yield name, [column for _, column, *_ in connection.execute(f"PRAGMA table_info({name})").fetchall()]


def _row(columns: list[str], version: str = "") -> str:
    return f"row_checksum({', '.join(version + column for column in columns)})"


def _add_checksum_function(connection: sqlite3.Connection) -> None:
    def checksum(*values: object) -> int:
        return crc32(repr(values).encode(errors="surrogatepass"))

    connection.create_function("row_checksum", -1, checksum, deterministic=True)
