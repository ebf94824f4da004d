"""Conditions as conjunctions of disjunctions, and as disjunctions of boxes.

SQL's logic has three values, but a WHERE asks one question: is it TRUE? NOT is pushed down to the comparisons, which is
exact: `NOT a < b` is `a >= b`, NULL where that is NULL, and De Morgan's laws hold for three values as for two. Without
NOT, a condition is the set of rows for which it is TRUE, and two-valued logic is right again.

Distributing OR over AND can grow without bound, so there is a size guard: a part that would need more than a number of
literals stays one literal that is not taken apart. It still means what it meant; it just matches nothing but itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

from weft.algebra import Call, Expression, Literal
from weft.algebra.types import BOOLEAN
from weft.predicates.clauses import FALSE, Disjunction, PredicateSet, disjunction_of, largest, predicate_set
from weft.predicates.comparisons import comparison
from weft.predicates.domains import Facts, ValueSet, intersection, is_subset
from weft.predicates.literals import NEGATED, Triple, conjunction, disjunction, expression_of, literals_of, null_test
from weft.predicates.subjects import Subject
from weft.predicates.terms import term_of

#: The most literals that a part of a condition becomes, unless it is a longer list.
MOST_LITERALS = 400
#: The most boxes that a predicate set becomes.
MOST_BOXES = 1_000

_NO_FACTS: Facts = MappingProxyType({})

#: Disjunctions that must all hold.
_Clauses: TypeAlias = set[Disjunction]

#: A conjunction: the values that each subject may have. Subjects that are not named may have any.
Box: TypeAlias = Mapping[Subject, ValueSet]


def conjunctive_form(
    condition: Expression | None, facts: Facts = _NO_FACTS, most_literals: int = MOST_LITERALS
) -> PredicateSet:
    """A condition as the predicate set that is TRUE for the same rows; None, no condition, is TRUE."""
    return predicate_set(() if condition is None else _clauses(condition, facts, True, most_literals))


def _clauses(condition: Expression, facts: Facts, is_wanted: bool, most: int) -> _Clauses:
    """Where a condition is TRUE; with `is_wanted` False, where it is FALSE."""
    if isinstance(condition, Literal):
        return set() if condition.value is is_wanted else {FALSE}
    if isinstance(condition, Call):
        if condition.op == "not":
            return _clauses(condition.args[0], facts, not is_wanted, most)
        if condition.op in ("and", "or"):
            parts = [_clauses(arg, facts, is_wanted, most) for arg in condition.args]
            return _all(parts) if (condition.op == "and") == is_wanted else _some(parts, condition, is_wanted, most)
        rule = _comparison if condition.op in NEGATED else _RULES.get(condition.op)
        if rule is not None:
            return rule(condition, facts, is_wanted, most)
    return _whole(condition, is_wanted)


def _single(literal: Triple) -> _Clauses:
    found = disjunction_of((literal,))
    return set() if found is None else {found}


def _whole(condition: Expression, is_wanted: bool) -> _Clauses:
    """A condition as one literal that is not taken apart."""
    (literal,) = literals_of(term_of(condition), "=", Fraction(is_wanted))
    return _single(literal)


def _comparison(call: Call, facts: Facts, is_wanted: bool, most: int) -> _Clauses:
    left, right = call.args
    if call.op in ("=", "!=") and left.type == BOOLEAN:
        for truth, other in ((left, right), (right, left)):
            if isinstance(truth, Literal) and truth.value is not None:
                return _clauses(other, facts, is_wanted == (bool(truth.value) == (call.op == "=")), most)
    return _compared(call.op if is_wanted else NEGATED[call.op], left, right, facts)


def _compared(operator: str, left: Expression, right: Expression, facts: Facts) -> _Clauses:
    found = comparison(operator, left, right, facts)
    return {FALSE} if found is None else _all([_single(each) for each in found])


def _in(call: Call, facts: Facts, is_wanted: bool, most: int) -> _Clauses:
    value, *options = call.args
    parts = [_compared("=" if is_wanted else "!=", value, option, facts) for option in options]
    return _some(parts, call, is_wanted, most) if is_wanted else _all(parts)


def _is_null(call: Call, facts: Facts, is_wanted: bool, _most: int) -> _Clauses:
    value = call.args[0]
    if isinstance(value, Literal):
        return set() if (value.value is None) == is_wanted else {FALSE}
    term = term_of(value, facts)
    if term.domain.nullable:
        return _single(null_test(term, is_null=is_wanted))
    return {FALSE} if is_wanted else set()


def _same(call: Call, facts: Facts, is_wanted: bool, most: int) -> _Clauses:
    """`a <=> b`: both are equal, or both are NULL. It is never NULL itself."""
    left, right = call.args
    for truth, other in ((left, right), (right, left)):
        if is_wanted and isinstance(truth, Literal) and isinstance(truth.value, bool):
            return _clauses(other, facts, truth.value, most)
    tests = [Call("is_null", (side,), BOOLEAN) for side in call.args]
    nulls, values = ([_is_null(each, facts, is_null, most) for each in tests] for is_null in (True, False))
    if is_wanted:
        return _some([_compared("=", left, right, facts), _all(nulls)], call, True, most)
    differ = _compared("!=", left, right, facts)
    return _all([_some([differ, *each], call, False, most) for each in (nulls, values)])


_RULES = {"in": _in, "is_null": _is_null, "<=>": _same}


def _all(parts: Sequence[_Clauses]) -> _Clauses:
    return set().union(*parts)


def _some(parts: Sequence[_Clauses], condition: Expression, is_wanted: bool, most: int) -> _Clauses:
    """The clauses of an OR: every choice of one clause from each part; the condition as it is, if they are too many."""
    if set() in parts:
        return set()
    # What has no choice goes first and at once: a list of a thousand values is one long disjunction.
    alone = disjunction_of(literal for part in parts if len(part) == 1 for each in part for literal in each.literals)
    if alone is None:
        return set()
    chosen, limit = {alone}, max(most, 2 * len(alone.literals))
    # The others by length, whatever their order in the text: the guard must not depend on it.
    several = (part for part in parts if len(part) > 1)
    for part in sorted(several, key=lambda clauses: (len(clauses), sorted(each.text for each in clauses))):
        if len(chosen) * len(part) > limit:
            return _whole(condition, is_wanted)
        combined = (disjunction_of((*a.literals, *b.literals)) for a in chosen for b in part)
        chosen = _without_longer({each for each in combined if each is not None})
        if sum(len(each.literals) for each in chosen) > limit:
            return _whole(condition, is_wanted)
    return chosen


def _without_longer(clauses: _Clauses) -> _Clauses:
    """Without the clauses that hold whenever a shorter one of them does."""
    kept: dict[frozenset[Triple], Disjunction] = {}
    for each in sorted(clauses, key=lambda each: len(each.literals)):
        literals = frozenset(each.literals)
        if not any(other <= literals for other in kept):
            kept[literals] = each
    return set(kept.values())


def condition_of(predicates: PredicateSet) -> Expression | None:
    """A predicate set as an expression that is TRUE for the same rows; None if it always is."""
    return conjunction([condition_of_disjunction(each) for each in predicates.disjunctions])


def condition_of_disjunction(clause: Disjunction) -> Expression:
    """A disjunction as an expression that is TRUE for the same rows."""
    return disjunction([expression_of(literal) for literal in clause.literals])


def by_sources(predicates: PredicateSet) -> Mapping[frozenset[str], PredicateSet]:
    """A predicate set in parts, by the inputs they read: selections by one alias, joins by two or more."""
    read = {each.sources for each in predicates.disjunctions}
    return {
        sources: predicate_set(each for each in predicates.disjunctions if each.sources == sources)
        for sources in sorted(read, key=lambda sources: (len(sources), sorted(sources)))
    }


def disjunctive_form(predicates: PredicateSet, most_boxes: int = MOST_BOXES) -> tuple[Box, ...] | None:
    """A predicate set as boxes of which one must hold; None if they would be too many.

    Boxes do not contain one another, but may overlap.
    """
    boxes: list[Box] = [{}]
    for clause in sorted(predicates.disjunctions, key=lambda each: len(each.by_subject)):
        narrowed = (
            {**box, subject: left}
            for box in boxes
            for subject, values in clause.by_subject.items()
            if not (left := intersection(box.get(subject, subject.domain.everything), values)).is_empty
        )
        boxes = largest(narrowed, box_contained)
        if len(boxes) > most_boxes:
            return None
    return tuple(boxes)


def box_contained(inner: Box, outer: Box) -> bool:
    """Whether every row in the inner box is in the outer one, subject by subject."""
    return all(is_subset(inner.get(subject, subject.domain.everything), values) for subject, values in outer.items())
