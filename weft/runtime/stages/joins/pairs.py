"""Rows of two sides put together: in the driver, from new rows and what Spark has found to meet them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.runtime.columnar.rows import ARRIVAL
from weft.runtime.stages.joins.conditions import clock_of
from weft.runtime.stages.joins.meeting import Band
from weft.runtime.stages.joins.prepared import LATE, NODES, PARENT_NODES, Prepared
from weft.runtime.stages.joins.texts import side_columns

Positions = NDArray[np.int64]
Pairs = tuple[Positions, Positions]


def pairs_of(prepared: Prepared, left: pa.Table, right: pa.Table) -> pa.Table:
    """Row i of the left side with row i of the right side, as rows of the join."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for side, rows in enumerate((left, right)):
        first = prepared.family.first_legs[side]
        for name, _ in side_columns(prepared, side):
            if name == NODES:
                columns[PARENT_NODES[side]] = rows[name]
            elif name not in (ARRIVAL, LATE):
                leg, _, rest = name.removeprefix("t").partition("_")
                columns[f"t{int(leg) + first}_{rest}"] = rows[name]
    columns[ARRIVAL] = pc.min_element_wise(left[ARRIVAL], right[ARRIVAL])
    columns[LATE] = pc.or_(left[LATE], right[LATE])
    return pa.table(columns)


def clocks_of(table: pa.Table, legs: int) -> Positions:
    """The clock of each row: the largest of its legs'."""
    return np.asarray(np.maximum.reduce([np.asarray(table[clock_of(leg)]) for leg in range(legs)]))


@dataclass(frozen=True)
class Ordered:
    """Numbers in ascending order, and for each of them a clock: in ascending order too among equal numbers."""

    numbers: Positions
    clocks: Positions

    def matches(self, numbers: Positions, clocks: Positions, low: int | None, high: int | None) -> Pairs:
        """All pairs of positions of equal numbers whose clock, less the one asked with, is from `low` to `high`.

        >>> ordered = Ordered(np.array([7, 7, 7, 9]), np.array([1, 4, 8, 4]))
        >>> asked, found = ordered.matches(np.array([9, 7]), np.array([4, 5]), -1, 3)
        >>> list(zip(asked.tolist(), found.tolist()))
        [(0, 3), (1, 1), (1, 2)]
        """
        begin, end = self.stretches(numbers, clocks, low, high)
        lengths = end - begin
        ends = np.cumsum(lengths)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return np.repeat(np.arange(len(numbers)), lengths), np.repeat(begin, lengths) + within

    def stretches(self, numbers: Positions, clocks: Positions, low: int | None, high: int | None) -> Pairs:
        """For each of some numbers the first position that matches, and the one after the last."""
        begin, end = np.searchsorted(self.numbers, numbers, "left"), np.searchsorted(self.numbers, numbers, "right")
        if low is not None:
            begin = self._first_from(clocks + low, begin, end)
        if high is not None:
            end = self._first_from(clocks + (high + 1), begin, end)
        return begin, end

    def _first_from(self, clocks: Positions, begin: Positions, end: Positions) -> Positions:
        """In each of some stretches, the first place whose clock is not below another, by binary search."""
        low, high = begin.copy(), end.copy()
        while (is_open := low < high).any():
            middle = (low + high) // 2
            below = is_open & (self.clocks[np.where(is_open, middle, 0)] < clocks)
            low = np.where(below, middle + 1, low)
            high = np.where(is_open & ~below, middle, high)
        return low


def ordered(numbers: Positions, clocks: Positions) -> tuple[Positions, Ordered]:
    """Numbers and clocks in order, and where each of them was."""
    order = np.lexsort((clocks, numbers))
    return order, Ordered(numbers[order], clocks[order])


def buckets_met(clocks: Positions, band: Band, side: int) -> tuple[Positions, Positions]:
    """For rows of a side, which of them look into which buckets of the other side's clocks: one or two each."""
    low, high = (band.low, band.high) if side == 0 else (-band.high, -band.low)
    first, last = (clocks + low) // band.width, (clocks + high) // band.width
    rows = np.arange(len(clocks))
    two = np.flatnonzero(first != last)
    return np.concatenate([rows, two]), np.concatenate([first, last[two]])


def whole_numbers(column: pa.ChunkedArray) -> tuple[Positions, NDArray[np.bool_]]:
    """A column of numbers, and which of them there are."""
    present = np.asarray(pc.is_valid(column))
    return np.asarray(pc.fill_null(column, 0)), present


def taken(table: pa.Table, rows: Positions, names: Sequence[str]) -> pa.Table:
    """Some columns of some rows."""
    return table.select(names).take(pa.array(rows))
