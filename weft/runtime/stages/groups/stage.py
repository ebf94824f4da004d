"""The groups and open windows of aggregates over rows in the driver, from cycle to cycle.

What never closes is kept as groups, in files of those that a cycle has changed. Windows that close are trees, which are
brought back from the rows that are kept for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from weft.algebra import Select, Source, Stream
from weft.algebra.properties import leaves
from weft.plan.event_time import EventTime, looks_back
from weft.plan.log_ids import LogId
from weft.runtime.pieces.pieces import Piece
from weft.runtime.stages.groups.row_aggregates import RowAggregate, RowPartials, Rows, row_aggregate, row_partials
from weft.runtime.stages.windows import total_files
from weft.runtime.stages.windows.running_aggregates import RunningAggregates, kept_in_files
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.window_answers import answers, with_empty_instances
from weft.runtime.stages.windows.woven_queries import Woven
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.storage import Storage

#: Reads the kept rows of a log, with the cycles that they arrived in; None if there are none.
KeptRows = Callable[[LogId], pa.Table | None]


@dataclass
class _Group:
    """The aggregates over the rows of one log."""

    source: Source
    pieces: Mapping[str, Piece]
    queries: Mapping[str, RowAggregate]
    weave: StreamWeave
    totals: RunningAggregates

    def looks_back(self, cycle: int) -> bool:
        """Whether this is the first cycle of aggregates some of which answer for the history of streams.

        All over the rows of a log that looks back began together.
        """
        starts = [each.registered.start for each in self.pieces.values()]
        has_history = any(isinstance(leaf, Stream) and leaf.backfill for leaf in leaves(self.source))
        return has_history and looks_back(self.source) and any(cycle <= each.first and each.backlog for each in starts)

    def partials(self, table: pa.Table) -> RowPartials:
        return row_partials(Rows(self.source.fields, table), self.queries.values())


class DerivedStage:
    """All aggregates over rows in the driver, as of the last commit."""

    def __init__(self, storage: Storage, max_state: int) -> None:
        self._storage = storage
        self._max_state = max_state
        self._groups: dict[LogId, _Group] = {}
        self._shapes: dict[str, RowAggregate] = {}
        #: The cycle that what is in memory is the state after; None while one is under way.
        self._cycle: int | None = None

    @property
    def logs(self) -> frozenset[LogId]:
        """The logs whose rows are aggregated."""
        return frozenset(self._groups)

    def pieces(self, log: LogId) -> Collection[Piece]:
        """The aggregates over the rows of a log."""
        return self._groups[log].pieces.values()

    def prepare(self, last: Commit, pieces: Iterable[Piece]) -> None:
        """Take up the aggregates that there are now."""
        if self._cycle != last.cycle:
            self._groups = {}
        by_log: dict[LogId, dict[str, Piece]] = {}
        for each in pieces:
            by_log.setdefault(each.inputs[0], {})[each.place.log] = each
        self._shapes = {place: self._shape(each) for here in by_log.values() for place, each in here.items()}
        self._groups = {log: self._group(log, here, last) for log, here in by_log.items()}
        self._cycle = None

    def _shape(self, piece: Piece) -> RowAggregate:
        known = self._shapes.get(piece.place.log)
        if known is not None:
            return known
        assert isinstance(piece.relation, Select)
        return row_aggregate(piece.relation, piece.inputs[0], piece.registered.start.first)

    def _group(self, log: LogId, pieces: Mapping[str, Piece], last: Commit) -> _Group:
        known = self._groups.get(log)
        if known is not None and known.pieces.keys() == pieces.keys():
            return known
        source = next(iter(pieces.values())).relation.inputs[0].source  # type: ignore[union-attr]
        queries = {place: self._shapes[place] for place in pieces}
        shapes = {place: each.shape for place, each in queries.items()}
        stream = Stream(log, source.fields, "", 0, "rows")
        weave = StreamWeave(stream, shapes, known.weave if known else None)
        return _Group(source, pieces, queries, weave, self._totals(log, stream, pieces, shapes, known, last))

    def _totals(
        self,
        log: LogId,
        stream: Stream,
        pieces: Mapping[str, Piece],
        shapes: Mapping[str, Woven],
        known: _Group | None,
        last: Commit,
    ) -> RunningAggregates:
        running = {place: each for place, each in shapes.items() if each.is_running}
        firsts = {place: pieces[place].registered.start.first for place in running}
        totals = RunningAggregates(stream, running, firsts, known.totals if known else None)
        if known is None and running:
            files = last.logs.get(LogId.running(log), ())
            totals.remember(total_files.decoded(self._storage.read_bytes(each.path)) for each in files)
        return totals

    def answer(
        self,
        log: LogId,
        rows: pa.Table | None,
        kept: KeptRows,
        event_time: EventTime,
        counted_from: Mapping[str, int],
    ) -> dict[str, pa.Table]:
        """The answers of the aggregates over a log, by place, each with its clock as the last column.

        `counted_from` has, for those that say EMIT EMPTY, the clock from which on every instance is answered.
        """
        group = self._groups[log]
        before, until = (event_time.watermark(group.source, after=after) for after in (False, True))
        if group.looks_back(event_time.cycle):
            # What had closed before comes now, from the history of streams, and nothing of it is late.
            before = None
        arrived = group.partials(rows) if rows is not None and rows.num_rows else None
        if arrived is not None:
            group.totals.check_memory(arrived, self._max_state)
            group.weave.fit(arrived, self._max_state)
        group.weave.remember(self._kept(group, log, kept), before)
        parts = dict(group.totals.take(arrived))
        closed = group.weave.advance(arrived, before, until)
        for place, shape in group.weave.windowed.items():
            piece = group.pieces[place]
            after, _ = event_time.closing(piece.relation, piece.registered.start)
            mine = [closed[place].since(after)] if place in closed else []
            if place in counted_from and until is not None:
                mine = [with_empty_instances(shape, mine, counted_from[place], after, until)]
            if mine:
                (parts[place],) = mine
        found = {
            place: answers(group.queries[place].shape.select, group.queries[place].shape.measures, part)
            for place, part in parts.items()
            if len(part)
        }
        return {place: table for place, table in found.items() if table.num_rows}

    def _kept(self, group: _Group, log: LogId, kept: KeptRows) -> Iterator[RowPartials]:
        table = kept(log) if group.weave.windowed else None
        if table is not None and table.num_rows:
            yield group.partials(table)

    # -- what is kept -------------------------------------------------------------------------------------------------

    def keep(self, last: Commit, path: Callable[[int], str], most: int) -> Iterator[tuple[LogId, tuple[Segment, ...]]]:
        """Write the groups that a cycle has changed: the logs of totals, and their files. All of a log's groups are
        written instead, if that makes more files than `most`."""
        for number, (log, group) in enumerate(self._groups.items()):
            name = LogId.running(log)
            segments = kept_in_files(group.totals, self._storage, last.logs.get(name, ()), path(number), most)
            if segments:
                yield name, tuple(segments)

    def committed(self, cycle: int) -> None:
        """A cycle has been committed: what is in memory is its state."""
        self._cycle = cycle
