"""Answers as another process reads them, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from weft.algebra import DataType, Kind, Relation
from weft.engine.answer_files import FOLDER, unpacked

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


def newest_answers(directory: Path, query: str, relation: Relation) -> pa.Table:
    """The answers of a query that are kept on disk, oldest first, each of the columns in its own type."""
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in relation.fields])
    committed = _last_commit(directory)
    tables = [schema.empty_table()]
    for file in sorted((directory / "state" / FOLDER).glob("*.arrows")):
        if int(file.stem) <= committed:
            table = unpacked(file.read_bytes(), query)
            if table is not None and table.column_names == schema.names:
                tables.append(table.cast(schema))
    return pa.concat_tables(tables)


def _last_commit(directory: Path) -> int:
    commits = [int(file.stem) for file in (directory / "state" / "commits").glob("*.json") if file.stem.isdigit()]
    return max(commits, default=-1)


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column of answers."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.kind]
