"""Disjunctions of literals and predicate sets: their canonical forms, and which of them implies which.

**Implication** compares pairs. If p implies q, then q **subsumes** p: a query whose predicate set implies that of a
node can share it.

    literals        one subject, and the values of p are among those of q
    disjunctions    every literal of p implies some literal of q
    sets            every disjunction of Q is implied by some disjunction of P

All three are sound. The last looks at two disjunctions at a time; what it misses, `inference` finds.

**A canonical disjunction** has no literal that implies another, and what touches is joined:

    a < 5 OR a = 5           →   a <= 5
    a < 5 OR a > 3           →   a IS NOT NULL

**A canonical predicate set.** The disjunctions that speak of one subject are one set of values, which is written in one
way (`requirements`). The others are held against these sets: literals that they rule out are struck, and a disjunction
goes when one of its literals always holds. Those that differ in one subject alone, and leave it no value, are what they
have in common. What is left with one subject becomes part of its set, and so on until nothing changes:

    (a < 4 OR b > 5) AND a > 10   →   a > 10 AND b > 5
    (a < 4 OR b > 5) AND (a > 7 OR b > 5)   →   b > 5
    a > 5 AND a < 3               →   FALSE
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from weft.predicates.domains import ONLY_NULL, ValueSet, intersection, is_subset, union
from weft.predicates.literals import IS_NOT_NULL, IS_NULL, Triple, alternatives, null_test, requirements
from weft.predicates.subjects import Subject

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Disjunction:
    """TRUE where some literal is. The literals are in the order of their texts; without any it is FALSE."""

    text: str
    literals: tuple[Triple, ...] = field(compare=False, repr=False)

    @cached_property
    def by_subject(self) -> Mapping[Subject, ValueSet]:
        """For each subject the values for which one of its literals is TRUE."""
        return _by_subject(self.literals)

    @cached_property
    def sources(self) -> frozenset[str]:
        """The aliases of the inputs that it reads."""
        return frozenset().union(*(each.subject.sources for each in self.literals))


@dataclass(frozen=True)
class PredicateSet:
    """TRUE where all disjunctions are. They are in the order of their texts; without any it is TRUE."""

    text: str
    disjunctions: tuple[Disjunction, ...] = field(compare=False, repr=False)

    @cached_property
    def is_false(self) -> bool:
        return any(not each.literals for each in self.disjunctions)

    @cached_property
    def values_by_subject(self) -> Mapping[Subject, ValueSet]:
        """The values that disjunctions of one subject leave it."""
        found: dict[Subject, ValueSet] = {}
        for each in self.disjunctions:
            if len(each.by_subject) == 1:
                ((subject, values),) = each.by_subject.items()
                found[subject] = intersection(found.get(subject, values), values)
        return found

    @cached_property
    def by_first_subject(self) -> Mapping[Subject, tuple[Disjunction, ...]]:
        """The disjunctions by the subject of their first literal."""
        found: dict[Subject, tuple[Disjunction, ...]] = {}
        for each in self.disjunctions:
            for literal in each.literals[:1]:
                found[literal.subject] = (*found.get(literal.subject, ()), each)
        return found


def _by_subject(literals: Iterable[Triple]) -> Mapping[Subject, ValueSet]:
    listed: dict[Subject, list[ValueSet]] = {}
    for literal in literals:
        listed.setdefault(literal.subject, []).append(literal.values)
    return {subject: sets[0] if len(sets) == 1 else union(sets) for subject, sets in listed.items()}


def disjunction_with(literals: Iterable[Triple]) -> Disjunction:
    """Some literals as they are, without repetition."""
    ordered = tuple(sorted(set(literals), key=lambda each: each.text))
    return Disjunction(" OR ".join(each.text for each in ordered) or "FALSE", ordered)


def set_with(disjunctions: Iterable[Disjunction]) -> PredicateSet:
    """Some disjunctions as they are, without repetition."""
    ordered = tuple(sorted(set(disjunctions), key=lambda each: each.text))
    texts = [f"({each.text})" if len(each.literals) > 1 else each.text for each in ordered]
    return PredicateSet(" AND ".join(texts) or "TRUE", ordered)


FALSE = disjunction_with(())
TRUE_SET = set_with(())
FALSE_SET = set_with((FALSE,))


def literal_implies(left: Triple, right: Triple) -> bool:
    """Whether the right literal is TRUE wherever the left one is."""
    if left == right:
        return True
    if right.operator == IS_NOT_NULL and left.operator != IS_NULL:
        # A value of the one subject needs values of all its parts.
        return set(right.subject.terms) <= set(left.subject.terms)
    return left.subject == right.subject and is_subset(left.values, right.values)


def disjunction_implies(left: Disjunction, right: Disjunction) -> bool:
    """Whether every literal on the left implies some literal on the right."""
    if len(left.literals) == len(right.literals) == 1:
        return literal_implies(left.literals[0], right.literals[0])
    same = set(right.literals)
    # An equation and IS NULL follow from themselves alone, so that long lists need not be compared with each other.
    weaker = [each for each in right.literals if each.operator not in ("=", IS_NULL)]
    return all(each in same or any(literal_implies(each, other) for other in weaker) for each in left.literals)


def follows_from_one(disjunction: Disjunction, predicates: PredicateSet) -> bool:
    """Whether a disjunction is implied by some disjunction of a set.

    A literal implies others of its own subject, and that something has a value. So where no literal says the latter,
    only disjunctions that begin with one of its subjects need to be looked at.
    """
    if predicates.is_false:
        return True
    if any(each.operator == IS_NOT_NULL for each in disjunction.literals):
        return any(disjunction_implies(each, disjunction) for each in predicates.disjunctions)
    begun = predicates.by_first_subject
    return any(
        disjunction_implies(each, disjunction) for subject in disjunction.by_subject for each in begun.get(subject, ())
    )


def set_implies(left: PredicateSet, right: PredicateSet) -> bool:
    """Whether every disjunction on the right is implied by some disjunction on the left."""
    return all(follows_from_one(other, left) for other in right.disjunctions)


def disjunction_of(literals: Iterable[Triple]) -> Disjunction | None:
    """Some literals as a disjunction; None if that is always TRUE."""
    grouped = _by_subject(literals)
    if any(values == subject.domain.everything for subject, values in grouped.items()):
        return None
    kept = [literal for subject, values in grouped.items() for literal in alternatives(subject, values)]
    for presence in sorted((each for each in kept if each.operator == IS_NOT_NULL), key=lambda each: each.text):
        if presence in kept:
            # That a subject has a value follows from literals of others that it is part of.
            kept = [each for each in kept if each == presence or not literal_implies(each, presence)]
    return disjunction_with(kept)


def predicate_set(disjunctions: Iterable[Disjunction]) -> PredicateSet:
    known: dict[Subject, ValueSet] = {}
    mixed: set[Disjunction] = set()
    pending = set(disjunctions)
    given = {each.literals[0].subject: each for each in pending if len(each.literals) == 1}
    while pending:
        if FALSE in pending:
            return FALSE_SET
        for each in pending:
            if len(each.by_subject) > 1:
                mixed.add(each)
            else:
                ((subject, values),) = each.by_subject.items()
                known[subject] = intersection(known.get(subject, subject.domain.everything), values)
        present = _present(known)
        for subject, values in known.items():
            # What takes part in a comparison that must be TRUE is not NULL.
            if values.null and present.issuperset(subject.terms):
                known[subject] = ValueSet(values.spans)
        if any(values.is_empty for values in known.values()):
            return FALSE_SET
        reduced = {each: _reduced(each, known) for each in mixed}
        mixed = {each for old, each in reduced.items() if each == old}
        pending = {each for each in reduced.values() if each is not None} - mixed
        if not pending:
            pending = _resolved(mixed)
            mixed = {each for each in mixed if not any(disjunction_implies(other, each) for other in pending)}
    ordered = sorted(mixed, key=lambda each: (len(each.literals), each.text))
    strongest = largest(ordered, lambda each, other: disjunction_implies(other, each))
    return set_with([*_unmixed(known, given), *strongest])


def _present(known: Mapping[Subject, ValueSet]) -> set[Subject]:
    return {term for subject, values in known.items() if not values.null for term in subject.terms}


def _reduced(disjunction: Disjunction, known: Mapping[Subject, ValueSet]) -> Disjunction | None:
    """A disjunction without the literals that cannot hold; None if it always holds."""
    present = _present(known)
    kept: list[Triple] = []
    for literal in disjunction.literals:
        possible = _possible(literal.subject, known, present)
        if is_subset(possible, literal.values):
            return None
        if not intersection(possible, literal.values).is_empty:
            kept.append(literal)
    return disjunction_of(kept) if len(kept) < len(disjunction.literals) else disjunction


def _possible(subject: Subject, known: Mapping[Subject, ValueSet], present: set[Subject]) -> ValueSet:
    """The values that are left to a subject: none but NULL if one of its parts is NULL, not NULL if none of them is."""
    values, terms = known.get(subject) or subject.domain.everything, subject.terms
    if any(term in known and not known[term].spans for term in terms):
        return intersection(values, ONLY_NULL)
    return ValueSet(values.spans) if values.null and present.issuperset(terms) else values


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
    bare = {subject for subject, values in telling.items() if values == subject.domain.whole}
    others = {subject: values for subject, values in telling.items() if subject not in bare}
    missing = {term for subject in bare for term in subject.terms if term.domain.nullable} - _present(others)
    result = [disjunction_with((null_test(term, is_null=False),)) for term in missing]
    for subject, values in others.items():
        if subject in given and given[subject].literals[0].values == values:
            result.append(given[subject])
        else:
            result += map(disjunction_with, requirements(subject, values))
    return result


def largest(items: Iterable[_Item], is_within: Callable[[_Item, _Item], bool]) -> list[_Item]:
    """The items that are within no other."""
    kept: list[_Item] = []
    for each in items:
        if not any(is_within(each, other) for other in kept):
            kept = [other for other in kept if not is_within(other, each)]
            kept.append(each)
    return kept
