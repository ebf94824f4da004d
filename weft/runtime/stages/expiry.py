"""The logs of rows that later cycles read again, and from which clock on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.algebra import Select, SetOperation, Source, Stream, Table
from weft.algebra.properties import leaves
from weft.plan.event_time import Clock, EventTime, first_open_start, is_windowed
from weft.plan.log_ids import LogId, LogKind
from weft.plan.plan import Plan
from weft.runtime.stages.operators import Operator, OperatorId, PlannedQueries, StageKind
from weft.runtime.stages.sql.running import has_partials
from weft.runtime.state.commits import Segment
from weft.windows.join_windows import Bounds, meeting_bounds


def logged(plan: Plan, planned: PlannedQueries) -> dict[LogId, Source]:
    """The logs that operators read again, or that BACKFILL keeps for later ones, with the sources of their rows."""
    return {LogId(LogKind.STREAM, each.name): each for each in plan.streams if each.backfill} | dict(planned.kept_logs)


@dataclass(frozen=True)
class Needs:
    """The least clock of each log that is still needed; None if every row is."""

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
    """Tells what is needed, cycle by cycle. How far apart rows of a join can be is computed once for each join."""

    _bounds: dict[str, Bounds] = field(default_factory=dict)

    def needs(self, streams: Sequence[Stream], operators: Iterable[Operator], event_time: EventTime) -> Needs:
        """What operators need after a cycle, and what BACKFILL keeps for later ones.

        Windows over a stream are answered from partials, and need its rows only if it keeps them for queries to come:
        then those of open windows are among them, see `windows/backfill.py`.
        """
        has_history = any(each.backfill for each in streams)
        since: dict[LogId, Clock] = {}

        def use(log: LogId, least: Clock) -> None:
            known = since.get(log, least)
            since[log] = None if least is None or known is None else min(known, least)

        for each in operators:
            if each.stage is not StageKind.WINDOWS or (has_history and _reads_history(each)):
                for log, least in self._uses(each, event_time):
                    use(log, least)
        for stream in streams:
            if stream.backfill:
                largest = event_time.after.get(stream.name)
                use(LogId(LogKind.STREAM, stream.name), None if largest is None else largest - stream.backfill)
        return Needs(since)

    def _uses(self, operator: Operator, event_time: EventTime) -> Iterator[tuple[LogId, Clock]]:
        relation = operator.relation
        for position, (log, source) in enumerate(operator.sources):
            if isinstance(relation, SetOperation):
                if relation.window is not None:
                    watermark = event_time.watermark(relation)
                    yield log, None if watermark is None else watermark + 1
            elif len(relation.inputs) > 1:
                # A row that is joined with tables only is joined in the cycle in which it arrives.
                if len(relation.flowing) > 1 and not isinstance(source, Table):
                    yield log, self._needed_by_join(relation, operator.id, position, event_time)
            elif is_windowed(relation) and relation.window is not None:
                yield log, first_open_start(relation.window, event_time.watermark(relation))
            elif relation.is_grouped and not has_partials(relation):
                yield log, None

    def _needed_by_join(self, select: Select, id_: OperatorId, position: int, event_time: EventTime) -> Clock:
        """A row is needed while some other input can still get a row in time that meets it."""
        if id_.text not in self._bounds:
            self._bounds[id_.text] = meeting_bounds(select.inputs, select.where)
        least: Clock = None
        for other, bound in enumerate(self._bounds[id_.text][position]):
            if other == position or isinstance(select.inputs[other].source, Table):
                continue
            watermark = event_time.watermark(select.inputs[other].source)
            if bound is None or watermark is None:
                return None
            least = watermark - bound if least is None else min(least, watermark - bound)
        return least


def _reads_history(operator: Operator) -> bool:
    """Whether an operator reads a stream that keeps rows."""
    return any(isinstance(leaf, Stream) and leaf.backfill for leaf in leaves(operator.relation))
