"""Conditions as conjunctions of disjunctions, and as disjunctions of boxes.

A condition becomes a **formula** without NOT first. SQL's logic has three values, but a WHERE asks one question: is it
TRUE? NOT is pushed down to the comparisons, which is exact: `NOT a < b` is `a >= b`, NULL where that is NULL, and De
Morgan's laws hold for three values as for two. Without NOT, a condition is the set of rows for which it is TRUE, and
two-valued logic is right again.

Distributing OR over AND can grow without bound, so there is a size guard: a part that would need more than a number of
literals stays one literal that is not taken apart. It still means what it meant; it just matches nothing but itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

from weft.algebra import Call, Expression, Literal
from weft.algebra.types import BOOLEAN
from weft.predicates.clauses import Disjunction, PredicateSet, disjunction_of, largest, predicate_set
from weft.predicates.comparisons import comparison
from weft.predicates.domains import Facts, ValueSet, intersection, is_subset
from weft.predicates.literal_expressions import conjunction, disjunction, expression_of
from weft.predicates.literals import NEGATED, Triple, literals_of, null_test
from weft.predicates.terms import Subject, subject_of, term_of


@dataclass(frozen=True, slots=True)
class All:
    """TRUE where all parts are."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """TRUE where some part is. `whole` is the same as one literal that is not taken apart."""

    parts: tuple[Formula, ...]
    whole: Triple | None = None


Formula: TypeAlias = Triple | All | Some

ALWAYS = All(())
NEVER = Some(())


def formula_of(condition: Expression, facts: Facts, is_wanted: bool = True) -> Formula:
    """Where a condition is TRUE; with `is_wanted` False, where it is FALSE."""
    if isinstance(condition, Literal):
        return ALWAYS if condition.value is is_wanted else NEVER
    if isinstance(condition, Call):
        if condition.op == "not":
            return formula_of(condition.args[0], facts, not is_wanted)
        if condition.op in ("and", "or"):
            parts = tuple(formula_of(arg, facts, is_wanted) for arg in condition.args)
            return All(parts) if (condition.op == "and") == is_wanted else Some(parts, whole(condition, is_wanted))
        rule = _comparison if condition.op in NEGATED else _RULES.get(condition.op)
        if rule is not None:
            return rule(condition, facts, is_wanted)
    return whole(condition, is_wanted)


def whole(condition: Expression, is_wanted: bool) -> Triple:
    """A condition as one literal that is not taken apart."""
    (literal,) = literals_of(term_of(condition), "=", Fraction(is_wanted))
    return literal


def _comparison(call: Call, facts: Facts, is_wanted: bool) -> Formula:
    left, right = call.args
    if call.op in ("=", "!=") and left.type == BOOLEAN:
        for truth, other in ((left, right), (right, left)):
            if isinstance(truth, Literal) and truth.value is not None:
                return formula_of(other, facts, is_wanted == (bool(truth.value) == (call.op == "=")))
    return _compared_values(call.op if is_wanted else NEGATED[call.op], left, right, facts)


def _compared_values(operator: str, left: Expression, right: Expression, facts: Facts) -> Formula:
    found = comparison(operator, left, right, facts)
    return NEVER if found is None else All(found)


def _in(call: Call, facts: Facts, is_wanted: bool) -> Formula:
    value, *options = call.args
    parts = tuple(_compared_values("=" if is_wanted else "!=", value, option, facts) for option in options)
    return Some(parts, whole(call, is_wanted)) if is_wanted else All(parts)


def _is_null(call: Call, facts: Facts, is_wanted: bool) -> Formula:
    value = call.args[0]
    if isinstance(value, Literal):
        return ALWAYS if (value.value is None) == is_wanted else NEVER
    subject = subject_of(value, facts)
    if subject.domain.nullable:
        return null_test(subject, is_null=is_wanted)
    return NEVER if is_wanted else ALWAYS


def _same(call: Call, facts: Facts, is_wanted: bool) -> Formula:
    """`a <=> b`: both are equal, or both are NULL. It is never NULL itself."""
    left, right = call.args
    for truth, other in ((left, right), (right, left)):
        if is_wanted and isinstance(truth, Literal) and isinstance(truth.value, bool):
            return formula_of(other, facts, truth.value)
    tests = [Call("is_null", (side,), BOOLEAN) for side in call.args]
    nulls, values = ([_is_null(each, facts, is_null) for each in tests] for is_null in (True, False))
    entire = whole(call, is_wanted)
    if is_wanted:
        return Some((_compared_values("=", left, right, facts), All(tuple(nulls))), entire)
    differ = _compared_values("!=", left, right, facts)
    return All((Some((differ, *nulls), entire), Some((differ, *values), entire)))


_RULES = {"in": _in, "is_null": _is_null, "<=>": _same}


#: The most literals that a part of a condition becomes, unless it is a longer list.
MOST_LITERALS = 400
#: The most boxes that a predicate set becomes.
MOST_BOXES = 1_000

_NO_FACTS: Facts = MappingProxyType({})

#: A conjunction: the values that each subject may have. Subjects that are not named may have any.
Box: TypeAlias = Mapping[Subject, ValueSet]


def conjunctive_form(
    condition: Expression | None, facts: Facts = _NO_FACTS, most_literals: int = MOST_LITERALS
) -> PredicateSet:
    """A condition as the predicate set that is TRUE for the same rows; None, no condition, is TRUE."""
    if condition is None:
        return predicate_set(())
    return predicate_set(clauses_of(formula_of(condition, facts), most_literals))


def clauses_of(formula: Formula, most: int = MOST_LITERALS) -> set[Disjunction]:
    """The disjunctions that must all hold for a formula to hold."""
    if isinstance(formula, Triple):
        single = disjunction_of((formula,))
        return set() if single is None else {single}
    if isinstance(formula, All):
        return set().union(*(clauses_of(part, most) for part in formula.parts))
    return _distributed(formula, most)


def _distributed(formula: Some, most: int) -> set[Disjunction]:
    """The clauses of an OR: every choice of one clause from each part."""
    parts = [clauses_of(each, most) for each in formula.parts]
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
            break
        combined = (disjunction_of((*a.literals, *b.literals)) for a in chosen for b in part)
        chosen = _without_longer({each for each in combined if each is not None})
        if sum(len(each.literals) for each in chosen) > limit:
            break
    else:
        return chosen
    assert formula.whole is not None, "what is made here, and not read from a condition, is small"
    return clauses_of(formula.whole, most)


def _without_longer(clauses: set[Disjunction]) -> set[Disjunction]:
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
    parts: dict[frozenset[str], list[Disjunction]] = {}
    for each in predicates.disjunctions:
        parts.setdefault(each.sources, []).append(each)
    ordered = sorted(parts, key=lambda sources: (len(sources), sorted(sources)))
    return {sources: predicate_set(parts[sources]) for sources in ordered}


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
