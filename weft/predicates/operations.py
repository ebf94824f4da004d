"""What is done with predicate sets when queries share nodes; and names of inputs that do not depend on a query.

    union           what both sets demand                     the predicates of a join and of its inputs
    difference      what is left of one after the other       the residual above a shared node
    converted       the same over other columns               from a node's inputs to the node itself, and back

**Standard aliases.** An input is called by the name of what it reads, `F.amount`. Inputs that read the same are told
apart by numbers, T1, T2 and so on, and any of them can be T1: k inputs of one table have k! assignments. A query finds
what others compute if it does so under one of them.

To find an equal set there is no need to try them all. Most inputs differ in what is said of them: in their selections,
in their joins, in what is said of the inputs they join. That tells them apart under whatever names, and orders them;
only those that it cannot tell apart are tried in every order (`standard_form`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby, permutations, product
from typing import TypeAlias

from weft.algebra import Column
from weft.predicates.clauses import PredicateSet, predicate_set, set_with
from weft.predicates.domains import contains
from weft.predicates.entailment import entails_disjunction
from weft.predicates.literals import (
    IS_NULL,
    MIRRORED,
    Triple,
    literals_of,
    null_test,
)
from weft.predicates.normal_forms import NEVER, All, Formula, Some, clauses_of
from weft.predicates.polynomials import ZERO
from weft.predicates.terms import columns_of, moved


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
        return All(_presence(literal, meaning)) if is_possible else NEVER
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


#: What each alias of a select is called instead.
Assignment: TypeAlias = Mapping[str, str]


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


def under(assignment: Assignment, predicates: PredicateSet) -> PredicateSet:
    """A predicate set with its inputs called as an assignment has it."""
    columns = columns_of_set(predicates)
    return converted(
        predicates, {each: replace(each, source=assignment.get(each.source, each.source)) for each in columns}
    )


def standard_form(predicates: PredicateSet, tables: Mapping[str, str]) -> tuple[PredicateSet, Assignment]:
    """A predicate set under an assignment that is the same for all ways to name the inputs: a key for equal sets."""
    candidates = ((under(each, predicates), each) for each in assignments(tables, _ranks(predicates, tables)))
    return min(candidates, key=lambda each: (each[0].text, sorted(each[1].items())))


def _ranks(predicates: PredicateSet, tables: Mapping[str, str]) -> Mapping[str, int]:
    """Inputs by what is said of them. The names of the inputs have no part in it."""
    said = _said(predicates, tables)
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


def _said(predicates: PredicateSet, tables: Mapping[str, str]) -> Mapping[str, list[tuple[str, str]]]:
    """For each input the disjunctions about it and at most one other, with the two called the same in all of them."""
    said: dict[str, list[tuple[str, str]]] = {alias: [] for alias in tables}
    for disjunction in predicates.disjunctions:
        sources = disjunction.sources
        if len(sources) > 2:
            continue
        for alias in sources & tables.keys():
            others = sorted(sources - {alias})
            names = {alias: "this", **dict.fromkeys(others, "other")}
            said[alias].append((under(names, set_with((disjunction,))).text, "".join(others)))
    return said
