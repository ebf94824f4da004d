"""Values as integers that compare as SQL compares the values, and the intervals that constants divide them into.

With integers in place of decimals, dates, times, truth values and floating-point numbers, to compare a whole column
with many constants is one binary search for each row:

    DECIMAL        the number without its point: 12.50 is 1250
    DATE, TIME     days and microseconds, as they are stored
    FLOAT, DOUBLE  their bits, put in order: -0.0 is 0.0, and NaN is equal to itself and above all numbers

DECIMALs of more than 18 digits may need more than 64 bits; then the integers are Python's, in an array of objects.
Texts and bytes have no such integers. They compare byte by byte, as Python's do, and each distinct one is looked up
once.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.algebra import DataType, Kind

Numbers = NDArray[np.int64]
Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: A constant of a comparison; a float is compared with columns of floating-point numbers as it is, NaN included.
Constant: TypeAlias = int | float | Decimal | Fraction | str | bytes

#: DECIMALs of this many digits fit into 64 bits.
_MOST_DIGITS = 18
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_WORD = 1 << 64
#: Above, or with its sign below, all integers that columns hold.
_BEYOND = 1 << 192


def is_text(type_: DataType) -> bool:
    """Whether values are compared byte by byte."""
    return type_.kind in (Kind.STRING, Kind.BINARY)


def takes_two_words(type_: DataType) -> bool:
    """Whether values of the type are integers beyond 64 bits (DECIMALs count as their unscaled integers)."""
    return type_.kind is Kind.HUGEINT or (type_.kind is Kind.DECIMAL and type_.precision > _MOST_DIGITS)


def has_ordinals(type_: DataType) -> bool:
    """Whether values of the type are compared through integers of 64 bits."""
    return not (takes_two_words(type_) or is_text(type_) or type_.kind is Kind.NULL)


def is_text_array(type_: pa.DataType) -> bool:
    """Whether an Arrow column, or what its dictionary holds, is compared byte by byte."""
    kind_of_values = type_.value_type if pa.types.is_dictionary(type_) else type_
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(kind(kind_of_values) for kind in kinds)


def whole_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def ordinals(values: pa.ChunkedArray | pa.Array) -> tuple[NDArray[Any], Mask]:
    """The integers of a column's values, and which of them are NULL; these have any integer."""
    array = whole_array(values)
    return _ordinals(array), np.asarray(pc.is_null(array))


def _ordinals(array: pa.Array) -> NDArray[Any]:
    type_ = array.type
    if pa.types.is_decimal(type_):
        return unscaled(array)
    if pa.types.is_floating(type_):
        return ordered_bits(np.asarray(pc.fill_null(array, 0.0), dtype=np.float64))
    if pa.types.is_boolean(type_):
        return np.asarray(pc.fill_null(array, False)).astype(np.int64)
    if pa.types.is_date(type_):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(type_):
        array = array.cast(pa.timestamp("us", type_.tz))
    elif pa.types.is_duration(type_):
        array = array.cast(pa.duration("us"))
    return np.asarray(pc.fill_null(array.cast(pa.int64()), 0))


def decimal_words(array: pa.Array) -> NDArray[np.int64]:
    """The low and the high word of each DECIMAL's unscaled integer; NULLs have any words."""
    if not len(array):
        return np.empty((0, 2), dtype=np.int64)
    return np.asarray(np.frombuffer(array.buffers()[1], dtype=np.int64).reshape(-1, 2)[array.offset :][: len(array)])


def unscaled(array: pa.Array) -> NDArray[Any]:
    """The unscaled integers of DECIMALs; objects if 64 bits do not hold them all. NULLs have any."""
    low, high = decimal_words(array).T
    if array.type.precision <= _MOST_DIGITS:
        return np.array(low)
    if array.null_count:
        low, high = (np.where(np.asarray(array.is_valid()), words, 0) for words in (low, high))
    return np.array(low) if (high == low >> 63).all() else joined_words(low, high)


def joined_words(low: Numbers, high: Numbers) -> NDArray[Any]:
    """Integers of 128 bits by their words, as objects."""
    return np.asarray(high.astype(object) * _WORD + low.view(np.uint64).astype(object))


def words_of(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """The low and the high word of each integer: the reverse of `joined_words`."""
    words = np.empty((len(numbers), 2), dtype=np.int64)
    if numbers.dtype == object:
        listed = [int(number) for number in numbers.tolist()]
        words[:, 0] = np.array([number % _WORD for number in listed], dtype=np.uint64).view(np.int64)
        words[:, 1] = [number // _WORD for number in listed]
    else:
        words[:, 0], words[:, 1] = numbers, numbers.astype(np.int64) >> 63
    return words


def ordered_bits(values: NDArray[np.float64]) -> Numbers:
    """Floating-point numbers as integers in SQL's order: bits compare as the numbers do, but for negative ones."""
    plain = values + 0.0  # makes 0.0 of -0.0
    bits = np.where(np.isnan(plain), np.nan, plain).view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & np.int64(_MOST)))


def from_ordered_bits(ordinals_: Numbers) -> NDArray[np.float64]:
    """The floating-point numbers again."""
    return np.ascontiguousarray(ordinals_ ^ ((ordinals_ >> 63) & np.int64(_MOST))).view(np.float64)


class ElementaryIntervals:
    """The intervals that cuts divide the values of a column into, numbered from 0 on.

    A cut is a constant and a side: 0 for just below it, 1 for just above it. Cuts are given in ascending order. A value
    has as its number how many cuts lie below it, and NULL the number after the last; no cut lies inside an interval, so
    all its values are alike to every comparison with one of the constants.

        cuts            below 10   above 10   below 20
        interval     0           1          2          3          15 is in interval 2, and NULL has the number 4
    """

    def __init__(self, cuts: Sequence[tuple[Constant, int]]) -> None:
        self._cuts = cuts
        self._firsts: dict[int | None, NDArray[Any]] = {}

    @property
    def null(self) -> int:
        """The number of NULL."""
        return len(self._cuts) + 1

    def of(self, column: pa.ChunkedArray | pa.Array) -> Positions:
        """The number of each value of a column."""
        array = whole_array(column)
        if is_text_array(array.type):
            codes, texts = distinct_texts(array)
            # Just above a text is the place (text, 1); a text itself is at (text, 0), above the cut just below it.
            return np.array([*(bisect_right(self._cuts, (text, 0)) for text in texts), self.null], np.int64)[codes]
        found, nulls = ordinals(array)
        scale = array.type.scale if pa.types.is_decimal(array.type) else 0
        return self.of_ordinals(found, nulls, None if pa.types.is_floating(array.type) else scale)

    def of_ordinals(self, values: NDArray[Any], nulls: Mask, scale: int | None) -> Positions:
        """The number of each value, by its ordinal: of a floating-point number, or of an exact number whose integer
        holds `scale` digits after the point."""
        if scale not in self._firsts:
            firsts = [max(_LEAST, _first_above(*cut, scale)) for cut in self._cuts]
            # Ordinals below the least of 64 bits come as objects alone, and then all of them are compared as they are.
            self._firsts[scale] = np.array([first for first in firsts if first <= _MOST], dtype=np.int64)
        firsts_here = self._firsts[scale]
        if values.dtype == object:
            firsts_here = np.array([_first_above(*cut, scale) for cut in self._cuts], dtype=object)
        numbers = np.searchsorted(firsts_here, values, side="right")
        numbers[nulls] = self.null
        return np.asarray(numbers, dtype=np.int64)


def _first_above(constant: Any, side: int, scale: int | None) -> int:
    """The least ordinal above a cut."""
    if scale is None:
        try:
            nearest = float(constant)
        except OverflowError:
            nearest = math.inf if constant > 0 else -math.inf
        bits = int(ordered_bits(np.array([nearest]))[0])
        if math.isnan(nearest):
            return bits + side
        return bits + 1 - int(nearest > constant) if side else bits + int(nearest < constant)
    if isinstance(constant, float) and not math.isfinite(constant):
        return -_BEYOND if constant == -math.inf else _BEYOND
    exact: Fraction = Fraction(constant) * 10**scale
    return math.floor(exact) + 1 if side else math.ceil(exact)


def distinct_texts(column: pa.ChunkedArray | pa.Array) -> tuple[Positions, list[Any]]:
    """Texts by number, and the texts; NULL has the number after the last."""
    array = whole_array(column)
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    return np.asarray(pc.fill_null(encoded.indices.cast(pa.int64()), len(texts))), texts


def positions_in_ranges(starts: Positions, lengths: Positions) -> Positions:
    """The positions of some ranges, one range after the other.

    >>> positions_in_ranges(np.array([4, 9]), np.array([2, 3])).tolist()
    [4, 5, 9, 10, 11]
    """
    ends = np.cumsum(lengths)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    return np.asarray(np.repeat(starts, lengths) + within)
