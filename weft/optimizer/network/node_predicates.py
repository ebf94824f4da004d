"""Predicate sets of nodes: under other names of their inputs, and what of them follows from what.

Renaming gives different inputs different names, so a condition keeps its shape: one disjunction of as many literals.
All that can change is the order of the names, and with it the orientation of a sum or of a comparison. What a subject
becomes is looked up; there are few subjects, however many constants they are compared with.

Most of what follows, follows from one condition alone. Where it does not, conditions that compare several inputs are
held against all others together:

    T2.amount > 0  and  T1.amount < 5*T2.amount     imply     T1.amount < 10*T2.amount

For single inputs, inference has found already what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from weft.optimizer.network.wanted import leg_name, legs_read
from weft.predicates.clauses import Disjunction, PredicateSet, disjunction_with, follows_from_one, set_with
from weft.predicates.domains import ValueSet, intersection
from weft.predicates.entailment import entails_disjunction
from weft.predicates.literals import IS_NULL, MIRRORED, Triple, bound_text, literals_of, null_test, requirements
from weft.predicates.terms import Order, Subject, columns_of, moved

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


#: Two sets are compared as a whole only if at most this many conditions of one do not follow from single ones.
MOST_OPEN = 2


def residual(predicates: PredicateSet, done: PredicateSet) -> PredicateSet:
    """What of a predicate set does not follow from single conditions of another."""
    return set_with(_open(predicates, done))


def both(first: PredicateSet, second: PredicateSet) -> PredicateSet:
    """All that two sets demand, without what follows from single conditions of the other."""
    left = _open(first, second)
    return set_with([*left, *_open(second, set_with(left))])


def subsumes(weaker: PredicateSet, predicates: PredicateSet) -> bool:
    """Whether a set is found to be TRUE wherever another one is, from which it does not differ much."""
    open_ = _open(weaker, predicates)
    is_possible = len(open_) <= MOST_OPEN and all(map(_compares, open_))
    return is_possible and all(entails_disjunction(predicates, each) for each in open_)


def in_common(first: PredicateSet, second: PredicateSet) -> PredicateSet:
    """What two sets have in common: of each, what the other implies, and the least ranges that cover both's.

    x = 1            and    5 <= x < 7       →    1 <= x < 7
    """
    implied = [*_implied(first, second), *_implied(second, first)]
    covering = set_with(_covering(first, second))
    return both(set_with(implied), covering)


def _covering(first: PredicateSet, second: PredicateSet) -> Iterator[Disjunction]:
    """For what both sets bound, the least range that has the values of both."""
    left, right = _bounded(first), _bounded(second)
    for subject in left.keys() & right.keys():
        spans = left[subject].spans + right[subject].spans
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        domain = subject.domain
        for end in ((low, domain.last), (domain.first, high)):
            if end != (domain.first, domain.last):
                yield from map(disjunction_with, requirements(subject, ValueSet((end,))))


def _bounded(predicates: PredicateSet) -> dict[Subject, ValueSet]:
    """The values that single subjects may have, where they may not be NULL."""
    found: dict[Subject, ValueSet] = {}
    for each in predicates.disjunctions:
        values = each.by_subject
        if len(values) == 1:
            ((subject, possible),) = values.items()
            found[subject] = intersection(found.get(subject, possible), possible)
    return {subject: possible for subject, possible in found.items() if possible.spans and not possible.null}


def _implied(predicates: PredicateSet, by: PredicateSet) -> list[Disjunction]:
    open_ = _open(predicates, by)
    return [
        each
        for each in predicates.disjunctions
        if each not in open_ or (_compares(each) and entails_disjunction(by, each))
    ]


def _open(predicates: PredicateSet, done: PredicateSet) -> list[Disjunction]:
    return [each for each in predicates.disjunctions if not follows_from_one(each, done)]


def _compares(disjunction: Disjunction) -> bool:
    """Whether a condition is about several inputs."""
    return len(disjunction.sources) > 1
