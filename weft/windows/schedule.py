"""The schedule: when fragments end, which of them make up a window instance, and which answers are due when.

Everything here is a function of the clock alone. Nothing is unrolled to the composite slide: edges are merged from
their residue classes as time goes on, so a tree whose period is longer than the age of the universe runs like any
other.

    ticks                        0     3 4   6     9 10  12      16  18
    edges                        |-----|-|---|-----|-|---|-------|---|---
    (12, 9), instance 0          [-----------------------)                  six fragments, due at 12
    (10, 6), instance 1                      [-------------------)          four fragments, due at 16

An answer is due at the end of its instance. Edges and ends at an instant t concern what lies before t, so intervals
of edges are open at the left and closed at the right: (after, until].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import count, groupby, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.windows.slicing import EdgeSet, ResidueClass, bounded_range

Instants: TypeAlias = NDArray[np.int64]


class Fragment(NamedTuple):
    """The rows with start ≤ clock < end, with no edge between."""

    start: int
    end: int


class Due(NamedTuple):
    """One answer that becomes due: the instance of `window` that covers [start, end)."""

    end: int
    start: int
    window: Window


def edges_after(edges: EdgeSet, after: int) -> Iterator[int]:
    """Every edge later than `after`, in the order of time, each once, for ever: a heap with one entry per class.

    >>> from itertools import islice
    >>> list(islice(edges_after(frozenset({ResidueClass(4, 0), ResidueClass(6, 0)}), after=0), 4))
    [4, 6, 8, 12]
    """
    progressions = (count(_next_of(edge_class, after), edge_class.modulus) for edge_class in edges)
    return (edge for edge, _ in groupby(merge(*progressions)))


def edges_between(edges: EdgeSet, after: int, until: int) -> Instants:
    """Every edge in (after, until], ascending, as an array: for a stretch of time that fits into memory.

    >>> edges_between(frozenset({ResidueClass(4, 0), ResidueClass(6, 0)}), after=0, until=12).tolist()
    [4, 6, 8, 12]
    """
    progressions = [
        np.arange(_next_of(edge_class, after), until + 1, edge_class.modulus, dtype=np.int64) for edge_class in edges
    ]
    return np.unique(np.concatenate(progressions)) if progressions else np.empty(0, dtype=np.int64)


def fragment_at(edges: EdgeSet, instant: int) -> Fragment:
    """The fragment that a row with this clock belongs to.

    >>> fragment_at(frozenset({ResidueClass(4, 0), ResidueClass(6, 0)}), 7)
    Fragment(start=6, end=8)
    """
    if not edges:
        raise ValueError("without edges there are no fragments")
    start = max(instant - (instant - residue) % modulus for modulus, residue in edges)
    return Fragment(start, min(_next_of(edge_class, instant) for edge_class in edges))


def fragment_starts(edges: EdgeSet, clocks: Instants) -> Instants:
    """For each clock, the start of the fragment it belongs to.

    Rows that are close together in time are looked up among the edges of their time; rows that are far apart would make
    that too many edges, and each row asks every class instead.
    """
    if not edges:
        raise ValueError("without edges there are no fragments")
    if not len(clocks):
        return clocks.copy()
    first = fragment_at(edges, int(clocks.min())).start
    last = int(clocks.max())
    if sum((last - first) // modulus + 1 for modulus, _ in edges) <= len(clocks) * len(edges):
        starts = edges_between(edges, first - 1, last)
        return starts[np.searchsorted(starts, clocks, side="right") - 1]
    latest = np.full_like(clocks, first)
    for modulus, residue in edges:
        np.maximum(latest, clocks - (clocks - residue) % modulus, out=latest)
    return latest


def fragments_of(edges: EdgeSet, start: int, end: int) -> Iterator[Fragment]:
    """The fragments that make up a window instance [start, end), in the order of time.

    The start must be an edge. So is the end, with Panes and Pairs; with Cutty the last fragment may still be open when
    the answer is due, and is given as far as the instance goes.

    >>> [tuple(fragment) for fragment in fragments_of(frozenset({ResidueClass(4, 0), ResidueClass(6, 0)}), 4, 12)]
    [(4, 6), (6, 8), (8, 12)]
    """
    if not any((start - residue) % modulus == 0 for modulus, residue in edges):
        raise ValueError(f"{start} is not an edge, so no instance of these windows starts there")
    cuts = [start, *edges_between(edges, start, end - 1).tolist(), end]
    return (Fragment(*bounds) for bounds in pairwise(cuts))


def most_partials(edges: EdgeSet, length: int) -> int:
    """A bound on the partials that any stretch of so many ticks holds: the ring a kernel needs for its longest range.

    It holds at every instant, not only where an answer is due. For one window, or equal moduli, it is attained.
    """
    return min(length, sum(-(-length // modulus) for modulus, _ in edges))


def instances_covering(window: Window, instant: int) -> range:
    """The numbers of the instances that a row with this clock is in; empty in the gaps of a hopping window.

    >>> instances_covering(Window(10, 5), 12)
    range(1, 3)
    """
    newest = (instant - window.origin) // window.slide
    oldest = (instant - window.origin - bounded_range(window)) // window.slide + 1
    return range(oldest, newest + 1)


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


def answers_after(windows: Iterable[Window], after: int) -> Iterator[Due]:
    """Every answer that becomes due later than `after`, in the order of time, for ever.

    At one instant the longest range comes first, as SlickDeque wants its queries: one walk along the deque serves all.
    """
    upcoming = (_instances_from(window, instances_ending(window, after, after).stop) for window in set(windows))
    return merge(*upcoming, key=_by_end_then_start)


def answers_between(windows: Iterable[Window], after: int, until: int) -> list[Due]:
    """Every answer that becomes due in (after, until], in the order of `answers_after`."""
    due = (instance(window, k) for window in set(windows) for k in instances_ending(window, after, until))
    return sorted(due, key=_by_end_then_start)


def _by_end_then_start(due: Due) -> tuple[int, int, int, int]:
    return due.end, due.start, due.window.slide, due.window.origin


def _instances_from(window: Window, number: int) -> Iterator[Due]:
    return (instance(window, k) for k in count(number))


def _next_of(edge_class: ResidueClass, after: int) -> int:
    """The first instant of a class that is later than `after`."""
    return after + edge_class.modulus - (after - edge_class.residue) % edge_class.modulus
