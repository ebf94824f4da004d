"""A cycle in progress: the rows it has got, the state it is building, and the logs that rows are kept in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from weft.algebra import Relation, Source
from weft.arrays.arrow_types import to_inside
from weft.plan.event_time import Clock, EventTime, gives_answers
from weft.plan.log_ids import LogId
from weft.runtime.columnar.rows import ARRIVAL, BEFORE, CLOCK, column, columns, log_schema, slots
from weft.runtime.continuity import Folders
from weft.runtime.places import Place
from weft.runtime.sinks.sinks import parquet_file
from weft.runtime.spark.session import union_of
from weft.runtime.stages.sql.compile import Views
from weft.runtime.stages.windows.stage import Reduced
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.storage import Storage


@dataclass
class Work:
    """The views that a cycle has registered, and what it has found and written so far."""

    event_time: EventTime
    new: dict[LogId, str] = field(default_factory=dict)
    old: dict[LogId, str] = field(default_factory=dict)
    #: New rows that are in the driver, by log, with their clocks as the last column.
    tables: dict[LogId, pa.Table] = field(default_factory=dict)
    snapshots: dict[str, str] = field(default_factory=dict)
    added: dict[LogId, Segment] = field(default_factory=dict)
    #: How many rows each log got whose rows are not all written down.
    passed: dict[LogId, int] = field(default_factory=dict)
    #: Rows that are late for every query and kept all the same, by log.
    kept_late: dict[LogId, Segment] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    #: The least clock among the rows that each log got in this cycle, late ones included.
    lowest: dict[LogId, int] = field(default_factory=dict)
    emit_from: dict[str, int] = field(default_factory=dict)
    #: The smallest clock in the first cycle of what a stream has kept for queries that are new, by log.
    first_kept: dict[LogId, Clock] = field(default_factory=dict)
    names: int = 0
    #: How many rows are late for each query, by name, and not for all others.
    late: Mapping[str, int] = field(default_factory=dict)
    #: The new rows of each stream as partials.
    reduced: dict[str, Reduced] = field(default_factory=dict)
    #: The queries whose answers other queries read.
    read_by_others: frozenset[str] = frozenset()
    #: The logs of relations that are evaluated for all queries together.
    given: frozenset[LogId] = frozenset()

    @property
    def views(self) -> Views:
        return Views(self.new, self.old, self.given)


class Logs:
    """Reads and writes the logs and snapshots of a project."""

    def __init__(self, spark: SparkSession, storage: Storage, folders: Folders) -> None:
        self._spark = spark
        self._storage = storage
        self._folders = folders
        #: The schemas of snapshots that this process has written: reading them needs no look into the files.
        self._schemas: dict[str, StructType] = {}

    # -- views --------------------------------------------------------------------------------------------------------

    def view(self, frame: DataFrame, work: Work) -> str:
        """Register rows as a view of the cycle's."""
        work.names += 1
        name = f"weft_{work.names}"
        frame.createOrReplaceTempView(name)
        return name

    def view_of_table(self, log: LogId, relation: Relation, table: pa.Table, work: Work) -> None:
        """Register rows that are in the driver, with their clocks, as the new rows of a log that is not kept."""
        work.new[log] = self.view(self._spark.createDataFrame(_logged(relation, table, work)), work)

    def drop_views(self, work: Work) -> None:
        for number in range(1, work.names + 1):
            self._spark.catalog.dropTempView(f"weft_{number}")

    def register_old(self, last: Commit, kept: Mapping[LogId, Source], work: Work) -> None:
        """Register what was kept: the rows of logs, and snapshots."""
        for log, source in kept.items():
            segments = last.logs.get(log, ())
            if segments:
                work.old[log] = self.view(self.read(source, segments), work)
        for state in last.queries.values():
            work.emit_from.update(state.emit_from)
        for place, path in last.snapshots.items():
            work.snapshots[place] = self.view(self.read_snapshot(path), work)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def read(self, source: Source, segments: Sequence[Segment]) -> DataFrame:
        """The rows of some segments of a log."""
        frames = []
        for tagged in dict.fromkeys(each.tagged for each in segments):
            paths = [self._storage.path(each.path) for each in segments if each.tagged is tagged]
            frame = self._spark.read.schema(log_schema(source.fields, tagged=tagged)).parquet(*paths)
            if tagged:
                own = [f"{slot} AS {column(at)}" for at, slot in enumerate(slots(source.fields))]
                frame = frame.selectExpr(*own, CLOCK, ARRIVAL, BEFORE)
            frames.append(frame)
        return union_of(frames)

    def add_segment(self, log: LogId, source: Source, segment: Segment, work: Work) -> None:
        """Add a file of new rows to a log."""
        work.added[log] = segment
        work.new[log] = self.view(self.read(source, [segment]), work)

    def add_table(self, log: LogId, relation: Relation, table: pa.Table, work: Work) -> None:
        """Add rows that are in the driver, with their clocks, to a log."""
        rows = _logged(relation, table, work)
        path = f"{self._folders.of(work.event_time.cycle)}/rows-{len(work.added)}.parquet"
        self._storage.write_bytes(path, parquet_file(rows))
        clocks = np.asarray(table[CLOCK])
        work.lowest[log] = int(clocks.min())
        segment = Segment(path, rows.num_rows, int(clocks.min()), int(clocks.max()))
        self.add_segment(log, relation, segment, work)

    def add_select(self, log: LogId, relation: Relation, text: str, work: Work) -> None:
        """Evaluate a select and add its rows, if there are any, to a log."""
        cycle, before = work.event_time.cycle, work.event_time.watermark(relation, after=False)
        judged = "CAST(NULL AS BIGINT)" if before is None else f"{before}L"
        if before is not None and gives_answers(relation):
            # An answer is never late. One from history counts as if it had been given when its instance closed.
            judged = f"least({judged}, {CLOCK} - 1L)"
        listed = f"{columns(relation.fields)}{CLOCK}, {cycle}L AS {ARRIVAL}, {judged} AS {BEFORE}"
        observation = Observation()
        path = f"{self._folders.of(cycle)}/rows-{len(work.added)}"
        measures = [F.count(F.lit(1)).alias("rows"), F.min(CLOCK).alias("min"), F.max(CLOCK).alias("max")]
        rows = self._spark.sql(f"SELECT {listed} FROM ({text})").observe(observation, *measures)
        rows.write.mode("overwrite").parquet(self._storage.path(path))
        found = observation.get
        if found["rows"]:
            work.lowest[log] = found["min"]
            self.add_segment(log, relation, Segment(path, found["rows"], found["min"], found["max"]), work)

    def compacted(self, rows: DataFrame, clock: str, since: Clock, path: str) -> list[Segment]:
        """Rows of a log in one file, without those that are older than anybody needs; no file if none are left."""
        needed = rows if since is None else rows.where(f"{clock} >= {since}L")
        observation = Observation()
        measures = [F.count(F.lit(1)).alias("rows"), F.expr(f"min({clock})").alias("min")]
        observed = needed.coalesce(1).observe(observation, *measures, F.expr(f"max({clock})").alias("max"))
        observed.write.mode("overwrite").parquet(self._storage.path(path))
        found = observation.get
        return [Segment(path, found["rows"], found["min"], found["max"])] if found["rows"] else []

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def read_snapshot(self, path: str) -> DataFrame:
        reader = self._spark.read.schema(self._schemas[path]) if path in self._schemas else self._spark.read
        return reader.parquet(self._storage.path(path))

    def write_snapshot(self, place: str, text: str, work: Work) -> None:
        """Evaluate a select and make its rows the snapshot of a place."""
        path = f"{self._folders.of(work.event_time.cycle)}/snapshot-{len(work.written)}"
        rows = self._spark.sql(text)
        rows.write.mode("overwrite").parquet(self._storage.path(path))
        self._schemas[path] = rows.schema
        work.written[place] = path

    def forget_snapshots(self, commit: Commit) -> None:
        """Forget about snapshots that a commit does not have."""
        self._schemas = {path: self._schemas[path] for path in commit.snapshots.values() if path in self._schemas}


def memory_of(place: Place) -> str:
    """What the snapshot of an operator over history goes by."""
    return f"{place.log}.memory"


def _logged(relation: Relation, table: pa.Table, work: Work) -> pa.Table:
    """Rows as a log has them, with the cycle and what they are judged by."""
    cycle, before = work.event_time.cycle, work.event_time.watermark(relation, after=False)
    clocks = np.asarray(table[CLOCK])
    judged = pa.nulls(len(clocks), pa.int64())
    if before is not None:
        # The answer of an instance is never late: it is judged by what the watermark was before it closed.
        marks = np.minimum(before, clocks - 1) if gives_answers(relation) else np.full(len(clocks), before)
        judged = pa.array(marks)
    values = [to_inside(table[number], each.type) for number, each in enumerate(relation.fields)]
    names = [*(column(number) for number in range(len(relation.fields))), CLOCK, ARRIVAL, BEFORE]
    return pa.table([*values, table[CLOCK], pa.array(np.full(len(clocks), cycle)), judged], names=names)
