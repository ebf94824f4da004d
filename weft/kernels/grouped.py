"""The windows of one tree: kernels for all its statistics, over the group keys they share.

This is what an engine holds: fragments come in as columns (fragment, key, statistics), answers go out as columns. One
call takes in the partials of all keys, of one fragment or of many, and answers all ranges that are due.

Who pays: a key that is live, one with a partial in the longest window, costs an operation of each kernel per fragment,
whether or not the fragment has something for it; that is a few nanoseconds, since all keys go through in one vector. A
key without partials has no column, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.deques import DequeKernel
from weft.kernels.kernel import Kernel, KernelError, Snapshot, shape_of
from weft.kernels.keys import FEWEST_COLUMNS, KeyColumns
from weft.kernels.statistic import Columns, Statistic, are_identities


@dataclass(frozen=True)
class Partials:
    """Partials of several fragments, sparse: entry i is fragment `fragments[i]` (from 0 on) and key `keys[i]`.

    `records` has, by the name of the statistic, its columns. A fragment may have no entries; a fragment and a key have
    one at most. Keys are small integers (see `weft/kernels/keys.py`).
    """

    fragments: NDArray[np.int64]
    keys: NDArray[np.int64]
    records: Mapping[str, Columns]


@dataclass(frozen=True)
class AnswerRows:
    """Answers as rows, one for each window and each key that has partials in it: which answer, which key, records."""

    answers: NDArray[np.intp]
    keys: NDArray[np.int64]
    records: Mapping[str, Columns]


@dataclass(frozen=True)
class Answers:
    """Aggregates of windows, for all live keys: records[name][c][a, k] is for answer a and key `keys[k]`."""

    keys: NDArray[np.int64]
    records: Mapping[str, Columns]
    presence: Callable[[], NDArray[np.bool_]]
    """Computes `present`, for those who ask."""

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """present[a, k]: is there a partial of the key in the window? If there is none, its records are identities."""
        return self.presence()

    def rows(self) -> AnswerRows:
        """Those that are present, answer by answer."""
        answers, at = np.nonzero(self.present)
        records = {name: tuple(column[answers, at] for column in columns) for name, columns in self.records.items()}
        return AnswerRows(answers, self.keys[at], records)


@dataclass(frozen=True)
class TreeSnapshot:
    """All that the windows of a tree remember, as arrays."""

    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    next: int
    last_told: Mapping[str, int]
    kernels: Mapping[str, Snapshot]


def make_kernel(name: str, statistic: Statistic, capacity: int, ranges: int = 1, width: int = 1) -> Kernel:
    """A kernel by its name."""
    algorithm = ALGORITHMS[name]
    kind = DequeKernel if algorithm.selects else Kernel
    return kind(algorithm, statistic, capacity, ranges, width)


def bytes_per_key(statistics: Mapping[str, Statistic], kernels: Mapping[str, str], capacity: int, ranges: int) -> int:
    """The memory that the windows of one key take; statistics that are rare count for nothing."""
    total = 0
    for name, statistic in statistics.items():
        if not statistic.rare:
            rows = ALGORITHMS[kernels[name]].layout(shape_of(statistic, capacity, ranges, width=1)).rows
            total += rows * sum(field.dtype.itemsize * max(1, field.wide) for field in statistic.fields)
    return total


class GroupedWindows:
    """Kernels over shared key columns. A key has a column from its first partial until all its partials have expired.

    A statistic that is `rare` has a kernel only while some partial of it is more than the identity.

    >>> from weft.kernels.statistics import COUNT
    >>> tree = GroupedWindows({"n": COUNT}, {"n": "prefix"}, capacity=2)
    >>> sevens = Partials(np.array([0, 1]), np.array([7, 7]), {"n": (np.array([1, 4]),)})
    >>> rows = tree.slide(sevens, fragments=3, starts=[[0], [0], [1]]).rows()
    >>> rows.answers, rows.keys, rows.records["n"]
    (array([0, 1, 2]), array([7, 7, 7]), (array([1, 5, 4]),))
    """

    def __init__(
        self,
        statistics: Mapping[str, Statistic],
        kernels: Mapping[str, str],
        capacity: int,
        ranges: int = 1,
        first: int = 0,
    ) -> None:
        """`kernels` names the kernel of each statistic; `first` is the number of the first fragment."""
        self.statistics = dict(statistics)
        self._names = dict(kernels)
        self._capacity = capacity
        self._ranges = ranges
        self._keys = KeyColumns()
        self._starts = np.full(ranges, first, dtype=np.int64)
        self._next = first
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
        """The number of the oldest fragment that can still be amended."""
        return int(self._starts[0])

    @property
    def next(self) -> int:
        """The number that the next fragment will get."""
        return self._next

    @property
    def nbytes(self) -> int:
        """The memory that kernels hold."""
        return sum(kernel.nbytes for kernel in self._kernels.values())

    # --- taking in and answering -------------------------------------------------------------------------------------

    def slide(self, partials: Partials, fragments: int, starts: ArrayLike, due: ArrayLike | None = None) -> Answers:
        """Takes in so many fragments; `starts` and `due` are as in `Kernel.slide`."""
        table = np.asarray(starts, dtype=np.int64).reshape(fragments, self._ranges)
        wanted = None if due is None else np.asarray(due, dtype=bool).reshape(table.shape)
        columns = self._columns_of(partials.keys)
        numbers = self._next + np.asarray(partials.fragments, dtype=np.int64)
        self._awaken(partials.records, numbers)
        keys, live = self._keys.live()
        answers = table.size if wanted is None else int(np.count_nonzero(wanted))
        records = {
            name: _of_columns(self._slide_one(name, partials, columns, table, wanted, answers), live)
            for name in self.statistics
        }
        seen_before = self._keys.last_seen[live]
        self._keys.see(columns, numbers)

        def presence() -> NDArray[np.bool_]:
            seen = _seen_after_each(seen_before, partials.fragments, np.searchsorted(live, columns), numbers, fragments)
            steps, ranges = np.nonzero(np.ones(table.shape, dtype=bool) if wanted is None else wanted)
            return np.asarray(seen[steps] >= table[steps, ranges][:, np.newaxis])

        if fragments:
            self._starts = table[-1].copy()
            self._next += fragments
        self._release()
        return Answers(keys, records, presence)

    def query(self, starts: ArrayLike) -> Answers:
        """The windows that begin at `starts` and end with the newest fragment; see `Kernel.query`."""
        begins = np.asarray(starts, dtype=np.int64)
        keys, live = self._keys.live()
        records = {}
        for name, statistic in self.statistics.items():
            kernel = self._kernels.get(name)
            whole = statistic.empty(len(begins), self._keys.width) if kernel is None else kernel.query(begins.tolist())
            records[name] = _of_columns(whole, live)
        seen = self._keys.last_seen[live]
        return Answers(keys, records, lambda: seen >= begins[:, np.newaxis])

    def amend(self, sequence: int, keys: NDArray[np.int64], records: Mapping[str, Columns]) -> None:
        """Combines late rows of these keys, each named once, into fragment number `sequence`."""
        if not self.first <= sequence < self._next:
            raise KernelError(f"fragment {sequence} is not held; those from {self.first} to {self._next - 1} are")
        columns = self._columns_of(keys)
        numbers = np.full(len(columns), sequence)
        self._awaken(records, numbers)
        for name, kernel in self._kernels.items():
            kernel.amend(sequence, records[name], columns)
        self._keys.see(columns, numbers)

    def absorb(self, sequences: NDArray[np.int64], keys: NDArray[np.int64], records: Mapping[str, Columns]) -> None:
        """Combines late rows into several fragments; a fragment and a key are named once at most."""
        for sequence in np.unique(sequences).tolist():
            here = sequences == sequence
            late = {name: tuple(column[here] for column in columns) for name, columns in records.items()}
            self.amend(sequence, keys[here], late)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> TreeSnapshot:
        """A copy of all that is remembered; `restore` brings it back."""
        kernels = {name: kernel.snapshot() for name, kernel in self._kernels.items()}
        return TreeSnapshot(self._keys.table(), self._starts.copy(), self._next, dict(self._last_told), kernels)

    def restore(self, snapshot: TreeSnapshot) -> None:
        """Makes these windows what those were that the snapshot is of; both have the same statistics and kernels."""
        self._keys.restore(snapshot.keys)
        self._starts, self._next = snapshot.starts.copy(), snapshot.next
        self._last_told = dict(snapshot.last_told)
        self._kernels = {name: self._make(name) for name in snapshot.kernels}
        for name, kernel in self._kernels.items():
            kernel.restore(snapshot.kernels[name])

    # --- kernels -----------------------------------------------------------------------------------------------------

    def _make(self, name: str) -> Kernel:
        """A kernel that has seen identities only."""
        statistic = self.statistics[name]
        width = max(FEWEST_COLUMNS, self._keys.width)
        kernel = make_kernel(self._names[name], statistic, self._capacity, self._ranges, width)
        kernel.rebuild(self.first, statistic.empty(self._next - self.first, width), self._starts)
        return kernel

    def _slide_one(
        self,
        name: str,
        partials: Partials,
        columns: NDArray[np.int64],
        starts: NDArray[np.int64],
        due: NDArray[np.bool_] | None,
        answers: int,
    ) -> Columns:
        kernel = self._kernels.get(name)
        if kernel is None:
            return self.statistics[name].empty(answers, self._keys.width)
        rows = kernel.blank(len(starts))
        for column, values in zip(rows, partials.records[name], strict=True):
            column[partials.fragments, columns] = values
        return kernel.slide(rows, starts, due)

    def _awaken(self, records: Mapping[str, Columns], sequences: NDArray[np.int64]) -> None:
        """Gives a kernel to every rare statistic that has more to tell than the identity."""
        for name in self._last_told:
            telling = ~are_identities(self.statistics[name], records[name])
            if telling.any():
                self._last_told[name] = max(self._last_told[name], int(sequences[telling].max()))
                if name not in self._kernels:
                    self._kernels[name] = self._make(name)

    # --- keys --------------------------------------------------------------------------------------------------------

    def _columns_of(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The columns of keys, for which all kernels have room."""
        columns = self._keys.columns_of(np.asarray(keys))
        for kernel in self._kernels.values():
            if kernel.width < self._keys.width:
                kernel.select(np.append(np.arange(kernel.width), np.full(self._keys.width - kernel.width, -1)))
        return columns

    def _release(self) -> None:
        """Lets go of keys, columns and rare statistics of which nothing is left."""
        for name in [name for name, told in self._last_told.items() if told < self.first and name in self._kernels]:
            del self._kernels[name]
        gone = self._keys.release(self.first)
        order = self._keys.compact()
        for kernel in self._kernels.values():
            if len(gone):
                kernel.clear(gone)
            if order is not None:
                kernel.select(order)


def _of_columns(columns: Columns, live: NDArray[np.intp]) -> Columns:
    """The answers of live columns; if these are the first ones, nothing is copied."""
    together = len(live) == 0 or int(live[-1]) == len(live) - 1
    return tuple(column[:, : len(live)] if together else column[:, live] for column in columns)


def _seen_after_each(
    before: NDArray[np.int64],
    entries: NDArray[np.int64],
    at: NDArray[np.intp],
    numbers: NDArray[np.int64],
    fragments: int,
) -> NDArray[np.int64]:
    """After each of the new fragments, for each live key, the number of its newest partial."""
    seen = np.full((fragments, len(before)), -1, dtype=np.int64)
    seen[entries, at] = numbers
    if fragments:
        np.maximum(seen[0], before, out=seen[0])
        np.maximum.accumulate(seen, axis=0, out=seen)
    return seen
