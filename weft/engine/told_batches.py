"""Batches that somebody else counts: files of rows, handed over with the clocks that streams have reached.

A stream that is read elsewhere comes here in part. One batch of it is one cycle, also if no row of it came here; its
clocks are those of the whole stream. Columns that nobody here asks for may be missing in the files, and are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from weft.algebra import Stream
from weft.engine.sources import declared, schemas, tag
from weft.engine.storage import local_uri


def told_batch(spark: SparkSession, streams: Sequence[Stream], files: Mapping[str, Path]) -> DataFrame | None:
    """The rows of Parquet files, by stream, as tagged rows; None if there are none."""
    structs = schemas(streams)
    parts = [
        tag(spark.read.schema(declared(stream.fields)).parquet(local_uri(files[stream.name])), stream, index, structs)
        for index, stream in enumerate(streams)
        if stream.name in files
    ]
    return reduce(DataFrame.unionAll, parts) if parts else None
