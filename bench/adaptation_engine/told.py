"""Statistics that are told what to say: the order of a join of three streams is then whatever they have it be."""

from __future__ import annotations

from fractions import Fraction

from weft.optimizer.network import Known, Observed

FIRST_TWO, LAST_TWO = "T1.k - T2.k = 0", "T1.p - T2.p = 0"


class Told(Observed):
    """Statistics that say which of two keys hardly any rows have in common, whatever is seen."""

    def __init__(self, rare: str) -> None:
        super().__init__()
        self.rare = rare

    def rows(self, log: str) -> int | None:
        return 1_000

    def kept(self, logs: tuple[str, ...], condition: str) -> Fraction | None:
        return Fraction(1, 1_000_000) if condition == self.rare else Fraction(1, 2)

    def is_news(self, known: Known, since: int) -> bool:
        """What it says it has always said."""
        return False
