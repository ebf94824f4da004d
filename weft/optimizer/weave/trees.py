"""The trees of a weaving: the cost of each, the benefits of merging pairs of them, and the best pair."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.optimizer.weave.acq import Demands, merged_demands
from weft.optimizer.weave.costing import Costing, TreeCost
from weft.optimizer.weave.edge_meter import Meter
from weft.optimizer.weave.fast_cost import ROUNDING, DemandSums
from weft.windows.slicing import EdgeSet

Floats: TypeAlias = NDArray[np.float64]
Slots: TypeAlias = NDArray[np.int64]

# The most pairs of equal benefit, to eleven digits, that are compared exactly. Of more, the first is as good as any.
_MANY_TIES = 256

# How many bounds are replaced by exact benefits at a time.
_AT_ONCE = 8

# The most exact benefits that are remembered; more would be of trees that are merged already.
_REMEMBERED = 1 << 16


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

    def drop(self, tree: int) -> None:
        self.meter.drop(tree)
        self.ledger.remove(tree)
        del self.demands[tree]

    def rate(self, tree: int) -> float:
        return float(self._fast[0, tree])

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


class CostLookup:
    """The benefits of all pairs of trees, by slots: slot numbers stay, trees come and go.

    They are computed once; after a merge only those of the new tree are. Even of those most need not be known: a bound
    on the edges that two trees have together is a bound on the benefit, and a pair whose bound is too low to be the
    best is left alone. Each slot has its highest benefit beside: finding the best pair looks at one number for each.
    """

    def __init__(self, size: int) -> None:
        self._benefits = np.full((size, size), -np.inf)
        self._highest = np.full(size, -np.inf)
        self._alive = np.ones(size, dtype=np.bool_)
        self._margin = 0.0
        self.rates = np.zeros((size, size))
        """The edge rate of each pair; where the benefit is not known, what it is at least."""
        self.known = np.zeros((size, size), dtype=np.bool_)
        """Whether a benefit is known, or only bounded."""

    def fill(self, slot: int, others: Slots, benefits: Floats, margin: float, rates: Floats, *, known: bool) -> None:
        """The benefits of a slot with others, or bounds on them, each at most `margin` off."""
        before = self._benefits[slot, others].copy()
        self._margin = max(self._margin, margin)
        for matrix, values in ((self._benefits, benefits), (self.rates, rates), (self.known, known)):
            matrix[slot, others] = matrix[others, slot] = values
        self._highest[slot] = self._benefits[slot].max()
        risen = benefits >= self._highest[others]
        self._highest[others[risen]] = benefits[risen]
        # A slot whose best partner was this one, and is no longer as good, must look again.
        self._look_again(others[~risen & (before == self._highest[others])])

    def drop(self, slot: int) -> None:
        self._alive[slot] = False
        before = self._benefits[slot].copy()
        self._benefits[slot] = self._benefits[:, slot] = -np.inf
        self._highest[slot] = -np.inf
        self._look_again(np.flatnonzero(self._alive & (before == self._highest)))

    def others(self, *slots: int) -> Slots:
        """All slots with trees in them, but these."""
        alive = self._alive.copy()
        alive[list(slots)] = False
        return np.flatnonzero(alive)

    def highest(self) -> list[tuple[int, int]]:
        """The pairs that may have the highest benefit, as far as rounding can tell; the lower slot comes first.

        If very many may (there are Ω that are the same for all plans), the first of them is given for all.
        """
        floor = self._highest.max() - 2 * self._margin
        pairs: list[tuple[int, int]] = []
        for one in np.flatnonzero(self._highest >= floor).tolist():
            others = np.flatnonzero(self._benefits[one] >= floor)
            pairs += [(one, other) for other in others.tolist() if one < other]
            if len(pairs) > _MANY_TIES:
                return pairs[:1]
        return pairs

    def most_promising(self, slot: int) -> Slots:
        """The partners of a slot with the highest bounds, of those whose benefit is not known."""
        unknown = np.flatnonzero(~self.known[slot] & (self._benefits[slot] > -np.inf))
        if len(unknown) <= _AT_ONCE:
            return unknown
        return unknown[np.argpartition(-self._benefits[slot, unknown], _AT_ONCE)[:_AT_ONCE]]

    def _look_again(self, slots: Slots) -> None:
        if len(slots):
            self._highest[slots] = self._benefits[slots].max(axis=1)
