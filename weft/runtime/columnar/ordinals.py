"""Values as whole numbers that compare as SQL compares the values.

A comparison with a constant asks on which side of a cut a value lies. With numbers of 64 bits in place of decimals,
dates, times, truth values and floating-point numbers, that is one binary search for a whole column:

    DECIMAL        the number without its point: 12.50 is 1250
    DATE, TIME     days and microseconds, as they are stored
    FLOAT, DOUBLE  their bits, put in order: -0.0 is 0.0, and NaN is equal to itself and above all numbers

Texts and bytes have no such numbers. They compare byte by byte, as Python's texts and bytes do, and are looked up once
for each distinct one.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.algebra import DataType, Kind
from weft.predicates.intervals import Place

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_TEXTS = frozenset({Kind.STRING, Kind.BINARY})
#: DECIMALs of so many digits fit into 64 bits.
_MOST_DIGITS = 18
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_REST = np.int64(_MOST)


def is_text(type_: DataType) -> bool:
    """Whether values are compared byte by byte."""
    return type_.kind in _TEXTS


def has_ordinals(type_: DataType) -> bool:
    """Whether values of the type are compared through numbers of 64 bits."""
    if type_.kind is Kind.DECIMAL:
        return type_.precision <= _MOST_DIGITS
    return type_.kind not in (*_TEXTS, Kind.HUGEINT, Kind.NULL)


def digits_after_point(type_: DataType) -> int:
    return type_.scale if type_.kind is Kind.DECIMAL else 0


def limits(type_: DataType) -> tuple[int, int]:
    """The least and the greatest number that a value of an exact type has."""
    if type_.kind is Kind.DECIMAL:
        return -(10**type_.precision) + 1, 10**type_.precision - 1
    bits = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.DATE: 32, Kind.BOOLEAN: 2}.get(type_.kind, 64)
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def ordinals(values: pa.ChunkedArray | pa.Array) -> tuple[Numbers, Mask]:
    """The numbers of some values, and which of them are NULL; these have any number."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    nulls = np.asarray(pc.is_null(array))
    return _numbers(array), nulls


def _numbers(array: pa.Array) -> Numbers:
    type_ = array.type
    if pa.types.is_decimal(type_):
        # The low half of a number of 128 bits: all of it, as long as it has no more than 18 digits.
        halves = np.frombuffer(array.buffers()[1], dtype=np.int64).reshape(-1, 2)
        return halves[array.offset : array.offset + len(array), 0].copy()
    if pa.types.is_floating(type_):
        return ordered_bits(np.asarray(pc.fill_null(array, 0.0), dtype=np.float64))
    if pa.types.is_boolean(type_):
        return np.asarray(pc.fill_null(array, False)).astype(np.int64)
    if pa.types.is_date32(type_):
        array = array.cast(pa.int32())
    return np.asarray(pc.fill_null(array.cast(pa.int64()), 0))


def ordered_bits(values: NDArray[np.float64]) -> Numbers:
    """Floating-point numbers as whole numbers in the order that SQL has them in."""
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _REST, bits)


def _ordered_bits_of(value: float) -> int:
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits ^ _MOST if bits < 0 else bits


def first_not_below(place: Place, side: int, scale: int) -> int | Any:
    """The least number, or the least text with its side, that lies above a cut just below or just above a place.

    `scale` is how many digits after the point the numbers of the values have.
    """
    if isinstance(place, Fraction):
        exact = place * 10**scale
        return math.floor(exact) + 1 if side else math.ceil(exact)
    if isinstance(place, tuple):
        is_nan, number = place
        return _ordered_bits_of(math.nan if is_nan else number) + side
    return place, side


def within_64_bits(number: int) -> bool:
    return _LEAST < number <= _MOST
