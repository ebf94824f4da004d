"""What a tree costs besides reading its input: Ω of its kernels, exactly, and in floats for many trees at once.

A tree has edges at a rate E per tick and spends Ω operations at each of them; Ω is whatever the cheapest kernel of each
lane spends (`weft/kernels/kernel_cost.py`), and operations have prices. Costs are exact fractions where they decide.

Where weaving only looks for the best of many unions of trees, floats will do. Most Ω need only a few sums of a tree's
queries, and those of two trees are added: the number of queries, their answers per tick, their longest and shortest
range, the number of different ranges. `FAST` has the cost per tick of such kernels by these sums. Sums are rounded, by
a part in 10¹⁵ or so; where two costs are closer than `ROUNDING`, weaving compares them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.kernels.kernel_cost import DUE_AWARE, MEASURED_PRICES, Demand, Fares, Omega, Prices, cost_per_tick
from weft.optimizer.weave.acq import Acq, Demands, Lane, demands_of, edges_of, lanes_of
from weft.windows.counting import edge_rate
from weft.windows.slicing import bounded_range

Floats: TypeAlias = NDArray[np.float64]

#: Fast costs are within this of the exact ones, relatively.
ROUNDING = 1e-11

_EULER_GAMMA = 0.5772156649015329

#: The kernels that serve trees of many ranges, in the order of `weft.kernels.kernel_choice.PREFERENCE`.
TREE_KERNELS = ("slickdeque_inv", "prefix", "slickdeque_noninv", "flatfit", "b_int", "flatfat", "panes")


@dataclass(frozen=True, slots=True)
class Sums:
    """What a lane of some trees is asked, one entry for each tree."""

    queries: Floats
    answers: Floats
    """Per tick."""
    windows: Floats
    """Σ range/slide."""
    overlap: Floats
    longest: Floats
    shortest: Floats
    due_longest: Floats
    """Answers per tick over the longest range."""
    ranges: Callable[[], Floats]
    """How many different ones."""
    lookups: Callable[[], Floats]
    """Σ answers per tick · look(range·E), at the rate that is asked for."""


#: E·Ω from sums and edge rates; not a number where the sums do not tell.
FastCost: TypeAlias = Callable[[Sums, Floats], Floats]


def _harmonic(partials: Floats) -> Floats:
    """As `weft.kernels.kernel_cost.harmonic`: the series from 32 on, and the recurrence below."""
    at = np.array(partials, dtype=np.float64)
    shortfall = np.zeros_like(at)
    while (low := at < 32).any():
        at[low] += 1
        shortfall[low] += 1 / at[low]
    return np.asarray(np.log(at) + _EULER_GAMMA + 1 / (2 * at) - 1 / (12 * at**2) + 1 / (120 * at**4) - shortfall)


def _panes(sums: Sums, rates: Floats) -> Floats:
    """Windows shorter than a mean partial cost nothing, and are not told apart in sums: one by one, then."""
    costs: Floats = np.where(sums.shortest * rates >= 1, rates * sums.windows - sums.answers, np.nan)
    return costs


def _slickdeque_noninv(sums: Sums, rates: Floats) -> Floats:
    most = np.maximum(1, sums.longest * rates)
    walk = _harmonic(most) - _harmonic(np.maximum(1, sums.shortest * rates))
    return rates * (2 - 2 / most) + sums.answers + np.minimum(rates, sums.answers) * walk


def _flatfat(sums: Sums, rates: Floats) -> Floats:
    most = np.maximum(1, sums.longest * rates)
    # What is a power of two but for rounding is that power.
    levels = np.ceil(np.log2(most) - 1e-9)
    fills = np.abs(np.log2(most) - levels) < 1e-9
    at_root = np.where(fills, sums.due_longest * (levels - 1 + 2.0**-levels), 0)
    return rates * levels + sums.lookups() - np.where(levels > 0, at_root, 0)


def _flatfat_at_least(sums: Sums, rates: Floats) -> Floats:
    """As if the longest windows were free at every rate, and not only where they fill the tree."""
    most = np.maximum(1, sums.longest * rates)
    longest = sums.due_longest * _lookup(most)
    return np.asarray(rates * np.ceil(np.log2(most) - 1e-9) + sums.lookups() - longest)


def _lookup(partials: Floats) -> Floats:
    """As `weft.kernels.kernel_cost.lookup`."""
    octaves = np.floor(np.log2(partials + 1))
    return np.asarray(octaves - 2 + (partials + 1) / 2**octaves)


#: The fast form of E·Ω, by kernel.
FAST: Mapping[str, FastCost] = {
    "panes": _panes,
    "flatfat": _flatfat,
    "b_int": lambda sums, rates: rates + sums.lookups(),
    "flatfit": lambda sums, rates: 3 * sums.answers,
    "slickdeque_inv": lambda sums, rates: rates * 2 * sums.ranges(),
    "slickdeque_noninv": _slickdeque_noninv,
    "prefix": lambda sums, rates: rates + sums.answers,
}

#: What E·Ω is at least, at this rate and all higher ones, where more edges may make it cheaper.
AT_LEAST: Mapping[FastCost, FastCost] = {_flatfat: _flatfat_at_least}


@dataclass(frozen=True, eq=False)
class Costing:
    """How to charge for a tree: the kernels to choose from, prices, Ω by kernel."""

    kernels: tuple[str, ...] = TREE_KERNELS
    """A lane takes the cheapest of these that its measure allows."""

    prices: Prices = field(default_factory=lambda: MEASURED_PRICES)

    keys: Mapping[frozenset[str], int] = field(default_factory=dict)
    """How many group keys there are, by grouping; one where nothing is said."""

    omegas: Mapping[str, Omega] = field(default_factory=lambda: DUE_AWARE)

    fast: Mapping[str, FastCost] = field(default_factory=lambda: FAST)
    """The fast form of Ω by kernel; a kernel without one is computed exactly, tree by tree."""

    def kernels_for(self, lane: Lane) -> tuple[str, ...]:
        """The kernels that may serve a lane."""
        allowed = lane.measure.kernels
        chosen = tuple(kernel for kernel in self.kernels if kernel in allowed) if allowed else self.kernels
        if not chosen:
            raise ValueError(
                f"none of the kernels {', '.join(self.kernels)} may serve {lane.measure.name}, "
                f"which allows {', '.join(allowed)}: add one of those to the costing"
            )
        return chosen

    def kernel_cost(self, kernel: str, lane: Lane, asked: Demand, rate: Fraction) -> Fraction:
        """What a kernel that serves a lane costs per tick."""
        keys = self.keys.get(lane.group_by, 1)
        return cost_per_tick(kernel, asked, rate, keys=keys, prices=self.prices, model=self.omegas)

    def final_cost(self, demands: Demands, rate: Fraction) -> Fraction:
        """Σ E·Ω over the lanes of one tree, each by its cheapest kernel."""
        return sum(
            (
                min(self.kernel_cost(kernel, lane, asked, rate) for kernel in self.kernels_for(lane))
                for lane, asked in demands.items()
            ),
            Fraction(0),
        )

    def charged(self, kernel: str, lane: Lane, operations: Floats, sums: Sums, rates: Floats) -> Floats:
        """What operations cost, and what comes with them: as `Fares.per_tick`."""
        fares: Fares = self.prices[kernel].at(self.keys.get(lane.group_by, 1))
        besides = rates * (float(fares.edge) + sums.queries * float(fares.window)) + sums.answers * float(fares.answer)
        return np.asarray(operations * float(fares.operation) + besides)


def costs_alone(queries: Sequence[Acq], costing: Costing) -> Floats:
    """What the final aggregation of each query costs in a tree of its own."""
    ranges = np.array([bounded_range(query.window) for query in queries], dtype=np.float64)
    slides = np.array([query.window.slide for query in queries], dtype=np.float64)
    ones = np.ones(len(queries))
    rates = np.where(ranges % slides == 0, 1, 2) / slides
    lookups = _lookup(np.maximum(1, ranges * rates)) / slides
    answers, windows = 1 / slides, ranges / slides
    sums = Sums(ones, answers, windows, np.ceil(windows), ranges, ranges, answers, lambda: ones, lambda: lookups)
    unknown = np.full(len(queries), np.nan)

    @cache
    def fast(kernel: str, lane: Lane) -> Floats:
        operations = costing.fast[kernel](sums, rates) if kernel in costing.fast else unknown
        return costing.charged(kernel, lane, operations, sums, rates)

    def alone(at: int, kernel: str, lane: Lane) -> float:
        cost = float(fast(kernel, lane)[at])
        if np.isnan(cost):
            query = queries[at]
            return float(costing.kernel_cost(kernel, lane, demands_of({query: 1})[lane], edge_rate(edges_of(query))))
        return cost

    return np.array(
        [
            sum(min(alone(at, kernel, lane) for kernel in costing.kernels_for(lane)) for lane in lanes_of(query))
            for at, query in enumerate(queries)
        ]
    )
