"""Stretches of partials that are sorted by key and slice: where windows begin and end, and what is in them.

All partials of a key in a window lie side by side. A partial is the *first* of its key in a window if the window ends
after it, begins no later than it, and begins after the partial before it. As ranges slide, ends and starts only ascend;
so these windows are, for each range, a run of neighbours, found by looking into two small tables:

    slice of the partial before      2
    slice of the partial             5
    windows of a range, [start, end]    [0,3]  [2,5]  [4,7]  [6,9]
    ends at 5 or later                         ×      ×      ×
    begins at 5 or before               ×      ×      ×
    begins after 2                                    ×      ×        →  it is the first one in [4,7]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from weft.kernels.compiled.arithmetic import ADD_INTS
from weft.kernels.compiled.cells import Memory, address
from weft.kernels.execution import arithmetic_of, in_machine_code
from weft.kernels.statistic import Columns, Statistic, fold

Ints = NDArray[np.int64]

#: Partials that are copied out at once for a statistic that has no compiled arithmetic.
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Windows:
    """Windows of some ranges, from slice `starts[w]` to slice `ends[w]`: range by range, and in each by time."""

    ranges: NDArray[np.intp]
    starts: Ints
    ends: Ints


@dataclass(frozen=True)
class Spans:
    """For each window how many keys have partials in it; for each of these, window by window, from where to where."""

    counts: Ints
    firsts: Ints
    lasts: Ints
    """The places after the last ones."""


def spans(keys: Ints, slices: Ints, windows: Windows) -> Spans:
    """Where the windows of every key lie among partials that are sorted by key and slice.

    >>> windows = Windows(np.array([0]), np.array([1]), np.array([4]))
    >>> keys, slices = np.array([7, 7, 7, 9, 12]), np.array([0, 3, 4, 0, 2])
    >>> found = spans(keys, slices, windows)
    >>> found.counts, found.firsts, found.lasts
    (array([2]), array([1, 4]), array([3, 5]))
    """
    number = len(windows.ranges)
    if not number or not len(keys):
        nothing = np.empty(0, dtype=np.int64)
        return Spans(np.zeros(number, dtype=np.int64), nothing, nothing)
    oldest, newest = int(windows.starts.min()), int(windows.ends.max())
    reached, begun = _tables(windows, oldest, newest)
    # Place 0 is before all windows, the last place after them.
    places = np.clip(slices - oldest + 1, 0, newest - oldest + 2).astype(np.int32)
    changes = np.zeros(number + 1, dtype=np.int64)
    _count(keys, places, reached, begun, changes)
    counts = np.cumsum(changes[:-1])
    firsts, lasts = np.empty(counts.sum(), dtype=np.int64), np.empty(counts.sum(), dtype=np.int64)
    slots = np.cumsum(counts) - counts
    _fill(keys, places, reached, begun, windows.ends - oldest + 1, slots, firsts, lasts)
    return Spans(counts, firsts, lasts)


def _tables(windows: Windows, oldest: int, newest: int) -> tuple[Ints, Ints]:
    """By place and range: the first window that ends there or later, and the first one that begins after it."""
    slices = np.arange(oldest, newest + 1)
    bounds = np.flatnonzero(np.diff(windows.ranges, prepend=-1))
    reached = np.empty((len(slices) + 2, len(bounds)), dtype=np.int64)
    begun = np.empty_like(reached)
    for column, (low, high) in enumerate(zip(bounds, np.append(bounds[1:], len(windows.ranges)), strict=True)):
        reached[0, column] = begun[0, column] = low
        reached[-1, column] = begun[-1, column] = high
        reached[1:-1, column] = low + np.searchsorted(windows.ends[low:high], slices, side="left")
        begun[1:-1, column] = low + np.searchsorted(windows.starts[low:high], slices, side="right")
    return reached, begun


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
    """The records of each stretch combined, from its first to its last."""
    if not len(firsts):
        return statistic.empty(0)
    if statistic.rows is ADD_INTS:
        # They may wrap; a difference of wrapped totals is right whenever the window's own sum fits.
        return tuple(_difference(column, firsts, lasts) for column in records)
    if statistic.rows is not None:
        return _combined_by_machine(statistic, records, firsts, lasts)
    return _combined_by_hand(statistic, records, firsts, lasts)


def _difference(column: Ints, firsts: Ints, lasts: Ints) -> Ints:
    totals = np.empty(len(column) + 1, dtype=np.int64)
    totals[0] = 0
    np.cumsum(column, out=totals[1:])
    return np.asarray(totals[lasts] - totals[firsts])


def _combined_by_machine(statistic: Statistic, records: Columns, firsts: Ints, lasts: Ints) -> Columns:
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


@cache
def _loops() -> tuple[Callable[..., None], Callable[..., None]]:
    """The compiled loops over stretches. Their cells are records, the words of each side by side."""

    def chain(f: Any, records_at: Memory, found_at: Memory, firsts: Ints, lasts: Ints) -> None:
        """One record after the other."""
        records, found = f.memory(records_at), f.memory(found_at)
        for n in range(len(firsts)):
            f.copy(found, n, records, firsts[n])
            for i in range(firsts[n] + 1, lasts[n]):
                f.combine(found, n, found, n, records, i)

    def climb(f: Any, tree_at: Memory, found_at: Memory, leaves: int, firsts: Ints, lasts: Ints) -> None:
        """Each stretch from the few nodes of a tree that make it up; node i is what nodes 2i and 2i + 1 are together.

        Those at its right end are put together apart, in order, in cell 0, which is no node.
        """
        tree, found = f.memory(tree_at), f.memory(found_at)
        for node in range(leaves - 1, 0, -1):
            f.combine(tree, node, tree, 2 * node, tree, 2 * node + 1)
        for n in range(len(firsts)):
            # The first record of a stretch begins the left part, and its last one the right part.
            left, right = leaves + firsts[n] + 1, leaves + lasts[n] - 1
            f.copy(found, n, tree, left - 1)
            if left > right:
                continue
            f.copy(tree, 0, tree, right)
            while left < right:
                if left & 1:
                    f.combine(found, n, found, n, tree, left)
                    left += 1
                if right & 1:
                    right -= 1
                    f.combine(tree, 0, tree, right, tree, 0)
                left >>= 1
                right >>= 1
            f.combine(found, n, found, n, tree, 0)

    return in_machine_code(chain), in_machine_code(climb)


def _combined_by_hand(statistic: Statistic, records: Columns, firsts: Ints, lasts: Ints) -> Columns:
    """Of a statistic that is written in Python: stretches copied out, some at a time, and folded."""
    parts, ends = [], np.cumsum(lasts - firsts)
    begin = 0
    while begin < len(firsts):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        lengths = lasts[begin:end] - firsts[begin:end]
        groups = np.repeat(np.arange(end - begin), lengths)
        inside = np.arange(len(groups)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        at = np.repeat(firsts[begin:end], lengths) + inside
        parts.append(fold(statistic, tuple(column[at] for column in records), groups, end - begin))
        begin = end
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
