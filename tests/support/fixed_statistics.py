"""Fixed statistics for a join of three streams: the planner then takes the order that a test wants."""

from __future__ import annotations

from fractions import Fraction

from weft.optimizer.network import MeasuredSizes, SizeKey

FIRST_TWO, LAST_TWO = "T1.k - T2.k = 0", "T1.p - T2.p = 0"


class FixedStatistics(MeasuredSizes):
    """Statistics by which one of two join keys hardly ever matches, whatever the engine measures."""

    def __init__(self, rare: str) -> None:
        super().__init__()
        self.rare = rare

    def rows(self, log: str) -> int | None:
        return 1_000

    def kept(self, logs: tuple[str, ...], condition: str) -> Fraction | None:
        return Fraction(1, 1_000_000) if condition == self.rare else Fraction(1, 2)

    def is_news(self, known: SizeKey, since: int) -> bool:
        """Fixed statistics never change."""
        return False
