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

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from weft.kernels.compiled.pointers import address, call_row_operation, ints_at
from weft.kernels.compiled.row_arithmetic import ADD_INTS, address_of
from weft.kernels.statistic import Columns, Statistic, fold

Ints = NDArray[np.int64]

#: Partials that are copied out at once for a statistic that has no compiled arithmetic.
_AT_ONCE = 1 << 18

_WORD = 8


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
    if statistic.rows == ADD_INTS:
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
    assert statistic.rows is not None
    words, number, operation = len(records), len(records[0]), address_of(statistic.rows.combine)
    found = np.empty((words, len(firsts)), dtype=records[0].dtype)
    total = np.empty(2 * words, dtype=found.dtype)
    lengths = lasts - firsts
    one_by_one, longest = int(lengths.sum()), int(lengths.max())
    if one_by_one <= number + 2 * len(firsts) * longest.bit_length():
        packed = np.ascontiguousarray(records[0]) if words == 1 else np.stack(records, axis=1)
        _chain(operation, address(packed), words, firsts, lasts, address(total), address(found))
    else:
        tree = np.empty((2 * number, words), dtype=found.dtype)
        np.stack(records, axis=1, out=tree[number:])
        _plant(operation, address(tree), words, number)
        _climb(operation, address(tree), words, number, firsts, lasts, address(total), address(found))
    return tuple(found)


# Records are side by side, word after word, where they come from; results go column by column. All words have 64 bits
# and are copied as integers, whatever they are.


@njit(cache=True)  # type: ignore[untyped-decorator]
def _copy(to: int, source: int, words: int) -> None:
    target, origin = ints_at(to), ints_at(source)
    for word in range(words):
        target[word] = origin[word]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _settle(found: int, n: int, number: int, total: int, words: int) -> None:
    target, origin = ints_at(found), ints_at(total)
    for word in range(words):
        target[word * number + n] = origin[word]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _chain(operation: int, records: int, words: int, firsts: Ints, lasts: Ints, total: int, found: int) -> None:
    """One record after the other."""
    size, number = _WORD * words, len(firsts)
    for n in range(number):
        _copy(total, records + firsts[n] * size, words)
        for i in range(firsts[n] + 1, lasts[n]):
            call_row_operation(operation, total, total, records + i * size, 1, words, 0)
        _settle(found, n, number, total, words)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _plant(operation: int, tree: int, words: int, leaves: int) -> None:
    """The records 1 … leaves − 1 of a tree: each is what records 2i and 2i + 1 are together."""
    size = _WORD * words
    for i in range(leaves - 1, 0, -1):
        call_row_operation(operation, tree + i * size, tree + 2 * i * size, tree + (2 * i + 1) * size, 1, words, 0)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _climb(
    operation: int, tree: int, words: int, leaves: int, firsts: Ints, lasts: Ints, total: int, found: int
) -> None:
    """Each stretch from the few nodes that make it up; those at its right end are put together apart, in order."""
    size, number = _WORD * words, len(firsts)
    end = total + size
    for n in range(number):
        # The first record of a stretch begins the left part, and its last one the right part.
        _copy(total, tree + (leaves + firsts[n]) * size, words)
        if lasts[n] > firsts[n] + 1:
            _copy(end, tree + (leaves + lasts[n] - 1) * size, words)
            left, right = leaves + firsts[n] + 1, leaves + lasts[n] - 1
            while left < right:
                if left & 1:
                    call_row_operation(operation, total, total, tree + left * size, 1, words, 0)
                    left += 1
                if right & 1:
                    right -= 1
                    call_row_operation(operation, end, tree + right * size, end, 1, words, 0)
                left >>= 1
                right >>= 1
            call_row_operation(operation, total, total, end, 1, words, 0)
        _settle(found, n, number, total, words)


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
