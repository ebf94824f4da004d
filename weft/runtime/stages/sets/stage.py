"""The operators of all queries from cycle to cycle, and their logs.

A log has what each cycle added to it; when it has too many files, one takes their place that has all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from weft.algebra import Relation, Select, SetOperator
from weft.plan.event_time import EventTime
from weft.plan.log_ids import LogId
from weft.runtime.failures.errors import MemoryLimit, megabytes
from weft.runtime.pieces.pieces import Piece
from weft.runtime.sinks.sinks import parquet_file
from weft.runtime.stages.sets.history import HistoryOperator
from weft.runtime.stages.sets.instances import InstanceOperator
from weft.runtime.stages.sets.picking import picked, picks_columns
from weft.runtime.stages.sets.tables import by_position, clocks_of, needed_since, shown, union_all
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.storage import Storage


def _passes_through(relation: Relation) -> bool:
    """Whether it remembers nothing: UNION ALL without windows, or some columns of an operator."""
    if isinstance(relation, Select):
        return picks_columns(relation)
    if relation.window is not None:
        return False
    return relation.operator is SetOperator.UNION and relation.all


@dataclass
class SetsStage:
    """What operators remember, as of the last commit."""

    storage: Storage
    #: The memory that they may take together.
    limit: int
    _pieces: dict[str, Piece] = field(default_factory=dict)
    _operators: dict[str, HistoryOperator | InstanceOperator] = field(default_factory=dict)
    _took: set[str] = field(default_factory=set)
    #: The cycle that what is in memory is the state after; None while one is under way.
    _cycle: int | None = None

    def prepare(self, last: Commit, pieces: Iterable[Piece]) -> None:
        """Take up the operators that there are now."""
        known = self._operators if self._cycle == last.cycle else {}
        self._pieces = {each.place.log: each for each in pieces if not _passes_through(each.relation)}
        self._operators = {
            place: known.get(place) or self._from_log(piece, last) for place, piece in self._pieces.items()
        }
        self._took, self._cycle = set(), None

    def _from_log(self, piece: Piece, last: Commit) -> HistoryOperator | InstanceOperator:
        relation = piece.relation
        operator = (
            HistoryOperator(relation)
            if isinstance(relation, Select) or relation.window is None
            else InstanceOperator(relation)
        )
        segments = last.logs.get(LogId.values(piece.place.log), ())
        files = (pa.BufferReader(self.storage.read_bytes(each.path)) for each in segments)
        operator.remember(pq.ParquetFile(each).read() for each in files)
        return operator

    def answer(self, piece: Piece, operands: Sequence[pa.Table | None], event_time: EventTime) -> pa.Table | None:
        """What an operator emits for the new rows of its operands, which come with their clocks."""
        found = self._taken(piece, [None if each is None else by_position(each) for each in operands], event_time)
        return None if found is None else shown(found, piece.relation.fields)

    def _taken(self, piece: Piece, rows: Sequence[pa.Table | None], event_time: EventTime) -> pa.Table | None:
        relation = piece.relation
        if _passes_through(relation):
            return picked(relation, rows) if isinstance(relation, Select) else union_all(relation, rows)
        operator = self._operators[piece.place.log]
        self._took.add(piece.place.log)
        if isinstance(operator, InstanceOperator):
            return operator.take(rows, *event_time.closing(relation, piece.registered.start))
        before, after = (event_time.watermark(relation, after=when) for when in (False, True))
        return operator.take(rows, before, after)

    def check_memory(self) -> None:
        """Refuse to go on with more than there is room for."""
        held = {place: each.bytes_held for place, each in self._operators.items()}
        if sum(held.values()) > self.limit:
            dearest = max(held, key=lambda place: held[place])
            name = self._pieces[dearest].registered.query.name
            raise MemoryLimit(
                f"DISTINCT and set operators remember about {megabytes(sum(held.values()))} MB of values, and "
                f"max_state_mb allows {megabytes(self.limit)}; most of them are those of '{name}': SET max_state_mb "
                "higher, or RETAIN less",
                (dearest,),
            )

    def keep(
        self, last: Commit, event_time: EventTime, path: Callable[[int], str], most: int
    ) -> Iterator[tuple[LogId, tuple[Segment, ...]]]:
        """Write what a cycle has added: the logs, and their files. All that a log needs is written instead, if that
        makes more files than `most`."""
        for number, (place, operator) in enumerate(self._operators.items()):
            piece = self._pieces[place]
            name = LogId.values(piece.place.log)
            since = needed_since(piece.relation, event_time.watermark(piece.relation))
            segments = [
                each
                for each in last.logs.get(name, ())
                if since is None or each.max_clock is None or each.max_clock >= since
            ]
            added = operator.changed() if place in self._took else None
            if added is not None and added.num_rows:
                if len(segments) >= most:
                    segments, added = [], operator.whole()
                if added.num_rows:
                    segments.append(self._written(added, path(number)))
            if segments:
                yield name, tuple(segments)

    def _written(self, rows: pa.Table, path: str) -> Segment:
        self.storage.write_bytes(path, parquet_file(rows))
        clocks = clocks_of(rows)
        return Segment(path, rows.num_rows, int(clocks.min()), int(clocks.max()))

    def committed(self, cycle: int) -> None:
        """A cycle has been committed: what is in memory is its state."""
        self._cycle = cycle
