"""The identity of nodes: what a relation computes, and from which rows on.

A node's id is a digest of its relation, in canonical form, with the ids of the relations that it reads in their place.
Names that users gave and the order of operands play no part in it. So what two queries have in common has one id, is
evaluated once and kept once, and stays when one of them is dropped.

Queries that began in different cycles see different rows, and have nothing in common: the first cycle is part of the
id. So is whether windows that had closed before it are answered, from the history of streams.

    -83b1…        a relation by its content and first cycle
    12            the whole of query 12, which shares nothing         12.0      what it reads first
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Final

from weft.algebra import Answers, Input, Relation, Select, SetOperation, Source, Stream, Table
from weft.algebra.codec import dumps
from weft.algebra.properties import leaves, reads
from weft.plan.event_time import QueryStart
from weft.plan.log_ids import LogId, LogKind

_MOST_LEAVES: Final = 10_000


@dataclass(frozen=True)
class NodeId:
    """The digest of a relation (negative) or the number of a query, and the path from there to the node.

    `parts` are the ids of inputs that do not follow from its own.
    """

    number: int
    path: str = ""
    parts: Mapping[int, NodeId] = field(default_factory=dict, compare=False, repr=False)

    def below(self, step: int) -> NodeId:
        """The id of an input, counted from 0."""
        return self.parts.get(step) or NodeId(self.number, f"{self.path}.{step}")

    @cached_property
    def text(self) -> str:
        return f"{self.number}{self.path}"

    @property
    def is_shared(self) -> bool:
        """Whether it is an id by content, which other queries may have too."""
        return self.number < 0

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of this node and of all below it."""
        return frozenset({self.number}).union(*(each.numbers for each in self.parts.values()))


def log_of(source: Source, id_: NodeId) -> LogId:
    """The log of a source's rows: one per stream, table and query that others read, one per node otherwise."""
    if isinstance(source, Stream):
        return LogId(LogKind.STREAM, source.name)
    if isinstance(source, Table):
        return LogId(LogKind.TABLE, source.name)
    if isinstance(source, Answers):
        return LogId(LogKind.ANSWERS, source.query)
    return LogId(LogKind.ROWS, id_.text)


def shared_id(relation: Relation, start: QueryStart) -> NodeId:
    """The id by content of a relation in queries with this start."""
    parts = {
        step: shared_id(below, start.below(relation, below))
        for step, below in enumerate(reads(relation))
        if isinstance(below, (Select, SetOperation))
    }
    looks_back = start.backlog and any(isinstance(leaf, Stream) and leaf.backfill for leaf in leaves(relation))
    described = f"{start.first} {looks_back} {dumps(_with_named_inputs(relation, parts))}"
    return NodeId(-1 - int.from_bytes(blake2b(described.encode(), digest_size=7).digest(), "big"), "", parts)


#: The names of sources, by identity: queries over a stream share its declaration.
_LEAF_NAMES: dict[int, tuple[Source, str]] = {}


def _leaf_name(source: Source) -> str:
    """A name for all that is declared of a stream, a table or a query that others read."""
    known = _LEAF_NAMES.get(id(source))
    if known is None or known[0] is not source:
        if len(_LEAF_NAMES) > _MOST_LEAVES:
            _LEAF_NAMES.clear()
        known = _LEAF_NAMES[id(source)] = source, blake2b(dumps(source).encode(), digest_size=12).hexdigest()
    return known[1]


def _with_named_inputs(relation: Relation, parts: Mapping[int, NodeId]) -> Relation:
    """A relation with short names for what it reads in their place, for relations their ids."""

    def named(step: int, source: Source) -> Source:
        name = parts[step].text if step in parts else _leaf_name(source)
        return Answers(name, (), None, relation.clock_type)

    if isinstance(relation, SetOperation):
        # Operands have to be relations: a select of nothing has the name.
        left, right = (
            Select((Input(named(step, each), ""),), None, (), relation.clock_type)
            for step, each in enumerate((relation.left, relation.right))
        )
        return replace(relation, left=left, right=right)
    inputs = (replace(each, source=named(step, each.source)) for step, each in enumerate(relation.inputs))
    return replace(relation, inputs=tuple(inputs))
