"""Standard aliases: names for the inputs of a select that do not depend on what a user called them.

An input is called by the name of what it reads, `F.amount`. Inputs that read the same are told apart by numbers, T1, T2
and so on, and any of them can be T1: k inputs of one table have k! assignments. A query finds what others compute if it
does so under one of them (`assignments`).

To find an equal set there is no need to try them all. Most inputs differ in what is said of them: in their selections,
in their joins, in what is said of the inputs they join. That tells them apart under whatever names, and orders them;
only those that it cannot tell apart are tried in every order (`standard_form`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby, permutations, product
from typing import TypeAlias

from weft.predicates.clauses import PredicateSet, set_with
from weft.predicates.sets import columns_of_set, converted

#: What each alias of a select is called instead.
Assignment: TypeAlias = Mapping[str, str]


def assignments(tables: Mapping[str, str]) -> Iterator[Assignment]:
    """All ways to give standard aliases to inputs, by alias the table that it reads.

    >>> list(assignments({"x": "F", "y": "G"}))
    [{'x': 'F', 'y': 'G'}]
    >>> list(assignments({"r1": "F", "r2": "F"}))
    [{'r1': 'T1', 'r2': 'T2'}, {'r2': 'T1', 'r1': 'T2'}]
    """
    return _assignments(tables, dict.fromkeys(tables, 0))


def _assignments(tables: Mapping[str, str], ranks: Mapping[str, int]) -> Iterator[Assignment]:
    """The assignments that number the inputs of a table by rank, in every order where ranks are equal."""
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
    candidates = ((under(each, predicates), each) for each in _assignments(tables, _ranks(predicates, tables)))
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
