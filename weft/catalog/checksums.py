"""Checksums of what the catalog holds: SQLite sees that a file is out of shape, not that a value is another one.

The table `checksums` has, for each other table, the sum of the CRC-32 of its rows. Triggers of the writing connection
keep the sums, within the transaction of each change; whoever opens the file compares them with the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final
from zlib import crc32

#: Tables without a sum: no answer depends on statistics, other processes write requests, a commit has the digest of its
#: plan, and the index of computations is checked when it is read, and planned anew.
_UNCHECKED: Final = frozenset(
    {"checksums", "computations", "conditions", "found", "next_computation", "plans", "requests", "statistics"}
)


def begin(connection: sqlite3.Connection) -> None:
    """Write down the sums of all tables as they are now."""
    _teach(connection)
    for table, columns in _tables(connection):
        total = _SUM.format(_row(columns))
        connection.execute(f"INSERT OR REPLACE INTO checksums SELECT '{table}', {total} FROM {table}")


def keep(connection: sqlite3.Connection) -> None:
    """Let a connection that writes keep the sums."""
    _teach(connection)
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
    _teach(connection)
    connection.execute("BEGIN")
    try:
        known = dict(connection.execute("SELECT name, total FROM checksums").fetchall())
        for table, columns in _tables(connection):
            ((total,),) = connection.execute(f"SELECT {_SUM.format(_row(columns))} FROM {table}").fetchall()
            if known.get(table) != total:
                return table
        return None
    finally:
        connection.execute("COMMIT")


_SUM: Final = "coalesce(sum({}), 0)"


def _tables(connection: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    """The tables that have a sum, with their columns."""
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    for (name,) in listed:
        if name not in _UNCHECKED and not name.startswith("sqlite_"):
            yield name, [column for _, column, *_ in connection.execute(f"PRAGMA table_info({name})").fetchall()]


def _row(columns: list[str], version: str = "") -> str:
    return f"row_checksum({', '.join(version + column for column in columns)})"


def _teach(connection: sqlite3.Connection) -> None:
    connection.create_function("row_checksum", -1, _checksum, deterministic=True)


def _checksum(*values: object) -> int:
    return crc32(repr(values).encode(errors="surrogatepass"))
