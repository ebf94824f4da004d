"""Which queries stay together: those that share something, or read one another's answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.algebra import Answers, Query, Relation
from weft.algebra.properties import leaves, name_of
from weft.algebra.relations import Select


def groups(queries: Sequence[Query]) -> tuple[tuple[str, ...], ...]:
    """Names of queries that stay together, in the order of the queries.

    Queries that read the same streams and tables, and group by the same keys, share windows, trees or joins as a rule;
    apart they would do the same work twice. One that reads another's answers has to be where these are.
    """
    leader = {query.name: query.name for query in queries}

    def leader_of(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    shared: dict[object, str] = {}
    for query in queries:
        below = [name_of(leaf) for leaf in leaves(query.relation) if isinstance(leaf, Answers)]
        alike = shared.setdefault(_what_is_shared(query.relation), query.name)
        for other in (*below, alike):
            leader[leader_of(query.name)] = leader_of(other)
    found: dict[str, list[str]] = {}
    for query in queries:
        found.setdefault(leader_of(query.name), []).append(query.name)
    return tuple(tuple(each) for each in found.values())


def _what_is_shared(relation: Relation) -> tuple[object, ...]:
    keys = tuple(sorted(map(repr, relation.keys))) if isinstance(relation, Select) else ()
    return (frozenset(_names(relation)), keys)


def _names(relation: Relation) -> Iterable[str]:
    return map(name_of, leaves(relation))
