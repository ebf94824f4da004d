"""The windows of one tree: kernels for all its statistics, over the group keys they share.

This is what an engine holds: fragments come in as columns (fragment, key, statistics), answers go out as columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.aggregation.deques import DequeKernel
from weft.aggregation.kernel import Kernel
from weft.aggregation.kernels import ALGORITHMS
from weft.aggregation.keys import FEWEST_COLUMNS, KeyColumns
from weft.aggregation.statistic import Columns, Statistic


@dataclass(frozen=True)
class Partials:
    """Partials of several fragments, sparse: entry i is fragment `fragments[i]` (from 0 on) and key `keys[i]`.

    `records` has, by the name of the statistic, its columns. A fragment may have no entries.
    """

    fragments: NDArray[np.intp]
    keys: Sequence[Hashable]
    records: Mapping[str, Columns]


@dataclass(frozen=True)
class Answers:
    """Aggregates of windows: records[name][c][a, k] is for answer a and key `keys[k]`; without rows, the identity."""

    keys: list[Hashable]
    records: Mapping[str, Columns]


def make_kernel(name: str, statistic: Statistic, capacity: int, ranges: int = 1, width: int = 1) -> Kernel:
    """A kernel by its name."""
    algorithm = ALGORITHMS[name]
    kind = DequeKernel if algorithm.selects else Kernel
    return kind(algorithm, statistic, capacity, ranges, width)


class GroupedWindows:
    """Kernels over shared key columns. A key has a column from its first partial until all its partials have expired.

    A statistic that is `rare` has no kernel while all its partials are identities.
    """

    def __init__(
        self, statistics: Mapping[str, Statistic], kernels: Mapping[str, str], capacity: int, ranges: int = 1
    ) -> None:
        self.statistics = dict(statistics)
        self._names = dict(kernels)
        self._capacity = capacity
        self._ranges = ranges
        self._keys = KeyColumns()
        self._starts = np.zeros(ranges, dtype=np.int64)
        self._next = 0
        self._kernels = {
            name: self._make(name, FEWEST_COLUMNS) for name, statistic in statistics.items() if not statistic.rare
        }

    @property
    def number_of_keys(self) -> int:
        return len(self._keys)

    def slide(self, partials: Partials, fragments: int, starts: ArrayLike, due: ArrayLike | None = None) -> Answers:
        """Takes in so many fragments; `starts` and `due` are as in `Kernel.slide`."""
        table = np.asarray(starts, dtype=np.int64).reshape(fragments, self._ranges)
        columns = self._keys.columns_of(partials.keys, self._next + partials.fragments)
        self._fit()
        for name in [name for name in self.statistics if name not in self._kernels]:
            if any(map(np.any, partials.records[name])):
                self._awaken(name)
        answers = {}
        wanted = fragments * self._ranges if due is None else int(np.count_nonzero(due))
        keys, live = self._keys.live()
        for name, statistic in self.statistics.items():
            if name in self._kernels:
                dense = statistic.empty(fragments, self._keys.width)
                for column, values in zip(dense, partials.records[name], strict=True):
                    column[partials.fragments, columns] = values
                result = self._kernels[name].slide(dense, table, due)
                answers[name] = tuple(column[:, live] for column in result)
            else:
                answers[name] = statistic.empty(wanted, len(keys))
        self._next += fragments
        self._starts = table[-1].copy() if fragments else self._starts
        self._release()
        return Answers(keys, answers)

    def amend(self, sequence: int, keys: Sequence[Hashable], records: Mapping[str, Columns]) -> None:
        """Combines late rows of these keys, each named once, into fragment number `sequence`."""
        columns = self._keys.columns_of(keys, np.full(len(keys), sequence))
        self._fit()
        for name in self.statistics:
            if name not in self._kernels:
                if not any(map(np.any, records[name])):
                    continue
                self._awaken(name)
            self._kernels[name].amend(sequence, records[name], columns)

    def _make(self, name: str, width: int) -> Kernel:
        return make_kernel(self._names[name], self.statistics[name], self._capacity, self._ranges, width)

    def _awaken(self, name: str) -> None:
        """Gives a rare statistic its kernel; all partials so far were identities."""
        kernel = self._make(name, self._keys.width)
        first = int(self._starts[0])
        kernel.rebuild(first, self.statistics[name].empty(self._next - first, self._keys.width), self._starts)
        self._kernels[name] = kernel

    def _fit(self) -> None:
        for kernel in self._kernels.values():
            if kernel.width < self._keys.width:
                kernel.select(np.append(np.arange(kernel.width), np.full(self._keys.width - kernel.width, -1)))

    def _release(self) -> None:
        gone = self._keys.release(int(self._starts[0]))
        order = self._keys.compact()
        for kernel in self._kernels.values():
            if gone:
                kernel.clear(gone)
            if order is not None:
                kernel.select(order)
