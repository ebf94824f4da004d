"""Where relations stand, and so what their rows and their state are called.

The relations of a query that shares nothing stand in the query, by the path from its root. Those of all others go by
what they are and by the cycle that their query began in, whatever query they are in:

    12            the root of query 12                       12.0      what it reads first
    -83b1…        a relation by its content and first cycle

So what two queries have in common is evaluated once and kept once, and stays when one of them goes. Queries that began
in different cycles see different rows, and have nothing in common here. Neither have relations of which one answers
what had closed before, from the history of streams, and the other does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from weft.algebra import Answers, Input, Relation, Select, SetOperation, Source, Stream, Table
from weft.algebra.properties import leaves, reads
from weft.catalog.codec import dumps
from weft.plan.event_time import QueryStart
from weft.plan.log_ids import LogId


@dataclass(frozen=True)
class Place:
    """Where a relation stands: in the query of which number, and by which path from its root.

    A relation that goes by its content has a negative number in place of a query's. `parts` are the places of what it
    reads that do not follow from its own.
    """

    query: int
    path: str = ""
    parts: Mapping[int, Place] = field(default_factory=dict, compare=False, repr=False)

    def below(self, step: int) -> Place:
        """The place of what it reads, counted from 0."""
        return self.parts.get(step) or Place(self.query, f"{self.path}.{step}")

    @property
    def log(self) -> str:
        return f"{self.query}{self.path}"

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers that it and the places below it go by."""
        return frozenset({self.query}).union(*(each.numbers for each in self.parts.values()))


def log_of(source: Source, place: Place) -> LogId:
    """The log that keeps a source's rows: one per stream, table and query read by others, one per place otherwise."""
    if isinstance(source, Stream):
        return LogId.stream(source.name)
    if isinstance(source, Table):
        return LogId.table(source.name)
    if isinstance(source, Answers):
        return LogId.answers(source.query)
    return LogId.rows(place.log)


def shared_place(relation: Relation, start: QueryStart) -> Place:
    """The place of a relation that goes by its content, in queries with this start."""
    parts = {
        step: shared_place(below, start.below(relation, below))
        for step, below in enumerate(reads(relation))
        if isinstance(below, (Select, SetOperation))
    }
    looks_back = start.backlog and any(isinstance(leaf, Stream) and leaf.backfill for leaf in leaves(relation))
    described = f"{start.first} {looks_back} {dumps(_shell(relation, parts))}"
    return Place(-1 - int.from_bytes(blake2b(described.encode(), digest_size=7).digest(), "big"), "", parts)


def _shell(relation: Relation, parts: Mapping[int, Place]) -> Relation:
    """A relation with names for the relations that it reads: these have been told apart already."""

    def named(step: int, source: Source) -> Source:
        if step not in parts:
            return source
        return Answers(parts[step].log, (), None, relation.clock_type)

    if isinstance(relation, SetOperation):
        # Operands are relations; selects of nothing stand for them.
        left, right = (
            Select((Input(named(step, each), ""),), None, (), relation.clock_type)
            for step, each in enumerate((relation.left, relation.right))
        )
        return replace(relation, left=left, right=right)
    inputs = (replace(each, source=named(step, each.source)) for step, each in enumerate(relation.inputs))
    return replace(relation, inputs=tuple(inputs))
