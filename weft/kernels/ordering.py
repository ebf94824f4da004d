"""Values that have an order as columns of 64-bit integers in the same order (`weft/arrays/ordinals.py`), for kernels.

NaN is greater than every number and equal to itself, and −0.0 = 0.0, as in Spark. A record of several values compares
column by column, so what does not fit into one integer takes two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.algebra.types import DataType, Kind
from weft.arrays.ordinals import from_ordered_bits, joined_words, ordered_bits, takes_two_words, words_of
from weft.kernels.statistic import Array, Columns, StatisticField, integer, python_object

#: The topmost bit of a word.
_HALF = np.int64(-(2**63))


def ordered_fields(name: str, type_: DataType) -> tuple[StatisticField, ...]:
    """The columns that values of a type take for comparing."""
    if type_.kind in (Kind.STRING, Kind.BINARY):
        return (python_object(name),)
    if takes_two_words(type_):
        return (integer(f"{name}_high"), integer(f"{name}_low"))
    return (integer(name),)


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
        low, high = words_of(values).T
        # Shifted by half a word, the low words compare like signed integers.
        return (high.copy(), low ^ _HALF)
    if type_.is_floating:
        return (ordered_bits(np.asarray(values, dtype=np.float64)),)
    return (np.asarray(values).astype(np.int64),)


def from_ordered(columns: Columns, type_: DataType) -> Array:
    """The values again."""
    if takes_two_words(type_):
        return joined_words(columns[1] ^ _HALF, columns[0])
    if type_.is_floating:
        return from_ordered_bits(columns[0])
    if type_.kind is Kind.BOOLEAN:
        return columns[0].astype(np.bool_)
    return columns[0]
