"""A cycle while it runs: the rows that operators have got and given so far, and the state that it will commit.

Rows are found under the names of logs. New rows are in the driver (`rows_here`), in a file of the log, or both; the
rows of earlier cycles are in the files that the last commit names. Spark reads either as temporary views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from weft.algebra import Relation, Select, Source, Stream
from weft.arrays.arrow_types import to_inside
from weft.expressions.spark_expressions import column
from weft.plan.event_time import Clock, EventTime, QueryStart, gives_answers
from weft.plan.log_ids import LogId, LogKind
from weft.plan.node_ids import NodeId, log_of
from weft.plan.nodes import Evaluator, RelationNode
from weft.runtime.sinks.sinks import parquet_file
from weft.runtime.spark.rows import ARRIVAL, BEFORE, CLOCK, columns, log_schema, slots
from weft.runtime.spark.session import compile_plans, union_of
from weft.runtime.stages.running_plan import RunningPlan, logged
from weft.runtime.stages.sql.compile import Views
from weft.runtime.state.commits import Commit, FamilyState, Segment, StreamState
from weft.runtime.state.continuity import CycleSpec, Folders
from weft.runtime.state.storage import Storage
from weft.runtime.state.store import Change, StateStore, is_rewritten

#: Above this many rows it pays to compile a plan that reads them; below it, compiling takes longer than the rows do.
WORTH_COMPILING = 300_000

#: Stages that take the rows of other operators in the driver.
_IN_THE_DRIVER = frozenset({Evaluator.GROUPS, Evaluator.SETS})

Step = Callable[[str, int], None]


class RowLogs:
    """Reads and writes the logs and snapshots whose rows Spark reads."""

    def __init__(self, spark: SparkSession, storage: Storage, folders: Folders) -> None:
        self.spark = spark
        self.storage = storage
        self.folders = folders
        #: The schemas of snapshots that this process has written: reading them needs no look into the files.
        self._schemas: dict[str, StructType] = {}

    def read(self, source: Source, segments: Sequence[Segment]) -> DataFrame:
        """The rows of some segments of a log."""
        frames = []
        for tagged in dict.fromkeys(each.tagged for each in segments):
            paths = [self.storage.path(each.path) for each in segments if each.tagged is tagged]
            frame = self.spark.read.schema(log_schema(source.fields, tagged=tagged)).parquet(*paths)
            if tagged:
                own = [f"{slot} AS {column(at)}" for at, slot in enumerate(slots(source.fields))]
                frame = frame.selectExpr(*own, CLOCK, ARRIVAL, BEFORE)
            frames.append(frame)
        return union_of(frames)

    def compacted(self, rows: DataFrame, clock: str, since: Clock, path: str) -> list[Segment]:
        """Rows of a log in one file, without those older than `since`; no file if none are left."""
        needed = rows if since is None else rows.where(f"{clock} >= {since}L")
        return self.write(needed.coalesce(1), clock, path)

    def write(self, rows: DataFrame, clock: str, path: str) -> list[Segment]:
        """Evaluate rows and write them to a folder; no segment if there are none."""
        observation = Observation()
        measures = {"rows": "count(1)", "min": f"min({clock})", "max": f"max({clock})"}
        observed = rows.observe(observation, *(F.expr(text).alias(name) for name, text in measures.items()))
        observed.write.mode("overwrite").parquet(self.storage.path(path))
        found = observation.get
        return [Segment(path, found["rows"], found["min"], found["max"])] if found["rows"] else []

    def read_snapshot(self, path: str) -> DataFrame:
        reader = self.spark.read.schema(self._schemas[path]) if path in self._schemas else self.spark.read
        return reader.parquet(self.storage.path(path))

    def write_snapshot(self, text: str, path: str) -> DataFrame:
        """Evaluate a select, and write its rows as a snapshot."""
        rows = self.spark.sql(text)
        rows.write.mode("overwrite").parquet(self.storage.path(path))
        self._schemas[path] = rows.schema
        return self.read_snapshot(path)

    def forget_snapshots(self, paths: Iterable[str]) -> None:
        self._schemas = {path: self._schemas[path] for path in paths if path in self._schemas}


@dataclass(frozen=True)
class Arrivals:
    """The outcome of a scan: how far streams have come, and the rows that were written."""

    streams: Mapping[str, StreamState]
    event_time: EventTime
    #: The new rows of logs, and whether operators still have to read them there.
    segments: Mapping[LogId, Segment] = field(default_factory=dict)
    are_to_be_read: bool = False
    #: Rows that are late for every query and kept all the same, by log.
    kept_late: Mapping[LogId, Segment] = field(default_factory=dict)
    #: How many rows each log got whose rows are not all written.
    passed: Mapping[LogId, int] = field(default_factory=dict)
    #: The least clock among the new rows of each log, late ones included.
    lowest: Mapping[LogId, int] = field(default_factory=dict)
    #: How many rows are late for each query and not for all others.
    late: Mapping[str, int] = field(default_factory=dict)


class CycleState:
    """One cycle in progress."""

    def __init__(
        self,
        spec: CycleSpec,
        last: Commit,
        planned: RunningPlan,
        arrivals: Arrivals,
        logs: RowLogs,
        on_step: Step,
    ) -> None:
        self.spec = spec
        self.last = last
        self.planned = planned
        self.arrivals = arrivals
        self.event_time = arrivals.event_time
        self.logs = logs
        self.on_step = on_step
        #: The answers of each query, as users see them.
        self.answers: dict[str, pa.Table] = {}
        #: The logs whose new rows are all there.
        self.settled: set[LogId] = set()
        #: The new rows of logs in files, and the views of them and of what was kept.
        self.added: dict[LogId, Segment] = {}
        self._new: dict[LogId, str] = {}
        self._old: dict[LogId, str] = {}
        self._names = 0
        #: New rows that are in the driver, by log, with their clocks as the last column.
        self._tables: dict[LogId, pa.Table] = {}
        #: Snapshots by the id of their operator: views of those from before the cycle, and the new files.
        self.snapshots: dict[str, str] = {}
        self.written_snapshots: dict[str, str] = {}
        #: The least clock among the new rows of each log.
        self._lowest = dict(arrivals.lowest)
        #: The clock that EMIT EMPTY counts from, by operator.
        self.emit_from: dict[str, int] = {}
        self._first_kept: dict[LogId, Clock] = {}
        #: The state that stages hand over: segments by log, and the labels of join rows.
        self.kept: dict[LogId, tuple[Segment, ...]] = {}
        self._changes: list[Change] = []
        self.labels: Mapping[LogId, FamilyState] = {}
        self._register()

    def _register(self) -> None:
        """Have views of what was kept, and of the new rows of streams."""
        plan = self.spec.plan
        for log, source in logged(plan, self.planned).items():
            segments = self.last.logs.get(log, ())
            if segments:
                self._old[log] = self.view(self.logs.read(source, segments))
        for state in self.last.queries.values():
            self.emit_from.update(state.emit_from)
        for id_, path in self.last.snapshots.items():
            self.snapshots[id_] = self.view(self.logs.read_snapshot(path))
        self.settled.update(LogId(LogKind.TABLE, each.name) for each in plan.tables)
        for stream in plan.streams:
            log = LogId(LogKind.STREAM, stream.name)
            self.settled.add(log)
            if log in self.arrivals.segments:
                segment = self.added[log] = self.arrivals.segments[log]
                if self.arrivals.are_to_be_read:
                    self._new[log] = self.view(self.logs.read(stream, [segment]))

    @property
    def number(self) -> int:
        return self.spec.cycle

    @property
    def folder(self) -> str:
        return self.logs.folders.of(self.number)

    # -- inputs -------------------------------------------------------------------------------------------------------

    @property
    def views(self) -> Views:
        return Views(self._new, self._old, self.planned.given)

    def is_ready(self, operator: RelationNode) -> bool:
        return self.settled.issuperset(operator.logs)

    def rows_here(self, log: LogId) -> pa.Table | None:
        """The new rows of a log, in the driver."""
        if log not in self._tables and log in self._new:
            self._compile_plans([self.added[log]] if log in self.added else ())
            self._tables[log] = self.logs.spark.table(self._new[log]).drop(ARRIVAL, BEFORE).toArrow()
        return self._tables.get(log)

    def kept_rows(self, log: LogId) -> pa.Table | None:
        """The rows of earlier cycles of a log, in the driver."""
        if log not in self._old:
            return None
        self._compile_plans(self.last.logs[log])
        return self.logs.spark.table(self._old[log]).toArrow()

    def _compile_plans(self, segments: Iterable[Segment]) -> None:
        compile_plans(self.logs.spark, sum(each.rows for each in segments) > WORTH_COMPILING)

    @property
    def new_rows(self) -> dict[LogId, int]:
        """How many new rows each log got, as far as they were counted."""
        return {log: each.rows for log, each in self.added.items()} | dict(self.arrivals.passed)

    # -- outputs ------------------------------------------------------------------------------------------------------

    def give(self, node: RelationNode, rows: pa.Table) -> None:
        """Put the new rows of a relation, with their clocks, to where its readers find them."""
        names = self.planned.answered[node.text]
        self.give_answers(names, rows.remove_column(rows.num_columns - 1))
        for name in names:
            if name in self.planned.read_by_others:
                log = LogId(LogKind.ANSWERS, name)
                self._add_table(log, self.planned.queries[name].query.relation, rows)
                self._tables[log] = rows
        readers = self.planned.readers_of(node)
        if readers & _IN_THE_DRIVER:
            self._tables[node.log] = rows
        if node.log in self.planned.kept_logs:
            self._add_table(node.log, node.relation, rows)
        elif readers - _IN_THE_DRIVER:
            self._new[node.log] = self.view(self.logs.spark.createDataFrame(self._logged(node.relation, rows)))

    def give_answers(self, names: Iterable[str], rows: pa.Table) -> None:
        """Give queries their answers, which come without clocks."""
        for name in names:
            fields = self.planned.queries[name].query.relation.fields
            self.answers[name] = rows.rename_columns([each.name for each in fields])

    def settle(self, relations: Iterable[RelationNode]) -> None:
        """All new rows of some relations have been given."""
        for each in relations:
            self.settled.update(self.planned.outputs(each))

    def _add_table(self, log: LogId, relation: Relation, table: pa.Table) -> None:
        """Write rows that are in the driver, with their clocks, to a log."""
        rows = self._logged(relation, table)
        path = f"{self.folder}/rows-{len(self.added)}.parquet"
        self.logs.storage.write_bytes(path, parquet_file(rows))
        clocks = np.asarray(table[CLOCK])
        self._add(log, relation, Segment(path, rows.num_rows, int(clocks.min()), int(clocks.max())))

    def add_select(self, log: LogId, relation: Relation, text: str) -> None:
        """Evaluate a select, and write its rows, if there are any, to a log."""
        before = self.event_time.watermark(relation, after=False)
        judged = "CAST(NULL AS BIGINT)" if before is None else f"{before}L"
        if before is not None and gives_answers(relation):
            # An answer is never late. One from history counts as if it had been given when its instance closed.
            judged = f"least({judged}, {CLOCK} - 1L)"
        listed = f"{columns(relation.fields)}{CLOCK}, {self.number}L AS {ARRIVAL}, {judged} AS {BEFORE}"
        rows = self.logs.spark.sql(f"SELECT {listed} FROM ({text})")
        for segment in self.logs.write(rows, CLOCK, f"{self.folder}/rows-{len(self.added)}"):
            self._add(log, relation, segment)

    def _add(self, log: LogId, relation: Relation, segment: Segment) -> None:
        assert segment.min_clock is not None
        self._lowest[log] = segment.min_clock
        self.added[log] = segment
        self._new[log] = self.view(self.logs.read(relation, [segment]))

    def _logged(self, relation: Relation, table: pa.Table) -> pa.Table:
        """Rows as a log has them, with the cycle and the watermark that they are judged by."""
        before = self.event_time.watermark(relation, after=False)
        clocks = np.asarray(table[CLOCK])
        judged = pa.nulls(len(clocks), pa.int64())
        if before is not None:
            # The answer of an instance is never late: it is judged by what the watermark was before it closed.
            marks = np.minimum(before, clocks - 1) if gives_answers(relation) else np.full(len(clocks), before)
            judged = pa.array(marks)
        values = [to_inside(table[number], each.type) for number, each in enumerate(relation.fields)]
        names = [*(column(number) for number in range(len(relation.fields))), CLOCK, ARRIVAL, BEFORE]
        return pa.table([*values, table[CLOCK], pa.array(np.full(len(clocks), self.number)), judged], names=names)

    def write_snapshot(self, id_: str, log: LogId, text: str) -> None:
        """Make the rows of a select the snapshot of an operator, which Spark finds under the name of a log."""
        path = f"{self.folder}/snapshot-{len(self.written_snapshots)}"
        self._new[log] = self.view(self.logs.write_snapshot(text, path))
        self.written_snapshots[id_] = path

    def view(self, frame: DataFrame) -> str:
        """Register rows as a view of the cycle."""
        self._names += 1
        name = f"weft_{self._names}"
        frame.createOrReplaceTempView(name)
        return name

    def drop_views(self) -> None:
        for number in range(1, self._names + 1):
            self.logs.spark.catalog.dropTempView(f"weft_{number}")

    def note_first_rows(self, operator: RelationNode) -> None:
        """Remember the smallest clock in the first cycle that has rows: EMIT EMPTY counts from it.

        What had closed before that cycle was not answered then, and is not later, when a query looks back.
        """
        relation, id_ = operator.relation, operator.node_id
        if not (isinstance(relation, Select) and relation.emit_empty) or id_.text in self.emit_from:
            return
        source = relation.inputs[0].source
        lowest = self._first_kept_clock(source, operator.start)
        log = log_of(source, id_.below(0))
        if lowest is None and log in self._lowest:
            lowest = self._lowest[log]
            watermark = self.event_time.watermark(source, after=False)
            # Answers for the history of streams are older, and not late: they come when a query begins.
            if watermark is not None and not gives_answers(source):
                lowest = max(lowest, watermark)
        if lowest is not None:
            self.emit_from[id_.text] = lowest

    def _first_kept_clock(self, source: Source, start: QueryStart) -> Clock:
        """The smallest clock in the first cycle of the history that a query finds when it is created."""
        log = log_of(source, NodeId(start.number))
        horizon = self.event_time.horizon(source, start)
        is_new = self.number == start.first
        if not (isinstance(source, Stream) and source.backfill and is_new and log in self._old and horizon is not None):
            return None
        if log not in self._first_kept:
            kept = f"SELECT min(struct({ARRIVAL}, {CLOCK}, {BEFORE})) AS first FROM {self._old[log]}"
            found = self.logs.spark.sql(f"{kept} WHERE {CLOCK} > {horizon}L").selectExpr(
                f"greatest(first.{CLOCK}, first.{BEFORE})"
            )
            (self._first_kept[log],) = found.toArrow().column(0).to_pylist()
        return self._first_kept[log]

    # -- state for later cycles ---------------------------------------------------------------------------------------

    def keep(self, log: LogId, segments: Sequence[Segment]) -> None:
        if segments:
            self.kept[log] = tuple(segments)

    def change(self, change: Change) -> None:
        """Change a log in the file that the cycle writes for all of them."""
        self._changes.append(change)

    def write_state(self, store: StateStore) -> None:
        if any(map(is_rewritten, self._changes)):
            self.begin_compaction()
        self.kept.update(store.write(f"{self.folder}/state", self._changes))

    def begin_compaction(self) -> None:
        self.on_step("compact", self.number)
