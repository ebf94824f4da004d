"""Which rows of a stream are late for every query that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.algebra import Relation, Select, Source, Stream, Window
from weft.algebra.sources import reads
from weft.engine.rows import CLOCK
from weft.plan.clockwork import Clock, Clockwork, Registered, is_windowed, passes_rows


def late_everywhere(stream: Stream, clockwork: Clockwork, queries: Mapping[str, Registered]) -> str | None:
    """The condition, as Spark SQL, that no query can take a row of the stream; None if some query takes every row."""
    verdicts: set[str] = set()
    for each in queries.values():
        for verdict in _verdicts(each.query.relation, stream, clockwork):
            if verdict is None:
                return None
            verdicts.add(verdict)
    return " AND ".join(sorted(verdicts)) or None


def _verdicts(source: Source, stream: Stream, clockwork: Clockwork) -> Iterator[str | None]:
    """For every place where a relation reads the stream: when a row is late there; None for never.

    The first operator that does more than pass rows decides.
    """
    if isinstance(source, Stream) and source.name == stream.name:
        yield None
    for below in reads(source):
        for verdict in _verdicts(below, stream, clockwork):
            passes = passes_rows(below)
            yield _late(source, clockwork.watermark(below, after=False)) if passes else verdict  # type: ignore[arg-type]


def _late(relation: Relation, watermark: Clock) -> str | None:
    if watermark is None:
        return None
    if isinstance(relation, Select):
        if len(relation.flowing) > 1:
            return f"({CLOCK} < {watermark}L)" if relation.is_bounded else None
        if is_windowed(relation) and relation.window is not None:
            return _window_closed(relation.window, watermark)
        if relation.is_grouped:
            return None
    retained = relation.retain is not None and relation.retain.ticks is not None
    return f"({CLOCK} < {watermark}L)" if retained else None


def _window_closed(window: Window, watermark: int) -> str:
    """That some instance covers the row and the last one that does has closed."""
    into = f"pmod({CLOCK} - {window.origin}L, {window.slide}L)"
    return f"({into} < {window.range}L AND {CLOCK} - {into} + {window.range}L <= {watermark}L)"
