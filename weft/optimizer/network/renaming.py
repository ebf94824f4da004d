"""Conditions under other names of their inputs, quickly.

Different inputs get different names, so a condition stays what it is and keeps its shape: one disjunction of as many
literals. All that can change is the order of the names, and with it the orientation of a sum or of a comparison. What a
subject becomes is looked up; there are few subjects, however many constants they are compared with. What conditions
became is kept for as many of them as were last asked for: queries that are alike ask for the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from weft.optimizer.network.wanted import leg_name, legs_read
from weft.predicates import Disjunction, PredicateSet, Triple
from weft.predicates.clauses import disjunction_with, set_with
from weft.predicates.literals import IS_NULL, MIRRORED, bound_text, literals_of, null_test
from weft.predicates.subjects import Order, Subject, moved
from weft.predicates.terms import columns_of

_MOST_KEPT = 20_000

#: The log, the old and the new name of each input that a condition reads. Logs say which types columns have.
Names: TypeAlias = tuple[tuple[str, str, str], ...]


class Renaming:
    """Renames conditions, and remembers what subjects became."""

    def __init__(self) -> None:
        self._subjects: dict[tuple[Subject, Names], tuple[Subject, Fraction]] = {}
        self._conditions = lru_cache(maxsize=_MOST_KEPT)(self._condition)

    def forget(self) -> None:
        """Forgets all, since a log may come again with other columns."""
        self._subjects.clear()
        self._conditions.cache_clear()

    def renamed(self, condition: Disjunction, names: Names) -> Disjunction:
        """A condition with its inputs called by other names, each by its own."""
        if all(old == new for _, old, new in names):
            return condition
        return self._conditions(condition, names)

    def by_place(self, condition: Disjunction, logs: Sequence[str], legs: Sequence[int]) -> Disjunction:
        """A condition whose legs, of these logs, are called by their places among those given: what shares of rows and
        of combinations are known by."""
        names = sorted((logs[leg], leg_name(leg), leg_name(place)) for place, leg in enumerate(legs))
        return self.renamed(condition, tuple(names))

    def _condition(self, condition: Disjunction, names: Names) -> Disjunction:
        return disjunction_with(self._literal(each, names) for each in condition.literals)

    def _literal(self, literal: Triple, names: Names) -> Triple:
        subject, factor = self._subject(literal.subject, names)
        if literal.bound is None:
            return null_test(subject, literal.operator == IS_NULL)
        if factor == 1 and not isinstance(subject, Order):
            text = f"{subject.text} {literal.operator} {bound_text(subject, literal.bound)}"
            return Triple(text, subject, literal.operator, literal.bound)
        bound = literal.bound / factor if isinstance(literal.bound, Fraction) else literal.bound
        operator = literal.operator if factor > 0 else MIRRORED[literal.operator]
        (result,) = literals_of(subject, operator, bound)
        return result

    def _subject(self, subject: Subject, names: Names) -> tuple[Subject, Fraction]:
        key = subject, names
        if key not in self._subjects:
            new: Mapping[str, str] = {old: new for _, old, new in names}
            columns = {column for term in subject.terms for column in columns_of(term)}
            result, factor = moved(subject, {each: replace(each, source=new[each.source]) for each in columns})
            assert result is not None, "different inputs have different names, so nothing cancels out"
            self._subjects[key] = result, factor
        return self._subjects[key]


def with_legs_moved(renaming: Renaming, predicates: PredicateSet, logs: Sequence[str], by: int) -> PredicateSet:
    """A predicate set of a join's right parent as the join has it, `by` legs further on, or the other way round.

    `logs` are those of the right parent.
    """
    first = max(0, -by)
    return set_with(
        renaming.renamed(
            each,
            tuple((logs[leg - first], leg_name(leg), leg_name(leg + by)) for leg in legs_read(each)),
        )
        for each in predicates.disjunctions
    )
