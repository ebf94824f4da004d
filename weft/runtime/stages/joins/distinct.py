"""How many different values a column has, about, from numbers that are spread evenly over 64 bits.

Of n such numbers the k-th smallest lies near k/n of the way up. So the least few hundred numbers are all that is kept;
what is above the largest of them is looked at and forgotten. Now and then counting begins anew, so that values which
come no more are not counted for ever; meanwhile the count of before stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

#: So many of the least numbers are kept: the count is off by some six percent.
KEPT = 256
#: Counting begins anew after so many cycles.
_AFRESH = 32

_ALL = float(1 << 64)


@dataclass
class DistinctCount:
    """The values of one column."""

    _least: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _before: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _cycles: int = 0

    def add(self, numbers: NDArray[np.uint64]) -> None:
        """Take in the numbers of a cycle's values."""
        if self._cycles == _AFRESH:
            self._before, self._least, self._cycles = self._least, self._least[:0], 0
        self._cycles += 1
        if len(self._least) == KEPT:
            numbers = numbers[numbers < self._least[-1]]
        if len(numbers):
            self._least = np.unique(np.concatenate([self._least, numbers]))[:KEPT]

    @property
    def count(self) -> float:
        """About how many different values there were."""
        least = np.unique(np.concatenate([self._least, self._before]))[:KEPT]
        return float(len(least)) if len(least) < KEPT else (KEPT - 1) * _ALL / (float(least[-1]) + 1)
