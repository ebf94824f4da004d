"""What is done with predicate sets when queries share nodes; and names of inputs that do not depend on a query.

Most of what follows, follows from one condition alone. Where it does not, conditions that compare several inputs are
held against all others together; for single inputs, inference has found already what follows:

    T2.amount > 0  and  T1.amount < 5*T2.amount     imply     T1.amount < 10*T2.amount

**Standard aliases.** An input is called by the name of what it reads, `F.amount`. Inputs that read the same are told
apart by numbers, T1, T2 and so on, in any of k! assignments. What is said of the inputs tells most of them apart under
whatever names, and orders them; only those that it cannot tell apart are tried in every order (`standard_form`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, permutations, product
from typing import TypeAlias

from weft.algebra import Column
from weft.predicates.clauses import (
    Disjunction,
    PredicateSet,
    disjunction_with,
    follows_from_one,
    predicate_set,
    set_with,
)
from weft.predicates.domains import ValueSet
from weft.predicates.inference import entails_disjunction
from weft.predicates.literals import requirements, restated
from weft.predicates.subjects import Subject, renamed_subject

_MOST_KEPT = 20_000

#: Two sets are compared as a whole only if at most this many conditions of one do not follow from single ones.
_MOST_OPEN = 2


def residual(predicates: PredicateSet, done: PredicateSet) -> PredicateSet:
    """What of a predicate set does not follow from single conditions of another."""
    return set_with(each for each in predicates.disjunctions if not follows_from_one(each, done))


def both(first: PredicateSet, second: PredicateSet) -> PredicateSet:
    """All that two sets demand, without what follows from single conditions of the other."""
    left = residual(first, second)
    return set_with([*left.disjunctions, *residual(second, left).disjunctions])


def subsumes(weaker: PredicateSet, predicates: PredicateSet) -> bool:
    """Whether a set is found to be TRUE wherever another one is, from which it does not differ much."""
    open_ = residual(weaker, predicates).disjunctions
    is_possible = len(open_) <= _MOST_OPEN and all(len(each.sources) > 1 for each in open_)
    return is_possible and all(entails_disjunction(predicates, each) for each in open_)


def in_common(first: PredicateSet, second: PredicateSet) -> PredicateSet:
    """What two sets have in common: of each, what the other implies, and the least ranges that cover both's.

    x = 1            and    5 <= x < 7       →    1 <= x < 7
    """
    implied = [
        each
        for one, other in ((first, second), (second, first))
        for each in one.disjunctions
        if follows_from_one(each, other) or (len(each.sources) > 1 and entails_disjunction(other, each))
    ]
    covering: list[Disjunction] = []
    for subject in first.values_by_subject.keys() & second.values_by_subject.keys():
        values, domain = [each.values_by_subject[subject] for each in (first, second)], subject.domain
        if all(each.spans and not each.null for each in values):
            low, high = min(each.spans[0][0] for each in values), max(each.spans[-1][1] for each in values)
            for end in ((low, domain.last), (domain.first, high)):
                if end != (domain.first, domain.last):
                    covering += map(disjunction_with, requirements(subject, ValueSet((end,))))
    return both(set_with(implied), set_with(covering))


def columns_of_set(predicates: PredicateSet) -> frozenset[Column]:
    literals = (literal for each in predicates.disjunctions for literal in each.literals)
    return frozenset().union(*(literal.subject.columns for literal in literals))


#: What each alias of a select is called instead.
Assignment: TypeAlias = Mapping[str, str]


def under(assignment: Assignment, predicates: PredicateSet) -> PredicateSet:
    """A predicate set with its inputs called by other names, each by its own."""
    return predicate_set(
        disjunction_with(restated(literal, *renamed_subject(literal.subject, assignment)) for literal in each.literals)
        for each in predicates.disjunctions
    )


#: The log, the old and the new name of each input that a condition reads. Logs say which types columns have.
Names: TypeAlias = tuple[tuple[str, str, str], ...]


class Renaming:
    """Renames conditions, and remembers what subjects became: they are few, however many constants they meet."""

    def __init__(self) -> None:
        self._subject = lru_cache(maxsize=_MOST_KEPT)(_renamed_subject)
        self._condition = lru_cache(maxsize=_MOST_KEPT)(self._renamed)

    def forget(self) -> None:
        """Forgets all, since a log may come again with other columns."""
        self._subject.cache_clear()
        self._condition.cache_clear()

    def renamed(self, condition: Disjunction, names: Names) -> Disjunction:
        """A condition with its inputs called by other names, each by its own."""
        return condition if all(old == new for _, old, new in names) else self._condition(condition, names)

    def _renamed(self, condition: Disjunction, names: Names) -> Disjunction:
        return disjunction_with(restated(each, *self._subject(each.subject, names)) for each in condition.literals)


def _renamed_subject(subject: Subject, names: Names) -> tuple[Subject, Fraction]:
    return renamed_subject(subject, {old: new for _, old, new in names})


def assignments(tables: Mapping[str, str], ranks: Mapping[str, int]) -> Iterator[Assignment]:
    """All ways to give standard aliases to inputs, by alias the table that it reads: by rank, in every order of equals.

    >>> list(assignments({"x": "F", "y": "G"}, {"x": 0, "y": 0}))
    [{'x': 'F', 'y': 'G'}]
    >>> list(assignments({"r1": "F", "r2": "F"}, {"r1": 0, "r2": 0}))
    [{'r1': 'T1', 'r2': 'T2'}, {'r2': 'T1', 'r1': 'T2'}]
    """
    ordered = sorted(tables, key=lambda alias: (tables[alias], ranks[alias], alias))
    by_table = {table: list(aliases) for table, aliases in groupby(ordered, key=lambda alias: tables[alias])}
    alone = {aliases[0]: table for table, aliases in by_table.items() if len(aliases) == 1}
    repeated = [alias for aliases in by_table.values() if len(aliases) > 1 for alias in aliases]
    ties = [list(tied) for _, tied in groupby(repeated, key=lambda alias: (tables[alias], ranks[alias]))]
    for orders in product(*(permutations(tied) for tied in ties)):
        numbered = (alias for order in orders for alias in order)
        yield alone | {alias: f"T{number}" for number, alias in enumerate(numbered, start=1)}


def standard_form(predicates: PredicateSet, tables: Mapping[str, str]) -> tuple[PredicateSet, Assignment]:
    """A predicate set under an assignment that is the same for all ways to name the inputs: a key for equal sets."""
    candidates = ((under(each, predicates), each) for each in assignments(tables, _ranks(predicates, tables)))
    return min(candidates, key=lambda each: (each[0].text, sorted(each[1].items())))


def _ranks(predicates: PredicateSet, tables: Mapping[str, str]) -> Mapping[str, int]:
    """Inputs by what is said of them. The names of the inputs have no part in it."""
    #: For each input the disjunctions about it and at most one other, with the two called the same in all of them.
    said: dict[str, list[tuple[str, str]]] = {alias: [] for alias in tables}
    for disjunction in predicates.disjunctions:
        sources = disjunction.sources
        for alias in sources & tables.keys() if len(sources) <= 2 else ():
            other = "".join(sources - {alias})
            said[alias].append((under({other: "other", alias: "this"}, set_with((disjunction,))).text, other))
    marks = {alias: repr((tables[alias], sorted(text for text, _ in said[alias]))) for alias in tables}
    for _ in tables:
        # What is said of the neighbours tells more inputs apart with every round.
        marks = {
            alias: repr((marks[alias], sorted((text, marks.get(other, "")) for text, other in said[alias])))
            for alias in tables
        }
        order = {mark: rank for rank, mark in enumerate(sorted(set(marks.values())))}
        marks = {alias: f"{order[mark]:06}" for alias, mark in marks.items()}
    return {alias: int(mark) for alias, mark in marks.items()}
