"""Which rows of a stream are late for every query that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Relation, Select, Source, Stream, Window
from weft.algebra.properties import reads
from weft.plan.event_time import EventTime, RunningQuery, is_windowed, passes_rows
from weft.runtime.columnar.rows import CLOCK


def late_everywhere(stream: Stream, event_time: EventTime, queries: Mapping[str, RunningQuery]) -> str | None:
    """The condition, as Spark SQL, that no query can take a row of the stream; None if some query takes every row."""
    verdicts: set[str] = set()
    for each in queries.values():
        for verdict in _verdicts(each.query.relation, stream, event_time):
            if verdict is None:
                return None
            verdicts.add(verdict)
    return " AND ".join(sorted(verdicts)) or None


def _verdicts(source: Source, stream: Stream, event_time: EventTime) -> Iterator[str | None]:
    """For every place where a relation reads the stream: when a row is late there; None for never.

    The first operator that does more than pass rows decides.
    """
    if isinstance(source, Stream) and source.name == stream.name:
        yield None
    for below in reads(source):
        for verdict in _verdicts(below, stream, event_time):
            passes = passes_rows(below)
            yield late_at(source, below, event_time) if passes else verdict  # type: ignore[arg-type]


def late_at(relation: Relation, below: Source, event_time: EventTime) -> str | None:
    """The condition, as Spark SQL, that a row which a relation reads comes too late for it; None for never."""
    watermark = event_time.watermark(below, after=False)
    if watermark is None:
        return None
    if isinstance(relation, Select):
        if len(relation.flowing) > 1:
            return f"({CLOCK} < {watermark}L)" if relation.is_bounded else None
        if is_windowed(relation) and relation.window is not None:
            return _window_closed(relation.window, watermark)
        if relation.is_grouped:
            return None
    if relation.retain is None or relation.retain.ticks is None:
        return None
    # All operands are judged by the one watermark of the relation.
    least = event_time.watermark(relation, after=False)
    return None if least is None else f"({CLOCK} < {least}L)"


def closed_for(window: Window, clocks: NDArray[np.int64], watermark: int) -> NDArray[np.bool_]:
    """For some clocks, that some instance covers the clock and the last one that does has closed."""
    assert window.range is not None
    into = (clocks - window.origin) % window.slide
    return np.asarray((into < window.range) & (clocks - into + window.range <= watermark))


def _window_closed(window: Window, watermark: int) -> str:
    """That some instance covers the row and the last one that does has closed."""
    into = f"pmod({CLOCK} - {window.origin}L, {window.slide}L)"
    return f"({into} < {window.range}L AND {CLOCK} - {into} + {window.range}L <= {watermark}L)"
