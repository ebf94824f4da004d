"""The Arrow types of columns, and tables as bytes that carry rows between processes and into files.

Types inside the engine and outside of it differ for INTERVAL alone: Spark and the engine compute with numbers of
microseconds, and readers of answers get durations.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from weft.algebra import DataType, Kind
from weft.algebra.types import INTERVAL

AnyArray = TypeVar("AnyArray", pa.Array, pa.ChunkedArray)

_DURATION = pa.duration("us")
#: Rows from which on threads that compress columns save more than they cost.
_WORTH_THREADS = 10_000
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
    Kind.INTERVAL: _DURATION,
}


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column of answers."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.kind]


def inner_arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column inside the engine."""
    return pa.int64() if type_ == INTERVAL else arrow_type(type_)


def to_outside(values: AnyArray, type_: DataType) -> AnyArray:
    """Values of the engine as answers have them."""
    return values.cast(_DURATION) if type_ == INTERVAL else values


def to_inside(values: AnyArray, type_: DataType) -> AnyArray:
    """Values of answers as the engine has them."""
    return values.cast(pa.int64()) if type_ == INTERVAL else values


def streamed(table: pa.Table, compression: str | None = None) -> bytes:
    """A table as the bytes of an Arrow stream.

    >>> table_of(streamed(pa.table({"a": [1, 2]}))).to_pydict()
    {'a': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=table.num_rows >= _WORTH_THREADS)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def table_of(stream: bytes | memoryview) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
