"""Windows and edges to draw: small enough for brute force, of every kind (sliding, tumbling, hopping; any origin)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import count, groupby, pairwise
from math import lcm
from typing import NamedTuple

from hypothesis import strategies as st

from weft.algebra import Window
from weft.windows.slicing import EdgeSet, ResidueClass, bounded_range, edges_between, ends_between


class Due(NamedTuple):
    """One answer that becomes due: the instance of `window` that covers [start, end)."""

    end: int
    start: int
    window: Window


def instance(window: Window, number: int) -> Due:
    """Instance number k of a window, which covers [origin + k·slide, origin + k·slide + range)."""
    start = window.origin + number * window.slide
    return Due(start + bounded_range(window), start, window)


def windows(longest_slide: int = 24) -> st.SearchStrategy[Window]:
    return st.builds(
        Window,
        range=st.integers(1, 60),
        slide=st.integers(1, longest_slide),
        origin=st.integers(-100, 100),
    )


def window_sets(longest_slide: int = 24) -> st.SearchStrategy[list[Window]]:
    return st.lists(windows(longest_slide), min_size=1, max_size=5)


def edge_sets(moduli: tuple[int, ...], most: int = 12) -> st.SearchStrategy[EdgeSet]:
    one = st.sampled_from(moduli).flatmap(
        lambda modulus: st.builds(ResidueClass, st.just(modulus), st.integers(0, modulus - 1))
    )
    return st.frozensets(one, min_size=1, max_size=most)


def period_of(edges: EdgeSet) -> int:
    return lcm(*(modulus for modulus, _ in edges))


def edges_by_force(edges: EdgeSet, after: int, until: int) -> list[int]:
    """Every edge in (after, until], by asking every tick."""
    return [
        instant
        for instant in range(after + 1, until + 1)
        if any((instant - residue) % modulus == 0 for modulus, residue in edges)
    ]


def edges_after(edges: EdgeSet, after: int) -> Iterator[int]:
    """Every edge later than `after`, in the order of time, each once, for ever."""
    progressions = (count(after + modulus - (after - residue) % modulus, modulus) for modulus, residue in edges)
    return (edge for edge, _ in groupby(merge(*progressions)))


def slices_of(edges: EdgeSet, start: int, end: int) -> list[tuple[int, int]]:
    """The slices, as (start, end), that make up a window instance [start, end); both are edges."""
    return list(pairwise([start, *edges_between(edges, start, end).tolist()]))


def answers_between(windows: Iterable[Window], after: int, until: int) -> list[Due]:
    """Every answer that becomes due in (after, until], by time; at one instant the longest range first."""
    due = (
        Due(end, end - bounded_range(window), window)
        for window in set(windows)
        for end in ends_between(window, after, until)
    )
    return sorted(due, key=lambda each: (each.end, each.start, each.window.slide, each.window.origin))
