"""The windows of one tree over very many keys, most of which have little to tell.

`GroupedWindows` keeps a place for every key in every slice. With a million keys and an hour of slices that is
more than any machine has, although each key may have a handful of partials. Here only the partials that exist are kept,
sorted by key and then by slice, and a window of a key is a *span* of them:

    key         7  7  7  9  9  12 12 12 12
    slice    0  3  4  1  4   0  1  2  4
                   [-----)  [-)   [-----)    slices 1 … 4: where each key's window begins and ends

A partial is the *first* of its key in a window if the window ends after it, begins no later than it, and begins after
the partial before it. As ranges slide, ends and starts only ascend; so these windows are, for each range, a run of
neighbours, found by looking into two small tables:

    slice of the partial before      2
    slice of the partial             5
    windows of a range, [start, end]    [0,3]  [2,5]  [4,7]  [6,9]
    ends at 5 or later                         ×      ×      ×
    begins at 5 or before               ×      ×      ×
    begins after 2                                    ×      ×        →  it is the first one in [4,7]

Answers come as rows, one for each key that has partials in a window; nothing is as long as windows times keys.

Costs: a slide costs as much as there are live partials, once for merging the new ones in and once for each range
that is due, and as much as there are answers. Whole numbers are differences of running totals; all other statistics are
combined from the window's own partials, from the oldest to the newest, one by one or over a tree of them. So no
rounding error outlives its window, and a NaN leaves with it.

Dense windows cost as much as keys times slices, in memory, and a few nanoseconds for each key and new slice; sparse
ones some tens of nanoseconds for each partial whenever anything is taken in. Measured over fifty slices, seventeen
ranges and a hundred thousand keys, sparse windows were faster with a partial in one slice of fifty, and dense ones with
a partial in one of ten (`Crowd`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from weft.arrays.ordinals import positions_in_ranges
from weft.kernels.algorithms.flatfat import append_range
from weft.kernels.compiled.arithmetic import ADD_INTS
from weft.kernels.compiled.machine_code import Memory, address, in_machine_code
from weft.kernels.execution import COMPLAINTS, GO_BACK, KernelError, arithmetic_of
from weft.kernels.grouped import KernelPartials, expect_held
from weft.kernels.statistic import Columns, Statistic, are_identities, fold, records_at, write_records

Ints = NDArray[np.int64]

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
    return 16 + sum(each.bytes_per_record for each in statistics.values() if not each.rare)


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
        return int(np.count_nonzero(self._keys[1:] != self._keys[:-1])) + bool(len(self._keys))

    def held(self) -> KernelPartials:
        """All partials that windows may still need, their slices counted from `first` on."""
        rows = len(self._keys)
        records = {name: self._records.get(name) or each.empty(rows) for name, each in self.statistics.items()}
        return KernelPartials(self._slices - self.first, self._keys, records)

    def slide(
        self, partials: KernelPartials, slices: int, starts: ArrayLike, due: ArrayLike | None = None
    ) -> AnswerRows:
        """Takes in new slices; `starts` and `due` are as in `Kernel.slide`. Rows come range by range."""
        table = np.asarray(starts, dtype=np.int64).reshape(slices, self._ranges)
        wanted = np.ones(table.shape, dtype=bool) if due is None else np.asarray(due, dtype=bool).reshape(table.shape)
        if slices and int(table[0, 0]) < self.first:
            raise KernelError(COMPLAINTS[GO_BACK])
        self._insert(partials.keys, self.next + partials.slices, partials.records)
        number = np.cumsum(wanted.ravel()).reshape(wanted.shape) - 1
        ranges, steps = np.nonzero(wanted.T)
        counts, firsts, lasts = spans(self._keys, self._slices, ranges, table[steps, ranges], self.next + steps)
        found = {name: each.empty(len(firsts)) for name, each in self.statistics.items() if name not in self._records}
        for name, columns in self._records.items():
            found[name] = combined(self.statistics[name], columns, firsts, lasts)
        answers = AnswerRows(np.repeat(number[steps, ranges], counts), self._keys[firsts], found)
        if slices:
            self.first = int(table[-1, 0])
            self.next += slices
            self._expire()
        return answers

    def absorb(self, sequences: Ints, keys: Ints, records: Mapping[str, Columns]) -> None:
        """Combines late rows into the slices with these numbers; a slice and a key are named once at most."""
        expect_held(sequences, self.first, self.next)
        self._awaken(records)
        codes, new = self._codes(self._keys, self._slices), self._codes(keys, sequences)
        at = np.searchsorted(codes, new)
        known = at < len(codes)
        known[known] = codes[at[known]] == new[known]
        for name, columns in self._records.items():
            held, late = records_at(columns, at[known]), records_at(records[name], known)
            write_records(columns, at[known], self.statistics[name].combine(held, late))
        self._insert(keys[~known], sequences[~known], {name: records_at(records[name], ~known) for name in records})

    def _codes(self, keys: Ints, slices: Ints) -> Ints:
        """Numbers that are ordered like (key, slice)."""
        return keys * (max(self.next, int(slices.max(initial=0)) + 1) - self.first) + slices

    def _insert(self, keys: Ints, slices: Ints, records: Mapping[str, Columns]) -> None:
        """Takes in partials of keys and slices that have none yet."""
        self._awaken(records)
        if not len(keys):
            return
        keys, slices = np.concatenate((self._keys, keys)), np.concatenate((self._slices, slices))
        # This way of sorting is a merge where much is in order, as all that was here before.
        order = np.argsort(self._codes(keys, slices), kind="stable")
        self._keys, self._slices = keys[order], slices[order]
        self._records = {
            name: tuple(np.concatenate(both)[order] for both in zip(columns, records[name], strict=True))
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
            self._records = {name: records_at(columns, live) for name, columns in self._records.items()}
        for name in [name for name in self._records if self.statistics[name].rare]:
            if are_identities(self.statistics[name], self._records[name]).all():
                del self._records[name]


# --- where windows begin and end -------------------------------------------------------------------------------------


def spans(keys: Ints, slices: Ints, ranges: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """Where the windows of every key lie among partials that are sorted by key and slice.

    Windows go from slice `starts[w]` to slice `ends[w]`: range by range, and in each range by time. Returns for each of
    them how many keys have partials in it; and for each of these, window by window, where the span begins and ends.

    >>> keys, slices = np.array([7, 7, 7, 9, 12]), np.array([0, 3, 4, 0, 2])
    >>> spans(keys, slices, ranges=np.array([0]), starts=np.array([1]), ends=np.array([4]))
    (array([2]), array([1, 4]), array([3, 5]))
    """
    number = len(ranges)
    if not number or not len(keys):
        nothing = np.empty(0, dtype=np.int64)
        return np.zeros(number, dtype=np.int64), nothing, nothing
    oldest, newest = int(starts.min()), int(ends.max())
    # By place and range: the first window that ends there or later, and the first one that begins after it. Place 0 is
    # before all windows, the last place after them.
    within, bounds = np.arange(oldest, newest + 1), np.flatnonzero(np.diff(ranges, prepend=-1))
    reached = np.empty((len(within) + 2, len(bounds)), dtype=np.int64)
    begun = np.empty_like(reached)
    for column, (low, high) in enumerate(zip(bounds, np.append(bounds[1:], number), strict=True)):
        reached[0, column] = begun[0, column] = low
        reached[-1, column] = begun[-1, column] = high
        reached[1:-1, column] = low + np.searchsorted(ends[low:high], within, side="left")
        begun[1:-1, column] = low + np.searchsorted(starts[low:high], within, side="right")
    places = np.clip(slices - oldest + 1, 0, len(within) + 1).astype(np.int32)
    changes = np.zeros(number + 1, dtype=np.int64)
    _count(keys, places, reached, begun, changes)
    counts = np.cumsum(changes[:-1])
    firsts, lasts = np.empty(counts.sum(), dtype=np.int64), np.empty(counts.sum(), dtype=np.int64)
    _fill(keys, places, reached, begun, ends - oldest + 1, np.cumsum(counts) - counts, firsts, lasts)
    return counts, firsts, lasts


@njit(cache=True)  # type: ignore[untyped-decorator]
def _count(keys: Ints, places: NDArray[np.int32], reached: Ints, begun: Ints, changes: Ints) -> None:
    """By how much the number of keys changes from each window to the next."""
    for i in range(len(keys)):
        here, before = places[i], places[i - 1] if i > 0 and keys[i - 1] == keys[i] else 0
        for column in range(reached.shape[1]):
            low, high = max(reached[here, column], begun[before, column]), begun[here, column]
            if low < high:
                changes[low] += 1
                changes[high] -= 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fill(
    keys: Ints,
    places: NDArray[np.int32],
    reached: Ints,
    begun: Ints,
    ends: Ints,
    slots: Ints,
    firsts: Ints,
    lasts: Ints,
) -> None:
    """Writes down every window of every key; `slots` is where the next key of each window goes."""
    last = np.zeros(reached.shape[1], dtype=np.int64)
    for i in range(len(keys)):
        known = i > 0 and keys[i - 1] == keys[i]
        here, before = places[i], places[i - 1] if known else 0
        for column in range(reached.shape[1]):
            low, high = max(reached[here, column], begun[before, column]), begun[here, column]
            # Later windows of a range end later: the search goes on where it was.
            at = max(last[column], i)
            for window in range(low, high):
                while at + 1 < len(keys) and keys[at + 1] == keys[i] and places[at + 1] <= ends[window]:
                    at += 1
                firsts[slots[window]] = i
                lasts[slots[window]] = at + 1
                slots[window] += 1
            last[column] = at


# --- what is in them -------------------------------------------------------------------------------------------------


def combined(statistic: Statistic, records: Columns, firsts: Ints, lasts: Ints) -> Columns:
    """The records of each span combined, from its first to its last."""
    if not len(firsts):
        return statistic.empty(0)
    if statistic.rows is None:
        return _folded(statistic, records, firsts, lasts)
    if statistic.rows is ADD_INTS:
        # They may wrap; a difference of wrapped totals is right whenever the window's own sum fits.
        return tuple(_difference(column, firsts, lasts) for column in records)
    words, number, lengths = len(records), len(records[0]), lasts - firsts
    f, (chain, climb) = arithmetic_of(statistic, width=1), _loops()
    found = np.empty((len(firsts), words), dtype=records[0].dtype)
    if int(lengths.sum()) <= number + 2 * len(firsts) * int(lengths.max()).bit_length():
        packed = np.ascontiguousarray(records[0]) if words == 1 else np.stack(records, axis=1)
        chain(f, address(packed), address(found), firsts, lasts)
    else:
        tree = np.empty((2 * number, words), dtype=found.dtype)
        np.stack(records, axis=1, out=tree[number:])
        climb(f, address(tree), address(found), number, firsts, lasts)
    return tuple(np.ascontiguousarray(column) for column in found.T)


def _difference(column: Ints, firsts: Ints, lasts: Ints) -> Ints:
    totals = np.empty(len(column) + 1, dtype=np.int64)
    totals[0] = 0
    np.cumsum(column, out=totals[1:])
    return np.asarray(totals[lasts] - totals[firsts])


@cache
def _loops() -> tuple[Callable[..., None], Callable[..., None]]:
    """The compiled loops over spans. Their cells are records, the words of each side by side."""

    def chain(f: Any, records_at: Memory, found_at: Memory, firsts: Ints, lasts: Ints) -> None:
        """One record after the other."""
        records, found = f.memory(records_at), f.memory(found_at)
        for n in range(len(firsts)):
            f.copy(found, n, records, firsts[n])
            for i in range(firsts[n] + 1, lasts[n]):
                f.combine(found, n, found, n, records, i)

    def climb(f: Any, tree_at: Memory, found_at: Memory, leaves: int, firsts: Ints, lasts: Ints) -> None:
        """Each span from the few nodes of a tree that make it up; node i is what nodes 2i and 2i + 1 are together."""
        tree, found = f.memory(tree_at), f.memory(found_at)
        for node in range(leaves - 1, 0, -1):
            f.combine(tree, node, tree, 2 * node, tree, 2 * node + 1)
        for n in range(len(firsts)):
            append_range(f, tree, leaves + firsts[n], leaves + lasts[n], True, found, n)

    return in_machine_code(chain), in_machine_code(climb)


#: Partials that are copied out at once for a statistic that has no compiled arithmetic.
_AT_ONCE = 1 << 18


def _folded(statistic: Statistic, records: Columns, firsts: Ints, lasts: Ints) -> Columns:
    """Of a statistic that is written in Python: spans copied out, some at a time, and folded."""
    parts, ends = [], np.cumsum(lasts - firsts)
    begin = 0
    while begin < len(firsts):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        lengths = lasts[begin:end] - firsts[begin:end]
        at = positions_in_ranges(firsts[begin:end], lengths)
        parts.append(fold(statistic, records_at(records, at), np.repeat(np.arange(end - begin), lengths), end - begin))
        begin = end
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
