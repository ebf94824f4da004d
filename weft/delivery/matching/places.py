"""Where the values of a column lie among the constants that subscriptions compare them with.

n constants cut a column's domain into 2n + 1 pieces, numbered in order: a piece for each constant and one for each gap.

    constants:        10        20
    pieces:      0     1    2    3    4          a value of 15 is in piece 2, one of 20 in piece 3, NULL in piece -1

With the piece of each row known, every comparison with a constant is a comparison of small integers: `x < 20` holds in
pieces 0 to 2, `x >= 20` in 3 and 4. Values are compared exactly (`weft/arrays/ordinals.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.expressions import Value
from weft.arrays.ordinals import ElementaryIntervals, is_text_array, ordinals
from weft.delivery.log.delivery_errors import DeliveryError

Pieces = npt.NDArray[np.int64]

#: The piece of NULL.
NULL_PIECE: Final = -1

_EPOCH = date(1970, 1, 1)


class Constants(list[Any]):
    """The constants that a column is compared with, in order, each once."""

    @cached_property
    def intervals(self) -> ElementaryIntervals:
        """The intervals that they divide values into: with a cut on either side of each, these are the pieces."""
        plain = [math.nan if each is _NAN else each for each in self]
        return ElementaryIntervals([(each, side) for each in plain for side in (0, 1)])


def constants(values: Iterable[Value]) -> Constants:
    """Constants in order, each once, as `piece_of_constant` looks them up: NULLs are none."""
    try:
        return Constants(sorted({_comparable(value) for value in values if value is not None}))
    except TypeError as error:
        raise DeliveryError(f"a column is compared with constants that cannot be ordered: {error}") from error


def piece_of_constant(value: Value, among: Sequence[Any]) -> int:
    """The piece of a value that is among the constants."""
    return 2 * bisect_left(among, _comparable(value)) + 1


def pieces(column: pa.Array, among: Constants) -> Pieces:
    """The piece of each row of a column. Raises DeliveryError if its type is none that the constants have."""
    if pa.types.is_null(column.type):
        return np.full(len(column), NULL_PIECE, np.int64)
    is_text = is_text_array(column.type)
    if among and is_text != isinstance(among[0], str | bytes):
        raise DeliveryError(f"a column of type {column.type} is compared with {_shown(among[0])}")
    if not is_text:
        _require_ordered(column.type)
    found = among.intervals.of(column)
    found[found == among.intervals.null] = NULL_PIECE
    return found


def compared(left: pa.Array, op: str, right: pa.Array) -> Pieces:
    """Whether a comparison of two columns holds: 1 where it does, 0 where it does not, -1 where one is NULL."""
    if is_text_array(left.type) != is_text_array(right.type):
        raise DeliveryError(f"a column of type {left.type} is compared with one of type {right.type}")
    if is_text_array(left.type):
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
    _require_ordered(column.type)
    return ordinals(column)[0]


def _require_ordered(type_: pa.DataType) -> None:
    ordered = (
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_temporal,
        pa.types.is_integer,
        pa.types.is_boolean,
    )
    if not any(test(type_) for test in ordered):
        raise DeliveryError(f"a column of type {type_} cannot be compared")


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


def _plain_text(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _in_one_domain(left: pa.Array, right: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Ranks of two columns that can be compared with each other: DOUBLEs if one of them has DOUBLEs, as SQL has it."""
    kinds = left.type, right.type
    if any(map(pa.types.is_floating, kinds)):
        return ranks_of(left.cast(pa.float64(), safe=False)), ranks_of(right.cast(pa.float64(), safe=False))
    scales = [kind.scale if pa.types.is_decimal(kind) else 0 for kind in kinds]
    if scales[0] == scales[1]:
        return ranks_of(left), ranks_of(right)
    mine, theirs = (
        ranks_of(column).astype(object) * 10 ** (max(scales) - scale)
        for column, scale in zip((left, right), scales, strict=True)
    )
    return mine, theirs


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
