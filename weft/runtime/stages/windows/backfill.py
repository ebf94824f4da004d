"""History for new queries, on a stream that stores its rows (BACKFILL).

In the first cycle of new queries the stored rows are reduced once more, for all queries of the stream: earlier partials
may lack the conditions, keys and aggregates of the new ones. The result replaces the stored partials, so that the state
has each row once, as always.

Instances that had closed before the query came are answered as if it had been there, without the rows that were late
for them. A row is late for nothing that covers it unless its clock was below the watermark when it arrived. So the
partials of rows that were on time are taken in first, and then, watermark by watermark, those of rows that were not:

    judged by     none      12        40
    partials      ■■■■      ■         ■         go on to 12, take in the late ones, go on to 40, …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from weft.algebra import Stream
from weft.runtime.columnar.rows import BEFORE, CLOCK, CORRUPT
from weft.runtime.stages.windows.partials import Layout, Partials, without_clocks
from weft.runtime.stages.windows.reduction import JUDGED, Reduction
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.window_answers import GroupSelection
from weft.runtime.stages.windows.woven_queries import Woven


@dataclass(frozen=True)
class StoredPartials:
    """Stored rows as partials, each with the watermark that its rows were late by, if they were."""

    layout: Layout
    table: pa.Table

    @cached_property
    def partials(self) -> Partials:
        """All partials."""
        return Partials(self.layout, self.table.drop_columns([JUDGED]))

    def batches(self) -> Iterator[tuple[int | None, Partials]]:
        """The partials by the watermark they were late by, those that were on time first."""
        judged = self.table[JUDGED]
        for mark in [None, *sorted(each for each in pc.unique(judged).to_pylist() if each is not None)]:
            mine = pc.is_null(judged) if mark is None else pc.fill_null(pc.equal(judged, mark), False)
            yield mark, Partials(self.layout, self.table.filter(mine).drop_columns([JUDGED]))


def stored_partials(reduction: Reduction, rows: DataFrame) -> StoredPartials:
    """Reduce stored rows. One Spark job."""
    judged = f"CASE WHEN {CLOCK} < {BEFORE} THEN {BEFORE} END"
    table = reduction.of(rows.withColumn(CORRUPT, F.lit(None)), judged=judged)
    return StoredPartials(reduction.layout, without_clocks(table))


def closed_before(
    stream: Stream, queries: Mapping[str, Woven], past: StoredPartials, watermark: int | None
) -> dict[str, list[GroupSelection]]:
    """The windows of new queries that had closed up to a watermark, by the queries' names."""
    weave = StreamWeave(stream, queries)
    closed: dict[str, list[GroupSelection]] = {}
    if watermark is None:
        return closed
    batches = list(past.batches())
    marks = [*(mark for mark, _ in batches[1:]), watermark]
    for (judged, partials), until in zip(batches, marks, strict=True):
        for name, part in weave.advance(partials, judged, until).items():
            closed.setdefault(name, []).append(part)
    return closed
