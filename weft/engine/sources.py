"""Streams as streaming DataFrames, and all of them together as one.

Every stream becomes rows with a tag: which stream, its columns as one struct (s0 for the first stream, s1 for the second,
…), and the text of a record that could not be read. A union of tagged rows lets one micro-batch fix the offsets of all
streams, and one pass read each of them once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.algebra import Stream
from weft.engine.cycle import CORRUPT, STREAM
from weft.engine.expressions import quoted, spark_type
from weft.engine.rows import column

#: The format of streams whose DataFrame is handed over by Python code.
PYTHON = "python"

#: Formats that take a schema and can set malformed records aside.
_TEXTUAL = frozenset({"json", "csv"})
_WITH_SCHEMA = frozenset({"json", "csv", "parquet", "orc", "text", "xml"})


class SourceError(Exception):
    """A stream cannot be read. The message says which, why, and what to do."""


def tagged(spark: SparkSession, streams: Sequence[Stream], frames: Mapping[str, DataFrame]) -> DataFrame:
    """All streams as one streaming DataFrame of tagged rows."""
    schemas = [_struct(stream) for stream in streams]
    parts = []
    for index, stream in enumerate(streams):
        frame = frames[stream.name] if stream.name in frames else read(spark, stream)
        parts.append(tag(frame, stream, index, schemas))
    return reduce(DataFrame.unionAll, parts)


def tag(frame: DataFrame, stream: Stream, index: int, schemas: Sequence[str]) -> DataFrame:
    """The rows of one stream as tagged rows."""
    known = {name.lower(): name for name in frame.columns}
    missing = [field.name for field in stream.fields if field.name.lower() not in known]
    if missing:
        raise SourceError(
            f"stream '{stream.name}' declares {', '.join(missing)}, but its source has only {', '.join(frame.columns)}"
        )
    columns = [
        F.expr(f"try_cast({quoted(known[field.name.lower()])} AS {spark_type(field.type)})").alias(column(position))
        for position, field in enumerate(stream.fields)
    ]
    structs = [
        F.struct(*columns).alias(f"s{other}") if other == index else F.lit(None).cast(schema).alias(f"s{other}")
        for other, schema in enumerate(schemas)
    ]
    corrupt = F.col(CORRUPT) if CORRUPT in frame.columns else F.lit(None).cast("string")
    return frame.select(F.lit(index).alias(STREAM), *structs, corrupt.alias(CORRUPT))


def schemas(streams: Sequence[Stream]) -> list[str]:
    """The struct types of the streams' columns in tagged rows."""
    return [_struct(stream) for stream in streams]


def _struct(stream: Stream) -> str:
    columns = (f"{column(i)}: {spark_type(field.type)}" for i, field in enumerate(stream.fields))
    return f"STRUCT<{', '.join(columns)}>"


def read(spark: SparkSession, stream: Stream) -> DataFrame:
    """The streaming DataFrame of a stream that was declared with USING."""
    if stream.format == PYTHON:
        raise SourceError(
            f"stream '{stream.name}' comes from Python: attach its DataFrame with loom.stream(…) before starting"
        )
    options = dict(stream.options)
    reader = spark.readStream.format(stream.format)
    if stream.format in _WITH_SCHEMA:
        schema = ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field in stream.fields)
        if stream.format in _TEXTUAL:
            # A record that does not fit the schema comes as text in this column, and goes to the dead letter.
            schema += f", {CORRUPT} STRING"
            options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **options}
        reader = reader.schema(schema)
    try:
        return reader.options(**options).load()
    except PySparkException as error:
        first = str(error).strip().split("\n")[0]
        raise SourceError(f"stream '{stream.name}' cannot be read from {stream.format}: {first}") from error
