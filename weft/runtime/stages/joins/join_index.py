"""Rows that joins look for, held in the driver, where a look-up costs what is new and not what is kept.

They are no more than a copy of what is in the logs, for as long as there is room: whatever is lost here is read again.
Rows are held in chunks (`weft/arrays/chunks.py`), each sorted by the numbers that it has been asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from weft.arrays.chunks import add_chunk, positions_in_ranges
from weft.arrays.key_hashes import KeyHashes
from weft.arrays.ordinals import Mask, Numbers, Positions
from weft.plan.event_time import Clock

Pairs: TypeAlias = tuple[Positions, Positions]


@dataclass(frozen=True)
class OrderedNumbers:
    """Numbers in ascending order, and for each of them a clock: in ascending order too among equal numbers."""

    numbers: Positions
    clocks: Positions

    def matches(self, numbers: Positions, clocks: Positions, low: int | None, high: int | None) -> Pairs:
        """All pairs of positions of equal numbers whose clock, less the one asked with, is from `low` to `high`.

        >>> ordered = OrderedNumbers(np.array([7, 7, 7, 9]), np.array([1, 4, 8, 4]))
        >>> asked, found = ordered.matches(np.array([9, 7]), np.array([4, 5]), -1, 3)
        >>> list(zip(asked.tolist(), found.tolist()))
        [(0, 3), (1, 1), (1, 2)]
        """
        begin, end = self.stretches(numbers, clocks, low, high)
        lengths = end - begin
        return np.repeat(np.arange(len(numbers)), lengths), positions_in_ranges(begin, lengths)

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


def ordered(numbers: Positions, clocks: Positions) -> tuple[Positions, OrderedNumbers]:
    """Numbers and clocks in order, and where each of them was."""
    order = np.lexsort((clocks, numbers))
    return order, OrderedNumbers(numbers[order], clocks[order])


@dataclass(frozen=True)
class LookupKey:
    """What rows are looked up by: a name for it, numbers, and a clock among rows with equal numbers.

    Numbers are got from a table and the numbers of its keys; rows that have none are left out.
    """

    name: str
    numbers: Callable[[pa.Table, KeyHashes], tuple[Numbers, Mask]]
    clock: str


@dataclass(frozen=True)
class Lookup:
    """Numbers that are looked for, a clock for each of them, and how far from it those of the rows may be."""

    numbers: Numbers
    clocks: Positions
    low: int | None
    high: int | None


#: Rows that are of no more use leave a chunk when they are more than this share of it.
_WORTH_LEAVING = 0.25


@dataclass
class _IndexedRows:
    table: pa.Table
    clocks: Positions
    #: By what was asked for: the positions of rows in the order of their numbers and clocks, and these.
    sorted: dict[str, tuple[Positions, OrderedNumbers]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.clocks)

    @cached_property
    def keys(self) -> KeyHashes:
        return KeyHashes(self.table)

    @property
    def bytes_held(self) -> int:
        """The memory of the rows and of all that they are sorted by."""
        found = self.table.nbytes + self.clocks.nbytes + (self.keys.bytes_held if "keys" in self.__dict__ else 0)
        for order, known in self.sorted.values():
            found += order.nbytes + known.numbers.nbytes + known.clocks.nbytes
        return int(found)

    def by(self, key: LookupKey) -> tuple[Positions, OrderedNumbers]:
        if key.name not in self.sorted:
            numbers, present = key.numbers(self.table, self.keys)
            rows = np.flatnonzero(present)
            order, known = ordered(numbers[rows], np.asarray(self.table[key.clock])[rows])
            self.sorted[key.name] = rows[order], known
        return self.sorted[key.name]


def _merged(old: _IndexedRows, new: _IndexedRows) -> _IndexedRows:
    table = pa.concat_tables([old.table, new.table], promote_options="default").combine_chunks()
    return _IndexedRows(table, np.concatenate([old.clocks, new.clocks]))


@dataclass
class JoinIndex:
    """The rows of a group from before this cycle."""

    #: For each node that joins read: the first cycle whose rows are here.
    since: dict[int, int]
    chunks: list[_IndexedRows] = field(default_factory=list)

    @property
    def bytes_held(self) -> int:
        return sum(each.bytes_held for each in self.chunks)

    def covers(self, needed: Mapping[int, int], cycle: int) -> bool:
        """Whether all rows from before a cycle are here that some nodes need, each from some cycle on."""
        return all(min(self.since.get(node, cycle), cycle) <= first for node, first in needed.items())

    def has(self, columns: Iterable[str]) -> bool:
        """Whether all rows have some columns."""
        names = frozenset(columns)
        return all(names.issubset(chunk.table.column_names) for chunk in self.chunks)

    def add(self, table: pa.Table, clocks: Positions) -> None:
        """Take in the rows of a cycle."""
        add_chunk(self.chunks, _IndexedRows(table, clocks), _merged)

    def expire(self, since: Clock) -> None:
        """Drop rows whose clock lies before what is needed."""
        if since is None:
            return
        kept = []
        for chunk in self.chunks:
            live = chunk.clocks >= since
            if live.all() or live.mean() > 1 - _WORTH_LEAVING:
                kept.append(chunk)
            elif live.any():
                kept.append(_IndexedRows(chunk.table.filter(pa.array(live)), chunk.clocks[live]))
        self.chunks = kept

    def found(
        self, asked: Lookup, key: LookupKey, columns: Sequence[tuple[str, pa.DataType]]
    ) -> list[tuple[Positions, pa.Table]]:
        """The rows that are looked for: for each chunk the positions among the numbers, and the rows beside them.

        Columns that were not needed when a row came are NULL.
        """
        result = []
        for chunk in self.chunks:
            order, known = chunk.by(key)
            which, places = known.matches(asked.numbers, asked.clocks, asked.low, asked.high)
            if len(which):
                rows = pa.array(order[places])
                arrays = [_taken(chunk.table, name, type_, rows) for name, type_ in columns]
                result.append((which, pa.table(arrays, names=[name for name, _ in columns])))
        return result

    def count(self, asked: Lookup, key: LookupKey) -> int:
        """How many pairs there are of numbers and the rows that are looked for."""
        total = 0
        for chunk in self.chunks:
            begin, end = chunk.by(key)[1].stretches(asked.numbers, asked.clocks, asked.low, asked.high)
            total += int((end - begin).sum())
        return total


def _taken(table: pa.Table, name: str, type_: pa.DataType, rows: pa.Array) -> pa.ChunkedArray | pa.Array:
    return table[name].take(rows) if name in table.column_names else pa.nulls(len(rows), type_)
