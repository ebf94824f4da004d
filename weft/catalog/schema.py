"""The tables of the catalog, and how older files become newer ones.

`names` is the one namespace that streams, tables, views and queries share: whatever stands in FROM means one thing.
Numbers in it are never used twice, and what is stored under one never changes, so a number is also the key under which
a process may keep what it has decoded.

The version of a file is `PRAGMA user_version`: how many of `MIGRATIONS` have been applied to it. To change the schema,
append a migration; never edit one that has been released.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

#: In the header of each of our files (`PRAGMA application_id`): "weft" in ASCII.
APPLICATION_ID: Final = 0x77656674

#: The statements that lead from one version to the next.
Migration: TypeAlias = tuple[str, ...]

MIGRATIONS: tuple[Migration, ...] = (
    (
        # `key` is the name without its case.
        """
        CREATE TABLE names (
            id   INTEGER PRIMARY KEY AUTOINCREMENT,
            key  TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('stream', 'view', 'query'))
        )
        """,
        # Who reads what; what is read cannot be deleted.
        """
        CREATE TABLE dependencies (
            reader INTEGER NOT NULL REFERENCES names (id) ON DELETE CASCADE,
            read   INTEGER NOT NULL REFERENCES names (id) ON DELETE RESTRICT,
            PRIMARY KEY (reader, read)
        ) WITHOUT ROWID
        """,
        """
        CREATE INDEX dependencies_by_read ON dependencies (read)
        """,
        """
        CREATE TABLE streams (
            id    INTEGER PRIMARY KEY REFERENCES names (id) ON DELETE CASCADE,
            bound TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE views (
            id    INTEGER PRIMARY KEY REFERENCES names (id) ON DELETE CASCADE,
            text  TEXT NOT NULL,
            bound TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE queries (
            id        INTEGER PRIMARY KEY REFERENCES names (id) ON DELETE CASCADE,
            text      TEXT NOT NULL,
            bound     TEXT NOT NULL,
            canonical TEXT NOT NULL,
            clock     TEXT,
            sharing   INTEGER NOT NULL,
            sink      TEXT NOT NULL
        )
        """,
        """
        CREATE INDEX queries_by_canonical ON queries (canonical)
        """,
        """
        CREATE TABLE settings (
            key   TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE statistics (
            key     TEXT NOT NULL,
            cycle   INTEGER NOT NULL,
            numbers TEXT NOT NULL,
            PRIMARY KEY (key, cycle)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE plans (
            number INTEGER PRIMARY KEY,
            plan   TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE requests (
            id       INTEGER PRIMARY KEY AUTOINCREMENT,
            script   TEXT NOT NULL,
            answer   TEXT,
            answered REAL
        )
        """,
        """
        CREATE INDEX requests_pending ON requests (id) WHERE answer IS NULL
        """,
    ),
    (
        "CREATE TABLE project (id TEXT NOT NULL)",
        "INSERT INTO project (id) VALUES (lower(hex(randomblob(16))))",
    ),
    (
        # The index of computations. Conditions that nodes have in common are kept once; a predicate set is the list of
        # its conditions' numbers, as JSON. `text` is for people, `stored` tells conditions apart.
        """
        CREATE TABLE conditions (
            id     INTEGER PRIMARY KEY,
            text   TEXT NOT NULL,
            stored TEXT NOT NULL UNIQUE
        )
        """,
        """
        CREATE INDEX conditions_by_text ON conditions (text)
        """,
        """
        CREATE TABLE computations (
            number       INTEGER PRIMARY KEY,
            parents      TEXT NOT NULL,
            legs         TEXT NOT NULL,
            predicates   TEXT NOT NULL,
            timely       INTEGER NOT NULL,
            level        INTEGER NOT NULL,
            anchor       INTEGER NOT NULL,
            selected     TEXT NOT NULL,
            left_anchor  INTEGER,
            right_anchor INTEGER,
            joined       TEXT NOT NULL,
            rows         INTEGER NOT NULL
        )
        """,
        """
        CREATE INDEX computations_by_anchor ON computations (anchor)
        """,
        """
        CREATE INDEX computations_by_join ON computations (left_anchor, right_anchor) WHERE left_anchor IS NOT NULL
        """,
        """
        CREATE TABLE found (
            place   TEXT PRIMARY KEY,
            node    INTEGER NOT NULL,
            legs    TEXT NOT NULL,
            columns TEXT NOT NULL
        ) WITHOUT ROWID
        """,
        """
        CREATE INDEX found_by_node ON found (node)
        """,
        "CREATE TABLE next_computation (number INTEGER NOT NULL)",
        "INSERT INTO next_computation (number) VALUES (1)",
    ),
    (
        # Which planner has made the index of computations: another one may mean something else by it.
        "ALTER TABLE next_computation ADD COLUMN made_by TEXT NOT NULL DEFAULT ''",
    ),
    (
        # Tables are one more kind of name. A CHECK cannot be changed, so `names` is made anew; who refers to it does so
        # by its name. The highest number so far goes along, since numbers are not used twice.
        """
        CREATE TABLE all_names (
            id   INTEGER PRIMARY KEY AUTOINCREMENT,
            key  TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('stream', 'table', 'view', 'query'))
        )
        """,
        "INSERT INTO all_names (id, key, name, kind) SELECT id, key, name, kind FROM names",
        "DELETE FROM sqlite_sequence WHERE name = 'all_names'",
        "INSERT INTO sqlite_sequence (name, seq) SELECT 'all_names', seq FROM sqlite_sequence WHERE name = 'names'",
        "DROP TABLE names",
        "ALTER TABLE all_names RENAME TO names",
        """
        CREATE TABLE tables (
            id    INTEGER PRIMARY KEY REFERENCES names (id) ON DELETE CASCADE,
            bound TEXT NOT NULL
        )
        """,
    ),
    (
        # Representatives are one more kind of name; what kinds there are is no longer said twice.
        """
        CREATE TABLE all_names (
            id   INTEGER PRIMARY KEY AUTOINCREMENT,
            key  TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            kind TEXT NOT NULL
        )
        """,
        "INSERT INTO all_names (id, key, name, kind) SELECT id, key, name, kind FROM names",
        "DELETE FROM sqlite_sequence WHERE name = 'all_names'",
        "INSERT INTO sqlite_sequence (name, seq) SELECT 'all_names', seq FROM sqlite_sequence WHERE name = 'names'",
        "DROP TABLE names",
        "ALTER TABLE all_names RENAME TO names",
        # Whether a query's answers go to subscribers.
        "ALTER TABLE queries ADD COLUMN member INTEGER NOT NULL DEFAULT 0",
        """
        CREATE TABLE representatives (
            id     INTEGER PRIMARY KEY REFERENCES names (id) ON DELETE CASCADE,
            stream TEXT NOT NULL,
            epoch  INTEGER NOT NULL,
            part   INTEGER NOT NULL,
            about  TEXT NOT NULL,
            bound  TEXT NOT NULL
        )
        """,
        # Where the answers of each member are found, since which cycle, and whether the member has ended with that.
        """
        CREATE TABLE itineraries (
            member   INTEGER PRIMARY KEY,
            cycle    INTEGER NOT NULL,
            ended    INTEGER NOT NULL,
            document TEXT NOT NULL
        )
        """,
        """
        CREATE INDEX itineraries_by_cycle ON itineraries (cycle)
        """,
        """
        CREATE TABLE delivery_groups (
            name     TEXT PRIMARY KEY,
            document TEXT NOT NULL
        ) WITHOUT ROWID
        """,
    ),
    (
        # The folder that a query's answers are written to, as `weft/sql/paths.py` names it.
        "ALTER TABLE queries ADD COLUMN folder TEXT",
        "CREATE INDEX queries_by_folder ON queries (folder) WHERE folder IS NOT NULL",
    ),
    (
        # See `weft/catalog/checksums.py`.
        "CREATE TABLE checksums (name TEXT PRIMARY KEY, total INTEGER NOT NULL) WITHOUT ROWID",
    ),
)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Apply the migrations that the file still lacks, each in a transaction that also counts it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, migration in enumerate(migrations[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in migration:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite has already rolled back if the disk is full
                connection.execute("ROLLBACK")
            raise
