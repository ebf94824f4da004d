"""What EXPLAIN says of set operators: who else uses what the driver remembers, and what keeps two of them apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.algebra import Relation, SetOperation
from weft.catalog.codec import dumps
from weft.explain.project import Project
from weft.optimizer.share_set_columns import Chain, described, why_not
from weft.plan.event_time import RunningQuery
from weft.plan.plain_names import without_names
from weft.runtime.pieces.pieces import Evaluator, Piece
from weft.runtime.pieces.roots import roots_of
from weft.runtime.stages.sets.picking import picks_columns


def put_together(project: Project, queries: Mapping[str, RunningQuery]) -> dict[str, str]:
    """How the next cycle will put queries together that begin with it; those that stay as they are written are not
    among them."""
    beginning = {name: each for name, each in queries.items() if name not in project.starts}
    return {name: root.record for name, root in roots_of(beginning, beginning, {}).items() if root.record}


class SetSharing:
    """The set operators of some queries, by who uses them."""

    def __init__(self, pieces: Mapping[str, Sequence[Piece]]) -> None:
        self._users: dict[str, set[str]] = {}
        self._chains: dict[str, list[tuple[str, Chain]]] = {}
        for query, listed in pieces.items():
            for piece in listed:
                if piece.evaluator is Evaluator.SETS:
                    self._users.setdefault(piece.log, set()).add(query)
                    for chain in _chains(piece.relation):
                        for body in {each.body for each in chain.operands}:
                            self._chains.setdefault(body, []).append((query, chain))

    def in_words(self, query: str, piece: Piece) -> str:
        """How a relation of a query is evaluated, and with whom."""
        if picks_columns(piece.relation):
            shown, (log,) = "columns of what a set operator gives are picked in the driver", piece.inputs
        else:
            shown, log = "values are remembered in the driver", piece.log
        others = sorted(self._users.get(log, set()) - {query})
        if others:
            return f"{shown}, for {', '.join(others[:3])}{' and others' if len(others) > 3 else ''} too"
        apart = next(self._apart(query, piece.relation), None)
        return shown if apart is None else f"{shown}; {apart}"

    def _apart(self, query: str, relation: Relation) -> Iterator[str]:
        """Of which other queries a set operator has some of the columns, and why it is not made of them."""
        for chain in _chains(relation):
            for body in sorted({each.body for each in chain.operands}):
                for other, wide in self._chains.get(body, ()):
                    reason = why_not(chain, wide) if other != query else None
                    if reason is not None:
                        yield f"{other} has its columns and more, but {reason}"


def _chains(relation: Relation) -> Iterator[Chain]:
    if isinstance(relation, SetOperation):
        plain = without_names(relation)
        assert isinstance(plain, SetOperation)
        yield described(plain, dumps)
