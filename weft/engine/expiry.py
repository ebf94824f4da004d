"""When kept rows are of no more use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.algebra import Relation, Select, SetOperation, Source, Stream
from weft.engine.commits import Segment
from weft.engine.compile import Place, log_of
from weft.engine.running import has_partials
from weft.plan.clockwork import Clock, Clockwork, Registered, first_open_start, is_windowed
from weft.windows.meeting import meeting_bounds


def expired(segment: Segment, log: str, queries: Mapping[str, Registered], clockwork: Clockwork) -> bool:
    """Whether no window that is open, and no row that can still arrive in time, needs any row of the segment."""
    needed = list(_needed_since(log, queries, clockwork))
    if None in needed or segment.max_clock is None:
        return False
    return all(since is not None and segment.max_clock < since for since in needed)


def _needed_since(log: str, queries: Mapping[str, Registered], clockwork: Clockwork) -> Iterator[Clock]:
    """For each use of a log: the least clock that is still needed; None if everything is."""
    for name, each in queries.items():
        for source, since in _uses(each.query.relation, Place(name), clockwork):
            if source == log:
                yield since
        yield from _history_kept(log, each.query.relation, clockwork)


def _uses(relation: Relation, place: Place, clockwork: Clockwork) -> Iterator[tuple[str, Clock]]:
    sources = _sources(relation)
    for step, source in enumerate(sources):
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


def _sources(relation: Relation) -> list[Source]:
    if isinstance(relation, Select):
        return [each.source for each in relation.inputs]
    return [relation.left, relation.right]


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


def _history_kept(log: str, relation: Relation, clockwork: Clockwork) -> Iterator[Clock]:
    """What BACKFILL keeps for queries that do not exist yet."""
    for source in _sources(relation):
        if isinstance(source, Stream) and source.backfill and log == f"stream {source.name}":
            largest = clockwork.after.get(source.name)
            yield None if largest is None else largest - source.backfill
        elif isinstance(source, (Select, SetOperation)):
            yield from _history_kept(log, source, clockwork)
