"""Elementary intervals: what a subject's literals can tell apart, and no more.

All constants that a subject is compared with cut its values into pieces. Within a piece every literal is TRUE or not
TRUE throughout, so the piece says all that there is to know: one look-up answers a thousand comparisons.

    a < 4, a >= 2, a = 7      …[2…[4…[7](7…        five pieces; in the second, `a < 4` and `a >= 2` hold
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from weft.predicates.intervals import Place, Span, below, elementary
from weft.predicates.literals import Triple
from weft.predicates.subjects import Subject


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a subject's domain in ascending order, and where among them each literal is TRUE.

    `runs` has for each literal the runs of pieces in which it is TRUE, as (first, last + 1): one or two for a
    comparison, whatever the number of pieces. `null` has the numbers of the literals that are TRUE for NULL.
    """

    subject: Subject
    spans: tuple[Span, ...]
    runs: tuple[tuple[tuple[int, int], ...], ...]
    null: frozenset[int]

    def position(self, place: Place) -> int:
        """The number of the piece that a value lies in."""
        return bisect_right(self.spans, below(place), key=lambda span: span[0]) - 1

    def holding(self, place: Place | None) -> frozenset[int]:
        """The numbers of the literals that are TRUE for a value; None is NULL."""
        if place is None:
            return self.null
        at = self.position(place)
        return frozenset(n for n, runs in enumerate(self.runs) if any(first <= at < end for first, end in runs))


def pieces_of(subject: Subject, literals: Sequence[Triple]) -> Pieces:
    """The elementary intervals of a subject for some literals about it."""
    sets = [literal.values for literal in literals]
    spans = elementary((cut for values in sets for span in values.spans for cut in span), subject.domain.whole)
    starts = [low for low, _ in spans]
    runs = tuple(
        tuple((bisect_left(starts, low), bisect_left(starts, high)) for low, high in values.spans) for values in sets
    )
    return Pieces(subject, spans, runs, frozenset(number for number, values in enumerate(sets) if values.null))
