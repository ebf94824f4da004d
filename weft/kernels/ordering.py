"""Numbers for comparing: every value that has an order, as 64-bit integers in the same order.

NaN is greater than every number and equal to itself, and −0.0 = 0.0, as in Spark. A record of several values compares
column by column, so what does not fit into one integer takes two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.algebra.types import DataType, Kind
from weft.kernels.statistic import Array, Columns, Field, integer, python_object

_LARGEST = np.int64(2**63 - 1)
_WORD = 1 << 64


def ordered_fields(name: str, type_: DataType) -> tuple[Field, ...]:
    """The columns that values of a type take for comparing."""
    if type_.kind in (Kind.STRING, Kind.BINARY):
        return (python_object(name),)
    if takes_two_words(type_):
        return (integer(f"{name}_high"), integer(f"{name}_low"))
    return (integer(name),)


def takes_two_words(type_: DataType) -> bool:
    """Whether values of the type are integers beyond 64 bits (DECIMALs count as their unscaled integers)."""
    return type_.kind is Kind.HUGEINT or (type_.kind is Kind.DECIMAL and type_.precision > 18)


def filler(type_: DataType) -> tuple[Any, ...]:
    """What stands in those columns where there is no value."""
    if type_.kind is Kind.STRING:
        return ("",)
    if type_.kind is Kind.BINARY:
        return (b"",)
    return (0, 0) if takes_two_words(type_) else (0,)


def to_ordered(values: Array, type_: DataType) -> Columns:
    """Values as columns that compare as they do. Entries that are NULL may hold anything of the right type."""
    if type_.kind in (Kind.STRING, Kind.BINARY):
        return (np.asarray(values, dtype=object),)
    if takes_two_words(type_):
        numbers = [int(value) for value in values.tolist()]
        high = np.array([number >> 64 for number in numbers], dtype=np.int64)
        # Shifted by half a word, the low words compare like signed integers.
        low = np.array([(number & (_WORD - 1)) - (_WORD >> 1) for number in numbers], dtype=np.int64)
        return (high, low)
    if type_.is_floating:
        return (_ordered_floats(np.asarray(values, dtype=np.float64)),)
    return (np.asarray(values).astype(np.int64),)


def from_ordered(columns: Columns, type_: DataType) -> Array:
    """The values again."""
    if takes_two_words(type_):
        high, low = (column.astype(object) for column in columns)
        return np.asarray(high * _WORD + low + (_WORD >> 1), dtype=object)
    if type_.is_floating:
        return _floats(columns[0])
    if type_.kind is Kind.BOOLEAN:
        return columns[0].astype(np.bool_)
    return columns[0]


def _ordered_floats(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bits of a double compare like its value, but for the sign: those of negative ones are turned round."""
    plain = values + 0.0  # −0.0 + 0.0 = 0.0
    bits = np.where(np.isnan(plain), np.nan, plain).view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & _LARGEST))


def _floats(ordered: NDArray[np.int64]) -> NDArray[np.float64]:
    bits = np.ascontiguousarray(ordered ^ ((ordered >> 63) & _LARGEST))
    return bits.view(np.float64)
