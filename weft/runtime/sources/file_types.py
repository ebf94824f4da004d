"""Which types of a file's columns give every value of a declared type exactly.

Spark is asked for the declared types, whatever a file has. Some other types it widens, some it refuses in the middle of
a job, and of some it gives wrong values without a word: an INT32 read as TINYINT is cut off, a text in ORC read as
BIGINT is NULL. So a file is compared with the declaration before Spark reads it.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as arrow

from weft.algebra.types import DataType, Kind

#: Decimal digits that the whole part of an integer of so many bits can have, as Spark counts them.
_DIGITS = {8: 10, 16: 10, 32: 10, 64: 20}

_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}


def is_exact(declared: DataType, found: pa.DataType, format_: str) -> bool:
    """Whether Spark gives every value of a column of a file exactly when it reads it as the declared type."""
    if arrow.is_dictionary(found):
        found = found.value_type
    kind = declared.kind
    if kind in _BITS:
        return _is_integer_within(found, _BITS[kind])
    match kind:
        case Kind.BOOLEAN:
            return bool(arrow.is_boolean(found))
        case Kind.FLOAT:
            return bool(arrow.is_float32(found))
        case Kind.DOUBLE:
            # Spark reads a UINT32 as a DOUBLE below zero.
            return arrow.is_float32(found) or arrow.is_float64(found) or _is_integer_within(found, 32)
        case Kind.DECIMAL:
            return _fits_decimal(declared, found)
        case Kind.STRING:
            # Some writers of Parquet do not say that bytes are text. Spark gives bytes in ORC as hex digits.
            return _is_text(found) or (format_ == "parquet" and arrow.is_binary(found))
        case Kind.BINARY:
            return _is_text(found) or arrow.is_binary(found) or arrow.is_fixed_size_binary(found)
        case Kind.DATE:
            return bool(arrow.is_date32(found))
        case Kind.TIMESTAMP:
            # ORC has one type for all instants; Parquet has nanoseconds apart, which Spark refuses.
            return arrow.is_timestamp(found) and (format_ == "orc" or found.unit in ("us", "ms"))
    return False


def _is_text(found: pa.DataType) -> bool:
    return bool(arrow.is_string(found) or arrow.is_large_string(found))


def _is_integer_within(found: pa.DataType, bits: int) -> bool:
    if arrow.is_signed_integer(found):
        return bool(found.bit_width <= bits)
    return bool(arrow.is_unsigned_integer(found) and found.bit_width < bits)


def _fits_decimal(declared: DataType, found: pa.DataType) -> bool:
    whole, scale = declared.precision - declared.scale, declared.scale
    if arrow.is_signed_integer(found):
        return whole >= _DIGITS[found.bit_width]
    if arrow.is_decimal(found):
        return bool(found.precision - found.scale <= whole and found.scale <= scale)
    return False
