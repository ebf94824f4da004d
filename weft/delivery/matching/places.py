"""Where the values of a column lie among the constants that subscriptions compare them with.

n constants cut a column's domain into 2n + 1 pieces, numbered in order: a piece for each constant and one for each gap.

    constants:        10        20
    pieces:      0     1    2    3    4          a value of 15 is in piece 2, one of 20 in piece 3, NULL in piece -1

With the piece of each row known, every comparison with a constant is a comparison of small integers: `x < 20` holds in
pieces 0 to 2, `x >= 20` in 3 and 4. All the exactness of SQL's comparisons is here, once: NaN equals itself and is the
largest DOUBLE, -0.0 equals 0.0, DECIMALs and integers are compared as they are and never as DOUBLEs.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.expressions import Value
from weft.delivery.log.delivery_errors import DeliveryError

Pieces = npt.NDArray[np.int64]

#: The piece of NULL.
NULL_PIECE: Final = -1

_EPOCH = date(1970, 1, 1)
_LEAST, _MOST = -(2**63), 2**63 - 1
_TOTAL_WIDTH = 38


def constants(values: Iterable[Value]) -> list[Any]:
    """Constants in order, each once, as `piece_of_constant` looks them up: NULLs are none."""
    try:
        return sorted({_comparable(value) for value in values if value is not None})
    except TypeError as error:
        raise DeliveryError(f"a column is compared with constants that cannot be ordered: {error}") from error


def piece_of_constant(value: Value, among: Sequence[Any]) -> int:
    """The piece of a value that is among the constants."""
    return 2 * bisect_left(among, _comparable(value)) + 1


def pieces(column: pa.Array, among: Sequence[Any]) -> Pieces:
    """The piece of each row of a column. Raises DeliveryError if its type is none that the constants have."""
    is_text = bool(among) and isinstance(among[0], str | bytes)
    if pa.types.is_null(column.type):
        return np.full(len(column), NULL_PIECE, np.int64)
    if is_text != _is_text(column.type) and among:
        raise DeliveryError(f"a column of type {column.type} is compared with {_shown(among[0])}")
    if _is_text(column.type):
        found = _pieces_of_texts(column, among)
    else:
        ranks = ranks_of(column)
        bounds = [_rank_bounds(column.type, each) for each in among]
        found = _pieces_of_ranks(ranks, bounds)
    if column.null_count:
        found[np.asarray(column.is_null())] = NULL_PIECE
    return found


def compared(left: pa.Array, op: str, right: pa.Array) -> Pieces:
    """Whether a comparison of two columns holds: 1 where it does, 0 where it does not, -1 where one is NULL."""
    if _is_text(left.type) != _is_text(right.type):
        raise DeliveryError(f"a column of type {left.type} is compared with one of type {right.type}")
    if _is_text(left.type):
        held = np.asarray(_TEXTS[op](_plain_text(left), _plain_text(right)).fill_null(False))
    else:
        mine, theirs = _in_one_domain(left, right)
        held = np.asarray(_RANKS[op](mine, theirs), dtype=bool)
    found = held.astype(np.int64)
    absent = np.asarray(left.is_null()) | np.asarray(right.is_null())
    found[absent] = NULL_PIECE
    return found


def ranks_of(column: pa.Array) -> npt.NDArray[Any]:
    """Numbers that are ordered as the values are: the integers of a clock, of a BOOLEAN or of an unscaled DECIMAL.

    DOUBLEs are ordered by their bits. The rank of NULL means nothing. They are Python integers in an array of objects
    where 64 bits are not enough.
    """
    kind = column.type
    if pa.types.is_floating(kind):
        return _bits(np.asarray(column.cast(pa.float64()).fill_null(0.0)))
    if pa.types.is_decimal(kind):
        return _unscaled(column)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz))
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"))
    elif pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise DeliveryError(f"a column of type {kind} cannot be compared")
    return np.asarray(column.cast(pa.int64()).fill_null(0))


# -- constants --------------------------------------------------------------------------------------------------------


class _NaN:
    """Equal to itself, and above every number."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return other is not self


_NAN: Final = _NaN()


def _comparable(value: Any) -> Any:
    if isinstance(value, float | Decimal) and math.isnan(value):
        return _NAN
    return (value - _EPOCH).days if isinstance(value, date) else value


def _shown(constant: Any) -> str:
    return "NaN" if constant is _NAN else repr(constant)


def _rank_bounds(kind: pa.DataType, constant: Any) -> tuple[int, int]:
    """The largest rank that is not above a constant, and the smallest that is not below it: equal if one is it."""
    if pa.types.is_floating(kind):
        if constant is _NAN:
            return _NAN_BITS, _NAN_BITS
        nearest = _nearest(constant)
        bits = int(_bits(np.array([nearest]))[0])
        return bits - (nearest > constant), bits + (nearest < constant)
    if constant is _NAN or (isinstance(constant, float) and math.isinf(constant)):
        outside = _LEAST * 10**_TOTAL_WIDTH if constant is not _NAN and constant < 0 else _MOST * 10**_TOTAL_WIDTH
        return outside, outside
    scaled = Fraction(constant) * 10 ** (kind.scale if pa.types.is_decimal(kind) else 0)
    return math.floor(scaled), math.ceil(scaled)


def _nearest(constant: Any) -> float:
    try:
        return float(constant)
    except OverflowError:
        return math.inf if constant > 0 else -math.inf


# -- columns ----------------------------------------------------------------------------------------------------------


def _pieces_of_ranks(ranks: npt.NDArray[Any], bounds: list[tuple[int, int]]) -> Pieces:
    """The number of constants below each rank, and of those not above it, added up."""
    if ranks.dtype == object:
        floors, ceilings = (np.array([each[side] for each in bounds], dtype=object) for side in (0, 1))
        under = 0
    else:
        # A constant beyond 64 bits is below all ranks or above all of them.
        under = sum(ceiling < _LEAST for _, ceiling in bounds)
        inside = [each for each in bounds if each[0] >= _LEAST and each[1] <= _MOST]
        floors, ceilings = (np.array([each[side] for each in inside], dtype=np.int64) for side in (0, 1))
    below = np.searchsorted(floors, ranks, "left")
    upto = np.searchsorted(ceilings, ranks, "right")
    return (below + upto + 2 * under).astype(np.int64)


def _pieces_of_texts(column: pa.Array, among: Sequence[Any]) -> Pieces:
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    found = [
        NULL_PIECE if value is None else bisect_left(among, value) + bisect_right(among, value)
        for value in encoded.dictionary.to_pylist()
    ]
    # An empty dictionary has nothing that an index could stand for.
    table = np.array(found or [NULL_PIECE], dtype=np.int64)
    return table[np.asarray(encoded.indices.fill_null(0), dtype=np.int64)]


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )


def _plain_text(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _bits(doubles: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Integers in the order of doubles. Those of negative numbers are turned round, and NaN is always the same."""
    doubles = doubles + 0.0  # makes 0.0 of -0.0
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(_MOST), bits)


_NAN_BITS: Final = int(np.array([np.nan]).view(np.int64)[0])


def _unscaled(column: pa.Array) -> npt.NDArray[Any]:
    column = column.cast(pa.decimal128(_TOTAL_WIDTH, column.type.scale)).fill_null(Decimal(0))
    words = np.frombuffer(column.buffers()[1], dtype=np.int64)
    low, high = words.reshape(-1, 2)[column.offset : column.offset + len(column)].T
    fits = bool((high == low >> 63).all())
    exact: npt.NDArray[Any] = low.copy() if fits else high.astype(object) * 2**64 + low.astype(np.uint64).astype(object)
    return exact


def _in_one_domain(left: pa.Array, right: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Ranks of two columns that can be compared with each other: DOUBLEs if one of them has DOUBLEs, as SQL has it."""
    kinds = left.type, right.type
    if any(map(pa.types.is_floating, kinds)):
        return ranks_of(_as_doubles(left)), ranks_of(_as_doubles(right))
    scales = [kind.scale if pa.types.is_decimal(kind) else 0 for kind in kinds]
    if scales[0] == scales[1]:
        return ranks_of(left), ranks_of(right)
    mine, theirs = (
        ranks_of(column).astype(object) * 10 ** (max(scales) - scale)
        for column, scale in zip((left, right), scales, strict=True)
    )
    return mine, theirs


def _as_doubles(column: pa.Array) -> pa.Array:
    return column.cast(pa.float64(), safe=False)


_RANKS: Final[dict[str, Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_TEXTS: Final[dict[str, Any]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    "=": pc.equal,
    "!=": pc.not_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
