"""The windows of one tree over very many keys, most of which have little to tell.

`GroupedWindows` keeps a place for every key in every slice. With a million keys and an hour of slices that is
more than any machine has, although each key may have a handful of partials. Here only the partials that exist are kept,
sorted by key and then by slice, and a window of a key is a stretch of them:

    key         7  7  7  9  9  12 12 12 12
    slice    0  3  4  1  4   0  1  2  4
                   [-----)  [-)   [-----)    slices 1 … 4: where each key's window begins and ends

Answers come as rows, one for each key that has partials in a window; nothing is as long as windows times keys.

Costs: a slide costs as much as there are live partials, once for merging the new ones in and once for each range
that is due, and as much as there are answers. Whole numbers are differences of running totals; all other statistics are
combined anew from the window's own partials, from the oldest to the newest, one by one or over a tree of them. So no
rounding error outlives its window, and a NaN leaves with it.

Dense windows cost as much as keys times slices, in memory, and a few nanoseconds for each key and new slice; sparse
ones some tens of nanoseconds for each partial whenever anything is taken in. Measured over fifty slices, seventeen
ranges and a hundred thousand keys, sparse windows were faster with a partial in one slice of fifty, and dense ones with
a partial in one of ten (`Crowd`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from weft.kernels.grouped import KernelPartials, expect_held, taken
from weft.kernels.kernel import KernelError
from weft.kernels.spans import Ints, Windows, combined, spans
from weft.kernels.statistic import Columns, Statistic, are_identities

#: Windows of so few keys are dense, and so are those whose dense form is smaller than this: answers for whole rows of
#: keys cost a nanosecond or two each, and one by one some tens of them.
FEW = 256
SMALL = 64 << 20

#: Up to this size, and once there have been some slices, places that time has not reached yet do not count: windows
#: that have only begun are as full as they look. Beyond it a guess would cost too much memory.
LARGE, ENOUGH = 1 << 30, 8

#: Dense windows become sparse when fewer than one place in SPARSE_BELOW has a partial, and sparse ones dense when
#: more than one in DENSE_ABOVE has. In between they stay what they are.
SPARSE_BELOW, DENSE_ABOVE = 32, 8


@dataclass(frozen=True)
class Crowd:
    """The load of the windows of a tree: keys, partials, and slices, now and at most."""

    keys: int
    partials: int
    slices: int
    capacity: int
    #: The bytes of one key in dense windows, and those of one partial in sparse ones.
    dense_key: int
    sparse_partial: int

    @property
    def dense_bytes(self) -> int:
        # Columns are made for the next power of two.
        return self.dense_key << max(0, self.keys - 1).bit_length()

    @property
    def sparse_bytes(self) -> int:
        # Merging new partials in takes a second copy for a while.
        return 2 * self.sparse_partial * self.partials

    def is_better_sparse(self, sparse_now: bool) -> bool:
        """Whether the windows should be sparse, given what they are."""
        size = self.dense_bytes
        if self.keys <= FEW or size <= (SMALL // 2 if sparse_now else SMALL):
            return False
        has_begun = size <= LARGE and self.slices >= ENOUGH
        places = self.keys * (min(self.slices, self.capacity) if has_begun else self.capacity)
        return self.partials * (DENSE_ABOVE if sparse_now else SPARSE_BELOW) < places


def bytes_per_partial(statistics: Mapping[str, Statistic]) -> int:
    """The memory of one partial in sparse windows: its key, its slice, and its records."""
    fields = [field for each in statistics.values() if not each.rare for field in each.fields]
    return 16 + sum(field.dtype.itemsize for field in fields)


@dataclass(frozen=True)
class AnswerRows:
    """Answers as rows, one for each window and each key that has partials in it: which answer, which key, records."""

    answers: NDArray[np.intp]
    keys: NDArray[np.int64]
    records: Mapping[str, Columns]


class SparseWindows:
    """Partials sorted by key and slice, and the windows over them; `GroupedWindows` gives the same answers.

    >>> from weft.kernels.monoids import COUNT
    >>> tree = SparseWindows({"n": COUNT})
    >>> sevens = KernelPartials(np.array([0, 1]), np.array([7, 7]), {"n": (np.array([1, 4]),)})
    >>> rows = tree.slide(sevens, slices=3, starts=[[0], [0], [1]])
    >>> rows.answers, rows.keys, rows.records["n"]
    (array([0, 1, 2]), array([7, 7, 7]), (array([1, 5, 4]),))
    """

    def __init__(self, statistics: Mapping[str, Statistic], ranges: int = 1, first: int = 0) -> None:
        """`first` is the number of the first slice."""
        self.statistics = dict(statistics)
        self._ranges = ranges
        #: The numbers of the oldest slice that can still be amended, and of the next one.
        self.first = self.next = first
        self._keys: Ints = np.empty(0, dtype=np.int64)
        self._slices: Ints = np.empty(0, dtype=np.int64)
        #: A rare statistic has records only while one of them is more than the identity.
        self._records = {name: each.empty(0) for name, each in self.statistics.items() if not each.rare}

    @property
    def is_empty(self) -> bool:
        """Whether no key has a partial."""
        return not len(self._keys)

    @property
    def number_of_keys(self) -> int:
        """How many keys have partials."""
        return int(np.count_nonzero(self._keys[1:] != self._keys[:-1])) + bool(len(self._keys))

    @property
    def nbytes(self) -> int:
        """The memory that partials take."""
        columns = [column for columns in self._records.values() for column in columns]
        return sum(column.nbytes for column in [self._keys, self._slices, *columns])

    def held(self) -> KernelPartials:
        """All partials that windows may still need, their slices counted from `first` on."""
        rows = len(self._keys)
        records = {name: self._records.get(name) or each.empty(rows) for name, each in self.statistics.items()}
        return KernelPartials(self._slices - self.first, self._keys, records)

    # --- taking in and answering -------------------------------------------------------------------------------------

    def slide(
        self, partials: KernelPartials, slices: int, starts: ArrayLike, due: ArrayLike | None = None
    ) -> AnswerRows:
        """Takes in new slices; `starts` and `due` are as in `Kernel.slide`. Rows come range by range."""
        table = np.asarray(starts, dtype=np.int64).reshape(slices, self._ranges)
        wanted = np.ones(table.shape, dtype=bool) if due is None else np.asarray(due, dtype=bool).reshape(table.shape)
        if slices and int(table[0, 0]) < self.first:
            raise KernelError("the starts of windows never go back")
        order = np.lexsort((partials.slices, partials.keys))
        records = {name: taken(columns, order) for name, columns in partials.records.items()}
        self._insert(partials.keys[order], self.next + partials.slices[order], records)
        answers = self._answers(table, wanted)
        if slices:
            self.first = int(table[-1, 0])
            self.next += slices
            self._expire()
        return answers

    def absorb(self, sequences: Ints, keys: Ints, records: Mapping[str, Columns]) -> None:
        """Combines late rows into the slices with these numbers; a slice and a key are named once at most."""
        expect_held(sequences, self.first, self.next)
        order = np.lexsort((sequences, keys))
        keys, sequences = keys[order], sequences[order]
        late = {name: taken(columns, order) for name, columns in records.items()}
        self._awaken(late)
        at = np.searchsorted(self._codes(self._keys, self._slices), self._codes(keys, sequences))
        known = np.zeros(len(keys), dtype=bool)
        inside = at < len(self._keys)
        known[inside] = (self._keys[at[inside]] == keys[inside]) & (self._slices[at[inside]] == sequences[inside])
        for name, columns in self._records.items():
            combined = self.statistics[name].combine(taken(columns, at[known]), taken(late[name], known))
            for column, values in zip(columns, combined, strict=True):
                column[at[known]] = values
        new = ~known
        self._insert(keys[new], sequences[new], {name: taken(late[name], new) for name in late})

    # --- partials ----------------------------------------------------------------------------------------------------

    def _codes(self, keys: Ints, slices: Ints) -> Ints:
        """Numbers that are ordered like (key, slice)."""
        width = max(self.next, int(slices.max()) + 1 if len(slices) else 0) - self.first
        return keys * width + (slices - self.first)

    def _insert(self, keys: Ints, slices: Ints, records: Mapping[str, Columns]) -> None:
        """Merges in sorted partials of keys and slices that have none yet."""
        self._awaken(records)
        if not len(keys):
            return
        source = _merged(self._keys, self._slices, keys, slices)
        self._keys = np.concatenate((self._keys, keys))[source]
        self._slices = np.concatenate((self._slices, slices))[source]
        self._records = {
            name: tuple(np.concatenate(both)[source] for both in zip(columns, records[name], strict=True))
            for name, columns in self._records.items()
        }

    def _awaken(self, records: Mapping[str, Columns]) -> None:
        """Keeps records of a rare statistic from now on if one of the new ones is more than the identity."""
        for name, statistic in self.statistics.items():
            if name not in self._records and not are_identities(statistic, records[name]).all():
                self._records[name] = statistic.empty(len(self._keys))

    def _expire(self) -> None:
        """Drops partials that are in no window any more, and rare statistics of which nothing is left."""
        live = self._slices >= self.first
        if not live.all():
            self._keys, self._slices = self._keys[live], self._slices[live]
            self._records = {name: taken(columns, live) for name, columns in self._records.items()}
        for name in [name for name in self._records if self.statistics[name].rare]:
            if are_identities(self.statistics[name], self._records[name]).all():
                del self._records[name]

    # --- windows -----------------------------------------------------------------------------------------------------

    def _answers(self, starts: Ints, due: NDArray[np.bool_]) -> AnswerRows:
        number = np.cumsum(due.ravel()).reshape(due.shape) - 1
        ranges, steps = np.nonzero(due.T)
        found = spans(self._keys, self._slices, Windows(ranges, starts[steps, ranges], self.next + steps))
        answers = np.repeat(number[steps, ranges], found.counts)
        records = {
            name: combined(statistic, self._records[name], found.firsts, found.lasts)
            if name in self._records
            else statistic.empty(len(answers))
            for name, statistic in self.statistics.items()
        }
        return AnswerRows(answers, self._keys[found.firsts], records)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _merged(keys: Ints, slices: Ints, new_keys: Ints, new_slices: Ints) -> Ints:
    """Where each partial comes from when new ones, counted on after those that are there, are merged in."""
    old, new = len(keys), len(new_keys)
    source = np.empty(old + new, dtype=np.int64)
    i = j = 0
    for at in range(old + new):
        take_old = j == new or (
            i < old and (keys[i] < new_keys[j] or (keys[i] == new_keys[j] and slices[i] < new_slices[j]))
        )
        source[at] = i if take_old else old + j
        i += take_old
        j += not take_old
    return source
