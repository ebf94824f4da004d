"""Columns as Arrow has them, and the physical values that arithmetic wants (see `weft/kernels/aggregate_functions.py`).

A DECIMAL is its unscaled integer. Arrow keeps it in two words of 64 bits, which are read and written as they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.algebra import DataType, Kind
from weft.algebra.types import DOUBLE
from weft.arrays.arrow_types import arrow_type
from weft.arrays.ordinals import decimal_words, joined_words, takes_two_words, words_of
from weft.kernels.statistic import Array, Values


def physical(values: pa.Array, type_: DataType) -> Values:
    valid = np.asarray(values.is_valid())
    if type_.kind in (Kind.DECIMAL, Kind.HUGEINT):
        low, high = decimal_words(values).T
        return Values(np.where(valid, joined_words(low, high) if takes_two_words(type_) else low, 0), valid)
    if type_.kind in (Kind.STRING, Kind.BINARY):
        return Values(np.array(values.fill_null("" if type_.kind is Kind.STRING else b"").to_pylist(), object), valid)
    if type_.kind is Kind.BOOLEAN:
        return Values(np.asarray(values.fill_null(False)), valid)
    if type_.is_floating:
        return Values(np.asarray(values.fill_null(0.0)).astype(np.float64), valid)
    whole = values.cast(pa.int32()) if type_.kind is Kind.DATE else values
    return Values(np.asarray(whole.cast(pa.int64()).fill_null(0)), valid)


def arrow(values: Values, type_: DataType) -> pa.Array:
    """The column that shows values."""
    if type_.kind is Kind.NULL:
        return pa.nulls(len(values.valid))
    nothing = None if values.valid.all() else ~values.valid
    if type_.kind in (Kind.DECIMAL, Kind.HUGEINT):
        return _decimals(values.values, nothing, type_)
    if type_.kind in (Kind.STRING, Kind.BOOLEAN, Kind.BINARY):
        return pa.array(values.values, arrow_type(type_), mask=nothing)
    if type_.is_floating:
        floats = pa.array(values.values.astype(np.float64, copy=False), mask=nothing)
        return floats if type_ == DOUBLE else floats.cast(arrow_type(type_))
    whole = pa.array(values.values.astype(np.int64), mask=nothing)
    if type_.kind is Kind.DATE:
        return whole.cast(pa.int32(), safe=False).cast(pa.date32())
    # Answers fit into their types. Entries from before the aggregate was asked for, which are not given to any query,
    # may not.
    return whole.cast(arrow_type(type_), safe=False)


def _decimals(values: Array, nothing: NDArray[np.bool_] | None, type_: DataType) -> pa.Array:
    if nothing is not None and values.dtype == object:
        # A value that is NULL because it does not fit need not fit here.
        values = np.where(nothing, 0, values)
    valid = None if nothing is None else pa.array(~nothing).buffers()[1]
    return pa.Array.from_buffers(arrow_type(type_), len(values), [valid, pa.py_buffer(words_of(values))])
