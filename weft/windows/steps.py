"""Steps: the schedule of a tree in the form that a window kernel takes it (see `weft/kernels/kernel.py`).

A kernel numbers fragments and knows no clock. What it must be told, fragment after fragment, is where each range
begins, as the number of its oldest fragment, and which ranges are due.

    edges          0     3 4   6     9 10  12      16  18
    fragments       0     1 2   3     4 5   6       7                     numbers
    after the fragment that ends at 12, a range of 12 begins with fragment 0 and is due (instance 0 of (12, 9)), a range
    of 10 begins with fragment 1, the first that starts at 2 or later, and is not due
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.windows.schedule import Instants, edges_between
from weft.windows.slicing import EdgeSet, bounded_range


@dataclass(frozen=True)
class Steps:
    """So many fragments, in the order of time, and what they mean for each of the distinct ranges, longest first."""

    ranges: tuple[int, ...]
    begins: Instants
    ends: Instants
    starts: NDArray[np.int64]
    """starts[i, j]: the number of the oldest fragment of range j, once fragment i is there."""

    due: NDArray[np.bool_]
    """due[i, j]: whether an instance of a window of range j ends with fragment i."""


def distinct_ranges(windows: Iterable[Window]) -> tuple[int, ...]:
    """The ranges of windows, each once, longest first.

    >>> distinct_ranges([Window(10, 5), Window(60, 10), Window(10, 2)])
    (60, 10)
    """
    return tuple(sorted({bounded_range(window) for window in windows}, reverse=True))


def steps_between(
    windows: Iterable[Window], edges: EdgeSet, after: int, until: int, *, first: int, number: int
) -> Steps:
    """The fragments that end in (after, until], where `after` is an edge.

    The first of them gets this number. No range begins before number `first`, the oldest fragment that there is. The
    edges are those of Panes or Pairs, so that all instances end at an edge.

    >>> windows = [Window(12, 9), Window(10, 6)]
    >>> from weft.windows.slicing import shared_edges
    >>> steps = steps_between(windows, shared_edges(windows), after=0, until=12, first=0, number=0)
    >>> steps.ends.tolist(), steps.starts[-1].tolist(), steps.due[-1].tolist()
    ([3, 4, 6, 9, 10, 12], [0, 1], [True, False])
    """
    known = tuple(windows)
    ranges = distinct_ranges(known)
    instants = edges_between(edges, after - max(ranges, default=0) - 1, until)
    here = int(np.searchsorted(instants, after))
    if here == len(instants) or instants[here] != after:
        raise ValueError(f"{after} is not an edge, so no fragment begins there")
    ends = instants[here + 1 :]
    numbers = number + np.arange(len(ends))[:, np.newaxis]
    inside = np.searchsorted(instants, ends[:, np.newaxis] - np.array(ranges, dtype=np.int64))
    starts = np.clip(number + inside - here, first, numbers)
    return Steps(ranges, instants[here:-1], ends, starts, _due(known, ranges, ends))


def _due(windows: Iterable[Window], ranges: tuple[int, ...], ends: Instants) -> NDArray[np.bool_]:
    due = np.zeros((len(ends), len(ranges)), dtype=bool)
    for reach, slide, phase in {(bounded_range(w), w.slide, w.origin % w.slide) for w in windows}:
        due[:, ranges.index(reach)] |= (ends - reach - phase) % slide == 0
    return due
