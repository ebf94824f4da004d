"""History for new queries, on a stream that stores its rows (BACKFILL).

In the first cycle of new queries the stored rows are reduced once more, for all queries of the stream. The result
replaces the stored partials, which may lack what the new queries need.

Instances that had closed before are answered as if the query had been there, without the rows that were late for them.
A row is late for nothing that covers it unless its clock was below the watermark when it arrived. So the partials of
rows that were on time are taken in first, and then, watermark by watermark, those of rows that were not:

    judged by     none      12        40
    partials      ■■■■      ■         ■         go on to 12, take in the late ones, go on to 40, …
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from weft.optimizer.aggregates.stream_shapes import Woven
from weft.runtime.spark.rows import BEFORE, CLOCK, CORRUPT
from weft.runtime.stages.windows.partials import Partials, without_clocks
from weft.runtime.stages.windows.reduction import JUDGED, Reduction
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.window_answers import GroupSelection


def stored_partials(reduction: Reduction, rows: DataFrame) -> tuple[Partials, pa.ChunkedArray]:
    """Stored rows as partials, and the watermark that the rows of each were late by, if they were. One Spark job."""
    judged = f"CASE WHEN {CLOCK} < {BEFORE} THEN {BEFORE} END"
    table = without_clocks(reduction.of(rows.withColumn(CORRUPT, F.lit(None)), judged=judged))
    return Partials(reduction.layout, table.drop_columns([JUDGED])), table[JUDGED]


def closed_before(
    known: StreamWeave, new: Mapping[str, Woven], past: Partials, judged: pa.ChunkedArray, watermark: int
) -> dict[str, list[GroupSelection]]:
    """The windows of new aggregates that had closed up to a watermark, by their ids."""
    weave = StreamWeave(known.stream, new, {id_: known.chosen[id_] for id_ in new})
    closed: dict[str, list[GroupSelection]] = {}
    marks = [None, *sorted(judged.drop_null().unique().to_pylist()), watermark]
    for before, until in pairwise(marks):
        mine = pc.is_null(judged) if before is None else pc.fill_null(pc.equal(judged, before), False)
        for name, part in weave.advance(Partials(past.layout, past.table.filter(mine)), before, until).items():
            closed.setdefault(name, []).append(part)
    return closed
