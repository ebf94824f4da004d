"""Disjunctions of literals, and the sets of disjunctions that a WHERE is: frozen values with texts as keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from weft.predicates.intervals import ValueSet, union
from weft.predicates.literals import Triple
from weft.predicates.subjects import Subject


@dataclass(frozen=True)
class Disjunction:
    """TRUE where some literal is. The literals are in the order of their texts; without any it is FALSE."""

    text: str
    literals: tuple[Triple, ...] = field(compare=False, repr=False)

    @cached_property
    def by_subject(self) -> Mapping[Subject, ValueSet]:
        """For each subject the values for which one of its literals is TRUE."""
        return values_by_subject(self.literals)

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
    def by_first_subject(self) -> Mapping[Subject, tuple[Disjunction, ...]]:
        """The disjunctions by the subject of their first literal."""
        listed: dict[Subject, list[Disjunction]] = {}
        for each in self.disjunctions:
            for literal in each.literals[:1]:
                listed.setdefault(literal.subject, []).append(each)
        return {subject: tuple(found) for subject, found in listed.items()}


def values_by_subject(literals: Iterable[Triple]) -> Mapping[Subject, ValueSet]:
    """For each subject the values for which one of its literals is TRUE."""
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
