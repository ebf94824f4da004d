"""Blocks: rows in one piece of memory, as compiled code takes them.

A row holds one partial of every group key, column after column (see `weft/kernels/rows.py`); a block is row after
row. Seen from Python it is the columns of a statistic, which are views of it; it begins where the first of them does.
"""

from __future__ import annotations

import numpy as np

from weft.kernels.pointers import address
from weft.kernels.statistic import Columns, Statistic

_WORD = 8


def identities(statistic: Statistic, rows: int, width: int) -> Columns:
    """The columns of a block of identities."""
    columns = unwritten(statistic, rows, width)
    statistic.erase(columns, ...)
    return columns


def unwritten(statistic: Statistic, rows: int, width: int) -> Columns:
    """The columns of a block that holds anything."""
    fields = statistic.fields
    block = np.empty((rows, len(fields), width), dtype=fields[0].dtype)
    return tuple(block[:, c] for c in range(len(fields)))


def packed(statistic: Statistic, columns: Columns, width: int) -> Columns:
    """The same columns as a block: themselves, if they are one already."""
    rows = len(columns[0])
    if any(np.size(column) != rows * width for column in columns):
        shapes = ", ".join(str(np.shape(column)) for column in columns)
        raise ValueError(f"{rows} partials of {width} keys are expected, not arrays of shape {shapes}")
    if _are_block(statistic, columns, width):
        return columns
    block = unwritten(statistic, rows, width)
    for to, column in zip(block, columns, strict=True):
        to[...] = np.reshape(column, (rows, width))
    return block


def _are_block(statistic: Statistic, columns: Columns, width: int) -> bool:
    begin, row = address(columns[0]), _WORD * width * len(columns)
    return all(
        column.dtype == field.dtype
        and column.strides[0] == row
        and (width == 1 or column.strides[-1] == _WORD)
        and address(column) == begin + _WORD * width * c
        for c, (column, field) in enumerate(zip(columns, statistic.fields, strict=True))
    )
