"""Fixed statistics for a join of three streams: the planner then takes the order that a test wants."""

from __future__ import annotations

from fractions import Fraction

from weft.optimizer.network.sizes import MeasuredSizes, SizeKey, SizeKind

FIRST_TWO, LAST_TWO = "T1.k - T2.k = 0", "T1.p - T2.p = 0"


class FixedStatistics(MeasuredSizes):
    """Statistics by which one of two join keys hardly ever matches, whatever the engine measures."""

    def __init__(self, rare: str) -> None:
        super().__init__()
        self.rare = rare

    def step(self, known: SizeKey) -> Fraction | None:
        if known.kind is SizeKind.SHARE:
            return Fraction(1, 1_000_000) if known.of == self.rare else Fraction(1, 2)
        return Fraction(1_000) if known.kind is SizeKind.ROWS else super().step(known)

    def is_news(self, known: SizeKey, since: int) -> bool:
        """Fixed statistics never change."""
        return False
