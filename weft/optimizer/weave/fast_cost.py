"""What many unions cost, at once and in floats: where weaving looks for the best pair before it compares exactly.

Most Ω need only a few sums of a tree's queries, and those of two trees are added: the number of queries, their answers
per tick, their longest and shortest range, the number of different ranges. `DemandSums` has these sums for all trees,
lane by lane, and computes the cost of a tree with each of the others in a few vector operations. Other Ω (FlatFAT,
B-Int) are computed one by one, by their exact formula.

Sums are rounded, by a part in 10¹⁵ or so. Where two costs are closer than `ROUNDING`, weaving compares them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.kernels.demand import Demand, merged
from weft.kernels.kernel_cost import DUE_AWARE, PRINTED, Fares, Omega
from weft.optimizer.weave.acq import Acq, Demands, Lane, demands_of, edges_of, lanes_of
from weft.optimizer.weave.costing import OVERLAP, Costing
from weft.windows.counting import edge_rate
from weft.windows.slicing import bounded_range

Floats: TypeAlias = NDArray[np.float64]

#: Fast costs are within this of the exact ones, relatively.
ROUNDING = 1e-11

_EULER_GAMMA = 0.5772156649015329
_INVERSE_FACTORIALS = np.cumsum([0.0] + [1.0 / float(np.prod(np.arange(1.0, i + 1))) for i in range(1, 21)])


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
    ranges: Floats
    """How many different ones; not a number if no kernel asks for that."""
    lookups: Floats
    """Σ answers per tick · look(range·E), at the rate that is asked for; likewise."""


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


def _slickdeque_noninv_printed(sums: Sums, rates: Floats) -> Floats:
    most = np.maximum(1, sums.longest * rates)
    # The floor of what is a whole number but for rounding is that number.
    factorials = _INVERSE_FACTORIALS[np.minimum(np.floor(most * (1 + 1e-12)), 20).astype(np.int64)]
    return np.asarray(rates * (2 - 2 / most + sums.queries + factorials))


def _flatfat(sums: Sums, rates: Floats) -> Floats:
    most = np.maximum(1, sums.longest * rates)
    # What is a power of two but for rounding is that power.
    levels = np.ceil(np.log2(most) - 1e-9)
    fills = np.abs(np.log2(most) - levels) < 1e-9
    at_root = np.where(fills, sums.due_longest * (levels - 1 + 2.0**-levels), 0)
    return rates * levels + sums.lookups - np.where(levels > 0, at_root, 0)


def _flatfat_at_least(sums: Sums, rates: Floats) -> Floats:
    """As if the longest windows were free at every rate, and not only where they fill the tree."""
    most = np.maximum(1, sums.longest * rates)
    octaves = np.floor(np.log2(most + 1))
    longest = sums.due_longest * (octaves - 2 + (most + 1) / 2**octaves)
    return np.asarray(rates * np.ceil(np.log2(most) - 1e-9) + sums.lookups - longest)


class _Profile:
    """A lane of one tree by its ranges, for lookups in binary trees."""

    def __init__(self, asked: Demand) -> None:
        self._ranges = asked.ranges.astype(np.float64)
        # Python divides integers of any length, to the nearest float.
        answers = np.array([answers / asked.period for answers in asked.answers.tolist()], dtype=np.float64)
        self._weights = np.append(np.cumsum(answers[::-1])[::-1], 0)
        self._lengths = np.append(np.cumsum((answers * self._ranges)[::-1])[::-1], 0)

    def lookups(self, rates: Floats) -> Floats:
        """Σ answers per tick · look(range·E), for each of these rates E.

        look is linear between powers of two (see `kernel_cost`), and has no jumps: it does not matter on
        which side of a power rounding puts a range.
        """
        octaves = np.arange(1, 2 + max(1, int(np.log2(self._ranges[-1] * rates.max() + 1))))
        starts = np.searchsorted(self._ranges, (2.0**octaves - 1) / rates[:, None])
        ends = np.hstack([starts[:, 1:], np.full((len(rates), 1), len(self._ranges))])
        weights = self._weights[starts] - self._weights[ends]
        lengths = self._lengths[starts] - self._lengths[ends]
        costs = (octaves - 2) * weights + (lengths * rates[:, None] + weights) / 2.0**octaves
        return np.asarray(costs.sum(axis=1))


#: The fast form of each exact Ω.
_FAST: Mapping[Omega, FastCost] = {
    OVERLAP["panes"]: lambda sums, rates: rates * sums.overlap,
    PRINTED["panes"]: lambda sums, rates: rates * sums.windows,
    PRINTED["flatfit"]: lambda sums, rates: rates * 3 * sums.queries,
    PRINTED["slickdeque_inv"]: lambda sums, rates: rates * 2 * sums.ranges,
    PRINTED["two_stacks"]: lambda sums, rates: rates * 3 * sums.ranges,
    PRINTED["daba"]: lambda sums, rates: rates * 5 * sums.ranges,
    PRINTED["slickdeque_noninv"]: _slickdeque_noninv_printed,
    DUE_AWARE["panes"]: _panes,
    DUE_AWARE["flatfat"]: _flatfat,
    DUE_AWARE["b_int"]: lambda sums, rates: rates + sums.lookups,
    DUE_AWARE["flatfit"]: lambda sums, rates: 3 * sums.answers,
    DUE_AWARE["slickdeque_inv"]: lambda sums, rates: rates * 2 * sums.ranges,
    DUE_AWARE["two_stacks"]: lambda sums, rates: rates * 2 * sums.ranges + sums.answers,
    DUE_AWARE["daba"]: lambda sums, rates: rates * 3 * sums.ranges + sums.answers,
    DUE_AWARE["slickdeque_noninv"]: _slickdeque_noninv,
    DUE_AWARE["prefix"]: lambda sums, rates: rates + sums.answers,
}

#: Those that keep something for each different range.
_BY_RANGES = frozenset(
    model[kernel] for model in (PRINTED, DUE_AWARE) for kernel in ("slickdeque_inv", "two_stacks", "daba")
)

#: Those that look up ranges in a binary tree.
_BY_LOOKUPS = frozenset(DUE_AWARE[kernel] for kernel in ("flatfat", "b_int"))

#: What E·Ω is at least, at this rate and all higher ones, where more edges may make it cheaper.
_AT_LEAST: Mapping[Omega, FastCost] = {DUE_AWARE["flatfat"]: _flatfat_at_least}

#: A lane that a tree does not have, in the order of the columns below.
_NOTHING = (0.0, 0.0, 0.0, 0.0, 0.0, np.inf, 0.0)


class _LaneTable:
    """One lane of all trees: sums by tree number, and what they are sums of."""

    def __init__(self, trees: int) -> None:
        self.sums = np.tile(np.array(_NOTHING)[:, None], trees)
        self.asked: dict[int, Demand] = {}
        self.ranges: dict[int, int] = {}
        self.profiles: dict[int, _Profile] = {}

    def grow(self, trees: int) -> None:
        room = max(trees, 2 * self.sums.shape[1])
        self.sums = np.hstack([self.sums, np.tile(np.array(_NOTHING)[:, None], room - self.sums.shape[1])])

    def together(self, tree: int, others: NDArray[np.int64], rates: Floats) -> Sums:
        mine, theirs = self.sums[:, tree], self.sums[:, others]
        queries, answers, windows, overlap = mine[:4, None] + theirs[:4]
        longest, shortest = np.maximum(mine[4], theirs[4]), np.minimum(mine[5], theirs[5])
        due_longest = mine[6] * (mine[4] == longest) + theirs[6] * (theirs[4] == longest)
        unknown = np.full(len(others), np.nan)
        ranges = self._ranges_together(tree, others) if self.ranges else unknown
        lookups = self._lookups_together(tree, others, rates) if self.profiles else unknown
        return Sums(queries, answers, windows, overlap, longest, shortest, due_longest, ranges, lookups)

    def _ranges_together(self, tree: int, others: NDArray[np.int64]) -> Floats:
        bits, known = self.ranges.get(tree, 0), self.ranges
        return np.array([(bits | known.get(other, 0)).bit_count() for other in others.tolist()], dtype=np.float64)

    def _lookups_together(self, tree: int, others: NDArray[np.int64], rates: Floats) -> Floats:
        own = self.profiles.get(tree)
        lookups = own.lookups(rates) if own is not None else np.zeros(len(others))
        for at, other in enumerate(others.tolist()):
            profile = self.profiles.get(other)
            if profile is not None:
                lookups[at] += profile.lookups(rates[at : at + 1])[0]
        return lookups

    def demand(self, left: int, right: int) -> Demand:
        """What two trees are asked together; at least one of them has this lane."""
        one, other = self.asked.get(left), self.asked.get(right)
        if one is not None and other is not None:
            return merged(one, other)
        single = one if other is None else other
        assert single is not None
        return single


class DemandSums:
    """What each tree is asked, by its number, and what it would cost together with others."""

    def __init__(self, costing: Costing, trees: int = 16) -> None:
        self._costing = costing
        self._omegas = frozenset(costing.omegas[kernel] for kernel in costing.kernels)
        self._trees = trees
        self._lanes: dict[Lane, _LaneTable] = {}
        self._range_numbers: dict[int, int] = {}

    @property
    def rises_with_rate(self) -> bool:
        """Whether costs are fast to compute, and it is known what they are at least with more edges."""
        return self._omegas <= _FAST.keys()

    def enter(self, tree: int, demands: Demands) -> None:
        for lane, asked in demands.items():
            table = self._lanes.setdefault(lane, _LaneTable(self._trees))
            if tree >= table.sums.shape[1]:
                table.grow(tree + 1)
            table.sums[:, tree] = (
                asked.number_of_queries,
                asked.answers_per_tick,
                asked.windows_per_row,
                asked.overlap,
                asked.longest,
                asked.shortest,
                Fraction(int(asked.answers[-1]), asked.period),
            )
            table.asked[tree] = asked
            if self._omegas & _BY_RANGES:
                table.ranges[tree] = self._range_bits(asked)
            if self._omegas & _BY_LOOKUPS:
                table.profiles[tree] = _Profile(asked)

    def remove(self, tree: int) -> None:
        for table in self._lanes.values():
            if table.asked.pop(tree, None) is not None:
                table.sums[:, tree] = _NOTHING
                table.ranges.pop(tree, None)
                table.profiles.pop(tree, None)

    def costs_together(self, tree: int, others: Sequence[int], rates: Floats, *, or_higher: bool = False) -> Floats:
        """What all lanes of a tree cost together with each of the others, at these edge rates.

        With `or_higher`, what it is at least if the rates are these or higher.
        """
        total = np.zeros(len(others))
        numbers = np.array(others, dtype=np.int64)
        newest = max(tree, *others)
        for lane, table in self._lanes.items():
            if newest >= table.sums.shape[1]:
                table.grow(newest + 1)
            served = (table.sums[0, numbers] > 0) | (table.sums[0, tree] > 0)
            if served.any():
                total[served] += self._lane_costs(
                    lane, table, tree, numbers[served], rates[served], _AT_LEAST if or_higher else {}
                )
        return total

    def _lane_costs(
        self,
        lane: Lane,
        table: _LaneTable,
        tree: int,
        others: NDArray[np.int64],
        rates: Floats,
        instead: Mapping[Omega, FastCost],
    ) -> Floats:
        best = np.full(len(others), np.inf)
        sums = table.together(tree, others, rates)
        demands: dict[int, Demand] = {}
        for kernel in self._costing.kernels_for(lane):
            omega = self._costing.omegas[kernel]
            formula = instead.get(omega) or _FAST.get(omega)
            costs = formula(sums, rates) if formula is not None else np.full(len(others), np.nan)
            for at in np.flatnonzero(np.isnan(costs)).tolist():
                if at not in demands:
                    demands[at] = table.demand(tree, int(others[at]))
                # The float of a simple fraction gives that fraction back: octaves begin where they should.
                rate = Fraction(rates[at]).limit_denominator(1 << 40)
                costs[at] = rate * omega(demands[at], rate)
            best = np.minimum(best, _charged(self._costing.fares_of(kernel, lane), costs, sums, rates))
        return best

    def _range_bits(self, asked: Demand) -> int:
        """The different ranges as bits, each at its number."""
        numbers = self._range_numbers
        at = [numbers.setdefault(reach, len(numbers)) for reach in asked.ranges.tolist()]
        marks = np.zeros(max(at) + 1, dtype=np.bool_)
        marks[at] = True
        return int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")


def costs_alone(queries: Sequence[Acq], costing: Costing) -> Floats:
    """What the final aggregation of each query costs in a tree of its own."""
    ranges = np.array([bounded_range(query.window) for query in queries], dtype=np.float64)
    slides = np.array([query.window.slide for query in queries], dtype=np.float64)
    ones = np.ones(len(queries))
    overlap = np.ceil(ranges / slides)
    rates = np.where(ranges % slides == 0, 1, 2) / slides
    partials = np.maximum(1, ranges * rates)
    octaves = np.floor(np.log2(partials + 1))
    lookups = (octaves - 2 + (partials + 1) / 2**octaves) / slides
    sums = Sums(ones, 1 / slides, ranges / slides, overlap, ranges, ranges, 1 / slides, ones, lookups)
    unknown = np.full(len(queries), np.nan)

    @cache
    def fast(kernel: str, lane: Lane) -> Floats:
        formula = _FAST.get(costing.omegas[kernel])
        operations = unknown if formula is None else formula(sums, rates)
        return _charged(costing.fares_of(kernel, lane), operations, sums, rates)

    def alone(at: int, kernel: str, lane: Lane) -> float:
        cost = float(fast(kernel, lane)[at])
        return _exactly_alone(queries[at], lane, kernel, costing) if np.isnan(cost) else cost

    return np.array(
        [
            sum(min(alone(at, kernel, lane) for kernel in costing.kernels_for(lane)) for lane in lanes_of(query))
            for at, query in enumerate(queries)
        ]
    )


def _exactly_alone(query: Acq, lane: Lane, kernel: str, costing: Costing) -> float:
    rate, asked = edge_rate(edges_of(query)), demands_of({query: 1})[lane]
    return float(costing.fares_of(kernel, lane).per_tick(rate * costing.omegas[kernel](asked, rate), rate, asked))


def _charged(fares: Fares, operations: Floats, sums: Sums, rates: Floats) -> Floats:
    """As `Fares.per_tick`."""
    besides = rates * (float(fares.edge) + sums.queries * float(fares.window)) + sums.answers * float(fares.answer)
    return np.asarray(operations * float(fares.operation) + besides)
