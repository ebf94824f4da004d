"""Types of columns as Arrow has them."""

from __future__ import annotations

import pyarrow as pa

from weft.algebra import DataType, Kind

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


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column of answers."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.kind]
