"""Disjunctions of literals, and the sets of disjunctions that a WHERE is: frozen values with texts as keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.predicates.literals import Triple
from weft.predicates.subjects import sources_of_subject


@dataclass(frozen=True)
class Disjunction:
    """TRUE where some literal is. The literals are in the order of their texts; without any it is FALSE."""

    text: str
    literals: tuple[Triple, ...] = field(compare=False, repr=False)


@dataclass(frozen=True)
class PredicateSet:
    """TRUE where all disjunctions are. They are in the order of their texts; without any it is TRUE."""

    text: str
    disjunctions: tuple[Disjunction, ...] = field(compare=False, repr=False)

    @property
    def is_false(self) -> bool:
        return any(not each.literals for each in self.disjunctions)


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


def sources_of_disjunction(disjunction: Disjunction) -> frozenset[str]:
    """The aliases of the inputs that a disjunction reads."""
    return frozenset().union(*(sources_of_subject(each.subject) for each in disjunction.literals))
