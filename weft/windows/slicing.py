"""Slicing: where windows cut the stream, so that each row is aggregated once however many instances it is in.

Edges, slices and partials are explained in `docs/weaving.md`. The cut at every start and every end of an instance is
Pairs, also called Paired Windows: Krishnamurthy et al., "On-the-Fly Sharing for Streamed Aggregation". (Panes, Li et
al., cut every gcd(range, slide) ticks; Cutty, Carbone et al., cuts at starts alone.)

Edges repeat for ever: the starts of a window's instances are origin, origin + slide, origin + 2·slide, …, and so are
their ends. Such a set of instants is the residue class of the origin modulo the slide; the edges of a tree are a union
of a few of them. Nothing in this package unrolls a union to its common period: that period is the lcm of all slides,
and the lcm of thirty slides below a thousand has 172 bits.

    (6, 0)   |-----|-----|-----|-----|-----|-----|      0, 6, 12, 18 …
    (9, 3)   ---|--------|--------|--------|------      3, 12, 21, 30 …

The schedule of a tree is a function of the clock alone. An answer is due at the end of its instance:

    ticks                        0     3 4   6     9 10  12      16  18
    edges                        |-----|-|---|-----|-|---|-------|---|---
    (12, 9), instance 0          [-----------------------)                  six slices, due at 12
    (10, 6), instance 1                      [-------------------)          four slices, due at 16

Edges and ends at an instant t concern what lies before t, so intervals of edges are open at the left and closed at the
right: (after, until].
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window


class ResidueClass(NamedTuple):
    """All instants t with t ≡ residue (mod modulus), where 0 ≤ residue < modulus."""

    modulus: int
    residue: int


#: A union of residue classes: every instant at which some slice ends and the next one begins.
EdgeSet: TypeAlias = frozenset[ResidueClass]


def residue_class(modulus: int, instant: int) -> ResidueClass:
    """The class of period `modulus` that goes through `instant`.

    >>> residue_class(9, 12)
    ResidueClass(modulus=9, residue=3)
    """
    return ResidueClass(modulus, instant % modulus)


def reduced(classes: Iterable[ResidueClass]) -> EdgeSet:
    """The same instants by the fewest of the given classes: one that lies inside another adds nothing.

    (m, a) lies inside (n, b) iff n divides m and a ≡ b (mod n). A thousand windows whose slides divide 720,720 reduce
    to some thirty classes.

    >>> sorted(reduced([ResidueClass(2, 0), ResidueClass(4, 0), ResidueClass(4, 1)]))
    [ResidueClass(modulus=2, residue=0), ResidueClass(modulus=4, residue=1)]
    """
    residues: dict[int, set[int]] = {}
    for modulus, residue in classes:
        residues.setdefault(modulus, set()).add(residue)
    moduli = np.array(sorted(residues))
    kept: list[ResidueClass] = []
    for index, modulus in enumerate(sorted(residues)):
        alive = residues[modulus]
        for divisor in moduli[:index][modulus % moduli[:index] == 0].tolist():
            coarser = residues[divisor]
            alive = {residue for residue in alive if residue % divisor not in coarser}
        # Emptied or not, the survivors are all that a finer modulus needs to look at: what was dropped here
        # lies inside a coarser class still, and so does what lies inside it.
        residues[modulus] = alive
        kept += [ResidueClass(modulus, residue) for residue in alive]
    return frozenset(kept)


def grid_of(classes: Iterable[ResidueClass]) -> tuple[int, int]:
    """The coarsest grid, as unit and first point, that all instants of some classes lie on.

    >>> grid_of([ResidueClass(6_000, 500), ResidueClass(8_000, 2_500)])
    (2000, 500)
    """
    listed = list(classes)
    some_edge = listed[0].residue
    unit = gcd(*(each.modulus for each in listed), *(each.residue - some_edge for each in listed))
    return unit, some_edge % unit


def bounded_range(window: Window) -> int:
    """The range of a window that closes; UNBOUNDED is kept by one running aggregate, outside of this package."""
    if window.range is None:
        raise ValueError("an UNBOUNDED window has no instances: aggregate it without slicing")
    if window.range < 1 or window.slide < 1:
        raise ValueError(f"range and slide of a window are at least one tick, not {window.range} and {window.slide}")
    return window.range


def window_edges(window: Window) -> tuple[ResidueClass, ...]:
    """The edges of one window: one class of instants, or two that never meet.

    >>> window_edges(Window(12, 9, origin=1))
    (ResidueClass(modulus=9, residue=1), ResidueClass(modulus=9, residue=4))
    """
    reach = bounded_range(window)
    starts = residue_class(window.slide, window.origin)
    ends = residue_class(window.slide, window.origin + reach)
    return (starts,) if starts == ends else (starts, ends)


def shared_edges(windows: Iterable[Window]) -> EdgeSet:
    """The edges of a tree that serves all these windows: the union of the edges of each.

    Each window sees the edges of all the others, so its instances are cut finer than it needs.

    >>> sorted(shared_edges([Window(6, 2), Window(8, 4)]))
    [ResidueClass(modulus=2, residue=0)]
    """
    return reduced({edge_class for window in set(windows) for edge_class in window_edges(window)})


Instants: TypeAlias = NDArray[np.int64]


def edges_between(edges: EdgeSet, after: int, until: int) -> Instants:
    """Every edge in (after, until], ascending, as an array: for a stretch of time that fits into memory.

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


def ends_between(window: Window, after: int, until: int) -> range:
    """The ends in (after, until] of a window's instances: those that close when the watermark goes that way.

    >>> ends_between(Window(10, 5), after=10, until=20)
    range(15, 21, 5)
    """
    first_end = window.origin + bounded_range(window)
    return range(after + window.slide - (after - first_end) % window.slide, until + 1, window.slide)


def oldest_open_start(ranges: Instants, slides: Instants, ends: Instants, instant: int) -> int:
    """The start of the oldest instance that has not closed at an instant, of windows given by these and some end each.

    >>> oldest_open_start(np.array([10, 20]), np.array([5, 20]), np.array([10, 20]), 38)
    20
    """
    next_ends = instant + slides - (instant - ends) % slides
    return int((next_ends - ranges).min())
