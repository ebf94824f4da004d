"""The plan that runs: an immutable, numbered set of streams and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra import Query, Stream, Table
from weft.algebra.sources import leaves
from weft.plan.normal import normalised
from weft.plan.plain_names import plainly_named


@dataclass(frozen=True, slots=True)
class Plan:
    """Version `number` of what runs. Queries come after the queries whose answers they read.

    `births`, `stream_births` and `table_births` have a number for each: what is dropped and created again is something
    else, whatever its name. Tables are those that some query reads.
    """

    number: int
    streams: tuple[Stream, ...]
    stream_births: tuple[int, ...]
    queries: tuple[Query, ...]
    births: tuple[int, ...]
    tables: tuple[Table, ...] = ()
    table_births: tuple[int, ...] = ()

    @property
    def born(self) -> dict[str, int]:
        """The number of each query, by name."""
        return {each.name: number for each, number in zip(self.queries, self.births, strict=True)}

    def stream(self, name: str) -> Stream:
        return next(each for each in self.streams if each.name == name)


@dataclass(frozen=True, slots=True)
class Change:
    """What has to happen between two cycles to get from one plan to the next."""

    created: tuple[str, ...]
    dropped: tuple[str, ...]


def diff(old: Plan | None, new: Plan) -> Change:
    """The queries that a new plan adds and drops. One that was dropped and created again counts as both."""
    before, after = old.born if old else {}, new.born
    return Change(
        created=tuple(name for name in after if before.get(name) != after[name]),
        dropped=tuple(name for name in before if after.get(name) != before[name]),
    )


def build(
    number: int,
    streams: Mapping[int, Stream],
    queries: tuple[Query, ...],
    born: Mapping[str, int],
    tables_born: Mapping[str, int] | None = None,
) -> Plan:
    """The plan that runs these queries, each as its own tree.

    Streams come by number; `born` and `tables_born` have the numbers of queries and tables by name.
    """
    shaped = tuple(replace(each, relation=plainly_named(normalised(each.relation)), text="") for each in queries)
    births = tuple(born[each.name] for each in queries)
    read = {leaf.name: leaf for each in queries for leaf in leaves(each.relation) if isinstance(leaf, Table)}
    table_births = tuple((tables_born or {})[name] for name in read)
    return Plan(number, tuple(streams.values()), tuple(streams), shaped, births, tuple(read.values()), table_births)
