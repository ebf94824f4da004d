"""How often progressions of edges meet within a stretch of time: by arithmetic, without looking at the stretch.

The edges of a single window are one or two progressions with the same step. A million pairs of windows are compared
before anything is merged, and each pair is a matter of Chinese remainders: t ≡ a (mod m) and t ≡ b (mod n) meet iff
gcd(m, n) divides b − a, then every lcm(m, n) ticks, from a first time on that a modular inverse gives.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.windows.slicing import EdgeSet

Integers: TypeAlias = NDArray[np.int64]

# The lcm of two steps, and the products on the way to it, fit a machine word.
_LONGEST_STEP = 1 << 31


class Progressions:
    """Trees of at most two progressions with the same step, by number, in a stretch of so many ticks."""

    def __init__(self, ticks: int) -> None:
        self._ticks = ticks
        # Step, first and second residue; a step of 0 is a tree of another kind, a residue of −1 is none.
        self._table = np.zeros((3, 64), dtype=np.int64)

    def enter(self, tree: int, residues: list[int], step: int) -> None:
        """Writes down a tree with edges at these places of each step."""
        while tree >= self._table.shape[1]:
            self._table = np.hstack([self._table, np.zeros_like(self._table)])
        first, second = (*residues, -1)[:2]
        self._table[:, tree] = step, first, second

    def forget(self, tree: int) -> None:
        if tree < self._table.shape[1]:
            self._table[:, tree] = 0

    def knows(self, trees: Integers) -> NDArray[np.bool_]:
        """Which of these trees are here."""
        here = np.zeros(len(trees), dtype=np.bool_)
        inside = trees < self._table.shape[1]
        here[inside] = self._table[0, trees[inside]] > 0
        return here

    def common(self, tree: int, others: Integers) -> Integers:
        """How many edges a tree has in common with each of the others."""
        step, *residues = self._table[:, tree].tolist()
        steps = self._table[0, others]
        divisors = np.gcd(step, steps)
        inverses = _inverses(step // divisors, steps // divisors)
        meets = np.zeros(len(others), dtype=np.int64)
        for residue in residues:
            for theirs in self._table[1:, others]:
                if residue >= 0:
                    meets += self._meets(step, residue, steps, theirs, divisors, inverses)
        return meets

    def _meets(
        self, step: int, residue: int, steps: Integers, theirs: Integers, divisors: Integers, inverses: Integers
    ) -> Integers:
        apart, rest = np.divmod(theirs - residue, divisors)
        turns = apart * inverses % (steps // divisors)
        first = residue + turns * step
        times = (self._ticks - 1 - first) // (step // divisors * steps) + 1
        return np.where((theirs >= 0) & (rest == 0) & (first < self._ticks), times, 0)


def simple_step(edges: EdgeSet) -> int | None:
    """The step of edges that are one or two progressions with the same step; None if they are not."""
    steps = {modulus for modulus, _ in edges}
    return steps.pop() if len(steps) == 1 and len(edges) <= 2 and max(steps) < _LONGEST_STEP else None


def _inverses(numbers: Integers, moduli: Integers) -> Integers:
    """The inverse of each number modulo its modulus, to which it is coprime, by Euclid's algorithm on all at once."""
    old, new = moduli.copy(), numbers % moduli
    old_factor, factor = np.zeros_like(moduli), np.ones_like(moduli)
    while (going := new > 0).any():
        quotient = old // np.where(going, new, 1)
        old, new = np.where(going, new, old), np.where(going, old - quotient * new, 0)
        old_factor, factor = (
            np.where(going, factor, old_factor),
            np.where(going, old_factor - quotient * factor, factor),
        )
    return np.asarray(old_factor % moduli)
