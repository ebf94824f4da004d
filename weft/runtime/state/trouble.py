"""What is wrong with a query that is in error, when it is tried again, and what its sink has not taken yet.

What it missed is kept for it up to the setting `error_retention`. All of this is part of the commit.

    waiting/<query number>/<cycle>.arrow    answers that the sink of a query did not take, by cycle
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

#: Seconds until a query is tried again after its first failure; they double from try to try.
FIRST_PAUSE = 10.0
LONGEST_PAUSE = 600.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a query is in error, since when (in seconds since 1970), and when it is tried again."""

    sentence: str
    since: float
    tries: int
    next_try: float

    @staticmethod
    def begin(sentence: str) -> Trouble:
        """A query fails for the first time."""
        now = time.time()
        return Trouble(sentence, now, 1, now + FIRST_PAUSE)

    def again(self, sentence: str) -> Trouble:
        """The query has been tried again and has failed again."""
        tries = self.tries + 1
        # The exponent is bounded: a float has no room for 2 to the power of a thousand tries.
        pause = min(FIRST_PAUSE * 2.0 ** min(tries - 1, 30), LONGEST_PAUSE)
        return Trouble(sentence, self.since, tries, time.time() + pause)

    @property
    def is_due(self) -> bool:
        return time.time() >= self.next_try


@dataclass(frozen=True, slots=True)
class Lost:
    """Cycles of which a query lacks rows or answers, because more had to be kept for it than `error_retention`."""

    first: int
    last: int


def lost_with(lost: Lost | None, cycle: int) -> Lost:
    return Lost(cycle, cycle) if lost is None else Lost(min(lost.first, cycle), max(lost.last, cycle))


@dataclass(frozen=True, slots=True)
class KeptAnswers:
    """The answers of one cycle in a file of so many bytes."""

    cycle: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the sink of a query has not taken: the answers of some cycles, oldest first.

    `trouble` is None once the sink takes answers again; the record stays as long as cycles are `lost`.
    """

    number: int
    trouble: Trouble | None
    answers: tuple[KeptAnswers, ...] = ()
    lost: Lost | None = None

    def path(self, cycle: int) -> str:
        return f"waiting/{self.number}/{cycle:012d}.arrow"

    @property
    def paths(self) -> set[str]:
        return {self.path(each.cycle) for each in self.answers}

    def without_oldest(self) -> Waiting:
        """The record when the oldest answers are dropped."""
        return replace(self, answers=self.answers[1:], lost=lost_with(self.lost, self.answers[0].cycle))
