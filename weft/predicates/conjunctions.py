"""Predicate sets in the one way to write them.

The disjunctions that speak of one subject are one set of values, which has one way to be written (`requirements`). The
others are held against these sets: literals that they rule out are struck, and a disjunction goes when one of its
literals always holds. Those that differ in one subject alone, and leave it no value, are what they have in common. What
is left with one subject becomes part of its set, and so on until nothing changes. The order of the steps does not
matter, so queries that are written differently meet in the same text more often:

    (a < 4 OR b > 5) AND a > 10   →   a > 10 AND b > 5
    (a < 4 OR b > 5) AND (a > 7 OR b > 5)   →   b > 5
    a >= 5 AND a <= 5             →   a = 5
    a > 5 AND a < 3               →   FALSE
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.predicates.clauses import FALSE, FALSE_SET, Disjunction, PredicateSet, disjunction_with, set_with
from weft.predicates.disjunctions import disjunction_of
from weft.predicates.implication import disjunction_implies
from weft.predicates.intervals import ONLY_NULL, ValueSet, are_disjoint, intersection, is_subset
from weft.predicates.literals import Triple, null_test, requirements
from weft.predicates.subjects import Subject


def predicate_set(disjunctions: Iterable[Disjunction]) -> PredicateSet:
    """The predicate set of some disjunctions."""
    known: dict[Subject, ValueSet] = {}
    mixed: set[Disjunction] = set()
    pending = set(disjunctions)
    given = {each.literals[0].subject: each for each in pending if len(each.literals) == 1}
    while pending:
        if FALSE in pending:
            return FALSE_SET
        mixed |= _taken_in(pending, known)
        _without_impossible_nulls(known)
        if any(values.is_empty for values in known.values()):
            return FALSE_SET
        reduced = {each: _reduced(each, known) for each in mixed}
        pending = {each for old, each in reduced.items() if each is not None and each != old}
        mixed = {each for old, each in reduced.items() if each == old}
        if not pending:
            pending = _resolved(mixed)
            mixed = {each for each in mixed if not any(disjunction_implies(other, each) for other in pending)}
    return set_with([*_unmixed(known, given), *_not_implied(mixed)])


def _taken_in(disjunctions: Iterable[Disjunction], known: dict[Subject, ValueSet]) -> set[Disjunction]:
    """Adds what speaks of one subject to the sets; gives back the rest."""
    rest: set[Disjunction] = set()
    for each in disjunctions:
        grouped = each.by_subject
        if len(grouped) > 1:
            rest.add(each)
            continue
        for subject, values in grouped.items():
            known[subject] = intersection(known.get(subject, subject.domain.everything), values)
    return rest


def _without_impossible_nulls(known: dict[Subject, ValueSet]) -> None:
    """What takes part in a comparison that must be TRUE is not NULL."""
    present = _present(known)
    for subject, values in known.items():
        if values.null and present.issuperset(subject.parts):
            known[subject] = ValueSet(values.spans)


def _present(known: Mapping[Subject, ValueSet]) -> set[Subject]:
    return {part for subject, values in known.items() if not values.null for part in subject.parts}


def _reduced(disjunction: Disjunction, known: Mapping[Subject, ValueSet]) -> Disjunction | None:
    """A disjunction without the literals that cannot hold; None if it always holds."""
    present = _present(known)
    kept: list[Triple] = []
    for literal in disjunction.literals:
        possible = _possible(literal.subject, known, present)
        if is_subset(possible, literal.values):
            return None
        if not are_disjoint(possible, literal.values):
            kept.append(literal)
    return disjunction_of(kept) if len(kept) < len(disjunction.literals) else disjunction


def _possible(subject: Subject, known: Mapping[Subject, ValueSet], present: set[Subject]) -> ValueSet:
    """The values that are left to a subject: none but NULL if one of its parts is NULL, not NULL if none of them is."""
    values, parts = known.get(subject) or subject.domain.everything, subject.parts
    if any(part in known and not known[part].spans for part in parts):
        return intersection(values, ONLY_NULL)
    return ValueSet(values.spans) if values.null and present.issuperset(parts) else values


def _resolved(mixed: Iterable[Disjunction]) -> set[Disjunction]:
    """What disjunctions have in common that differ in one subject and, all together, leave it no value."""
    alike: dict[tuple[frozenset[Triple], Subject], ValueSet] = {}
    for each in mixed:
        for subject, values in each.by_subject.items():
            rest = frozenset(literal for literal in each.literals if literal.subject != subject)
            alike[rest, subject] = intersection(alike.get((rest, subject), values), values)
    return {disjunction_with(rest) for (rest, _), values in alike.items() if values.is_empty}


def _unmixed(known: Mapping[Subject, ValueSet], given: Mapping[Subject, Disjunction]) -> list[Disjunction]:
    """The sets of single subjects as disjunctions. That something is not NULL is said of its parts, and not in vain.

    What a literal that was given says already need not be written again: there is one way to write it.
    """
    telling = {subject: values for subject, values in known.items() if values != subject.domain.everything}
    bare = [subject for subject, values in telling.items() if values == subject.domain.whole]
    others = {subject: values for subject, values in telling.items() if subject not in bare}
    missing = {part for subject in bare for part in subject.parts if part.domain.nullable} - _present(others)
    result = [disjunction_with((null_test(part, is_null=False),)) for part in missing]
    for subject, values in others.items():
        same = given.get(subject)
        if same is not None and same.literals[0].values == values:
            result.append(same)
        else:
            result += [disjunction_with(each) for each in requirements(subject, values)]
    return result


def _not_implied(mixed: Iterable[Disjunction]) -> list[Disjunction]:
    ordered = sorted(mixed, key=lambda each: (len(each.literals), each.text))
    kept: list[Disjunction] = []
    for each in ordered:
        if not any(disjunction_implies(other, each) for other in kept):
            kept = [other for other in kept if not disjunction_implies(each, other)]
            kept.append(each)
    return kept
