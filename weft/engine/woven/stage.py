"""The woven stage of a cycle: what of its trees is in memory, and the partials on disk that it can be rebuilt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from weft.algebra import Query, Stream, Window
from weft.engine.commits import Commit, Segment
from weft.engine.storage import Storage
from weft.engine.woven.answers import answers
from weft.engine.woven.partials import CELL, LATEST, ROWS, Partials, decoded, encoded, joined, without_clockless
from weft.engine.woven.shape import NotWoven, Woven, woven
from weft.engine.woven.weave import StreamWeave
from weft.plan.clockwork import Clock, Clockwork, Registered


def log_of(stream: str) -> str:
    """The log that keeps a stream's partials."""
    return f"partials {stream}"


class Reduced:
    """The rows of one stream in one cycle, reduced, and what can be told of them."""

    def __init__(self, weave: StreamWeave, table: pa.Table) -> None:
        rows, clockless = np.asarray(table[ROWS]), np.asarray(table[CELL].is_null())
        self.rows = int(rows[~clockless].sum())
        self.bad = int(rows[clockless].sum())
        self.partials = without_clockless(weave.reduction.layout, table)
        self.weave = weave

    @property
    def latest(self) -> Clock:
        """The largest clock."""
        return int(np.asarray(self.partials.table[LATEST]).max()) if len(self.partials) else None

    def has_late_rows(self, watermark: Clock) -> bool:
        """Whether some row is of no more use to any window. All rows of a cell are, or none of them is."""
        if watermark is None or not len(self.partials):
            return False
        windows = {each.window for each in self.weave.queries.values()}
        cells, _ = self.partials.distinct_cells
        closed = [_closed_for(window, cells, watermark) for window in windows]
        return bool(np.logical_and.reduce(closed).any())


def _closed_for(window: Window, clocks: np.ndarray, watermark: int) -> np.ndarray:
    """That some instance covers the clock and the last one that does has closed."""
    assert window.range is not None
    into = (clocks - window.origin) % window.slide
    return np.asarray((into < window.range) & (clocks - into + window.range <= watermark))


class WovenStage:
    """The weaves of all streams, as of the last commit."""

    def __init__(self, storage: Storage, limit: int) -> None:
        self._storage = storage
        self._limit = limit
        self._cycle: int | None = None
        self._weaves: dict[str, StreamWeave] = {}
        self._shapes: dict[int, Woven | NotWoven] = {}

    def can_weave(self, query: Query, number: int) -> bool:
        """Whether a query can share partials with others."""
        return isinstance(self._shape(query, number), Woven)

    def _shape(self, query: Query, number: int) -> Woven | NotWoven:
        known = self._shapes.get(number)
        if known is None:
            try:
                known = woven(query)
            except NotWoven as reason:
                known = reason
            self._shapes[number] = known
        return known

    def prepare(self, last: Commit, streams: Sequence[Stream], queries: Mapping[str, Registered]) -> None:
        """Weave the queries that are there now, and bring what is new to where the last commit is."""
        if self._cycle != last.cycle:
            # Trees that are ahead of the commit, or behind it, are of no use: an attempt has failed, or none was made.
            self._weaves = {}
        wanted: dict[str, dict[str, Woven]] = {}
        for name, each in queries.items():
            shape = self._shape(each.query, each.birth.number)
            assert isinstance(shape, Woven)
            wanted.setdefault(shape.stream, {})[name] = shape
        weaves = {}
        for stream in streams:
            if stream.name in wanted:
                known = self._weaves.get(stream.name)
                if known is not None and known.is_overgrown:
                    known = None
                same = known is not None and known.queries == wanted[stream.name]
                weave = known if same and known else StreamWeave(stream, wanted[stream.name], known)
                segments = last.logs.get(log_of(stream.name), ())
                largest = last.streams[stream.name].largest if stream.name in last.streams else None
                watermark = None if largest is None else largest - stream.delay
                weave.remember((self._read(each) for each in segments), watermark)
                weaves[stream.name] = weave
        self._weaves = weaves
        self._cycle = None

    def reads(self, stream: str) -> bool:
        """Whether some woven query reads a stream."""
        return stream in self._weaves

    def reduce(self, stream: str, rows: DataFrame) -> Reduced:
        """The rows of a stream as partials; one Spark job."""
        weave = self._weaves[stream]
        return Reduced(weave, weave.reduction.of(rows))

    def answer(
        self, reduced: Mapping[str, Reduced], clockwork: Clockwork, queries: Mapping[str, Registered]
    ) -> dict[str, pa.Table]:
        """The answers of all woven queries in this cycle, each with its clock as the last column."""
        found = {}
        for name, weave in self._weaves.items():
            before = clockwork.watermark(weave.stream, after=False)
            arrived = reduced[name].partials if name in reduced else None
            if arrived is not None:
                weave.check_memory(arrived, self._limit)
            closed = weave.advance(arrived, before, clockwork.watermark(weave.stream))
            for query, groups in closed.items():
                shape = weave.queries[query]
                after, _ = clockwork.closing(shape.select, queries[query].birth)
                table = answers(shape.select, shape.measures, groups.since(after))
                if table.num_rows:
                    found[query] = table
        return found

    def keep(self, partials: Partials, path: str) -> Segment:
        """Write a cycle's partials."""
        self._storage.write_bytes(path, encoded(partials))
        return Segment(path, len(partials), int(partials.cells.min()), int(partials.cells.max()))

    def live(self, stream: str, segments: Sequence[Segment], watermark: Clock) -> list[Segment]:
        """The segments that some open window needs."""
        since = self._weaves[stream].needed_since(watermark)
        return [each for each in segments if since is None or each.max_clock is None or each.max_clock >= since]

    def compacted(self, segments: Sequence[Segment], path: str) -> list[Segment]:
        """The same partials in fewer files, one for each layout."""
        tables = joined([self._read(each) for each in segments])
        return [self.keep(each, f"{path}-{number}.parquet") for number, each in enumerate(tables)]

    def committed(self, cycle: int) -> None:
        """A cycle has been committed: what is in memory is its state."""
        self._cycle = cycle

    def _read(self, segment: Segment) -> Partials:
        return decoded(self._storage.read_bytes(segment.path))
