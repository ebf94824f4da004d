"""The relations of all queries, each once, with whoever evaluates it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from weft.algebra import Query, Relation, Select, SetOperation, Source
from weft.algebra.properties import reads
from weft.plan.event_time import QueryStart, RunningQuery
from weft.plan.log_ids import LogId
from weft.runtime.places import Place, log_of
from weft.runtime.stages.sql.compile import looks_again


class Evaluator(Enum):
    """Who evaluates a relation. All but the last do it for all queries together."""

    #: Partials that all aggregates over a stream share.
    WEAVE = "weave"
    #: The network of selections and joins.
    NETWORK = "network"
    #: Groups that the driver keeps, of rows that it has.
    DERIVED = "derived"
    #: What the driver remembers of values.
    SETS = "sets"
    #: A Spark plan of its own.
    SPARK = "spark"


@dataclass(frozen=True)
class Root:
    """A query's relation as it is evaluated, its place, and what commits say of it if it is not as it is written."""

    relation: Relation
    place: Place
    record: str = ""


@dataclass(frozen=True)
class Piece:
    """A relation at its place. `registered` is a query that it is in, with the relation's own start.

    All queries that it is in began together.
    """

    registered: RunningQuery
    relation: Relation
    place: Place
    evaluator: Evaluator
    #: The queries that it answers.
    names: tuple[str, ...] = ()
    #: Whether later cycles will look at its rows again.
    is_kept: bool = False
    #: Who evaluates the relations that read its rows.
    readers: frozenset[Evaluator] = frozenset()

    @cached_property
    def log(self) -> LogId:
        """The log that others find its rows in."""
        return log_of(self.relation, self.place)

    @cached_property
    def inputs(self) -> tuple[LogId, ...]:
        """The logs that it reads."""
        return tuple(log for log, _ in self.sources)

    @cached_property
    def sources(self) -> tuple[tuple[LogId, Source], ...]:
        """What it reads, each with its log."""
        below = enumerate(reads(self.relation))
        return tuple((log_of(source, self.place.below(step)), source) for step, source in below)

    @cached_property
    def looked_at_again(self) -> dict[LogId, Source]:
        """What it will look for in logs, by log."""
        if self.evaluator in (Evaluator.WEAVE, Evaluator.SETS):
            return {}
        return {log: source for log, source in self.sources if looks_again(self.relation, source)}

    @property
    def as_query(self) -> RunningQuery:
        """The relation as if it was a query by itself, called like its log."""
        return RunningQuery(
            Query(self.log, self.relation, None), replace(self.registered.start, number=self.place.query)
        )


def pieces_of(
    queries: Mapping[str, RunningQuery],
    roots: Mapping[str, Root],
    evaluator_of: Callable[[RunningQuery, Relation, Place], Evaluator],
) -> tuple[Piece, ...]:
    """The relations of some queries, innermost first."""
    found: dict[str, Piece] = {}
    names: dict[str, list[str]] = {}
    for name, registered in queries.items():
        root = roots[name]
        names.setdefault(root.place.log, []).append(name)
        for relation, place, start in _within(root.relation, root.place, registered.start):
            if place.log not in found:
                here = replace(registered, start=start)
                found[place.log] = Piece(here, relation, place, evaluator_of(here, relation, place))
    return _with_readers(replace(each, names=tuple(names.get(place, ()))) for place, each in found.items())


def _within(relation: Relation, place: Place, start: QueryStart) -> Iterator[tuple[Relation, Place, QueryStart]]:
    for step, each in enumerate(reads(relation)):
        if isinstance(each, (Select, SetOperation)):
            yield from _within(each, place.below(step), start.below(relation, each))
    yield relation, place, start


def _with_readers(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    listed = list(pieces)
    kept = kept_logs(listed)
    readers: dict[str, set[Evaluator]] = {}
    for each in listed:
        for log in each.inputs:
            readers.setdefault(log, set()).add(each.evaluator)
    return tuple(
        replace(each, is_kept=each.log in kept, readers=frozenset(readers.get(each.log, ()))) for each in listed
    )


def selects_of(pieces: Iterable[Piece]) -> dict[str, tuple[Select, tuple[LogId, ...]]]:
    """Selects, each with the logs of its inputs, by place."""
    return {each.place.log: (each.relation, each.inputs) for each in pieces if isinstance(each.relation, Select)}


def kept_logs(pieces: Iterable[Piece]) -> dict[LogId, Source]:
    """The logs whose rows some relation will look at again, and what they are the rows of."""
    return {log: source for each in pieces for log, source in each.looked_at_again.items()}
