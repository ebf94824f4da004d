"""The schedule: when slices end, and which instances of windows close when.

Everything here is a function of the clock alone. Nothing is unrolled to the composite slide, so a tree whose period is
longer than the age of the universe runs like any other.

    ticks                        0     3 4   6     9 10  12      16  18
    edges                        |-----|-|---|-----|-|---|-------|---|---
    (12, 9), instance 0          [-----------------------)                  six slices, due at 12
    (10, 6), instance 1                      [-------------------)          four slices, due at 16

An answer is due at the end of its instance. Edges and ends at an instant t concern what lies before t, so intervals
of edges are open at the left and closed at the right: (after, until].
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.windows.slicing import EdgeSet, bounded_range

Instants: TypeAlias = NDArray[np.int64]


class Due(NamedTuple):
    """One answer that becomes due: the instance of `window` that covers [start, end)."""

    end: int
    start: int
    window: Window


def edges_between(edges: EdgeSet, after: int, until: int) -> Instants:
    """Every edge in (after, until], ascending, as an array: for a stretch of time that fits into memory.

    >>> from weft.windows.slicing import ResidueClass
    >>> edges_between(frozenset({ResidueClass(4, 0), ResidueClass(6, 0)}), after=0, until=12).tolist()
    [4, 6, 8, 12]
    """
    progressions = [
        np.arange(after + modulus - (after - residue) % modulus, until + 1, modulus, dtype=np.int64)
        for modulus, residue in edges
    ]
    return np.unique(np.concatenate(progressions)) if progressions else np.empty(0, dtype=np.int64)


def slice_start(edges: EdgeSet, instant: int) -> int:
    """Where the slice begins that a row with this clock belongs to.

    >>> from weft.windows.slicing import ResidueClass
    >>> slice_start(frozenset({ResidueClass(4, 0), ResidueClass(6, 0)}), 7)
    6
    """
    if not edges:
        raise ValueError("without edges there are no slices")
    return max(instant - (instant - residue) % modulus for modulus, residue in edges)


def most_partials(edges: EdgeSet, length: int) -> int:
    """A bound on the partials that any stretch of this length holds: the ring a kernel needs for its longest range.

    It holds at every instant, not only where an answer is due. For one window, or equal moduli, it is attained.
    """
    return min(length, sum(-(-length // modulus) for modulus, _ in edges))


def instances_ending(window: Window, after: int, until: int) -> range:
    """The numbers of the instances whose end is in (after, until]: those that close when the watermark goes that way.

    >>> instances_ending(Window(10, 5), after=10, until=20)
    range(1, 3)
    """
    shift = window.origin + bounded_range(window)
    return range((after - shift) // window.slide + 1, (until - shift) // window.slide + 1)


def oldest_open_start(ranges: Instants, slides: Instants, ends: Instants, instant: int) -> int:
    """The start of the oldest instance that has not closed at an instant, of windows given by these and some end each.

    >>> oldest_open_start(np.array([10, 20]), np.array([5, 20]), np.array([10, 20]), 38)
    20
    """
    next_ends = instant + slides - (instant - ends) % slides
    return int((next_ends - ranges).min())


def instance(window: Window, number: int) -> Due:
    """Instance number k of a window, which covers [origin + k·slide, origin + k·slide + range).

    >>> instance(Window(10, 5, origin=2), 1)[:2]
    (17, 7)
    """
    start = window.origin + number * window.slide
    return Due(start + bounded_range(window), start, window)


def distinct_ranges(windows: Iterable[Window]) -> tuple[int, ...]:
    """The ranges of windows, each once, longest first.

    >>> distinct_ranges([Window(10, 5), Window(60, 10), Window(10, 2)])
    (60, 10)
    """
    return tuple(sorted({bounded_range(window) for window in windows}, reverse=True))
