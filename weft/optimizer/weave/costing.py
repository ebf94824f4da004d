"""What queries ask of a tree, and what a tree costs besides reading its input: exactly, and in floats for many trees.

Equal queries are one entry with a multiplicity: a million dashboards have some thousand different windows, and all of
weaving works on those.

A tree has edges at a rate E per tick and spends Ω operations at each of them; Ω is whatever the cheapest kernel of each
lane spends (`weft/kernels/kernel_cost.py`), and operations have prices. Costs are exact fractions where they decide.

Where weaving only looks for the best of many unions of trees, floats will do. Most Ω need only a few sums of a tree's
queries, and those of two trees are added: the number of queries, their answers per tick, their longest and shortest
range, the number of different ranges. `FAST` has the cost per tick of such kernels by these sums. Sums are rounded, by
a part in 10¹⁵ or so; where two costs are closer than `ROUNDING`, weaving compares them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.kernels.kernel_cost import (
    DUE_AWARE,
    MEASURED_PRICES,
    Demand,
    Fares,
    Omega,
    Prices,
    cost_per_tick,
    demand,
    merged,
)
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet, bounded_range, shared_edges, window_edges

Floats: TypeAlias = NDArray[np.float64]

#: Fast costs are within this of the exact ones, relatively.
ROUNDING = 1e-11

_EULER_GAMMA = 0.5772156649015329

#: The kernels that serve trees of many ranges, in the order of `weft.kernels.kernel_choice.PREFERENCE`.
TREE_KERNELS = ("slickdeque_inv", "prefix", "slickdeque_noninv", "flatfit", "b_int", "flatfat", "panes")


class AcqMeasure(NamedTuple):
    """One statistic of the rows, such as SUM(price): what a kernel keeps and answers from."""

    name: str
    kernels: tuple[str, ...] = ()
    """The kernels that may serve it; none given means all that the costing knows."""


#: What the papers' queries measure: some function, the same for all.
AGGREGATE = AcqMeasure("aggregate")
_ONE_AGGREGATE = frozenset({AGGREGATE})
_NO_KEYS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Acq:
    """An aggregate continuous query. `predicate` names the rows it is about; the empty name is all of them."""

    window: Window
    measures: frozenset[AcqMeasure] = _ONE_AGGREGATE
    group_by: frozenset[str] = _NO_KEYS
    predicate: str = ""


class Lane(NamedTuple):
    """What one kernel of a tree serves: a measure, of the same rows, by the same keys, over any number of windows."""

    measure: AcqMeasure
    group_by: frozenset[str]
    predicate: str


#: Queries with how often each occurs.
Counted: TypeAlias = Mapping[Acq, int]

#: The demands on a tree, by lane.
Demands: TypeAlias = Mapping[Lane, Demand]


def together(parts: Iterable[Counted]) -> dict[Acq, int]:
    """All queries of several parts; one that is in more than one of them counts as often as in all of them."""
    everyone: dict[Acq, int] = {}
    for part in parts:
        for query, count in part.items():
            everyone[query] = everyone.get(query, 0) + count
    return everyone


def edges_of(query: Acq) -> EdgeSet:
    """Where the query alone would cut the stream."""
    return frozenset(window_edges(query.window))


def edges_of_all(queries: Iterable[Acq]) -> EdgeSet:
    """Where one tree for all of these cuts the stream."""
    return shared_edges(query.window for query in queries)


def lanes_of(query: Acq) -> list[Lane]:
    return [Lane(measure, query.group_by, query.predicate) for measure in sorted(query.measures)]


def demands_of(queries: Counted) -> dict[Lane, Demand]:
    """The demands on one tree for these queries, lane by lane."""
    by_lane: dict[Lane, list[Window]] = {}
    for query, count in queries.items():
        for lane in lanes_of(query):
            by_lane.setdefault(lane, []).extend([query.window] * count)
    return {lane: demand(windows) for lane, windows in by_lane.items()}


def merged_demands(left: Demands, right: Demands) -> dict[Lane, Demand]:
    """The demands of one tree in the place of two."""
    both = dict(left)
    for lane, asked in right.items():
        both[lane] = merged(both[lane], asked) if lane in both else asked
    return both


# -- costs ------------------------------------------------------------------------------------------------------------


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

    def fast_costs(
        self,
        lane: Lane,
        sums: Sums,
        rates: Floats,
        exactly: Callable[[str, int], Fraction],
        *,
        or_higher: bool = False,
    ) -> Floats:
        """What the cheapest kernel for a lane costs, in many trees at once; with `or_higher`, at least.

        `exactly` gives the cost of a kernel in one of the trees, for those that sums do not tell.
        """
        best = np.full(len(rates), np.inf)
        for kernel in self.kernels_for(lane):
            formula = self.fast.get(kernel, _unknown)
            if or_higher:
                formula = _nothing if formula is _unknown else AT_LEAST.get(formula, formula)
            fares = Fares(*map(float, self.prices[kernel].at(self.keys.get(lane.group_by, 1))))
            costs = fares.per_tick(formula(sums, rates), rates, sums.queries, sums.answers)
            for at in np.flatnonzero(np.isnan(costs)).tolist():
                costs[at] = exactly(kernel, at)
            best = np.minimum(best, costs)
        return best


def _unknown(sums: Sums, rates: Floats) -> Floats:
    return np.full(len(rates), np.nan)


def _nothing(sums: Sums, rates: Floats) -> Floats:
    return np.zeros(len(rates))


def costs_alone(queries: Sequence[Acq], costing: Costing) -> Floats:
    """What the final aggregation of each query costs in a tree of its own."""
    of_lane: dict[Lane, list[int]] = {}
    for at, query in enumerate(queries):
        for lane in lanes_of(query):
            of_lane.setdefault(lane, []).append(at)
    costs = np.zeros(len(queries))
    for lane, numbers in of_lane.items():
        some = [queries[number] for number in numbers]

        def exactly(kernel: str, at: int, lane: Lane = lane, some: Sequence[Acq] = some) -> Fraction:
            return costing.kernel_cost(kernel, lane, demands_of({some[at]: 1})[lane], edge_rate(edges_of(some[at])))

        costs[numbers] += costing.fast_costs(lane, *_alone(some), exactly)
    return costs


def _alone(queries: Sequence[Acq]) -> tuple[Sums, Floats]:
    """What a lane of trees of one query is asked, and their edge rates."""
    ranges = np.array([bounded_range(query.window) for query in queries], dtype=np.float64)
    slides = np.array([query.window.slide for query in queries], dtype=np.float64)
    rates = np.where(ranges % slides == 0, 1, 2) / slides
    ones, answers, windows = np.ones(len(queries)), 1 / slides, ranges / slides
    lookups = _lookup(np.maximum(1, ranges * rates)) / slides
    overlap = np.ceil(windows)
    return Sums(ones, answers, windows, overlap, ranges, ranges, answers, lambda: ones, lambda: lookups), rates
