"""When kept rows are of no more use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from weft.algebra import Relation, Select, SetOperation, Stream
from weft.algebra.sources import reads
from weft.engine.commits import Segment
from weft.engine.compile import Place, log_of
from weft.engine.running import has_partials
from weft.plan.clockwork import Clock, Clockwork, Registered, first_open_start, is_windowed
from weft.windows.meeting import meeting_bounds


def expired(
    segment: Segment, log: str, streams: Iterable[Stream], queries: Mapping[str, Registered], clockwork: Clockwork
) -> bool:
    """Whether no window that is open, and no row that can still arrive in time, needs any row of the segment.

    The queries are those that read rows.
    """
    if segment.max_clock is None:
        return False
    needed = _needed_since(log, streams, queries, clockwork)
    return all(since is not None and segment.max_clock < since for since in needed)


def _needed_since(
    log: str, streams: Iterable[Stream], queries: Mapping[str, Registered], clockwork: Clockwork
) -> Iterator[Clock]:
    """For each use of a log: the least clock that is still needed; None if everything is."""
    for each in queries.values():
        uses = _uses(each.query.relation, Place(each.birth.number), clockwork)
        yield from (since for used, since in uses if used == log)
    for stream in streams:
        if stream.backfill and log == f"stream {stream.name}":
            largest = clockwork.after.get(stream.name)
            yield None if largest is None else largest - stream.backfill


def _uses(relation: Relation, place: Place, clockwork: Clockwork) -> Iterator[tuple[str, Clock]]:
    for step, source in enumerate(reads(relation)):
        inner = place.below(step)
        if isinstance(source, (Select, SetOperation)):
            yield from _uses(source, inner, clockwork)
        log = log_of(source, inner)
        if isinstance(relation, SetOperation):
            if relation.window is not None:
                watermark = clockwork.watermark(relation)
                yield log, None if watermark is None else watermark + 1
        elif len(relation.inputs) > 1:
            yield log, _needed_by_join(relation, step, clockwork)
        elif is_windowed(relation) and relation.window is not None:
            yield log, first_open_start(relation.window, clockwork.watermark(relation))
        elif relation.is_grouped and not has_partials(relation):
            yield log, None


def _needed_by_join(select: Select, position: int, clockwork: Clockwork) -> Clock:
    """A row is needed while some other input can still get a row in time that meets it."""
    bounds = meeting_bounds(select.inputs, select.where)[position]
    least: Clock = None
    for other, bound in enumerate(bounds):
        if other == position:
            continue
        watermark = clockwork.watermark(select.inputs[other].source)
        if bound is None or watermark is None:
            return None
        least = watermark - bound if least is None else min(least, watermark - bound)
    return least
