"""A batch of files as Spark would read it without a stream around it.

Spark hands the rows of a micro-batch over as they come out of its own plan: every column of every row, packed into the
struct of its stream. A job over them cannot skip columns that nobody asks for, and unpacks what was just packed, which
takes longer than reading and aggregating do. The plan of the batch names the files, though, and a job that begins with
them is compiled as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming import StreamingQuery

from weft.algebra import Stream
from weft.engine import replay
from weft.engine.sources import schemas, tagging

#: Formats whose rows do not depend on which columns are read. In CSV and JSON, a record is malformed by any of them.
_COLUMNAR = frozenset({"parquet", "orc", replay.FORMAT})


def can_be_read_straight(streams: Sequence[Stream]) -> bool:
    """Whether the batches of some streams are nothing but files whose columns can be read one by one."""
    return all(stream.format in _COLUMNAR for stream in streams)


class StraightReader:
    """Reads the batches of some streams. What makes tagged rows of theirs is told to Spark once."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._tagging: dict[int, list[Column]] = {}

    def read(self, batch: DataFrame, query: StreamingQuery) -> DataFrame:
        """The same tagged rows as in the batch that a query is at, straight from its files."""
        running: Any = query
        leaves = running._jsq.streamingQuery().lastExecution().logical().collectLeaves()
        if leaves.size() != len(self._streams):
            return batch
        session: Any = batch.sparkSession
        parts = []
        for index in range(len(self._streams)):
            leaf = leaves.apply(index)
            # A stream without new files is an empty relation, and not one of files.
            if leaf.getClass().getSimpleName() == "LogicalRelation":
                files = DataFrame(session._jsparkSession.baseRelationToDataFrame(leaf.relation()), session)
                parts.append(files.select(*self._tags(files, index)))
        return reduce(DataFrame.unionAll, parts) if parts else batch

    def _tags(self, files: DataFrame, index: int) -> list[Column]:
        if index not in self._tagging:
            self._tagging[index] = tagging(files.columns, self._streams[index], index, schemas(self._streams))
        return self._tagging[index]
