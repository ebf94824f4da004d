"""The aggregate functions: which statistics each needs, and how its answer is lowered from them.

A function is one section of this file: one `AggregateFunction`, in FUNCTIONS by name. Physical values: BOOLEAN,
integers, DATE (days), TIMESTAMP and INTERVAL (microseconds) are 64-bit integers, FLOAT and DOUBLE 64-bit floats;
DECIMALs are their unscaled integers, in 64 bits up to a precision of 18 and Python's own beyond, as HUGEINTs are; text
is Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.algebra.types import DOUBLE, DataType, Kind
from weft.kernels.monoids import (
    COUNT,
    MOMENTS,
    NONFINITE,
    REGISTERS_OF_HASHES,
    ROUNDED_VALUES,
    SUM_OF_DOUBLES,
    VALUES,
    extreme,
    extreme_record,
    ieee_sum,
    limbs_for,
    nan_greatest,
    sum_of_integers,
    whole_sum,
)
from weft.kernels.sketches import estimated_distinct, middle_of
from weft.kernels.statistic import Array, Columns, Statistic, Values, from_ordered, ordered_fields


@dataclass(frozen=True, slots=True)
class Need:
    """A statistic, and which of the function's arguments it is of. COUNT of no argument counts rows."""

    statistic: Statistic
    arguments: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as it is used: types of arguments and result, and constants like PERCENTILE's fraction."""

    arguments: tuple[DataType, ...]
    result: DataType
    constants: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate function: lift rows to statistics, combine those, lower them to an answer."""

    name: str
    needs: Callable[[Sequence[DataType]], tuple[Need, ...]]
    """The statistics, for arguments of these types."""

    lower: Callable[[Sequence[Columns], Signature], Values]
    """From records of these statistics to answers; one that is not valid is NULL."""

    holistic: bool = False
    """Whether the record of a group grows with its rows."""


FUNCTIONS: dict[str, AggregateFunction] = {}


def register(function: AggregateFunction) -> None:
    FUNCTIONS[function.name] = function


def _column(values: Array, valid: Array) -> Values:
    return Values(values, np.asarray(valid, dtype=bool))


# --- COUNT -----------------------------------------------------------------------------------------------------------

COUNTING = Need(COUNT)

register(
    AggregateFunction(
        "count",
        lambda types: (Need(COUNT, tuple(range(len(types)))),),
        lambda records, signature: _column(records[0][0], np.ones(records[0][0].shape)),
    )
)

# --- SUM -------------------------------------------------------------------------------------------------------------


def _sum_needs(types: Sequence[DataType]) -> tuple[Need, ...]:
    if types[0].is_floating:
        return (COUNTING, Need(SUM_OF_DOUBLES), Need(NONFINITE))
    return (COUNTING, Need(sum_of_integers(limbs_for(types[0]))))


def _sum_lower(records: Sequence[Columns], signature: Signature) -> Values:
    (count,), *sums = records
    if signature.arguments[0].is_floating:
        return _column(ieee_sum(sums[0][0], sums[1][0]), count > 0)
    total = whole_sum(sums[0])
    return _column(total, (count > 0) & _fits(total, signature.result))


def _fits(values: Array, type_: DataType) -> NDArray[np.bool_] | bool:
    """A number with more digits than its type has is NULL, as in Spark."""
    if type_.kind not in (Kind.DECIMAL, Kind.HUGEINT) or values.dtype != object:
        return True
    limit = 10 ** (type_.precision if type_.kind is Kind.DECIMAL else 38)
    return np.array([-limit < value < limit for value in values.ravel()], dtype=bool).reshape(values.shape)


register(AggregateFunction("sum", _sum_needs, _sum_lower))

# --- AVG -------------------------------------------------------------------------------------------------------------


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


register(AggregateFunction("avg", _sum_needs, _avg_lower))

# --- MIN, MAX --------------------------------------------------------------------------------------------------------


def _extreme_needs(greatest: bool, types: Sequence[DataType]) -> tuple[Need, ...]:
    nonfinite = (Need(NONFINITE),) if types[0].is_floating else ()
    return (COUNTING, Need(extreme(types[0], greatest)), *nonfinite)


def _extreme_lower(greatest: bool, records: Sequence[Columns], signature: Signature) -> Values:
    (count,), value, *nonfinite = records
    type_ = signature.arguments[0]
    if nonfinite:
        return _column(nan_greatest(value[0], nonfinite[0][0], greatest), count > 0)
    # Records of several columns end with those of the value.
    return _column(from_ordered(value[-len(ordered_fields("value", type_)) :], type_), count > 0)


register(AggregateFunction("min", partial(_extreme_needs, False), partial(_extreme_lower, False)))
register(AggregateFunction("max", partial(_extreme_needs, True), partial(_extreme_lower, True)))

# --- VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP ----------------------------------------------------------------------


def _spread_lower(less: int, root: bool, records: Sequence[Columns], signature: Signature) -> Values:
    n, _, m2 = records[0]
    degrees = n - less
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = m2 / degrees
        # One value has no sample variance: NULL, as in Spark.
        return _column(np.sqrt(variance) if root else variance, degrees > 0)


for _name, _less, _root in (
    ("var_pop", 0, False),
    ("var_samp", 1, False),
    ("stddev_pop", 0, True),
    ("stddev_samp", 1, True),
):
    register(AggregateFunction(_name, lambda types: (Need(MOMENTS),), partial(_spread_lower, _less, _root)))

# --- MIN_BY, MAX_BY, FIRST, LAST -------------------------------------------------------------------------------------
# FIRST(x) and LAST(x) take the clock as their second argument: rows of a slice come in no order of their own.


def _by_needs(greatest: bool, types: Sequence[DataType]) -> tuple[Need, ...]:
    value, by = types
    return (Need(extreme_record((by,), value, greatest), (0, 1)),)


def _by_lower(greatest: bool, records: Sequence[Columns], signature: Signature) -> Values:
    type_ = signature.arguments[0]
    width = len(ordered_fields("value", type_))
    present, has_value, value = records[0][0], records[0][-1 - width], records[0][-width:]
    return _column(from_ordered(value, type_), (present == int(greatest)) & (has_value == 1))


for _name, _greatest in (("min_by", False), ("first", False), ("max_by", True), ("last", True)):
    register(AggregateFunction(_name, partial(_by_needs, _greatest), partial(_by_lower, _greatest)))

# --- APPROX_COUNT_DISTINCT -------------------------------------------------------------------------------------------


def _estimate(records: Sequence[Columns], signature: Signature) -> Values:
    estimates = estimated_distinct(records[0][0])
    return _column(estimates, np.ones(estimates.shape))


register(AggregateFunction("approx_count_distinct", lambda types: (Need(REGISTERS_OF_HASHES),), _estimate))

# --- COUNT DISTINCT, MEDIAN, PERCENTILE ------------------------------------------------------------------------------


def _values_needed(types: Sequence[DataType]) -> tuple[Need, ...]:
    return (Need(VALUES),)


def _count_distinct(records: Sequence[Columns], signature: Signature) -> Values:
    counts = _over_records(lambda values: values.distinct, records[0][0], np.int64)
    return _column(counts, np.ones(counts.shape))


def _percentile(records: Sequence[Columns], signature: Signature) -> Values:
    fraction = signature.constants[0] if signature.constants else 0.5
    sets = records[0][0]
    answers = _over_records(lambda values: values.percentile(fraction) if values else np.nan, sets, np.float64)
    return _column(answers, _over_records(bool, sets, np.bool_))


def _approximate_percentile(records: Sequence[Columns], signature: Signature) -> Values:
    fraction = signature.constants[0] if signature.constants else 0.5
    sets = records[0][0]
    answers = _over_records(
        lambda buckets: middle_of(int(buckets.at(int(fraction * (buckets.size - 1))))) if buckets else np.nan,
        sets,
        np.float64,
    )
    return _column(answers, _over_records(bool, sets, np.bool_))


def _over_records(function: Callable[[Any], Any], records: Array, dtype: Any) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.frompyfunc(function, 1, 1)(records), dtype=dtype)


register(AggregateFunction("count_distinct", _values_needed, _count_distinct, holistic=True))
register(AggregateFunction("median", _values_needed, _percentile, holistic=True))
register(AggregateFunction("percentile", _values_needed, _percentile, holistic=True))
register(AggregateFunction("approx_percentile", lambda types: (Need(ROUNDED_VALUES),), _approximate_percentile))
