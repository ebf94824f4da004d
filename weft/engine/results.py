"""Answers as another process reads them, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from weft.algebra import DataType, Kind, Query
from weft.engine.answer_files import FOLDER, answers_in
from weft.engine.status import last_commit

_ARROW = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.HUGEINT: pa.decimal128(38, 0),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.INTERVAL: pa.duration("us"),
}


def newest_answers(directory: Path, query: Query, number: int) -> pa.Table:
    """The answers of a query that are kept on disk, oldest first, each of the columns in its own type.

    `number` tells it from queries that had its name before.
    """
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in query.relation.fields])
    tables = [schema.empty_table()]
    commit = last_commit(directory)
    state = commit.queries.get(query.name) if commit is not None else None
    if commit is not None and state is not None and state.number == number:
        for file in sorted((directory / "state" / FOLDER).glob("*.arrows")):
            if state.first <= int(file.stem) <= commit.cycle:
                tables += [table.cast(schema) for table in _answers_in(file, query.name)]
    return pa.concat_tables(tables)


def _answers_in(file: Path, query: str) -> list[pa.Table]:
    try:
        with file.open("rb") as opened:
            table = answers_in(opened, query)
    except FileNotFoundError:
        # The engine has let go of its oldest answers meanwhile.
        return []
    return [] if table is None else [table]


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column of answers."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.kind]
