"""The plan that runs: an immutable, numbered set of streams and queries; and parts of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from weft.algebra import Answers, Query, Stream, Table
from weft.algebra.properties import leaves
from weft.plan.canonical import normalised, plainly_named


@dataclass(frozen=True, slots=True)
class QueryList:
    """Version `number` of what runs. Queries come after the queries whose answers they read.

    `query_numbers`, `stream_numbers` and `table_numbers` have a number for each: one that is dropped and created again
    is another one, whatever its name. Tables are those that some query reads.
    """

    number: int
    streams: tuple[Stream, ...]
    stream_numbers: tuple[int, ...]
    queries: tuple[Query, ...]
    query_numbers: tuple[int, ...]
    tables: tuple[Table, ...] = ()
    table_numbers: tuple[int, ...] = ()

    @property
    def number_of(self) -> dict[str, int]:
        return {each.name: number for each, number in zip(self.queries, self.query_numbers, strict=True)}

    def stream(self, name: str) -> Stream:
        return next(each for each in self.streams if each.name == name)


def build(
    number: int,
    streams: Mapping[int, Stream],
    queries: tuple[Query, ...],
    number_of: Mapping[str, int],
    table_number_of: Mapping[str, int],
    before: QueryList | None = None,
) -> QueryList:
    """The list of some queries, each in normal form; those of the list before it have it already.

    Streams come by number; `number_of` and `table_number_of` have the numbers of queries and tables by name.
    """
    known = {} if before is None else dict(zip(before.query_numbers, before.queries, strict=True))
    shaped = tuple(known.get(number_of[each.name]) or _in_normal_form(each) for each in queries)
    query_numbers = tuple(number_of[each.name] for each in queries)
    read = {leaf.name: leaf for each in queries for leaf in leaves(each.relation) if isinstance(leaf, Table)}
    table_numbers = tuple(table_number_of[name] for name in read)
    return QueryList(
        number, tuple(streams.values()), tuple(streams), shaped, query_numbers, tuple(read.values()), table_numbers
    )


def _in_normal_form(query: Query) -> Query:
    return replace(query, relation=plainly_named(normalised(query.relation)), text="")


# -- parts ------------------------------------------------------------------------------------------------------------


def read_directly(query: Query) -> Iterator[str]:
    return (leaf.query for leaf in leaves(query.relation) if isinstance(leaf, Answers))


def tables_of(query: Query) -> set[str]:
    return {leaf.name for leaf in leaves(query.relation) if isinstance(leaf, Table)}


def with_readers(plan: QueryList, names: Collection[str]) -> frozenset[str]:
    """Some queries of a plan, and all that read their answers, directly or through others."""
    found = {each.name for each in plan.queries if each.name in names}
    for each in plan.queries:
        # A query comes after those that it reads.
        if not found.isdisjoint(read_directly(each)):
            found.add(each.name)
    return frozenset(found)


def with_read(plan: QueryList, names: Collection[str]) -> frozenset[str]:
    """Some queries of a plan, and all whose answers they read, directly or through others."""
    found = {each.name for each in plan.queries if each.name in names}
    for each in reversed(plan.queries):
        if each.name in found:
            found.update(read_directly(each))
    return frozenset(found)


def restricted(plan: QueryList, names: Collection[str]) -> QueryList:
    """A plan with some of its queries only, all of its streams, and the tables that these queries read."""
    queries = [
        (each, number) for each, number in zip(plan.queries, plan.query_numbers, strict=True) if each.name in names
    ]
    if len(queries) == len(plan.queries):
        return plan
    read = {name for each, _ in queries for name in tables_of(each)}
    tables = [(each, number) for each, number in zip(plan.tables, plan.table_numbers, strict=True) if each.name in read]
    return replace(
        plan,
        queries=tuple(each for each, _ in queries),
        query_numbers=tuple(number for _, number in queries),
        tables=tuple(each for each, _ in tables),
        table_numbers=tuple(number for _, number in tables),
    )


def without(plan: QueryList, names: Collection[str]) -> QueryList:
    return restricted(plan, {each.name for each in plan.queries} - set(names)) if names else plan
