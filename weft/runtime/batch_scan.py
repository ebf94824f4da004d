"""The scan of a cycle: each new row is read, and those that can take part in nothing are set aside.

    direct     stages reduce rows, or select from them, straight from the batch; what joins look for again is written
               to the logs, nothing else is
    written    all rows go to the logs of their streams, in one pass, since an operator reads them there, they are kept
               for queries to come, or some row is late or malformed and goes to the dead letter

A direct scan comes first where it can. It is good to the last row, or refused, and all rows are scanned again, written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from weft.algebra import Stream
from weft.plan.event_time import Clock, EventTime, RunningQuery
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import Evaluator
from weft.runtime.sinks.sinks import parquet_file, write_dead_letters, write_late_letters
from weft.runtime.sources.batches import Batch
from weft.runtime.sources.row_judging import (
    MEASURES,
    advanced,
    counting,
    judged_rows,
    late_conditions,
    late_everywhere,
    measures_of,
    measures_of_part,
    streams_with_losses,
)
from weft.runtime.spark.rows import CLOCK, CORRUPT, Packed, clock_sql, columns
from weft.runtime.spark.session import compile_plans, in_few_tasks, union_of
from weft.runtime.stages.cycle_state import Arrivals, RowLogs
from weft.runtime.stages.joins.spark_jobs import SparkJobs
from weft.runtime.stages.running_plan import RunningPlan, logged
from weft.runtime.stages.stage import Scan, SeenRows
from weft.runtime.state.commits import Commit, Segment, StreamState
from weft.runtime.state.continuity import CycleSpec, states_of


@dataclass(frozen=True)
class ScanTask:
    spec: CycleSpec
    planned: RunningPlan
    last: Commit
    logs: RowLogs
    #: The queries that are not answered from partials as a whole and may lose rows of a stream, by stream.
    lossy: Mapping[str, Mapping[str, RunningQuery]]


class Scanner:
    def __init__(self, logs: RowLogs) -> None:
        self._logs = logs
        #: The streams of which each query may lose rows, by the query's number.
        self._lossy: dict[int, frozenset[str]] = {}
        #: For the queries of the newest cycle: those that may lose rows of each stream.
        self._losing: tuple[RunningPlan | None, Mapping[str, Mapping[str, RunningQuery]]] = (None, {})

    def scans(
        self,
        batch: Batch | None,
        spec: CycleSpec,
        planned: RunningPlan,
        last: Commit,
        takes: Callable[[Evaluator, LogId], bool],
    ) -> Iterator[DirectScan | WrittenScan]:
        """The scans of a batch, of which the first that has an outcome counts.

        `takes` tells whether a stage takes the new rows of a log while they are scanned.
        """
        task = ScanTask(spec, planned, last, self._logs, self._lossy_queries(planned))
        if batch is not None and batch.parts and spec.intent.patience is None and _may_be_direct(batch, planned, takes):
            yield DirectScan(task, batch)
        yield WrittenScan(task, batch)

    def _lossy_queries(self, planned: RunningPlan) -> Mapping[str, Mapping[str, RunningQuery]]:
        """The queries that are not answered from partials as a whole and may lose rows of a stream, by stream."""
        if self._losing[0] is not planned:
            of_streams: dict[str, dict[str, RunningQuery]] = {}
            known, self._lossy = self._lossy, {}
            for name, each in planned.from_rows.items():
                number = each.start.number
                lossy = known[number] if number in known else streams_with_losses(each.query.relation)
                self._lossy[number] = lossy
                for stream in lossy:
                    of_streams.setdefault(stream, {})[name] = each
            self._losing = planned, of_streams
        return self._losing[1]


def _may_be_direct(batch: Batch, planned: RunningPlan, takes: Callable[[Evaluator, LogId], bool]) -> bool:
    """Whether no operator needs rows of the batch in the logs of streams, and they are cheap to read.

    Rows that are not cheap to read may be read once: those of a stream over which there are only windows.
    """

    def readers(stream: Stream) -> frozenset[Evaluator]:
        return planned.stages_reading.get(LogId(LogKind.STREAM, stream.name), frozenset())

    for stream in batch.streams.values():
        if stream.backfill or not all(takes(stage, LogId(LogKind.STREAM, stream.name)) for stage in readers(stream)):
            return False
    once = frozenset({Evaluator.WINDOWS})
    return all(part.is_cheap or all(readers(each) == once for each in part.streams.values()) for part in batch.parts)


class _Scan(Scan):
    """What both scans have in common."""

    def __init__(self, task: ScanTask) -> None:
        self._spec, self._planned, self._logs, self._lossy = task.spec, task.planned, task.logs, task.lossy
        self._states = states_of(task.last, task.spec.plan)
        self._before = {name: state.largest for name, state in self._states.items()}
        #: The time before the cycle.
        self._earlier = EventTime(task.spec.cycle, self._before, self._before, task.planned.queries)
        self._late: Counter[str] = Counter()

    @cached_property
    def logged(self) -> Collection[LogId]:
        return logged(self._spec.plan, self._planned)

    def watermark(self, stream: Stream) -> Clock:
        return self._earlier.watermark(stream, after=False)

    def count_late(self, query: str, rows: int) -> None:
        self._late[query] += rows

    def _largest(self, name: str, seen: Clock) -> Clock:
        """The largest clock of a stream after the cycle."""
        clocks = (self._before[name], seen, self._spec.intent.heartbeats.get(name))
        return max((clock for clock in clocks if clock is not None), default=None)

    def _event_time(self, streams: Mapping[str, StreamState]) -> EventTime:
        after = {name: state.largest for name, state in streams.items()}
        return EventTime(self._spec.cycle, self._before, after, self._planned.queries)


class DirectScan(_Scan):
    """Rows straight from the batch."""

    is_direct = True

    def __init__(self, task: ScanTask, batch: Batch) -> None:
        super().__init__(task)
        self._batch = batch
        self._seen: dict[str, SeenRows] = {}
        self._is_refused = False
        self._spark = SparkJobs(batch.session)
        self._views: dict[int, str] = {}
        self._asked: dict[str, tuple[Packed, Callable[[pa.Table], None]]] = {}
        self._kept: dict[LogId, pa.Table] = {}
        # A batch comes with a session of its own, whose settings are those of when the streaming query started. Its
        # files are read with ours: without compiled plans, they would be read row by row and not column by column.
        compile_plans(batch.session, True)
        compile_plans(task.logs.spark, True)

    @property
    def streams(self) -> Mapping[int, Stream]:
        return self._batch.streams

    def rows(self, index: int) -> DataFrame:
        return self._batch.part_of(index).rows(index)

    def has_files(self, index: int) -> bool:
        return self._batch.part_of(index).is_cheap

    def see(self, stream: Stream, seen: SeenRows) -> None:
        self._seen[stream.name] = seen

    def refuse(self) -> None:
        self._is_refused = True

    def select(self, index: int) -> str:
        stream = self.streams[index]
        return f"(SELECT {columns(stream.fields)}{clock_sql(stream)} AS {CLOCK} FROM {self._view(index)})"

    def ask(self, text: Packed, then: Callable[[pa.Table], None]) -> None:
        self._asked[text.name] = text, then

    def keep(self, log: LogId, rows: pa.Table) -> None:
        self._kept[log] = rows

    def _view(self, index: int) -> str:
        if index not in self._views:
            self._views[index] = self._spark.registered(self.rows(index))
        return self._views[index]

    def arrivals(self) -> Arrivals | None:
        """The outcome; None if some row must be set aside, and so all must be written."""
        spec, streams = self._spec, self._spec.plan.streams
        try:
            if self._is_refused or any(each.bad for each in self._seen.values()):
                return None
            # The clocks of these are not known yet: nothing reduces the rows, or some query may lose rows of its own.
            unknown = {index: each for index, each in self.streams.items() if each.name not in self._seen}
            read = ((index, each) for index, each in self.streams.items() if each.name in self._lossy)
            losing = {index: each for index, each in read if self.watermark(each) is not None}
            # What stages have asked for, and the measures of some streams, in one job.
            texts = [text for text, _ in self._asked.values()]
            if measured := unknown | losing:
                texts.append(measures_of(measured, {index: self._view(index) for index in measured}))
            found = self._spark.collected(texts, compiled=True)
            if not self._are_good(found, unknown, losing):
                return None
            if spec.intent.keeps_late_rows and any(self._late.values()):
                return None
        finally:
            self._spark.drop_views()
        for name, (_, then) in self._asked.items():
            if name in found:
                then(found[name])
        states = {}
        for name, state in self._states.items():
            seen = self._seen.get(name, SeenRows())
            largest = self._largest(name, seen.latest)
            states[name] = replace(state, largest=largest, rows=state.rows + seen.rows)
        seen_logs = {LogId(LogKind.STREAM, name): each for name, each in self._seen.items()}
        return Arrivals(
            states,
            self._event_time(states),
            segments=dict(self._written(streams)),
            passed={log: each.rows for log, each in seen_logs.items() if each.rows},
            lowest={log: each.least for log, each in seen_logs.items() if each.least is not None},
            late={name: count for name, count in self._late.items() if count},
        )

    def _are_good(
        self, found: Mapping[str, pa.Table], unknown: Mapping[int, Stream], losing: Mapping[int, Stream]
    ) -> bool:
        """Whether every row can take part in the cycle; sees those that nothing reduces."""
        for row in found[MEASURES].to_pylist() if MEASURES in found else ():
            index, seen = row["stream"], SeenRows(row["good"], row["all"] - row["good"], row["min"], row["max"])
            if index in losing and seen.is_before(self.watermark(losing[index])):
                # Late rows of single queries are counted in the stream's log.
                return False
            if index in unknown:
                self._seen[unknown[index].name] = seen
        streams = self._spec.plan.streams
        if not all(self._seen.get(each.name, SeenRows()).is_good(each, self._spec.intent.latest) for each in streams):
            return False
        for each in unknown.values():
            is_judged = late_everywhere(each, self._earlier, self._planned.queries) is not None
            if is_judged and self._seen.get(each.name, SeenRows()).is_before(self.watermark(each)):
                return False
        return True

    def _written(self, streams: Sequence[Stream]) -> Iterator[tuple[LogId, Segment]]:
        """Write the rows that joins look for again."""
        for index, each in enumerate(streams):
            log = LogId(LogKind.STREAM, each.name)
            rows = self._kept.get(log)
            if rows is not None and rows.num_rows:
                path = f"{self._logs.folders.of(self._spec.cycle)}/stream-{index}.parquet"
                self._logs.storage.write_bytes(path, parquet_file(rows))
                clocks = np.asarray(rows[CLOCK])
                arrived = self._seen[each.name].rows
                yield log, Segment(path, rows.num_rows, int(clocks.min()), int(clocks.max()), arrived=arrived)


class WrittenScan(_Scan):
    """Rows from the logs of their streams, to which they have been written."""

    is_direct = False

    def __init__(self, task: ScanTask, batch: Batch | None) -> None:
        super().__init__(task)
        self._path = f"{task.logs.folders.of(task.spec.cycle)}/streams"
        self._measured: Mapping[str, int] = {}
        if batch is not None and batch.parts:
            self._measured = self._judged_and_written(batch)
        self._streams: dict[str, StreamState] = {}
        self._segments: dict[LogId, Segment] = {}
        self._kept_late: dict[LogId, Segment] = {}
        for index, each in enumerate(task.spec.plan.streams):
            self._take_up(index, each)

    def _take_up(self, index: int, stream: Stream) -> None:
        """Note what has been measured of a stream, and write its dead letters."""
        spec, measured, known = self._spec, self._measured, self._states[stream.name]
        rows, late, bad = (measured.get(f"{name}_{index}") or 0 for name in ("rows", "late", "bad"))
        lowest, highest = measured.get(f"min_{index}"), measured.get(f"max_{index}")
        grown = replace(known, largest=self._largest(stream.name, highest))
        self._streams[stream.name] = replace(
            advanced(grown, stream, measured.get("tick"), bool(rows), spec.intent.patience),
            rows=known.rows + rows,
            late=known.late + late,
            bad=known.bad + bad,
        )
        if rows:
            where = f"{self._path}/stream={index}/reason=none"
            self._segments[LogId(LogKind.STREAM, stream.name)] = Segment(where, rows, lowest, highest, tagged=True)
        if late and stream.backfill:
            # Late for all queries that there are, and perhaps not for one to come.
            where = f"{self._path}/stream={index}/reason=late"
            newest, least = self.watermark(stream), measured.get(f"least_{index}")
            self._kept_late[LogId(LogKind.STREAM, stream.name)] = Segment(where, late, least, newest, tagged=True)
        # An island reads what the shared plan reads, which has set these rows aside already.
        if (late or bad) and not self._logs.folders.island:
            write_dead_letters(self._logs.spark, self._logs.storage, stream, index, self._path, spec.cycle)

    @property
    def streams(self) -> Mapping[int, Stream]:
        streams = enumerate(self._spec.plan.streams)
        return {index: each for index, each in streams if LogId(LogKind.STREAM, each.name) in self._segments}

    def rows(self, index: int) -> DataFrame:
        return self._written(self._spec.plan.streams[index]).withColumn(CORRUPT, F.lit(None))

    def _written(self, stream: Stream) -> DataFrame:
        return self._logs.read(stream, [self._segments[LogId(LogKind.STREAM, stream.name)]])

    def has_files(self, index: int) -> bool:
        return True

    def see(self, stream: Stream, seen: SeenRows) -> None:
        """All is known of the rows already."""

    def arrivals(self) -> Arrivals:
        self._count_late_rows()
        late = {name: count for name, count in self._late.items() if count}
        if self._spec.intent.keeps_late_rows and late and not self._logs.folders.island:
            self._write_late_rows(late)
        streams = enumerate(self._spec.plan.streams)
        lowest = {LogId(LogKind.STREAM, each.name): self._measured.get(f"least_{index}") for index, each in streams}
        return Arrivals(
            self._streams,
            self._event_time(self._streams),
            segments=self._segments,
            are_to_be_read=True,
            kept_late=self._kept_late,
            lowest={log: least for log, least in lowest.items() if least is not None},
            late=late,
        )

    def _count_late_rows(self) -> None:
        """Count the rows that are late for one query and not for all, for queries not answered from partials."""
        spark = SparkJobs(self._logs.spark)
        asked: list[tuple[Packed, Mapping[str, list[str]]]] = []
        for each in self._spec.plan.streams:
            watermark, segment = self.watermark(each), self._segments.get(LogId(LogKind.STREAM, each.name))
            losing = self._lossy.get(each.name, {})
            if losing and watermark is not None and segment is not None and (segment.min_clock or 0) < watermark:
                asked.append(counting(each, losing, self._earlier, spark.registered(self._written(each))))
        found = spark.collected([packed for packed, _ in asked])
        spark.drop_views()
        for packed, of_queries in asked:
            for name, of_query in of_queries.items():
                self._late[name] += sum(found[packed.name][column][0].as_py() for column in of_query)

    def _write_late_rows(self, late: Collection[str]) -> None:
        """Write the rows that are late for one query and not for all to the dead letters. Islands only count them."""
        losing = {name: self._planned.queries[name].query.relation for name in late}
        for each in self._spec.plan.streams:
            watermark = self.watermark(each)
            found = {name: late_conditions(relation, each, self._earlier) for name, relation in losing.items()}
            losers = {name: conditions for name, conditions in found.items() if conditions}
            if LogId(LogKind.STREAM, each.name) in self._segments and watermark is not None and losers:
                rows = self._written(each).where(f"{CLOCK} < {watermark}L")
                write_late_letters(rows, each, losers, self._logs.storage, self._spec.cycle)

    def _judged_and_written(self, batch: Batch) -> dict[str, int]:
        """Write the rows of a batch, by stream and reason, in one job; what it measures of the streams."""
        compile_plans(batch.session, not batch.is_small)
        layout = batch.slots()
        observations, parts = [], []
        for part in batch.parts:
            # Each part is measured apart: what a row costs does not depend on how many other streams have rows.
            observation = Observation()
            judged = judged_rows(part, layout, self._spec.intent.latest, self._earlier, self._planned.queries)
            parts.append(judged.observe(observation, F.expr(measures_of_part(part.streams)).alias("measured")))
            observations.append(observation)
        rows = in_few_tasks(union_of(parts), len(parts))
        # Rows are read once or twice more: to look for values that repeat takes longer than it saves.
        writer = rows.write.option("parquet.enable.dictionary", "false").partitionBy("stream", "reason")
        writer.mode("overwrite").parquet(self._logs.storage.path(self._path))
        measured = (observation.get["measured"].asDict().items() for observation in observations)
        return {name: value for of_part in measured for name, value in of_part if value is not None}
