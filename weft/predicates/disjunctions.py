"""Disjunctions in the one way to write them: no literal implies another, and what touches is joined.

a < 5 OR a = 5           →   a <= 5
a < 5 OR a > 5           →   a != 5
a < 5 OR a > 3           →   a IS NOT NULL
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.predicates.clauses import Disjunction, disjunction_with
from weft.predicates.implication import literal_implies
from weft.predicates.intervals import ValueSet, union
from weft.predicates.literals import IS_NOT_NULL, Triple, alternatives, everything
from weft.predicates.subjects import Subject


def disjunction_of(literals: Iterable[Triple]) -> Disjunction | None:
    """Some literals as a disjunction; None if that is always TRUE."""
    grouped = by_subject(literals)
    if any(values == everything(subject) for subject, values in grouped.items()):
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


def by_subject(literals: Iterable[Triple]) -> Mapping[Subject, ValueSet]:
    """For each subject the values for which one of its literals is TRUE."""
    listed: dict[Subject, list[ValueSet]] = {}
    for literal in literals:
        listed.setdefault(literal.subject, []).append(literal.values)
    return {subject: sets[0] if len(sets) == 1 else union(sets) for subject, sets in listed.items()}
