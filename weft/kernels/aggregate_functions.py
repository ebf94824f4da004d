"""The aggregate functions: which statistics each needs, and how its answer is lowered from them.

Those that need the values themselves, or sketches of them, are evaluated by Spark. Physical values: BOOLEAN,
integers, DATE (days), TIMESTAMP and INTERVAL (microseconds) are 64-bit integers, FLOAT and DOUBLE 64-bit floats;
DECIMALs are their unscaled integers, in 64 bits up to a precision of 18 and Python's own beyond, as HUGEINTs are; text
is Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.algebra.types import DOUBLE, DataType, Kind
from weft.arrays.ordinals import takes_two_words
from weft.kernels import monoids
from weft.kernels.statistic import Array, Columns, Statistic, Values, from_ordered, nothing_ordered


@dataclass(frozen=True, slots=True)
class Need:
    """A statistic, and which of the function's arguments it is of. COUNT of no argument counts rows."""

    statistic: Statistic
    arguments: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as it is used: the types of its arguments and result."""

    arguments: tuple[DataType, ...]
    result: DataType


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate function: lift rows to statistics, combine those, lower them to an answer."""

    needs: Callable[[Sequence[DataType]], tuple[Need, ...]]
    """The statistics, for arguments of these types."""

    lower: Callable[[Sequence[Columns], Signature], Values]
    """From records of these statistics to answers; one that is not valid is NULL."""


def _column(values: Array, valid: Array) -> Values:
    return Values(values, np.asarray(valid, dtype=bool))


COUNTING = Need(monoids.COUNT)


def _sum_needs(types: Sequence[DataType]) -> tuple[Need, ...]:
    if types[0].is_floating:
        return (COUNTING, Need(monoids.SUM_OF_DOUBLES), Need(monoids.NONFINITE))
    return (COUNTING, Need(monoids.sum_of_integers(4 if takes_two_words(types[0]) else 2)))


def _sum_lower(records: Sequence[Columns], signature: Signature) -> Values:
    (count,), *sums = records
    if signature.arguments[0].is_floating:
        return _column(monoids.ieee_sum(sums[0][0], sums[1][0]), count > 0)
    total = monoids.whole_sum(sums[0])
    return _column(total, (count > 0) & _fits(total, signature.result))


def _fits(values: Array, type_: DataType) -> NDArray[np.bool_] | bool:
    """A number with more digits than its type has is NULL, as in Spark."""
    if type_.kind not in (Kind.DECIMAL, Kind.HUGEINT) or values.dtype != object:
        return True
    limit = 10 ** (type_.precision if type_.kind is Kind.DECIMAL else 38)
    return np.array([-limit < value < limit for value in values.ravel()], dtype=bool).reshape(values.shape)


def _avg_lower(records: Sequence[Columns], signature: Signature) -> Values:
    (count,) = records[0]
    argument, result = signature.arguments[0], signature.result
    total = _sum_lower(records, Signature((argument,), DOUBLE)).values
    if argument.kind is not Kind.DECIMAL:
        with np.errstate(divide="ignore", invalid="ignore"):
            return _column(total.astype(np.float64) / count, count > 0)
    dividend = total.astype(object) * 10**result.scale
    divisor = np.maximum(count, 1).astype(object) * 10**argument.scale
    quotient = np.frompyfunc(_divide_half_up, 2, 1)(dividend, divisor)
    return _column(np.asarray(quotient, dtype=object), (count > 0) & _fits(quotient, result))


def _divide_half_up(dividend: int, divisor: int) -> int:
    magnitude = (2 * abs(dividend) + divisor) // (2 * divisor)
    return magnitude if dividend >= 0 else -magnitude


def _extreme(greatest: bool) -> AggregateFunction:
    def needs(types: Sequence[DataType]) -> tuple[Need, ...]:
        nonfinite = (Need(monoids.NONFINITE),) if types[0].is_floating else ()
        return (COUNTING, Need(monoids.extreme(types[0], greatest)), *nonfinite)

    def lower(records: Sequence[Columns], signature: Signature) -> Values:
        (count,), value, *nonfinite = records
        type_ = signature.arguments[0]
        if nonfinite:
            return _column(monoids.nan_greatest(value[0], nonfinite[0][0], greatest), count > 0)
        # Records of several columns end with those of the value.
        return _column(from_ordered(value[-len(nothing_ordered(type_)) :], type_), count > 0)

    return AggregateFunction(needs, lower)


def _spread(less: int, root: bool) -> AggregateFunction:
    def lower(records: Sequence[Columns], signature: Signature) -> Values:
        n, _, m2 = records[0]
        degrees = n - less
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = m2 / degrees
            # One value has no sample variance: NULL, as in Spark.
            return _column(np.sqrt(variance) if root else variance, degrees > 0)

    return AggregateFunction(lambda types: (Need(monoids.MOMENTS),), lower)


def _extreme_by(greatest: bool) -> AggregateFunction:
    """FIRST(x) and LAST(x) take the clock as their second argument: rows of a slice come in no order of their own."""

    def needs(types: Sequence[DataType]) -> tuple[Need, ...]:
        value, by = types
        return (Need(monoids.extreme_record((by,), value, greatest), (0, 1)),)

    def lower(records: Sequence[Columns], signature: Signature) -> Values:
        type_ = signature.arguments[0]
        width = len(nothing_ordered(type_))
        present, has_value, value = records[0][0], records[0][-1 - width], records[0][-width:]
        return _column(from_ordered(value, type_), (present == int(greatest)) & (has_value == 1))

    return AggregateFunction(needs, lower)


FUNCTIONS: Mapping[str, AggregateFunction] = {
    "count": AggregateFunction(
        lambda types: (Need(monoids.COUNT, tuple(range(len(types)))),),
        lambda records, signature: _column(records[0][0], np.ones(records[0][0].shape)),
    ),
    "sum": AggregateFunction(_sum_needs, _sum_lower),
    "avg": AggregateFunction(_sum_needs, _avg_lower),
    "min": _extreme(greatest=False),
    "max": _extreme(greatest=True),
    "var_pop": _spread(less=0, root=False),
    "var_samp": _spread(less=1, root=False),
    "stddev_pop": _spread(less=0, root=True),
    "stddev_samp": _spread(less=1, root=True),
    "min_by": _extreme_by(greatest=False),
    "first": _extreme_by(greatest=False),
    "max_by": _extreme_by(greatest=True),
    "last": _extreme_by(greatest=True),
}
