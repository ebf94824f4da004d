"""The trees that a weaving is about: what each costs, and what merging two of them would change."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.optimizer.acq import Demands, merged_demands
from weft.optimizer.edge_meter import Meter
from weft.optimizer.fast_cost import ROUNDING, Ledger
from weft.optimizer.plan_cost import Costing, TreeCost
from weft.windows.slicing import EdgeSet

Floats: TypeAlias = NDArray[np.float64]

# So many exact benefits are remembered; more would only be of trees long gone.
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
        self.ledger = Ledger(costing)
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
        """Takes in a tree."""
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
        """Forgets a tree."""
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
