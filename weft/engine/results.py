"""Answers as another process reads them, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from weft.algebra import Query
from weft.engine.answer_files import FOLDER, answers_in
from weft.engine.arrow_types import arrow_type
from weft.engine.kept import kept_of, with_metadata
from weft.engine.status import last_commit


def newest_answers(directory: Path, query: Query, number: int, streams: frozenset[str]) -> pa.Table:
    """The answers of a query that are kept on disk, oldest first, each of the columns in its own type.

    `number` tells it from queries that had its name before. What is told of the `streams` that may shed which it reads
    is as of the newest cycle.
    """
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in query.relation.fields])
    tables = [schema.empty_table()]
    commit = last_commit(directory)
    state = commit.queries.get(query.name) if commit is not None else None
    if commit is not None and state is not None and state.number == number:
        for file in sorted((directory / "state" / FOLDER).glob("*.arrows")):
            if state.first <= int(file.stem) <= commit.cycle:
                tables += [table.cast(schema) for table in _answers_in(file, query.name)]
    found = pa.concat_tables(tables)
    return found if commit is None else with_metadata(found, kept_of(streams, commit.streams))


def _answers_in(file: Path, query: str) -> list[pa.Table]:
    try:
        with file.open("rb") as opened:
            table = answers_in(opened, query)
    except FileNotFoundError:
        # The engine has let go of its oldest answers meanwhile.
        return []
    return [] if table is None else [table]
