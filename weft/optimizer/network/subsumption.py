"""What follows from what, for predicate sets of nodes: quickly, and further where it may be of use.

Most of what follows, follows from one condition alone. Where it does not, conditions that compare several inputs are
held against all others together:

    T2.amount > 0  and  T1.amount < 5*T2.amount     imply     T1.amount < 10*T2.amount

For single inputs, inference has found already what follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.predicates import Disjunction, PredicateSet, entails_disjunction
from weft.predicates.clauses import disjunction_with, set_with
from weft.predicates.implication import follows_from_one
from weft.predicates.intervals import ValueSet, intersection
from weft.predicates.literals import requirements
from weft.predicates.subjects import Subject

#: Two sets are looked at as a whole only if no more than so many conditions of one do not follow from single ones.
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
