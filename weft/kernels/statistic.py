"""A statistic: the smallest thing that a kernel keeps, and its algebra; and values that have an order, as integers.

A partial of an aggregate function is a record of statistics, and a statistic a record of columns. COUNT, SUM, AVG and
STDDEV of one column share them: a statistic that several functions need is computed once per slice, and goes
through one kernel.

All functions here are vectorised over group keys: they take and return one array for each column.

The least and the greatest of values are found among 64-bit integers in the same order (`weft/arrays/ordinals.py`). A
record of several values compares column by column, so what does not fit into one integer takes two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra.types import DataType, Kind
from weft.arrays.ordinals import from_ordered_bits, is_text, joined_words, ordered_bits, takes_two_words, words_of
from weft.kernels.compiled.arithmetic import RowArithmetic

Array: TypeAlias = NDArray[Any]

#: Records, column by column: arrays of equal length, one entry for each record.
Columns: TypeAlias = tuple[Array, ...]


class Values(NamedTuple):
    """A column of rows: numbers, text, …, and which of them are not NULL."""

    values: Array
    valid: NDArray[np.bool_]


INT64, FLOAT64, OBJECT = np.dtype(np.int64), np.dtype(np.float64), np.dtype(object)


@dataclass(frozen=True, eq=False)
class Statistic:
    """The algebra of one statistic: a monoid, perhaps with an inverse.

    combine(combine(a, b), c) = combine(a, combine(b, c)), and combining with the identity changes nothing. The record
    of a slice without rows is the identity; so is that of rows that do not count.
    """

    name: str
    dtypes: tuple[np.dtype[Any], ...]
    """Those of its columns."""

    identity: tuple[Any, ...]

    lift: Callable[..., Columns]
    """(values of each argument) → the records of single rows. A value that is NULL usually gives the identity."""

    combine: Callable[[Columns, Columns], Columns]
    inverse: Callable[[Columns, Columns], Columns] | None = None
    """inverse(combine(a, b), a) = b, to the last bit if `exact`."""

    exact: bool = True
    selective: bool = False
    """combine returns one of its arguments."""

    commutative: bool = True
    rows: RowArithmetic | None = None
    """The same algebra, compiled; then all columns are 64-bit integers, or all are 64-bit floats."""

    ufunc: np.ufunc | None = None
    """The NumPy function that combines each column by itself, if there is one."""

    rare: bool = False
    """Almost every record is the identity."""

    def unwritten(self, *shape: int) -> Columns:
        """Columns that hold anything; over several keys, those of a statistic with compiled arithmetic are a block.

        A block is one piece of memory that compiled code takes as it is: row by row, and in a row column by column.
        """
        if self.rows is None or len(shape) == 1:
            return tuple(np.empty(shape, dtype=dtype) for dtype in self.dtypes)
        block = np.empty((shape[0], len(self.dtypes), *shape[1:]), dtype=self.dtypes[0])
        return tuple(block[:, c] for c in range(len(self.dtypes)))

    def empty(self, *shape: int) -> Columns:
        """As many identities as the shape says."""
        columns = self.unwritten(*shape)
        self.erase(columns, ...)
        return columns

    def erase(self, columns: Columns, at: Any) -> None:
        """Writes the identity to these places of all columns."""
        write_records(columns, at, self.identity)

    @property
    def bytes_per_record(self) -> int:
        return sum(dtype.itemsize for dtype in self.dtypes)


def fold(statistic: Statistic, records: Columns, groups: NDArray[np.intp], number_of_groups: int) -> Columns:
    """One record for each group: its records combined in the order they come in, or the identity if there are none."""
    order = np.argsort(groups, kind="stable")
    members, rest = groups[order], records_at(records, order)
    while (same := members[1:] == members[:-1]).any():
        # Pairs of neighbours are combined, counted from the first record of each group.
        begins = np.flatnonzero(np.append(True, ~same))
        place = np.arange(len(members)) - np.repeat(begins, np.diff(np.append(begins, len(members))))
        is_left = place % 2 == 0
        left = np.flatnonzero(is_left[:-1] & same)
        write_records(rest, left, statistic.combine(records_at(rest, left), records_at(rest, left + 1)))
        members, rest = members[is_left], records_at(rest, is_left)
    result = statistic.empty(number_of_groups)
    write_records(result, members, rest)
    return result


def records_at(columns: Columns, places: Any) -> Columns:
    """The records at some places of all columns."""
    return tuple(column[places] for column in columns)


def write_records(columns: Columns, places: Any, records: Iterable[Any]) -> None:
    """Write records, or one record, to some places of all columns."""
    for column, values in zip(columns, records, strict=True):
        column[places] = values


def same_records(left: Columns, right: Columns) -> bool:
    """Whether records are equal to the last bit; NaN equals NaN."""
    return all(bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f")) for a, b in zip(left, right, strict=True))


def are_identities(statistic: Statistic, records: Columns) -> NDArray[np.bool_]:
    """Which records are the identity, of a statistic of plain numbers."""
    same = [np.asarray(column == value) for column, value in zip(records, statistic.identity, strict=True)]
    return np.asarray(np.logical_and.reduce(same), dtype=bool)


#: The topmost bit of a word.
_HALF = np.int64(-(2**63))


def nothing_ordered(type_: DataType) -> tuple[Any, ...]:
    """What the columns in which values of a type are compared hold where there is no value."""
    if is_text(type_):
        return ("",) if type_.kind is Kind.STRING else (b"",)
    return (0, 0) if takes_two_words(type_) else (0,)


def to_ordered(values: Array, type_: DataType) -> Columns:
    """Values as columns that compare as they do. Entries that are NULL may hold anything of the right type."""
    if is_text(type_):
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
