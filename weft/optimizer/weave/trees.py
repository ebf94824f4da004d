"""The trees of a weaving, by number: what they are asked, what they cost, and the benefits of merging pairs of them.

Benefits are looked for in floats, of a tree with many others in a few vector operations, and decided in fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.kernels.kernel_cost import Demand, merged
from weft.optimizer.weave.costing import ROUNDING, Costing, Demands, Floats, Lane, Sums, merged_demands
from weft.optimizer.weave.edge_meter import Meter
from weft.windows.slicing import EdgeSet

# The most exact benefits that are remembered; more would be of trees that are merged already.
_REMEMBERED = 1 << 16


class TreeCost(NamedTuple):
    """What one tree costs besides reading its input."""

    edge_rate: Fraction
    final: Fraction
    """Σ E·Ω over its lanes."""


class Benefits(NamedTuple):
    """F(x) + F(y) − F(x ∪ y) for some pairs: what merging saves in final aggregation, mostly less than nothing."""

    values: Floats
    margin: float
    """How far off they may be."""


class Trees:
    """Trees by number, in floats for looking and in fractions for deciding."""

    def __init__(self, costing: Costing, meter: Meter) -> None:
        self.costing = costing
        self.meter = meter
        self.ledger = DemandSums(costing)
        self.comparisons = 0
        """How many pairs were weighed."""

        self.known: list[TreeCost] = []
        """E and E·Ω of all trees there ever were, by number."""

        self.demands: dict[int, Demands] = {}
        """What the trees that are there are asked."""

        self._fast = np.zeros((2, 64))
        self._exact: dict[tuple[int, int], Fraction] = {}
        self._last: tuple[tuple[int, int], Demands] | None = None

    def add(self, edges: EdgeSet, demands: Demands) -> int:
        return self._take_in(self.meter.add(edges), demands)

    def join(self, one: int, other: int) -> int:
        """Puts one tree in the place of two."""
        together = self._demands_together(one, other)
        tree = self.meter.join(one, other)
        for gone in (one, other):
            del self.demands[gone]
            self.ledger.remove(gone)
        return self._take_in(tree, together)

    def rates_together(self, tree: int, others: Sequence[int]) -> Floats:
        """E of the union of a tree with each of the others."""
        self.comparisons += len(others)
        return self.meter.rates_together(tree, others)

    def least_rates(self, joined: int, parts: tuple[int, int], others: Sequence[int], known: Floats) -> Floats:
        """What a tree joined of two parts has at least, in unions with others, given both parts' rates there.

        As many edges as either part has there; and all edges but those that either part has in common with the others.
        `known` has a row for each part. Rates may themselves be lower bounds.
        """
        theirs = self._fast[0, list(others)]
        common = self._fast[0, list(parts)].sum() + 2 * theirs - known.sum(axis=0)
        least = self._fast[0, joined] + theirs - common
        return np.asarray(np.maximum(least, known.max(axis=0)) * (1 - ROUNDING))

    def benefits(self, tree: int, others: Sequence[int], rates: Floats, *, or_higher: bool = False) -> Benefits:
        """The benefit of merging a tree with each of the others, if these are the rates of their unions.

        With `or_higher`, what it is at most if the rates are these or higher.
        """
        together = self.ledger.costs_together(tree, others, rates, or_higher=or_higher)
        apart = self._fast[1, tree] + self._fast[1, list(others)]
        return Benefits(apart - together, float((apart + together).max()) * ROUNDING)

    def exact_benefit(self, one: int, other: int) -> Fraction:
        """The benefit of merging two trees; asked often for the same pair, computed once."""
        known = self._exact.get((one, other))
        if known is None:
            rate = self.meter.rate_together(one, other)
            together = self.costing.final_cost(self._demands_together(one, other), rate)
            known = self.known[one].final + self.known[other].final - together
            if len(self._exact) >= _REMEMBERED:
                self._exact.clear()
            self._exact[one, other] = known
        return known

    def _demands_together(self, one: int, other: int) -> Demands:
        """What two trees are asked together. A pair that is joined has often been weighed just before."""
        if self._last is None or self._last[0] != (one, other):
            self._last = (one, other), merged_demands(self.demands[one], self.demands[other])
        return self._last[1]

    def _take_in(self, tree: int, demands: Demands) -> int:
        rate = self.meter.rate(tree)
        cost = TreeCost(rate, self.costing.final_cost(demands, rate))
        self.known.append(cost)
        self.demands[tree] = demands
        self.ledger.enter(tree, demands)
        if tree >= self._fast.shape[1]:
            self._fast = np.hstack([self._fast, np.zeros_like(self._fast)])
        self._fast[:, tree] = cost.edge_rate, cost.final
        return tree


# -- what many unions cost, at once -----------------------------------------------------------------------------------


class DemandSums:
    """What each tree is asked, by its number, and what it would cost together with others."""

    def __init__(self, costing: Costing) -> None:
        self._costing = costing
        self._lanes: dict[Lane, _LaneTable] = {}

    def enter(self, tree: int, demands: Demands) -> None:
        for lane, asked in demands.items():
            self._lanes.setdefault(lane, _LaneTable()).enter(tree, asked)

    def remove(self, tree: int) -> None:
        for table in self._lanes.values():
            table.remove(tree)

    def costs_together(self, tree: int, others: Sequence[int], rates: Floats, *, or_higher: bool = False) -> Floats:
        """What all lanes of a tree cost together with each of the others, at these edge rates.

        With `or_higher`, what it is at least if the rates are these or higher.
        """
        total = np.zeros(len(others))
        numbers = np.array(others, dtype=np.int64)
        for lane, table in self._lanes.items():
            table.grow(max(tree, *others))
            served = (table.sums[0, numbers] > 0) | (table.sums[0, tree] > 0)
            if served.any():
                total[served] += self._lane_costs(lane, tree, numbers[served], rates[served], or_higher)
        return total

    def _lane_costs(self, lane: Lane, tree: int, others: NDArray[np.int64], rates: Floats, or_higher: bool) -> Floats:
        table = self._lanes[lane]

        def exactly(kernel: str, at: int) -> Fraction:
            # The float of a simple fraction gives that fraction back: octaves begin where they should.
            rate = Fraction(rates[at]).limit_denominator(1 << 40)
            return self._costing.kernel_cost(kernel, lane, table.demand(tree, int(others[at])), rate)

        sums = table.together(tree, others, rates)
        return self._costing.fast_costs(lane, sums, rates, exactly, or_higher=or_higher)


#: A lane that a tree does not have, in the order of the sums of `_LaneTable`.
_NOT_ASKED = np.array([(0.0, 0.0, 0.0, 0.0, 0.0, np.inf, 0.0)]).T


class _LaneTable:
    """One lane of all trees: sums by tree number, and what they are sums of."""

    def __init__(self) -> None:
        self.sums = np.tile(_NOT_ASKED, 16)
        self._asked: dict[int, Demand] = {}
        self._profiles: dict[int, _Profile] = {}
        self._ranges: dict[int, int] = {}
        self._range_numbers: dict[int, int] = {}

    def grow(self, tree: int) -> None:
        """Makes room for a tree with this number."""
        if tree >= self.sums.shape[1]:
            room = max(tree + 1, 2 * self.sums.shape[1])
            self.sums = np.hstack([self.sums, np.tile(_NOT_ASKED, room - self.sums.shape[1])])

    def enter(self, tree: int, asked: Demand) -> None:
        self.grow(tree)
        self._asked[tree] = asked
        self.sums[:, tree] = (
            asked.number_of_queries,
            asked.answers_per_tick,
            asked.windows_per_row,
            asked.overlap,
            asked.longest,
            asked.shortest,
            Fraction(int(asked.answers[-1]), asked.period),
        )

    def remove(self, tree: int) -> None:
        if self._asked.pop(tree, None) is not None:
            self.sums[:, tree : tree + 1] = _NOT_ASKED
            self._ranges.pop(tree, None)
            self._profiles.pop(tree, None)

    def demand(self, tree: int, other: int) -> Demand:
        """What two trees are asked together; at least one of them has this lane."""
        asked = [self._asked[each] for each in (tree, other) if each in self._asked]
        return merged(*asked) if len(asked) == 2 else asked[0]

    def together(self, tree: int, others: NDArray[np.int64], rates: Floats) -> Sums:
        mine, theirs = self.sums[:, tree], self.sums[:, others]
        longest = np.maximum(mine[4], theirs[4])
        queries, answers, windows, overlap = mine[:4, None] + theirs[:4]
        return Sums(
            queries,
            answers,
            windows,
            overlap,
            longest,
            np.minimum(mine[5], theirs[5]),
            mine[6] * (mine[4] == longest) + theirs[6] * (theirs[4] == longest),
            ranges=lambda: self._ranges_together(tree, others.tolist()),
            lookups=lambda: self._lookups_together(tree, others.tolist(), rates),
        )

    def _ranges_together(self, tree: int, others: list[int]) -> Floats:
        for each in (tree, *others):
            if each not in self._ranges and each in self._asked:
                self._ranges[each] = self._range_bits(self._asked[each])
        bits, known = self._ranges.get(tree, 0), self._ranges
        return np.array([(bits | known.get(other, 0)).bit_count() for other in others], dtype=np.float64)

    def _range_bits(self, asked: Demand) -> int:
        """The different ranges as bits, each at its number."""
        numbers = self._range_numbers
        at = [numbers.setdefault(reach, len(numbers)) for reach in asked.ranges.tolist()]
        marks = np.zeros(max(at) + 1, dtype=np.bool_)
        marks[at] = True
        return int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")

    def _lookups_together(self, tree: int, others: list[int], rates: Floats) -> Floats:
        lookups = self._lookups(tree, rates)
        for at, other in enumerate(others):
            lookups[at] += self._lookups(other, rates[at : at + 1])[0]
        return lookups

    def _lookups(self, tree: int, rates: Floats) -> Floats:
        if tree not in self._asked:
            return np.zeros(len(rates))
        if tree not in self._profiles:
            self._profiles[tree] = _Profile(self._asked[tree])
        return self._profiles[tree].lookups(rates)


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
