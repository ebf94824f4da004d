"""Disjunctions in the one way to write them: no literal implies another, and what touches is joined.

a < 5 OR a = 5           →   a <= 5
a < 5 OR a > 5           →   a != 5
a < 5 OR a > 3           →   a IS NOT NULL
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.predicates.clauses import Disjunction, disjunction_with, values_by_subject
from weft.predicates.implication import literal_implies
from weft.predicates.literals import IS_NOT_NULL, Triple, alternatives


def disjunction_of(literals: Iterable[Triple]) -> Disjunction | None:
    """Some literals as a disjunction; None if that is always TRUE."""
    grouped = values_by_subject(literals)
    if any(values == subject.domain.everything for subject, values in grouped.items()):
        return None
    kept = [literal for subject, values in grouped.items() for literal in alternatives(subject, values)]
    return disjunction_with(_without_absorbed(kept))


def _without_absorbed(literals: list[Triple]) -> list[Triple]:
    """Without the literals of one subject that imply that another one has a value, if that is enough."""
    kept = literals
    for presence in sorted((each for each in literals if each.operator == IS_NOT_NULL), key=lambda each: each.text):
        if presence in kept:
            kept = [each for each in kept if each == presence or not literal_implies(each, presence)]
    return kept
