"""When kept rows are of no more use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from weft.algebra import Select, SetOperation, Stream, Table
from weft.plan.event_time import Clock, EventTime, first_open_start, is_windowed
from weft.plan.log_ids import LogId
from weft.runtime.pieces.pieces import Piece
from weft.runtime.places import Place
from weft.runtime.stages.sql.running import has_partials
from weft.runtime.state.commits import Segment
from weft.windows.join_windows import Bounds, meeting_bounds


@dataclass(frozen=True)
class Needs:
    """For each log that somebody looks at again: the least clock that is still needed; None if everything is."""

    since: Mapping[LogId, Clock]

    def expired(self, segment: Segment, log: LogId) -> bool:
        """Whether no window that is open, and no row that can still arrive in time, needs any row of the segment."""
        if segment.max_clock is None:
            return False
        if log not in self.since:
            return True
        since = self.since[log]
        return since is not None and segment.max_clock < since


@dataclass
class Expiry:
    """Tells what is needed, cycle by cycle. How far apart rows of a join can be is found out once for each join."""

    _bounds: dict[str, Bounds] = field(default_factory=dict)

    def needs(self, streams: Iterable[Stream], pieces: Iterable[Piece], event_time: EventTime) -> Needs:
        """What relations need after a cycle, and what BACKFILL keeps for later ones."""
        since: dict[LogId, Clock] = {}
        for log, least in self._all_uses(streams, pieces, event_time):
            known = since.get(log, least)
            since[log] = None if least is None or known is None else min(known, least)
        return Needs(since)

    def _all_uses(
        self, streams: Iterable[Stream], pieces: Iterable[Piece], event_time: EventTime
    ) -> Iterator[tuple[LogId, Clock]]:
        for each in pieces:
            yield from self._uses(each, event_time)
        for stream in streams:
            if stream.backfill:
                largest = event_time.after.get(stream.name)
                yield LogId.stream(stream.name), None if largest is None else largest - stream.backfill

    def _uses(self, piece: Piece, event_time: EventTime) -> Iterator[tuple[LogId, Clock]]:
        relation = piece.relation
        for position, (log, source) in enumerate(piece.sources):
            if isinstance(relation, SetOperation):
                if relation.window is not None:
                    watermark = event_time.watermark(relation)
                    yield log, None if watermark is None else watermark + 1
            elif len(relation.inputs) > 1:
                # Who meets tables alone has met all that there is in the cycle of its arrival.
                if len(relation.flowing) > 1 and not isinstance(source, Table):
                    yield log, self._needed_by_join(relation, piece.place, position, event_time)
            elif is_windowed(relation) and relation.window is not None:
                yield log, first_open_start(relation.window, event_time.watermark(relation))
            elif relation.is_grouped and not has_partials(relation):
                yield log, None

    def _needed_by_join(self, select: Select, place: Place, position: int, event_time: EventTime) -> Clock:
        """A row is needed while some other input can still get a row in time that meets it."""
        if place.log not in self._bounds:
            self._bounds[place.log] = meeting_bounds(select.inputs, select.where)
        least: Clock = None
        for other, bound in enumerate(self._bounds[place.log][position]):
            if other == position or isinstance(select.inputs[other].source, Table):
                continue
            watermark = event_time.watermark(select.inputs[other].source)
            if bound is None or watermark is None:
                return None
            least = watermark - bound if least is None else min(least, watermark - bound)
        return least
