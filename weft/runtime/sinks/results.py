"""The newest answers of all queries on disk, where other processes read them without Spark: a file for each cycle.

A file has the count of rows and an Arrow stream by query, as MessagePack. The newest commit has the seals of the files
that count. They are a cache, and so not among the segments of the state: a file that is damaged is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
import pyarrow as pa

from weft.algebra import Query
from weft.arrays.arrow_types import arrow_type, streamed, table_of
from weft.runtime.sinks.shed_notices import notices_of, with_notices
from weft.runtime.state.checksums import Seal, Seals, fault, seal_of
from weft.runtime.state.commits import Commit, last_commit
from weft.runtime.state.storage import Storage

#: The folder in the state directory.
FOLDER = "answers"
_ENDING = ".msgpack"

#: What a file has by query: the count of rows, and the rows.
_Answers: TypeAlias = Mapping[str, tuple[int, memoryview]]


class AnswerFiles:
    """Answers of the newest cycles, up to about `limit` rows in all, or of the newest one up to so many per query."""

    def __init__(self, storage: Storage, limit: int, sealed: Mapping[str, Seals]) -> None:
        self._storage = storage
        self._limit = limit
        self._rows: dict[str, int] = {}
        self._seals: dict[str, Seal] = {}
        #: A sentence for each file that was damaged.
        self.damages: list[str] = []
        for path, seal in sealed_answers(sealed).items():
            self._take_up(path, seal)
        for name in storage.names(FOLDER):
            if f"{FOLDER}/{name}" not in self._rows:
                storage.delete(f"{FOLDER}/{name}")

    def _take_up(self, path: str, seal: Seal) -> None:
        data = self._storage.read_bytes(path) if self._storage.exists(path) else None
        wrong = fault(seal, data)
        if data is None or wrong is not None:
            self.damages.append(damage(self._storage.path(path), wrong or ""))
        else:
            self._rows[path], self._seals[path] = sum(rows for rows, _ in _answers_in(data).values()), seal

    @property
    def seals(self) -> dict[str, Seals]:
        return {path: {"": seal} for path, seal in self._seals.items()}

    def write(self, cycle: int, answers: Mapping[str, pa.Table], island: str = "") -> None:
        """Write a cycle's answers; from its commit on, the oldest files do not count any more.

        What an `island` answers for a cycle that is over is in a file of its own.
        """
        if not answers or not self._limit:
            return
        path = f"{FOLDER}/{cycle:012d}{island and f'.{island}'}{_ENDING}"
        newest = {query: table.slice(max(0, table.num_rows - self._limit)) for query, table in answers.items()}
        data = msgspec.msgpack.encode({name: (table.num_rows, streamed(table)) for name, table in newest.items()})
        self._storage.write_bytes(path, data)
        self._rows[path], self._seals[path] = sum(table.num_rows for table in newest.values()), seal_of(data)
        while len(self._seals) > 1 and sum(self._rows[each] for each in self._seals) > self._limit:
            del self._seals[min(self._seals)]

    def committed(self) -> None:
        for path in self._rows.keys() - self._seals.keys():
            self._storage.delete(path)
            del self._rows[path]


def sealed_answers(sealed: Mapping[str, Seals]) -> dict[str, Seal]:
    """Return the files of answers in a commit, with their seals, oldest first."""
    return {path: sealed[path][""] for path in sorted(sealed) if path.startswith(FOLDER) and path.endswith(_ENDING)}


def damage(path: str, wrong: str) -> str:
    """Return the sentence about a damaged file; `wrong` continues its name."""
    file = path.removeprefix("file:")
    return f"{file} {wrong}; the answers of this cycle cannot be shown again, and nothing else needs them"


def answers_in(data: bytes, query: str) -> pa.Table | None:
    """Return a query's answers in the bytes of a file; None if it has none there."""
    found = _answers_in(data).get(query)
    return None if found is None else table_of(found[1])


def _answers_in(data: bytes) -> _Answers:
    found: _Answers = msgspec.msgpack.decode(data, type=_Answers)
    return found


# -- reading ----------------------------------------------------------------------------------------------------------


class DamagedAnswers(UserWarning):
    """A file of answers is damaged; the answers of its cycle are left out."""


def newest_answers(directory: Path, query: Query, number: int, streams: frozenset[str]) -> pa.Table:
    """The answers of a query that are kept on disk, oldest first, with what was kept of the `streams` that may shed.

    `number` tells it from queries that had its name before. Warns with `DamagedAnswers` of each file that is damaged.
    """
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in query.relation.fields])
    tables = [schema.empty_table()]
    commit = last_commit(directory)
    state = commit.of_query(query.name).queries.get(query.name) if commit is not None else None
    if commit is not None and state is not None and state.number == number:
        for data in _files(directory, commit, state.first):
            table = answers_in(data, query.name)
            tables += [] if table is None else [table.cast(schema)]
    found = pa.concat_tables(tables)
    return found if commit is None else with_notices(found, notices_of(streams, commit.streams))


def _files(directory: Path, commit: Commit, first: int) -> Iterator[bytes]:
    """The files of answers that a commit names, from the `first` cycle on."""
    for path, seal in sealed_answers(commit.seals).items():
        file = directory / "state" / path
        if int(file.name.partition(".")[0]) >= first:
            data = file.read_bytes() if file.exists() else None
            wrong = fault(seal, data)
            if data is not None and wrong is None:
                yield data
                continue
            # A running engine drops its oldest answers: the newest commit may not name them any more.
            newest = last_commit(directory)
            if newest is not None and sealed_answers(newest.seals).get(path) == seal:
                warnings.warn(damage(str(file), wrong or ""), DamagedAnswers, stacklevel=2)
