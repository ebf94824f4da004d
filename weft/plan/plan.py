"""The plan that runs: an immutable, numbered set of streams and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra import Query, Stream, Table
from weft.algebra.properties import leaves
from weft.plan.normal import normalised
from weft.plan.plain_names import plainly_named


@dataclass(frozen=True, slots=True)
class Plan:
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
        """The number of each query, by name."""
        return {each.name: number for each, number in zip(self.queries, self.query_numbers, strict=True)}

    def stream(self, name: str) -> Stream:
        return next(each for each in self.streams if each.name == name)


def build(
    number: int,
    streams: Mapping[int, Stream],
    queries: tuple[Query, ...],
    number_of: Mapping[str, int],
    table_number_of: Mapping[str, int] | None = None,
) -> Plan:
    """The plan that runs these queries, each as its own tree.

    Streams come by number; `number_of` and `table_number_of` have the numbers of queries and tables by name.
    """
    shaped = tuple(replace(each, relation=plainly_named(normalised(each.relation)), text="") for each in queries)
    query_numbers = tuple(number_of[each.name] for each in queries)
    read = {leaf.name: leaf for each in queries for leaf in leaves(each.relation) if isinstance(leaf, Table)}
    table_numbers = tuple((table_number_of or {})[name] for name in read)
    return Plan(
        number, tuple(streams.values()), tuple(streams), shaped, query_numbers, tuple(read.values()), table_numbers
    )
