"""What is done with predicate sets when queries share nodes.

union           what both sets demand                     the predicates of a join and of its inputs
difference      what is left of one after the other       the residual above a shared node
converted       the same over other columns               from a node's inputs to the node itself, and back
explicated      with all that follows from it, of another set
in_common       what both sets demand, each in its own words: the node that both could share
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.algebra import Column
from weft.predicates.clauses import Disjunction, PredicateSet
from weft.predicates.conjunctions import predicate_set
from weft.predicates.containment import entails, entails_disjunction
from weft.predicates.formulas import FALSE, All, Formula, Some
from weft.predicates.intervals import contains
from weft.predicates.literals import (
    IS_NULL,
    MIRRORED,
    Triple,
    literals_of,
    null_test,
)
from weft.predicates.normal_forms import clauses_of
from weft.predicates.polynomials import ZERO
from weft.predicates.subjects import moved
from weft.predicates.terms import columns_of


def union(*sets: PredicateSet) -> PredicateSet:
    """All that the sets demand, without what the others demand already.

    >>> union().text
    'TRUE'
    """
    return predicate_set(each for predicates in sets for each in predicates.disjunctions)


def difference(whole: PredicateSet, done: PredicateSet) -> PredicateSet:
    """What of the first set does not follow from the second.

    If the first implies the second, then the second and the difference together are the first: the difference is the
    residual that a query still needs above a node that it shares.
    """
    left = [each for each in whole.disjunctions if not entails_disjunction(done, each)]
    return predicate_set(left)


def explicated(predicates: PredicateSet, other: PredicateSet) -> frozenset[Disjunction]:
    """The disjunctions of a set, and those of another that follow from it: the same demand, said more fully."""
    implied = (each for each in other.disjunctions if entails_disjunction(predicates, each))
    return frozenset(predicates.disjunctions).union(implied)


def in_common(left: PredicateSet, right: PredicateSet) -> PredicateSet:
    """The semantic intersection: what both sets demand, as the disjunctions of one or the other.

    Every row that one of the two sets lets through, this one lets through.
    """
    return predicate_set(explicated(left, right) & explicated(right, left))


def are_equivalent(left: PredicateSet, right: PredicateSet) -> bool:
    """Whether two sets are found to be TRUE for the same rows. Mostly their texts say so already."""
    return left == right or (entails(left, right) and entails(right, left))


def converted(predicates: PredicateSet, meaning: Mapping[Column, Column]) -> PredicateSet:
    """A predicate set over other columns: those of a node instead of those of its inputs, or the other way round.

    Columns that are not named stay what they are. Several columns may become one.
    """
    parts = tuple(
        Some(tuple(_converted(literal, meaning) for literal in each.literals)) for each in predicates.disjunctions
    )
    return predicate_set(clauses_of(All(parts)))


def _converted(literal: Triple, meaning: Mapping[Column, Column]) -> Formula:
    subject, factor = moved(literal.subject, meaning)
    if subject is None:
        # The columns have cancelled each other out: what is left of the subject is 0 wherever it has a value.
        is_possible = literal.operator != IS_NULL and contains(literal.values, ZERO)
        return All(_presence(literal, meaning)) if is_possible else FALSE
    if literal.bound is None:
        return null_test(subject, literal.operator == IS_NULL)
    bound = literal.bound / factor if isinstance(literal.bound, type(ZERO)) else literal.bound
    return All(literals_of(subject, literal.operator if factor > 0 else MIRRORED[literal.operator], bound))


def _presence(literal: Triple, meaning: Mapping[Column, Column]) -> tuple[Triple, ...]:
    parts = (moved(part, meaning)[0] for part in literal.subject.parts)
    return tuple(dict.fromkeys(null_test(part, is_null=False) for part in parts if part is not None))


def columns_of_set(predicates: PredicateSet) -> frozenset[Column]:
    """The columns that a predicate set reads."""
    return frozenset(
        column
        for each in predicates.disjunctions
        for literal in each.literals
        for term in literal.subject.terms
        for column in columns_of(term)
    )
