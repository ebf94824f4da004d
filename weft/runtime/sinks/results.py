"""Answers as another process reads them, without Spark."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from weft.algebra import Query
from weft.arrays.arrow_types import arrow_type
from weft.runtime.sinks.kept import kept_of, with_metadata
from weft.runtime.state.answer_files import answers_in, damage, sealed_answers
from weft.runtime.state.commits import Commit
from weft.runtime.state.seals import Seal, fault, seal_of
from weft.runtime.state.status import last_commit


class DamagedAnswers(UserWarning):
    """A file of answers is damaged; the answers of its cycle are left out."""


def newest_answers(directory: Path, query: Query, number: int, streams: frozenset[str]) -> pa.Table:
    """The answers of a query that are kept on disk, oldest first, each of the columns in its own type.

    `number` tells it from queries that had its name before. What is told of the `streams` that may shed which it reads
    is as of the newest cycle. Warns with `DamagedAnswers` of each file that is damaged.
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
    return found if commit is None else with_metadata(found, kept_of(streams, commit.streams))


def _files(directory: Path, commit: Commit, first: int) -> Iterator[bytes]:
    """The files of answers that a commit names, from the `first` cycle on."""
    for path, seal in sealed_answers(commit.seals).items():
        file = directory / "state" / path
        if int(file.name.partition(".")[0]) >= first:
            data = file.read_bytes() if file.exists() else None
            wrong = fault(seal, None if data is None else seal_of(data))
            if data is not None and wrong is None:
                yield data
            elif _is_still_named(directory, path, seal):
                warnings.warn(damage(str(file), wrong or ""), DamagedAnswers, stacklevel=2)


def _is_still_named(directory: Path, path: str, seal: Seal) -> bool:
    """Whether the newest commit names a file as well. A running engine lets go of its oldest answers."""
    newest = last_commit(directory)
    return newest is not None and sealed_answers(newest.seals).get(path) == seal
