"""Cost Lookup: the benefit of every pair of trees, kept while it holds, and for each tree the best partner.

The benefits of all pairs are computed once; after a merge only those of the new tree are. Even of those most need not
be known: a bound on the edges that two trees have together is a bound on the benefit, and a pair whose bound is too low
to be the best is left alone. Finding the best pair looks at one number for each tree.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Slots: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

# So many pairs of equal benefit, to eleven digits, are compared exactly. Of more, the first is as good as any.
_MANY_TIES = 256

# So many bounds are replaced by the truth at a time.
_AT_ONCE = 8


class CostLookup:
    """Benefits by slots: slot numbers stay, trees come and go."""

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
        """Empties a slot."""
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

        If very many may (there are Ω that are the same for all plans), the first of them stands for all.
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
