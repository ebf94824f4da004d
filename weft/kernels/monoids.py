"""The statistics that functions are made of. Each section is one algebra, complete."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from weft.algebra.types import DataType
from weft.kernels.compiled import arithmetic
from weft.kernels.statistic import (
    FLOAT64,
    INT64,
    OBJECT,
    Array,
    Columns,
    Statistic,
    Values,
    nothing_ordered,
    to_ordered,
)


def _add(left: Columns, right: Columns) -> Columns:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _subtract(total: Columns, part: Columns) -> Columns:
    return tuple(a - b for a, b in zip(total, part, strict=True))


def _integers(name: str, columns: int, lift: Callable[..., Columns], rare: bool = False) -> Statistic:
    """Integers that are added, column by column."""
    dtypes, nothing = (INT64,) * columns, (0,) * columns
    return Statistic(name, dtypes, nothing, lift, _add, _subtract, rows=arithmetic.ADD_INTS, ufunc=np.add, rare=rare)


#: How many values are not NULL.
COUNT = _integers("count", 1, lambda x: (x.valid.astype(np.int64),))

# --- sums of whole numbers -------------------------------------------------------------------------------------------
# A number is cut into limbs of 32 bits, and every limb summed alone, in 64 bits and without carries: 2³¹ partials
# fit before a limb overflows, and Spark can sum limbs natively (sum(x >> 32) and sum(x & 0xFFFFFFFF) of a BIGINT).
# Carries are settled once, in `whole_sum`.

_LIMB = 32
_LIMB_MASK = (1 << _LIMB) - 1


@cache
def sum_of_integers(limbs: int) -> Statistic:
    """The sum of integers: two limbs hold sums of BIGINTs up to 2⁹⁵, four those of 128-bit integers up to 2¹⁵⁹."""

    def lift(x: Values) -> Columns:
        rest, columns = np.where(x.valid, x.values, 0), []
        # Python's own integers stay what they are as long as they may be long.
        rest = rest if rest.dtype == object else rest.astype(np.int64)
        for _ in range(limbs - 1):
            columns.append((rest & _LIMB_MASK).astype(np.int64))
            rest = rest >> _LIMB
        return (*columns, rest.astype(np.int64))

    return _integers("sum", limbs, lift)


def whole_sum(limbs: Columns) -> Array:
    """The sums: 64-bit integers if there are two limbs and all sums fit, Python's own otherwise."""
    parts = _carried(limbs)
    if len(parts) == 2 and np.all(parts[1] == parts[1].astype(np.int32)):
        return np.asarray((parts[1] << _LIMB) | parts[0])
    total = parts[-1].astype(object)
    for part in reversed(parts[:-1]):
        total = (total << _LIMB) + part.astype(object)
    return np.asarray(total, dtype=object)


def _carried(limbs: Columns) -> Columns:
    """The same sums, all limbs but the last within their 32 bits."""
    parts = [limb.copy() for limb in limbs]
    for n in range(len(parts) - 1):
        parts[n + 1] += parts[n] >> _LIMB
        parts[n] &= _LIMB_MASK
    return tuple(parts)


# --- sums of DOUBLEs -------------------------------------------------------------------------------------------------
# NaN and infinities would never leave a running sum again (∞ − ∞ is NaN). So the sum is of what is finite, and the rest
# is counted apart, in fields of 21 bits of one integer. Both can be lifted from rows, and just as well from the IEEE
# sums of whole slices, which is what Spark delivers.

_FIELD = 21
NAN, POSITIVE, NEGATIVE = (1 << _FIELD * n for n in range(3))

SUM_OF_DOUBLES = Statistic(
    name="sum",
    dtypes=(FLOAT64,),
    identity=(0.0,),
    lift=lambda x: (np.where(x.valid & np.isfinite(x.values.astype(np.float64)), x.values, 0.0).astype(np.float64),),
    combine=_add,
    inverse=_subtract,
    exact=False,
    rows=arithmetic.ADD_FLOATS,
    ufunc=np.add,
)


def _flag_nonfinite(x: Values) -> Columns:
    values = x.values.astype(np.float64)
    flags = NAN * np.isnan(values) + POSITIVE * (values == np.inf) + NEGATIVE * (values == -np.inf)
    return (np.where(x.valid, flags, 0).astype(np.int64),)


#: How many partials hold NaN, ∞ and −∞.
NONFINITE = _integers("nonfinite", 1, _flag_nonfinite, rare=True)


def ieee_sum(finite: NDArray[np.float64], nonfinite: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sum as IEEE has it: NaN if there is a NaN or both infinities, else the infinity, else the finite sum."""
    if not nonfinite.any():
        return finite
    mask = (1 << _FIELD) - 1
    has_nan, has_positive, has_negative = ((nonfinite >> _FIELD * n) & mask > 0 for n in range(3))
    infinite = np.where(has_positive, np.inf, np.where(has_negative, -np.inf, finite))
    return np.where(has_nan | (has_positive & has_negative), np.nan, infinite)


def settled(statistic: Statistic, records: Columns) -> Columns:
    """Records that mean the same and have room to grow for ever.

    In a window limbs and counts of what is not finite are small. An aggregate that never closes would fill them up:
    limbs hand on their carries, and of NaN and the infinities it is enough to know whether any were seen.
    """
    if statistic is NONFINITE:
        flags = sum(unit * ((records[0] // unit) & (POSITIVE - 1) > 0) for unit in (NAN, POSITIVE, NEGATIVE))
        return (np.asarray(flags, dtype=np.int64),)
    if statistic in (sum_of_integers(2), sum_of_integers(4)):
        return _carried(records)
    return records


def nan_greatest(extremes: NDArray[np.float64], nonfinite: NDArray[np.int64], greatest: bool) -> NDArray[np.float64]:
    """The least or greatest value as Spark has it: NaN is greater than all others."""
    if greatest:
        return np.where(nonfinite & (POSITIVE - 1) > 0, np.nan, extremes)
    # ∞ is what a minimum of nothing is. If no ∞ was seen, there was nothing but NaN.
    has_infinity = (nonfinite // POSITIVE) & (POSITIVE - 1) > 0
    return np.where((extremes == np.inf) & ~has_infinity, np.nan, extremes)


def extreme(type_: DataType, greatest: bool) -> Statistic:
    """The least or greatest value that is not NULL. Whether there is one at all is what COUNT tells."""
    if nothing_ordered(type_) == (0,):
        return _extreme_of_numbers(type_.is_floating, greatest)
    return extreme_record((), type_, greatest)


@cache
def _extreme_of_numbers(floating: bool, greatest: bool) -> Statistic:
    """Of those that are not NaN: NaN, the greatest of all, is counted apart, and a comparison is one instruction."""
    dtype, limits = (np.float64, (-np.inf, np.inf)) if floating else (np.int64, (-(1 << 63), (1 << 63) - 1))
    nothing = limits[0] if greatest else limits[1]
    choose = np.maximum if greatest else np.minimum

    def lift(x: Values) -> Columns:
        values = np.where(x.valid, x.values, nothing).astype(dtype)
        return (np.where(np.isnan(values), nothing, values),)

    return Statistic(
        name="max" if greatest else "min",
        dtypes=(FLOAT64 if floating else INT64,),
        identity=(nothing,),
        lift=lift,
        combine=lambda left, right: (choose(left[0], right[0]),),
        selective=True,
        rows=arithmetic.EXTREMES[floating, greatest],
        ufunc=choose,
    )


# --- least and greatest record ---------------------------------------------------------------------------------------
# MIN_BY(x, y) is the x of the least (y, x): an order of records, in which ties are no ties. A NULL x comes first.
# Columns are compared from the left; the first one says whether there is a record at all.


@cache
def extreme_record(by: tuple[DataType, ...], type_: DataType, greatest: bool) -> Statistic:
    """The record (y…, x) that is least or greatest, of rows without a NULL y; without a NULL x if there is no y."""
    present, no_value = 1 if greatest else 0, nothing_ordered(type_)
    nothing = (1 - present, *(value for kind in by for value in nothing_ordered(kind)), 0, *no_value)
    dtypes = tuple(OBJECT if isinstance(value, str | bytes) else INT64 for value in nothing)

    def lift(x: Values, *ys: Values) -> Columns:
        counts = np.logical_and.reduce([y.valid for y in ys]) if ys else x.valid
        columns = [
            np.full(len(x.valid), present),
            *(column for y, kind in zip(ys, by, strict=True) for column in to_ordered(y.values, kind)),
            x.valid.astype(np.int64),
            *(np.where(x.valid, *each) for each in zip(to_ordered(x.values, type_), no_value, strict=True)),
        ]
        return tuple(
            np.where(counts, column, value).astype(dtype)
            for column, value, dtype in zip(columns, nothing, dtypes, strict=True)
        )

    def combine(left: Columns, right: Columns) -> Columns:
        right_exceeds = np.zeros(left[0].shape, dtype=bool)
        undecided = np.ones(left[0].shape, dtype=bool)
        for a, b in zip(left, right, strict=True):
            right_exceeds |= undecided & (b > a).astype(bool)
            undecided &= (a == b).astype(bool)
        take_right = ~undecided & (right_exceeds == greatest)
        return tuple(np.where(take_right, b, a) for a, b in zip(left, right, strict=True))

    return Statistic(
        name="max_by" if greatest else "min_by",
        dtypes=dtypes,
        identity=nothing,
        lift=lift,
        combine=combine,
        selective=True,
        rows=None if OBJECT in dtypes else arithmetic.EXTREMES[False, greatest],
    )


# --- moments ---------------------------------------------------------------------------------------------------------
# Never the sum of squares minus the square of the sum: of a million readings near 1e9 it leaves nothing but rounding
# errors. Merging has an algebraic inverse and not a numeric one, so there is none.


def _lift_moments(x: Values) -> Columns:
    values = x.values.astype(np.float64)
    finite = np.where(np.isfinite(values), values, np.nan)
    return (x.valid.astype(np.float64), np.where(x.valid, finite, 0.0), np.where(x.valid, finite - finite, 0.0))


def _merge_moments(left: Columns, right: Columns) -> Columns:
    (left_n, left_mean, left_m2), (right_n, right_mean, right_m2) = left, right
    n = left_n + right_n
    share = np.divide(right_n, n, out=np.zeros_like(n), where=n > 0)
    apart = right_mean - left_mean
    return (n, left_mean + apart * share, left_m2 + right_m2 + apart * (apart * (left_n * share)))


#: Count, mean, and sum of squared distances from the mean.
MOMENTS = Statistic(
    name="moments",
    dtypes=(FLOAT64, FLOAT64, FLOAT64),
    identity=(0.0, 0.0, 0.0),
    lift=_lift_moments,
    combine=_merge_moments,
    rows=arithmetic.MERGE_MOMENTS,
)
