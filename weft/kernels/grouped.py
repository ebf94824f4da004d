"""The windows of one tree: kernels for all its statistics, over the group keys they share.

This is what an engine holds: slices come in as columns (slice, key, statistics), answers go out as columns. One call
takes in the partials of all keys, of one slice or of many, and answers all ranges that are due.

A key is a small integer that the caller hands out, so that finding the columns of a million keys is one look into an
array. The caller may give the number of a key that has gone to another; the array is as long as the largest number.

Costs: a key that is live, one with a partial in the longest window, costs an operation of each kernel per slice,
whether or not the slice has something for it; that is a few nanoseconds, since all keys go through in one vector. A key
without partials has no column, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.compiled.cells import KernelShape
from weft.kernels.execution import KernelError
from weft.kernels.kernel import DequeKernel, Kernel
from weft.kernels.statistic import Columns, Statistic, are_identities, records_at, write_records

#: Columns to begin with. One column would be the compiled code of an ungrouped query.
FEWEST_COLUMNS = 8

#: No key, no column, never.
_NONE = np.int64(-1)


class KeyColumns:
    """Which column each live key has. The lowest free columns are taken first, so that live ones stay together."""

    def __init__(self) -> None:
        #: By key its column; by column its key, and the number of the newest partial that came for it.
        self._column_of, self._key_of, self._last_seen = (np.full(FEWEST_COLUMNS, _NONE) for _ in range(3))

    def __len__(self) -> int:
        return int(np.count_nonzero(self._key_of != _NONE))

    @property
    def width(self) -> int:
        return len(self._key_of)

    def live(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The live keys and their columns, which ascend."""
        columns = np.flatnonzero(self._key_of != _NONE)
        return self._key_of[columns], columns

    def columns_of(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The columns of keys; a new key gets one. Widens as needed."""
        lowest, highest = keys.min(initial=0), keys.max(initial=0)
        if lowest < 0:
            raise ValueError(f"a key is a number from 0 on, not {lowest}")
        if highest >= len(self._column_of):
            self._column_of = _extended(self._column_of, max(int(highest) + 1, 2 * len(self._column_of)))
        columns = self._column_of[keys]
        new = np.unique(keys[columns == _NONE])
        if len(new):
            free = np.flatnonzero(self._key_of == _NONE)
            if len(free) < len(new):
                width = 1 << (self.width - len(free) + len(new) - 1).bit_length()
                free = np.append(free, np.arange(self.width, width))
                self._key_of, self._last_seen = _extended(self._key_of, width), _extended(self._last_seen, width)
            self._key_of[free[: len(new)]] = new
            self._column_of[new] = free[: len(new)]
            columns = self._column_of[keys]
        return columns

    def see(self, columns: NDArray[np.int64], sequences: NDArray[np.int64]) -> None:
        """Notes that partials of these numbers have come for these columns."""
        np.maximum.at(self._last_seen, columns, sequences)

    def release(self, first: int) -> NDArray[np.intp]:
        """Forgets the keys that no partial from number `first` on came for. Their columns must be cleared."""
        gone = np.flatnonzero((self._key_of != _NONE) & (self._last_seen < first))
        self._column_of[self._key_of[gone]] = _NONE
        self._key_of[gone] = self._last_seen[gone] = _NONE
        return gone

    def compact(self) -> NDArray[np.intp] | None:
        """Moves live keys together if they fill less than a quarter: what each new column was before, −1 for none."""
        keys, columns = self.live()
        width = max(FEWEST_COLUMNS, 1 << (2 * len(keys) - 1).bit_length())
        if 4 * len(keys) >= self.width or width >= self.width:
            return None
        self._key_of, self._last_seen = _extended(keys, width), _extended(self._last_seen[columns], width)
        self._column_of[keys] = np.arange(len(keys))
        return _extended(columns, width)


def _extended(values: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    return np.append(values, np.full(length - len(values), _NONE))


@dataclass(frozen=True)
class KernelPartials:
    """Partials of several slices: entry i, at most one each, is of slice `slices[i]` (from 0 on) and key `keys[i]`."""

    slices: NDArray[np.int64]
    keys: NDArray[np.int64]
    records: Mapping[str, Columns]
    """By the name of the statistic."""


@dataclass(frozen=True)
class WindowAnswers:
    """Aggregates of windows, for all live keys: records[name][c][a, k] is for answer a and key `keys[k]`.

    Where a key has no partial in a window, its records are identities.
    """

    keys: NDArray[np.int64]
    records: Mapping[str, Columns]


def make_kernel(name: str, statistic: Statistic, capacity: int, ranges: int = 1, width: int = 1) -> Kernel:
    algorithm = ALGORITHMS[name]
    kind = DequeKernel if algorithm.selects else Kernel
    return kind(algorithm, statistic, capacity, ranges, width)


def bytes_per_key(statistics: Mapping[str, Statistic], kernels: Mapping[str, str], capacity: int, ranges: int) -> int:
    """The memory that the windows of one key take; statistics that are rare count for nothing."""
    return sum(
        ALGORITHMS[kernels[name]].layout(KernelShape(capacity, ranges, each.commutative)).rows * each.bytes_per_record
        for name, each in statistics.items()
        if not each.rare
    )


class GroupedWindows:
    """Kernels over shared key columns. A key has a column from its first partial until all its partials have expired.

    A statistic that is `rare` has a kernel only while some partial of it is more than the identity.

    >>> from weft.kernels.monoids import COUNT
    >>> tree = GroupedWindows({"n": COUNT}, {"n": "prefix"}, capacity=2)
    >>> sevens = KernelPartials(np.array([0, 1]), np.array([7, 7]), {"n": (np.array([1, 4]),)})
    >>> answers = tree.slide(sevens, slices=3, starts=[[0], [0], [1]])
    >>> answers.keys, answers.records["n"]
    (array([7]), (array([[1],
           [5],
           [4]]),))
    """

    def __init__(
        self,
        statistics: Mapping[str, Statistic],
        kernels: Mapping[str, str],
        capacity: int,
        ranges: int = 1,
        first: int = 0,
    ) -> None:
        """`kernels` names the kernel of each statistic; `first` is the number of the first slice."""
        self.statistics = dict(statistics)
        self._names = dict(kernels)
        self._capacity = capacity
        self._ranges = ranges
        self._keys = KeyColumns()
        self._starts = np.full(ranges, first, dtype=np.int64)
        #: The number that the next slice will get.
        self.next = first
        #: The newest partial of each rare statistic that is more than the identity.
        self._last_told = {name: first - 1 for name, statistic in statistics.items() if statistic.rare}
        self._kernels = {name: self._make(name) for name in statistics if name not in self._last_told}

    @property
    def number_of_keys(self) -> int:
        return len(self._keys)

    @property
    def is_empty(self) -> bool:
        """Whether no key has a partial."""
        return not len(self._keys)

    @property
    def first(self) -> int:
        """The number of the oldest slice that can still be amended."""
        return int(self._starts[0])

    def slide(
        self, partials: KernelPartials, slices: int, starts: ArrayLike, due: ArrayLike | None = None
    ) -> WindowAnswers:
        """Takes in new slices; `starts` and `due` are as in `Kernel.slide`."""
        table = np.asarray(starts, dtype=np.int64).reshape(slices, self._ranges)
        wanted = None if due is None else np.asarray(due, dtype=bool).reshape(table.shape)
        columns = self._columns_of(partials.keys)
        numbers = self.next + np.asarray(partials.slices, dtype=np.int64)
        self._awaken(partials.records, numbers)
        keys, live = self._keys.live()
        # If live columns are the first ones, no answer is copied.
        shown = slice(len(live)) if not len(live) or live[-1] == len(live) - 1 else live
        answers = table.size if wanted is None else int(np.count_nonzero(wanted))
        records = {}
        for name, statistic in self.statistics.items():
            if name in self._kernels:
                rows = statistic.empty(slices, self._keys.width)
                write_records(rows, (partials.slices, columns), partials.records[name])
                found = self._kernels[name].slide(rows, table, wanted)
            else:
                found = statistic.empty(answers, self._keys.width)
            records[name] = records_at(found, (slice(None), shown))
        self._keys.see(columns, numbers)
        if slices:
            self._starts = table[-1].copy()
            self.next += slices
        self._release()
        return WindowAnswers(keys, records)

    def absorb(self, sequences: NDArray[np.int64], keys: NDArray[np.int64], records: Mapping[str, Columns]) -> None:
        """Combines late rows into the slices with these numbers; a slice and a key are named once at most."""
        expect_held(sequences, self.first, self.next)
        columns = self._columns_of(keys)
        self._awaken(records, sequences)
        for sequence in np.unique(sequences).tolist():
            here = sequences == sequence
            for name, kernel in self._kernels.items():
                kernel.amend(sequence, records_at(records[name], here), columns[here])
        self._keys.see(columns, sequences)

    def _make(self, name: str) -> Kernel:
        """A kernel that has seen identities only."""
        statistic = self.statistics[name]
        width = max(FEWEST_COLUMNS, self._keys.width)
        kernel = make_kernel(self._names[name], statistic, self._capacity, self._ranges, width)
        kernel.rebuild(self.first, statistic.empty(self.next - self.first, width), self._starts)
        return kernel

    def _awaken(self, records: Mapping[str, Columns], sequences: NDArray[np.int64]) -> None:
        """Gives a kernel to every rare statistic that has more to tell than the identity."""
        for name in self._last_told:
            telling = ~are_identities(self.statistics[name], records[name])
            if telling.any():
                self._last_told[name] = max(self._last_told[name], int(sequences[telling].max()))
                if name not in self._kernels:
                    self._kernels[name] = self._make(name)

    def _columns_of(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The columns of keys, for which all kernels have room."""
        columns = self._keys.columns_of(np.asarray(keys))
        for kernel in self._kernels.values():
            if kernel.width < self._keys.width:
                kernel.select(np.append(np.arange(kernel.width), np.full(self._keys.width - kernel.width, -1)))
        return columns

    def _release(self) -> None:
        """Forgets keys, columns and rare statistics of which nothing is left."""
        for name in [name for name, told in self._last_told.items() if told < self.first and name in self._kernels]:
            del self._kernels[name]
        gone = self._keys.release(self.first)
        order = self._keys.compact()
        for kernel in self._kernels.values():
            if len(gone):
                kernel.clear(gone)
            if order is not None:
                kernel.select(order)


def expect_held(sequences: NDArray[np.int64], first: int, end: int) -> None:
    """Refuses late rows of slices other than those from `first` up to, not including, `end`."""
    outside = (sequences < first) | (sequences >= end)
    if outside.any():
        raise KernelError(f"slice {sequences[outside][0]} is not held; those from {first} to {end - 1} are")
