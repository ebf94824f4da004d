"""Counting edges: how many distinct ones are there in a composite slide, and so how many per tick?

The *edge rate* E is the share of all instants that are edges, an exact fraction; a composite slide CS holds E·CS edges.
There are as many ways to it as there are shapes of workloads:

    method                exact   time                               memory        suits
    bit set               yes     CS, and the edges in it            a segment     a short CS, however many classes
    inclusion-exclusion   yes     distinct meets, 2ⁿ at worst        the same      a handful of classes
    conditioning          yes     see `weft/windows/conditioning`    by effort     a huge CS: 300 slides below 1,000
    estimate              1e-4    horizon, and the edges in it       a horizon     where nothing else finishes

`edge_rate` takes the first that suits. Inclusion and exclusion over slides alone is formula F1 of Shein and
Chrysanthis, "Multi-Query Optimization of Incrementally Evaluated Sliding-Window Aggregations"; it knows one edge per
slide, at its multiples. Pairs has two, and windows have origins: Chinese remainders say which residue classes meet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

import numpy as np

from weft.algebra import Window
from weft.windows.conditioning import EffortExceededError, uncovered
from weft.windows.residues import EdgeSet, ResidueClass, meet, reduced
from weft.windows.slicing import Slicing, composite_slide, shared_edges

# Where the methods change places, by measurement: a bit set of 2²⁰ ticks takes about a millisecond, and so does
# conditioning on thirty classes; half a second is as long as a planner should think about one tree.
_FEW_CLASSES = 4
_SHORT_PERIOD = 1 << 20
_MOST_CLASSES = 1_000
_EFFORT = 250_000

_SEGMENT = 1 << 20
_HORIZON = 1 << 22
# Far from every origin, and the same for all sets, so that the estimate of a union is never below that of a part.
_FAR_AWAY = 0x9E3779B97F4A7C15F39CC0605CEDC8341082276BF3A27251F86C6A11D0C18E95


@lru_cache(maxsize=1 << 16)
def edge_rate(edges: EdgeSet) -> Fraction:
    """Edges per tick: exact if that takes less than about half a second, otherwise estimated.

    Optimizers ask for the same unions again and again, so answers are remembered.

    >>> edge_rate(shared_edges([Window(12, 9), Window(10, 6)]))
    Fraction(4, 9)
    """
    rate = exact_edge_rate(edges, effort=_EFFORT)
    return estimated_edge_rate(edges) if rate is None else rate


def exact_edge_rate(edges: EdgeSet, effort: int | None = None) -> Fraction | None:
    """Edges per tick, exactly; None if that takes more than `effort` (see `uncovered`).

    >>> exact_edge_rate(frozenset({ResidueClass(2, 0), ResidueClass(3, 0)}))
    Fraction(2, 3)
    """
    if not edges:
        return Fraction(0)
    unit, classes = _in_units(edges)
    if len(classes) <= _FEW_CLASSES:
        return rate_by_inclusion_exclusion(classes) / unit
    period = lcm(*{edge_class.modulus for edge_class in classes})
    if period <= _SHORT_PERIOD:
        return Fraction(count_by_bit_set(classes, period), period * unit)
    if effort is not None and len(classes) > _MOST_CLASSES:
        return None
    try:
        return (1 - uncovered(classes, effort if effort is not None else 1 << 62)) / unit
    except EffortExceededError:
        return None


def count_edges(windows: Collection[Window], slicing: Slicing = Slicing.PAIRS) -> int:
    """The number of distinct edges in one composite slide of these windows; ValueError if it cannot be had exactly.

    >>> count_edges([Window(12, 9), Window(10, 6)])
    8
    """
    rate = exact_edge_rate(shared_edges(windows, slicing), effort=_EFFORT)
    if rate is None:
        raise ValueError(f"the edges of {len(windows)} windows are too many to count exactly: use edge_rate")
    return int(rate * composite_slide(windows))


def common_edge_rate(left: EdgeSet, right: EdgeSet) -> Fraction:
    """Edges per tick that two trees have in common."""
    return edge_rate(left) + edge_rate(right) - edge_rate(reduced(left | right))


def weaveability(left: EdgeSet, right: EdgeSet) -> Fraction:
    """How well two trees would share: their common edges as a share of all their edges; 1 iff the edges are the same.

    A diagnostic (Guirguis, "Scalable Processing of Multiple Aggregate Continuous Queries"): what decides is cost.

    >>> weaveability(shared_edges([Window(12, 9)]), shared_edges([Window(10, 6)]))
    Fraction(1, 4)
    """
    return common_edge_rate(left, right) / edge_rate(reduced(left | right))


def count_by_bit_set(edges: Iterable[ResidueClass], period: int) -> int:
    """The number of distinct edges among `period` successive instants, by marking each of them.

    Exact when all moduli divide the period. A segment of the bit set is held at a time, so that memory does not grow
    with the period; the time does.
    """
    classes = list(edges)
    return sum(_count_between(classes, start, min(_SEGMENT, period - start)) for start in range(0, period, _SEGMENT))


def rate_by_inclusion_exclusion(edges: Iterable[ResidueClass]) -> Fraction:
    """Edges per tick, as the sum over all non-empty sets X of classes of ± 1/period of their meet, if they do meet.

        E  =  Σ 1/mᵢ  −  Σ [they meet]/lcm(mᵢ, mⱼ)  +  Σ …          (+ for an odd number of classes)

    Sets with the same meet are one term: adding a class costs one meet for each different meet before it.

    >>> rate_by_inclusion_exclusion([ResidueClass(5, 0), ResidueClass(5, 3), ResidueClass(4, 0), ResidueClass(4, 1)])
    Fraction(7, 10)
    """
    terms: dict[ResidueClass, int] = {}
    for edge_class in edges:
        change = {edge_class: 1}
        for term, coefficient in terms.items():
            common = meet(term, edge_class)
            if common is not None:
                change[common] = change.get(common, 0) - coefficient
        for term, coefficient in change.items():
            total = terms.pop(term, 0) + coefficient
            if total:
                terms[term] = total
    period = lcm(*{term.modulus for term in terms})
    return Fraction(sum(coefficient * (period // term.modulus) for term, coefficient in terms.items()), period)


def estimated_edge_rate(edges: EdgeSet, horizon: int = _HORIZON) -> Fraction:
    """Edges per tick, counted over a horizon of possible edges somewhere far away.

    A uniformly drawn place sees every residue of every class equally often, so the estimate has no bias. Every set is
    counted at the same place: differences between sets of the same unit are consistent.
    """
    if not edges:
        return Fraction(0)
    unit, classes = _in_units(edges)
    return Fraction(_count_between(classes, _FAR_AWAY, horizon), horizon * unit)


def _in_units(edges: EdgeSet) -> tuple[int, list[ResidueClass]]:
    """The same classes on a coarser clock: all edges lie on one grid, often seconds on a clock of microseconds.

    Gives the unit of the grid, and the classes counted in it from one of its points.
    """
    some_edge = next(iter(edges)).residue
    unit = gcd(*(edge_class.modulus for edge_class in edges), *(edge_class.residue - some_edge for edge_class in edges))
    if unit == 1:
        return 1, list(edges)
    # From the grid's first point, whichever edge was taken: the same place on the clock for all sets of this grid.
    return unit, [ResidueClass(modulus // unit, residue // unit) for modulus, residue in edges]


def _count_between(classes: list[ResidueClass], start: int, length: int) -> int:
    """The number of distinct edges in [start, start + length)."""
    marks = np.zeros(length, dtype=np.bool_)
    for modulus, residue in classes:
        marks[(residue - start) % modulus :: modulus] = True
    return int(np.count_nonzero(marks))
