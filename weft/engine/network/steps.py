"""The relations of queries that read rows, one by one, and which of them the network evaluates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.algebra import Answers, Query, Relation, Select, SetOperation, Stream
from weft.algebra.sources import reads
from weft.engine.compile import Place, kept_sources, log_of
from weft.optimizer.network import is_shareable
from weft.plan.clockwork import Registered


@dataclass(frozen=True)
class Step:
    """A relation at its place in a query."""

    name: str
    registered: Registered
    relation: Relation
    place: Place
    #: Whether later cycles will look at its rows again.
    is_kept: bool

    @property
    def is_root(self) -> bool:
        return self.place.path == ""

    @property
    def log(self) -> str:
        """The log that others find its rows in."""
        return f"answers {self.name}" if self.is_root else log_of(self.relation, self.place)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The logs that it reads."""
        return tuple(log_of(each, self.place.below(step)) for step, each in enumerate(reads(self.relation)))


def steps_of(name: str, registered: Registered) -> list[Step]:
    """The relations of a query, innermost first."""
    root = Place(registered.birth.number)
    kept = {inner.log for _, inner in kept_sources(registered.query.relation, root)}

    def below(relation: Relation, place: Place) -> Iterator[Step]:
        for step, each in enumerate(reads(relation)):
            if isinstance(each, (Select, SetOperation)):
                yield from below(each, place.below(step))
        yield Step(name, registered, relation, place, place.log in kept)

    return list(below(registered.query.relation, root))


def is_networked(relation: Relation) -> bool:
    """Whether the network can give a relation its rows.

    What a selection reads must be in a log. The inputs of a join always are (`kept_sources`).
    """
    if not isinstance(relation, Select) or not is_shareable(relation) or relation.distinct:
        return False
    return len(relation.inputs) > 1 or isinstance(relation.inputs[0].source, Stream | Answers)


def has_networked(query: Query) -> bool:
    """Whether some part of a query can be in the network."""
    waiting: list[Relation] = [query.relation]
    while waiting:
        relation = waiting.pop()
        if is_networked(relation):
            return True
        waiting.extend(each for each in reads(relation) if isinstance(each, (Select, SetOperation)))
    return False
