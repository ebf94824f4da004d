"""The rows of a micro-batch, in parts.

Spark fixes the offsets of all streams together, by one streaming query over the union of their sources. It plans that
union again for each micro-batch, so the plan should be small: a stream of files has one column in it, which is never
computed.

    streams of files     each is read by a plan of its own, which begins with its new files; without new files it costs
                         nothing
    all other streams    come as Spark hands them over, together in one part, with the ticks of the heartbeat

A stream that another process reads comes as an external batch of Parquet files, which is one cycle, even without rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from weft.algebra import Stream
from weft.expressions.spark_expressions import column
from weft.runtime.sources import replay
from weft.runtime.sources.stream_sources import Sources, declared, tagging
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.spark.rows import CORRUPT, STREAM, TICK, slots, slots_of
from weft.runtime.spark.session import union_of
from weft.runtime.state.storage import local_uri

#: The leaves of a micro-batch's plan: the new files of a source, and rows that are in the plan itself, mostly none.
_FILES, _ROWS = "LogicalRelation", "LocalRelation"
#: Formats whose rows do not depend on which columns are read. In JSON and CSV, a record is malformed by any of them.
_COLUMNAR = frozenset({"parquet", "orc", replay.FORMAT})

#: Bytes of files up to which compiling does not pay: the plan that writes rows has clocks as constants, and Spark
#: would compile it in each cycle.
_SMALL = 30_000_000


@dataclass(frozen=True)
class StreamFiles:
    """The new files of one stream, with its number in the plan, and the columns that the names of folders give."""

    index: int
    stream: Stream
    frame: DataFrame
    paths: tuple[str, ...]
    in_folders: tuple[str, ...]
    #: Whether the plan has files twice: Spark takes a name with pattern characters for a pattern, and lists all again.
    is_doubled: bool


@dataclass(frozen=True)
class BatchPart:
    """Tagged rows of some streams, by their numbers in the plan."""

    streams: Mapping[int, Stream]
    frame: DataFrame
    #: Whether its rows can be read again, and only those columns that are needed.
    is_cheap: bool = False
    #: Whether its rows are read from files of text.
    is_text: bool = False
    #: The bytes of its files; None if rows are not read from files.
    size: int | None = None
    #: The files that its rows are read from, if the user has written them.
    files: StreamFiles | None = None

    def values(self, layout: Mapping[str, str]) -> list[str]:
        """The slots of a batch, given with their types, as columns of its rows: NULL if no stream has them."""
        own = slots_of(self.streams.values())
        return [slot if slot in own else f"CAST(NULL AS {type_}) AS {slot}" for slot, type_ in layout.items()]

    def rows(self, index: int) -> DataFrame:
        """The rows of one of the streams: its columns by position, and the text of unreadable ones."""
        named = [f"{slot} AS {column(at)}" for at, slot in enumerate(slots(self.streams[index].fields))]
        rows = self.frame.where(f"{STREAM} = {index}").selectExpr(*named, CORRUPT)
        if not self.is_text:
            return rows
        # Which columns are read decides which records of text are malformed: all are, always.
        plan, session = rows._jdf, rows.sparkSession
        made = session._jsparkSession.internalCreateDataFrame(plan.queryExecution().toRdd(), plan.schema(), False)
        return DataFrame(made, session)


@dataclass(frozen=True)
class Batch:
    """The rows of a micro-batch. A stream that is in no part has none."""

    parts: Sequence[BatchPart]

    @property
    def streams(self) -> dict[int, Stream]:
        """The streams that may have rows, by their numbers in the plan."""
        return {index: stream for part in self.parts for index, stream in part.streams.items()}

    @property
    def session(self) -> SparkSession:
        """The session that the rows are read in."""
        return self.parts[0].frame.sparkSession

    @property
    def is_small(self) -> bool:
        """Whether compiling a plan takes longer than it saves."""
        sizes = [part.size for part in self.parts]
        return all(size is not None for size in sizes) and sum(size or 0 for size in sizes) <= _SMALL

    def part_of(self, index: int) -> BatchPart:
        """The part that has the rows of a stream."""
        return next(part for part in self.parts if index in part.streams)

    def slots(self) -> dict[str, str]:
        """The slots of all rows, with their types."""
        return slots_of(self.streams.values())

    def tagged(self) -> DataFrame:
        """The rows of all parts together."""
        layout = self.slots()
        return union_of([part.frame.selectExpr(STREAM, *part.values(layout), CORRUPT, TICK) for part in self.parts])


class BatchReader:
    """Reads the micro-batches of one streaming query."""

    def __init__(self, sources: Sources, query: StreamingQuery) -> None:
        self._sources = sources
        self._query: Any = query
        #: The columns of tagged rows, by the number of the stream: Spark reads their texts once.
        self._tagging: dict[int, list[Column]] = {}

    def read(self, batch: DataFrame) -> Batch:
        """The rows of the micro-batch that the query is at."""
        sources = self._sources
        listed = self._query._jsq.streamingQuery().lastExecution().logical().collectLeaves()
        leaves = [listed.apply(place) for place in range(listed.size())]
        others = leaves[len(sources.files) :]
        if len(leaves) < len(sources.files) or (others and not (sources.others or sources.must_be_read)):
            raise EngineError(f"Spark's plan of the batch has {len(leaves)} sources for {len(sources.files)} streams")
        parts = []
        for (index, stream), leaf in zip(sources.files.items(), leaves, strict=False):
            kind = leaf.getClass().getSimpleName()
            if kind == _FILES:
                parts.append(self._files(index, stream, leaf, batch.sparkSession))
            elif not _is_empty(leaf):
                raise EngineError(f"Spark reads the files of stream '{stream.name}' by a plan that is unknown: {kind}")
        if sources.must_be_read or not all(map(_is_empty, others)):
            parts.append(BatchPart(sources.others, batch))
        return Batch(parts)

    def _files(self, index: int, stream: Stream, leaf: Any, session: Any) -> BatchPart:
        """The rows of the new files of a stream."""
        relation = leaf.relation()
        frame = DataFrame(session._jsparkSession.baseRelationToDataFrame(relation), session)
        if index not in self._tagging:
            self._tagging[index] = tagging(frame.columns, stream, index, slots_of([stream]))
        own = None
        if stream.format != replay.FORMAT:
            # One text for all paths: each call to Java takes as long as a thousand paths.
            listed = str(relation.location().rootPaths().mkString("\n")).split("\n")
            paths, in_folders = tuple(dict.fromkeys(listed)), tuple(relation.partitionSchema().fieldNames())
            own = StreamFiles(index, stream, frame, paths, in_folders, len(paths) < len(listed))
        rows, size = frame.select(*self._tagging[index]), int(relation.sizeInBytes())
        is_columnar = stream.format in _COLUMNAR
        return BatchPart({index: stream}, rows, is_cheap=is_columnar, is_text=not is_columnar, size=size, files=own)


def _is_empty(leaf: Any) -> bool:
    """Whether a leaf of a plan is that of a source that has nothing new."""
    return leaf.getClass().getSimpleName() == _ROWS and bool(leaf.data().isEmpty())


def external_batch(spark: SparkSession, streams: Sequence[Stream], files: Mapping[str, Path]) -> Batch | None:
    """The rows of Parquet files, by stream; None if there are none."""
    parts = []
    for index, stream in enumerate(streams):
        if stream.name in files:
            rows = spark.read.schema(declared(stream.fields)).parquet(local_uri(files[stream.name]))
            tagged = rows.select(*tagging(rows.columns, stream, index, slots_of([stream])))
            parts.append(BatchPart({index: stream}, tagged, is_cheap=True))
    return Batch(parts) if parts else None
