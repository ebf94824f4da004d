"""The catalog of a project: what is registered, what was measured, which plans there were. It decides nothing.

    with Catalog.open("project") as catalog:
        catalog.add(trades)
        with catalog.transaction():          # both, or neither
            catalog.add(hot)
            catalog.append_plan(2, plan)

One process at a time may open a directory for writing; any number may read it meanwhile, and see each transaction from
its commit on.

A process that is not the writer can still ask for changes. It submits a script (`submit`); the writer finds it
`pending`, and executes and `answer`s it in one transaction, so that a request happens at most once, even if the writer
dies in between; the process that asked reads the answer (`request`, `delete_request`). A request that is withdrawn
before its answer is never executed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

from weft.algebra import Value
from weft.algebra.codec import dumps, register
from weft.catalog.catalog_errors import CatalogError
from weft.catalog.database import Database, copy_of, refuse_lost, restore
from weft.catalog.definitions import Definitions
from weft.catalog.deliveries import Deliveries
from weft.catalog.lock import WriterLock
from weft.catalog.plan_nodes import PlanNodes
from weft.plan.query_list import QueryList
from weft.sql.names import folder_of_path
from weft.sql.settings import ALLOWED_PATHS, Settings

register(QueryList)

CATALOG_FILE: Final = "catalog.sqlite"


@dataclass(frozen=True, slots=True)
class CycleStatistics:
    """The numbers that one cycle reported for a stream or a node of the plan, under a key of the reporter's choice."""

    key: str
    cycle: int
    numbers: Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class Request:
    """A script that another process asked the writer to carry out, and the writer's answer once there is one."""

    id: int
    script: str
    answer: str | None


class Catalog(Definitions):
    """The catalog in one directory, open for writing or for reading. Threads may share it, forks may not."""

    def __init__(self, database: Database, lock: WriterLock | None) -> None:
        super().__init__(database)
        self._lock = lock
        self._statistics_changes = 0
        #: The shared plan that ran last.
        self.plan_nodes = PlanNodes(database)
        #: Itineraries and groups of delivery.
        self.deliveries = Deliveries(database)

    @classmethod
    def open(cls, directory: str | Path, *, write: bool = True, patience: float = 0.0) -> Self:
        """Open the catalog in `directory`; for writing, create it if there is none.

        Another writer is waited for, for at most `patience` seconds.
        """
        directory = Path(directory)
        if not os.path.isdir(directory):
            raise CatalogError(f"{directory} is not a directory, or not within reach; create it first")
        lock = WriterLock(directory, patience) if write else None
        try:
            refuse_lost(directory / CATALOG_FILE)
            return cls(Database(directory / CATALOG_FILE, write=write), lock)
        except BaseException:
            if lock:
                lock.release()
            raise

    @classmethod
    def recover(cls, directory: str | Path, *, patience: float = 0.0) -> Path | None:
        """Bring back the catalog of a project from the copy that its state keeps.

        A catalog that is there is kept beside it; returns where.
        """
        lock = WriterLock(Path(directory), patience)
        try:
            return restore(Path(directory) / CATALOG_FILE)
        finally:
            lock.release()

    def copied(self) -> bytes:
        """Return a copy of the catalog as `recover` takes it."""
        return copy_of(self.path)

    @property
    def changes(self) -> int:
        """A number that grows with every change that this process makes, but for statistics."""
        return self._database.changes - self._statistics_changes

    def close(self) -> None:
        """Close the file and let another writer in. What is in an open transaction is lost."""
        self._database.close()
        if self._lock:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def writable(self) -> bool:
        return self._database.writable

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes inside at once, or none of them if an exception leaves it.

        Transactions nest: an inner one that fails takes back its own changes alone. Other threads wait meanwhile. For a
        reader, everything inside sees one and the same state.
        """
        return self._database.transaction()

    # -- the project -------------------------------------------------------------------------------------------------

    @property
    def project(self) -> str:
        """The identity of this project, wherever its directory is moved."""
        ((identity,),) = self._database.execute("SELECT id FROM project")
        return str(identity)

    # -- settings ----------------------------------------------------------------------------------------------------

    def set_setting(self, name: str, value: Value) -> None:
        statement = "INSERT OR REPLACE INTO settings (key, value) VALUES (?, ?)"
        with self._database.change():
            self._database.execute(statement, (_setting_key(name), dumps(value)))

    def setting(self, name: str, default: Value = None) -> Value:
        rows = self._database.execute("SELECT value FROM settings WHERE key = ?", (_setting_key(name),))
        found: Value = self._database.decode(f"setting '{name}'", rows[0][0]) if rows else default
        return found

    def settings(self) -> Settings:
        """The settings of the project, with the defaults of those that were not set."""
        rows = self._database.execute("SELECT key, value FROM settings ORDER BY key")
        return Settings({key: self._database.decode(f"setting '{key}'", value) for key, value in rows})

    def allowed_paths(self) -> tuple[str, ...] | None:
        """The folders that statements may name; None if there is no limit."""
        setting = self.setting(ALLOWED_PATHS)
        return None if setting is None else tuple(str(setting).splitlines())

    def allow_paths(self, folders: Sequence[str]) -> None:
        """Let statements name what lies in these folders, and nothing else."""
        self.set_setting(ALLOWED_PATHS, "\n".join(map(folder_of_path, folders)))

    # -- statistics --------------------------------------------------------------------------------------------------

    def record_statistics(
        self, cycle: int, numbers: Mapping[str, Mapping[str, int | float]], *, keep: int | None = None
    ) -> None:
        """Keep what a cycle measured, for each key; a replayed cycle replaces what it had recorded.

        With `keep`, that many cycles stay, this one included. Later ones go too: cycles are counted from the start
        again when a project's state is removed, and what was recorded before is of a life that is over.
        """
        before = self._database.changes
        with self._database.change():
            for key, measured in numbers.items():
                self._database.execute(
                    "INSERT OR REPLACE INTO statistics (key, cycle, numbers) VALUES (?, ?, ?)",
                    (key, cycle, dumps(tuple(measured.items()))),
                )
            if keep is not None:
                self._database.execute("DELETE FROM statistics WHERE cycle <= ? OR cycle > ?", (cycle - keep, cycle))
            self._statistics_changes += self._database.changes - before

    def statistics(self, key: str, *, since: int = 0) -> tuple[CycleStatistics, ...]:
        """What was recorded for `key` in cycle `since` and later, oldest first."""
        return tuple(self._statistics("cycle", "WHERE key = ? AND cycle >= ? ORDER BY cycle", key, since))

    def latest_statistics(self) -> dict[str, CycleStatistics]:
        """The newest record of each key."""
        return {each.key: each for each in self._statistics("max(cycle)", "GROUP BY key")}

    def _statistics(self, cycle: str, rest: str, *parameters: object) -> Iterator[CycleStatistics]:
        rows = self._database.execute(f"SELECT key, {cycle}, numbers FROM statistics {rest}", parameters)
        for key, recorded_in, numbers in rows:
            measured = dict(self._database.decode(f"the statistics of '{key}'", numbers))
            yield CycleStatistics(key, recorded_in, measured)

    # -- plan versions -----------------------------------------------------------------------------------------------

    def append_plan(self, number: int, plan: object) -> None:
        """Store a plan under a number above all before it. Its classes must be registered with the codec."""
        with self._database.change():
            ((latest,),) = self._database.execute("SELECT max(number) FROM plans")
            if latest is not None and number <= latest:
                raise CatalogError(
                    f"plan {number} cannot be added to {self.path}: its latest is {latest}; number it above that"
                )
            self._database.execute("INSERT INTO plans (number, plan) VALUES (?, ?)", (number, dumps(plan)))

    def plan(self, number: int) -> Any:
        for (plan,) in self._database.execute("SELECT plan FROM plans WHERE number = ?", (number,)):
            return self._database.decode(f"plan {number}", plan)
        raise CatalogError(f"there is no plan {number} in {self.path}; it was never stored, or is forgotten")

    def plan_digest(self, number: int) -> str | None:
        """Return what tells the plan under a number from any other; None if there is no such plan."""
        rows = self._database.execute("SELECT plan FROM plans WHERE number = ?", (number,))
        return blake2b(rows[0][0].encode(), digest_size=16).hexdigest() if rows else None

    def latest_plan(self) -> Any:
        """The plan with the highest number; None if there is none yet."""
        for number, plan in self._database.execute("SELECT number, plan FROM plans ORDER BY number DESC LIMIT 1"):
            return self._database.decode(f"plan {number}", plan)
        return None

    # -- requests of other processes ---------------------------------------------------------------------------------

    def announce(self) -> None:
        """Let other processes know that this one, the writer, answers requests."""
        assert self._lock is not None, "only the writer answers"
        self._lock.announce()

    def submit(self, script: str) -> int:
        """Ask the writer to carry out a script, and return the number of the request. Readers may do this.

        It waits in the file until a writer looks for it, even if none is running now.
        """
        ((number,),) = self._database.execute_apart("INSERT INTO requests (script) VALUES (?) RETURNING id", (script,))
        return int(number)

    def withdraw(self, number: int) -> bool:
        """Take back a request, and say whether that was in time; one that is answered stays. Readers may do this."""
        return bool(
            self._database.execute_apart("DELETE FROM requests WHERE id = ? AND answer IS NULL RETURNING id", (number,))
        )

    def pending(self) -> tuple[Request, ...]:
        """The requests without an answer, oldest first."""
        rows = self._database.execute("SELECT id, script, answer FROM requests WHERE answer IS NULL ORDER BY id")
        return tuple(Request(*row) for row in rows)

    def request(self, number: int) -> Request:
        for row in self._database.execute("SELECT id, script, answer FROM requests WHERE id = ?", (number,)):
            return Request(*row)
        raise CatalogError(f"there is no request {number} in {self.path}; it was withdrawn, or answered and deleted")

    def answer(self, number: int, answer: str) -> None:
        """Answer a request, once. Answers that were not asked for within an hour are deleted."""
        now = time.time()
        with self._database.change():
            if self.request(number).answer is not None:
                raise CatalogError(f"request {number} in {self.path} has been answered; answer each request once")
            self._database.execute("UPDATE requests SET answer = ?, answered = ? WHERE id = ?", (answer, now, number))
            self._database.execute("DELETE FROM requests WHERE answered < ?", (now - _ANSWERS_KEPT,))

    def delete_request(self, number: int) -> None:
        """Delete an answered request: its answer has been read. Readers may do this."""
        self._database.execute_apart("DELETE FROM requests WHERE id = ? AND answer IS NOT NULL", (number,))


#: Seconds for which an answer waits for the process that asked.
_ANSWERS_KEPT: Final = 3600.0


def _setting_key(name: str) -> str:
    """What a setting is stored by. Spark tells the names of its settings apart by case; weft does not."""
    return name if name.startswith("spark.") else name.lower()
