"""Streams as streaming DataFrames, and their union.

One union of the rows of all streams lets one micro-batch fix the offsets of all of them. `batches.py` says how rows are
then read, and `runtime/spark/rows.py` what they look like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructType

from weft.algebra import Field, Stream, types
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.expressions.spark_expressions import quoted, spark_type
from weft.runtime.sources import replay
from weft.runtime.spark.engine_errors import SourceError
from weft.runtime.spark.rows import CORRUPT, STREAM, TICK, slots, slots_of
from weft.runtime.spark.session import in_session, union_of
from weft.sql import durations
from weft.sql.names import source_refusal

#: The format of streams whose DataFrame is handed over by Python code.
PYTHON = "python"

#: The number that heartbeats have in place of a stream's: rows that only carry the time.
_TICK_TAG = -1

#: Formats that can set malformed records aside, and all formats of files, which take a schema.
TEXTUAL = frozenset({"json", "csv"})
_FILES = frozenset({"json", "csv", "parquet", "orc", "text", "xml"})


@dataclass(frozen=True)
class Sources:
    """The streams of one streaming query, by their numbers in the plan, and the union of their sources."""

    union: DataFrame
    #: Streams of files, in the order in which the union has them; all others come after them.
    files: Mapping[int, Stream]
    others: Mapping[int, Stream]
    #: Whether the union must be computed in each micro-batch, also if no source of other streams has anything new.
    must_be_read: bool


def sources(
    spark: SparkSession,
    streams: Mapping[int, Stream],
    frames: Mapping[str, DataFrame],
    replays: Path,
    *,
    ticks: bool = False,
    say: Callable[[str], None] = lambda sentence: None,
    allowed: Sequence[str] | None = None,
) -> Sources:
    """Return the sources of all streams, which are given by their numbers, with a tick each second if asked.

    `replays` is where replayed streams are cut into steps. `say` takes sentences about folders that do not exist yet.
    `allowed` are the folders that streams may be read from, if the project limits them.
    """
    read_by_number = list(enumerate(streams.items()))
    of_files = {*_FILES, replay.FORMAT}
    files = {at: each for at, (_, each) in read_by_number if each.name not in frames and each.format in of_files}
    others = {at: each for at, (_, each) in read_by_number if at not in files}
    numbers = {at: number for at, (number, _) in read_by_number}
    layout = slots_of(others.values())
    parts = []
    for index, stream in {**files, **others}.items():
        refused = None if stream.name in frames else source_refusal(stream.format, dict(stream.options), allowed)
        if refused is not None:
            raise SourceError(f"stream '{stream.name}' cannot be read: {refused}")
        # Spark wants all sources named or none, and a DataFrame from Python may have no name.
        name = None if frames else f"stream_{numbers[index]}"
        if index in files:
            source = stream
            if stream.format == replay.FORMAT:
                steps = str(replay.prepare(stream, replays / str(numbers[index])))
                source = replace(stream, format="parquet", options=(("path", steps), ("maxFilesPerTrigger", "1")))
            rows = read(spark, source, name, say)
            parts.append(rows.select(F.lit(index).alias(STREAM), *_nothing(layout)))
        else:
            handed = frames.get(stream.name)
            rows = read(spark, stream, name, say) if handed is None else in_session(spark, handed)
            parts.append(rows.select(*tagging(rows.columns, stream, index, layout)))
    if ticks:
        reader = spark.readStream.format("rate").option("rowsPerSecond", 1)
        clock = (reader if frames else reader.name("weft_ticks")).load()
        *nothing, _ = _nothing(layout)
        parts.append(clock.select(F.lit(_TICK_TAG).alias(STREAM), *nothing, F.unix_micros("timestamp").alias(TICK)))
    # What Spark keeps of a DataFrame from Python from one micro-batch to the next needs every one of them.
    return Sources(union_of(parts), files, others, must_be_read=ticks or bool(frames))


def tagging(names: Sequence[str], stream: Stream, index: int, layout: Mapping[str, str]) -> list[Column]:
    """Return what makes tagged rows of a source with columns of these names; `layout` has the types of all slots."""
    known = columns_by_name(f"stream '{stream.name}'", stream.fields, names)
    values = {
        slot: F.expr(f"try_cast({quoted(known[field.name.lower()])} AS {spark_type(field.type)})").alias(slot)
        for slot, field in zip(slots(stream.fields), stream.fields, strict=True)
    }
    *nothing, corrupt, tick = _nothing(layout)
    own = [values.get(slot, null) for slot, null in zip(layout, nothing, strict=True)]
    return [F.lit(index).alias(STREAM), *own, F.col(CORRUPT) if CORRUPT in names else corrupt, tick]


def columns_by_name(owner: str, fields: Sequence[Field], names: Sequence[str]) -> dict[str, str]:
    """The columns of a source by their names in small letters; SourceError unless all declared ones are there."""
    known = {name.lower(): name for name in names}
    missing = [field.name for field in fields if field.name.lower() not in known]
    if missing:
        raise SourceError(f"{owner} declares {', '.join(missing)}, but its source has only {', '.join(names)}")
    return known


def _nothing(layout: Mapping[str, str]) -> list[Column]:
    """Return the columns of a tagged row after its number: NULL in all slots, no text and no tick."""
    types_ = {**layout, CORRUPT: "STRING", TICK: "BIGINT"}
    return [F.lit(None).cast(type_).alias(name) for name, type_ in types_.items()]


def read(spark: SparkSession, stream: Stream, name: str | None, say: Callable[[str], None]) -> DataFrame:
    """The streaming DataFrame of a stream that was declared with USING; a folder that does not exist yet is empty."""
    if stream.format == PYTHON:
        raise SourceError(
            f"stream '{stream.name}' comes from Python: hand its DataFrame to loom.stream(…) before starting"
        )
    options = reading_options(stream)
    reader = spark.readStream.format(stream.format)
    reader = reader if name is None else reader.name(name)
    if stream.format in _FILES:
        schema = declared(stream.fields)
        if stream.format in TEXTUAL:
            # A record that does not fit the schema comes as text in this column, and goes to the dead letter.
            schema += f", {CORRUPT} STRING"
        reader = reader.schema(schema)
    try:
        try:
            return reader.options(**options).load()
        except AnalysisException as error:
            path = options.get("path", "").rstrip("/")
            if stream.format not in _FILES or error.getCondition() != "PATH_NOT_FOUND" or not path[-1:].isalnum():
                raise
            say(f"stream '{stream.name}': {path} does not exist; its files are read as soon as they are there")
            # Spark looks for a path when the source is made, and for the files of a pattern only when it reads them.
            return reader.options(**{**options, "path": f"{path[:-1]}[{path[-1]}]"}).load()
    except (PySparkException, Py4JJavaError) as error:
        said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
        first = str(said).strip().split("\n")[0]
        raise SourceError(f"stream '{stream.name}' cannot be read from {stream.format}: {first}") from error


def reading_options(stream: Stream) -> dict[str, str]:
    """The options with which Spark reads a stream."""
    options = dict(stream.options)
    if stream.format in TEXTUAL:
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **options}
    if stream.format in _FILES:
        # Spark remembers the files of a cycle. One that stopped the stream may be taken away before the next attempt.
        options = {"ignoreMissingFiles": "true", **options}
    return options


def declared(fields: Sequence[Field]) -> str:
    """The columns of a declaration as a schema for Spark."""
    return ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field in fields)


def stream_of(name: str, frame: DataFrame, clock: str, watermark: str) -> Stream:
    """The declaration of a stream that Python hands over as a streaming DataFrame."""
    if not frame.isStreaming:
        raise SourceError(f"the DataFrame for stream '{name}' is not a streaming one; make it with spark.readStream")
    fields = fields_of(f"stream '{name}'", frame.schema)
    found = next((field for field in fields if field.name == clock), None)
    if found is None or found.type not in (TIMESTAMP, BIGINT):
        raise SourceError(f"the clock of stream '{name}' must be one of its TIMESTAMP or BIGINT columns, not '{clock}'")
    try:
        delay = durations.parse(watermark) if found.type == TIMESTAMP else int(watermark)
    except (durations.BadDuration, ValueError) as bad:
        raise SourceError(f"the watermark of stream '{name}' cannot be '{watermark}': {bad}") from None
    return Stream(name, fields, clock, delay, PYTHON)


def fields_of(owner: str, schema: StructType) -> tuple[Field, ...]:
    """The columns of a Spark schema; `owner` names it in errors."""
    for each in schema.fields:
        if not each.name or "\0" in each.name:
            raise SourceError(f"a column of {owner} is called {each.name!r}; give it another name")
    return tuple(Field(each.name, _type_of(owner, each.name, each.dataType)) for each in schema.fields)


#: The types that weft knows besides DECIMAL, by Spark's names for them.
_NUMBERS = (types.TINYINT, types.SMALLINT, types.INT, types.BIGINT, types.FLOAT, types.DOUBLE)
_OTHERS = (types.BOOLEAN, types.STRING, types.BINARY, types.DATE, types.TIMESTAMP)
_TYPES = {spark_type(each).lower(): each for each in (*_NUMBERS, *_OTHERS)}


def _type_of(owner: str, name: str, type_: DataType) -> types.DataType:
    if isinstance(type_, DecimalType):
        return types.decimal(type_.precision, type_.scale)
    # A text may have a collation after its name.
    found = _TYPES.get(type_.simpleString().partition(" ")[0])
    if found is None:
        raise SourceError(f"column '{name}' of {owner} is {type_.simpleString()}, which weft does not know; cast it")
    return found
