"""Parts of a plan: some of its queries, with what they read, or without what reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from weft.algebra import Answers, Query, Table
from weft.algebra.properties import leaves
from weft.plan.plan import Plan


def read_directly(query: Query) -> Iterator[str]:
    """The names of the queries whose answers a query reads."""
    return (leaf.query for leaf in leaves(query.relation) if isinstance(leaf, Answers))


def tables_of(query: Query) -> set[str]:
    """The names of the tables that a query reads."""
    return {leaf.name for leaf in leaves(query.relation) if isinstance(leaf, Table)}


def with_readers(plan: Plan, names: Collection[str]) -> frozenset[str]:
    """Some queries of a plan, and all that read their answers, directly or through others."""
    found = {each.name for each in plan.queries if each.name in names}
    for each in plan.queries:
        # A query comes after those that it reads.
        if not found.isdisjoint(read_directly(each)):
            found.add(each.name)
    return frozenset(found)


def with_read(plan: Plan, names: Collection[str]) -> frozenset[str]:
    """Some queries of a plan, and all whose answers they read, directly or through others."""
    found = {each.name for each in plan.queries if each.name in names}
    for each in reversed(plan.queries):
        if each.name in found:
            found.update(read_directly(each))
    return frozenset(found)


def restricted(plan: Plan, names: Collection[str]) -> Plan:
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


def without(plan: Plan, names: Collection[str]) -> Plan:
    """A plan without some of its queries."""
    return restricted(plan, {each.name for each in plan.queries} - set(names)) if names else plan
