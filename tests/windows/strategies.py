"""Windows and edges to draw: small enough for brute force, of every kind (sliding, tumbling, hopping; any origin)."""

from __future__ import annotations

from math import lcm

from hypothesis import strategies as st

from weft.algebra import Window
from weft.windows.slicing import EdgeSet, ResidueClass, Slicing


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


slicings = st.sampled_from(Slicing)


def period_of(edges: EdgeSet) -> int:
    return lcm(*(modulus for modulus, _ in edges))


def edges_by_force(edges: EdgeSet, after: int, until: int) -> list[int]:
    """Every edge in (after, until], by asking every tick."""
    return [
        instant
        for instant in range(after + 1, until + 1)
        if any((instant - residue) % modulus == 0 for modulus, residue in edges)
    ]
