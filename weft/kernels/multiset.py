"""Multisets of values, as sorted arrays: what exact holistic functions (MEDIAN, COUNT DISTINCT) need of a window."""

from __future__ import annotations

from fractions import Fraction
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
