"""Batches that somebody else counts: files of rows, handed over with the clocks that streams have reached.

A stream that is read elsewhere comes here in part. One batch of it is one cycle, also if no row of it came here; its
clocks are those of the whole stream. Columns that nobody here asks for may be missing in the files, and are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from weft.algebra import Stream
from weft.runtime.columnar.rows import slots_of
from weft.runtime.sources.batches import Batch, Part
from weft.runtime.sources.sources import declared, tagging
from weft.runtime.state.storage import local_uri


def told_batch(spark: SparkSession, streams: Sequence[Stream], files: Mapping[str, Path]) -> Batch | None:
    """The rows of Parquet files, by stream; None if there are none."""
    parts = []
    for index, stream in enumerate(streams):
        if stream.name in files:
            rows = spark.read.schema(declared(stream.fields)).parquet(local_uri(files[stream.name]))
            tagged = rows.select(*tagging(rows.columns, stream, index, slots_of([stream])))
            parts.append(Part({index: stream}, tagged, is_cheap=True))
    return Batch(parts) if parts else None
