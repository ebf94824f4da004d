"""Multisets and sketches: what a window keeps for MEDIAN, COUNT DISTINCT and the approximate functions.

**Multisets.** The exact functions need all values: distinct ones in order, and how often each comes.

**Distinct values.** HyperLogLog (Flajolet, Fusy, Gandouet and Meunier, 2007): a value's hash picks one of 2ᵖ registers
and offers it the length of its run of zeros; registers keep the greatest. Merging is the maximum of registers. The
estimate is Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches", 2017), which is unbiased from 0 on
without tables. With p = 10 its standard error is 1.04/√1024 = 3.3 %.

**Quantiles.** DDSketch (Masson, Rim and Lee, 2019): values are rounded to buckets whose bounds grow by a constant
factor, so that every value is within a relative error of its bucket's middle; a sketch is the multiset of buckets.
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.kernels.statistic import Array


class Multiset:
    """Distinct values in ascending order (NaN last) and how often each comes. Counts may be negative: it is a group."""

    __slots__ = ("counts", "values")

    def __init__(self, values: Array, counts: NDArray[np.int64]) -> None:
        self.values = values
        self.counts = counts

    def __add__(self, other: Multiset) -> Multiset:
        if not self:
            return other
        if not other:
            return self
        return _counted(np.concatenate((self.values, other.values)), np.concatenate((self.counts, other.counts)))

    def __sub__(self, other: Multiset) -> Multiset:
        return self + Multiset(other.values, -other.counts) if other else self

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Multiset)
            and len(self.values) == len(other.values)
            and bool(np.array_equal(self.counts, other.counts))
            and (not self or bool(np.array_equal(self.values, other.values, equal_nan=self.values.dtype.kind == "f")))
        )

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return len(self.values) > 0

    def __repr__(self) -> str:
        return f"Multiset({dict(zip(self.values.tolist(), self.counts.tolist(), strict=True))})"

    @property
    def distinct(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        return int(self.counts.sum())

    def at(self, rank: int) -> Any:
        """The value that would be at this place, from 0 on, if all were written out in order."""
        return self.values[int(np.searchsorted(np.cumsum(self.counts), rank, side="right"))]

    def percentile(self, fraction: float) -> float:
        """The value at a fraction of the way from the least to the greatest, interpolated between neighbours."""
        # The fraction as it was written: 0.7 · 10 is 7, and no neighbour is looked at.
        place = Fraction(repr(fraction)) * (self.size - 1)
        below, above = float(self.at(floor(place))), float(self.at(ceil(place)))
        if below == above:
            return below
        return below + (above - below) * float(place - floor(place))


EMPTY = Multiset(np.empty(0), np.empty(0, dtype=np.int64))


def multisets_of(values: Array, valid: NDArray[np.bool_]) -> Array:
    """For each row the multiset of its value, or the empty one."""
    comparable = values + 0.0 if values.dtype.kind == "f" else values  # −0.0 + 0.0 = 0.0
    one = np.ones(1, dtype=np.int64)
    result = np.empty(len(values), dtype=object)
    for row in range(len(values)):
        result[row] = Multiset(comparable[row : row + 1], one) if valid[row] else EMPTY
    return result


def _counted(values: Array, counts: NDArray[np.int64]) -> Multiset:
    """The multiset of these values, equal ones put together, and those that cancel out left out."""
    distinct, place = np.unique(values, return_inverse=True)
    total = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(total, place, counts)
    present = total != 0
    return Multiset(distinct[present], total[present]) if present.any() else EMPTY


PRECISION = 10
REGISTERS = 1 << PRECISION
_LONGEST_RUN = 64 - PRECISION + 1

#: The relative error of an approximate quantile.
ACCURACY = 0.01
_GROWTH = (1 + ACCURACY) / (1 - ACCURACY)
#: Buckets of negative values count down from −1 − _OFFSET, of positive ones up from 1 + _OFFSET; 0 is zero.
_OFFSET = 1 << 20
_INFINITE = 1 << 30


def registers_of(values: Array, valid: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """For each row the registers of its value alone; all 0 for a NULL."""
    hashes = hash64(values)
    registers = np.zeros((len(values), REGISTERS), dtype=np.uint8)
    rows = np.flatnonzero(valid)
    picked = (hashes[rows] >> np.uint64(64 - PRECISION)).astype(np.intp)
    rest = hashes[rows] << np.uint64(PRECISION)
    registers[rows, picked] = np.where(rest == 0, _LONGEST_RUN, _leading_zeros(rest) + 1)
    return registers


def hash64(values: Array) -> NDArray[np.uint64]:
    """A hash that is the same in every process; equal numbers of one type hash alike, NaNs too."""
    if values.dtype == object:
        digests = (blake2b(_bytes_of(value), digest_size=8).digest() for value in values.tolist())
        return np.fromiter((int.from_bytes(digest, "little") for digest in digests), dtype=np.uint64, count=len(values))
    if values.dtype.kind == "f":
        plain = values.astype(np.float64) + 0.0  # −0.0 + 0.0 = 0.0
        words = np.where(np.isnan(plain), np.nan, plain).view(np.uint64)
    else:
        words = values.astype(np.int64).view(np.uint64)
    # The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def estimated_distinct(registers: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The estimate for each row of registers."""
    rows = registers.reshape(-1, REGISTERS)
    levels = np.arange(_LONGEST_RUN + 1)
    counts = (rows[:, :, np.newaxis] == levels).sum(axis=1).astype(np.float64)
    sum_ = REGISTERS * _tau(1 - counts[:, -1] / REGISTERS)
    for level in range(_LONGEST_RUN - 1, 0, -1):
        sum_ = 0.5 * (sum_ + counts[:, level])
    sum_ = sum_ + REGISTERS * _sigma(counts[:, 0] / REGISTERS)
    with np.errstate(divide="ignore"):
        estimate = REGISTERS * REGISTERS / (2 * np.log(2)) / sum_
    return np.asarray(np.rint(estimate).astype(np.int64).reshape(registers.shape[:-1]))


def bucket_of(values: Array) -> NDArray[np.int64]:
    """The bucket of each value. Buckets are ordered as values are; NaN is in the last one, as in Spark."""
    numbers = values.astype(np.float64)
    magnitude = np.abs(numbers)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.ceil(np.log(magnitude) / np.log(_GROWTH))
    steps = np.nan_to_num(exponent, nan=0.0, posinf=0.0, neginf=0.0).astype(np.int64) + _OFFSET
    buckets = np.where(magnitude == 0, 0, np.where(numbers < 0, -steps, steps))
    buckets = np.where(np.isinf(numbers), np.where(numbers < 0, -_INFINITE, _INFINITE), buckets)
    return np.where(np.isnan(numbers), _INFINITE + 1, buckets)


def middle_of(bucket: int) -> float:
    """The value that is given for a bucket: no value in it is further off than ACCURACY, relatively."""
    if bucket > _INFINITE:
        return float("nan")
    if abs(bucket) == _INFINITE:
        return float(np.copysign(np.inf, bucket))
    if bucket == 0:
        return 0.0
    return float(np.sign(bucket) * 2 * _GROWTH ** (abs(bucket) - _OFFSET) / (_GROWTH + 1))


def _leading_zeros(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Zeros before the first 1 of a word that has one."""
    # The exponent of a double is the place of the first 1, once the bits that would round it up are gone.
    exact = words & ~(words >> np.uint64(1))
    return 63 - (np.frexp(exact.astype(np.float64))[1] - 1)


def _bytes_of(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _sigma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ x^(2ᵏ)·2^(k−1) + x; infinite at 1, where no register was ever set."""
    total, power, weight = x.copy(), x.copy(), 1.0
    for _ in range(64):
        power = power * power
        total += power * weight
        weight *= 2
    return np.where(x == 1, np.inf, total)


def _tau(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """⅓·(1 − x − Σ (1 − x^(2⁻ᵏ))²·2⁻ᵏ)."""
    total, root, weight = 1 - x, x.copy(), 1.0
    for _ in range(64):
        root = np.sqrt(root)
        weight /= 2
        total -= (1 - root) ** 2 * weight
    return np.where((x == 0) | (x == 1), 0.0, total / 3)
