"""Taking the rows of a batch in: each once, and those that can take part in nothing set aside.

    straight    woven streams are reduced, and the network takes what it wants, from the batch itself; what joins will
                look for again is written to the logs, nothing else is
    written     all rows go to the logs of their streams, in one pass: a relation that Spark evaluates by itself reads
                them, they are kept for queries to come, or some row is late or malformed and goes to the dead letter

Nobody can tell which way it was. What goes straight is good to the last row, or else all is taken in again, written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from weft.algebra import Stream
from weft.plan.event_time import Clock, EventTime, RunningQuery
from weft.plan.log_ids import LogId
from weft.runtime.columnar.packed_selects import Packed
from weft.runtime.columnar.rows import CLOCK, CORRUPT, clock_sql, columns
from weft.runtime.continuity import Folders, logged, states_of
from weft.runtime.decision import Decision
from weft.runtime.intake import MEASURES, Seen, advanced, judged_part, measures_of, measures_of_part, seen_in
from weft.runtime.pieces.pieces import Evaluator, Piece
from weft.runtime.sinks.dead_letter import write_dead_letters, write_late_letters
from weft.runtime.sinks.sinks import parquet_file
from weft.runtime.sources.batches import Batch
from weft.runtime.sources.late_rows import (
    counting,
    late_conditions,
    late_everywhere,
    streams_with_losses,
)
from weft.runtime.spark.session import compile_plans, in_few_tasks, union_of
from weft.runtime.stages.joins.asking import Asking
from weft.runtime.stages.joins.stage import NetworkPass
from weft.runtime.stages.windows.stage import Reduced, WovenStage
from weft.runtime.state.commits import Commit, Segment, StreamState
from weft.runtime.state.storage import Storage
from weft.runtime.work import Logs, Work

Taken = tuple[dict[str, StreamState], Work]


@dataclass(frozen=True)
class Readers:
    """Whom the rows of a cycle are taken in for."""

    cycle: int
    queries: Mapping[str, RunningQuery]
    pieces: Sequence[Piece]
    network: NetworkPass
    #: The queries that are not answered from partials as a whole.
    others: Mapping[str, RunningQuery]

    def event_time(self, before: Mapping[str, int | None], after: Mapping[str, int | None]) -> EventTime:
        return EventTime(self.cycle, before, after, self.queries)


class Ingest:
    """Takes in the rows of one batch after the other."""

    def __init__(self, spark: SparkSession, storage: Storage, logs: Logs, stage: WovenStage, folders: Folders) -> None:
        self._folders = folders
        self._spark = spark
        self._storage = storage
        self._logs = logs
        self._stage = stage
        #: The streams of which each query may lose rows, by the query's number.
        self._lossy: dict[int, frozenset[str]] = {}
        #: Queries that are not woven as a whole, and those of them that may lose rows of each stream.
        self._losses: tuple[object, Mapping[str, Mapping[str, RunningQuery]]] = (None, {})

    def take_in(self, batch: Batch | None, decision: Decision, last: Commit, readers: Readers) -> Taken:
        """Take in the rows of a batch."""
        plan = decision.plan
        if (
            batch is not None
            and batch.parts
            and decision.patience is None
            and self._may_go_straight(batch, decision, readers)
        ):
            taken = self._straight(batch, decision, last, readers)
            if taken is not None:
                self._count_late_rows(plan.streams, readers, taken[1])
                if not (decision.keeps_late_rows and taken[1].late):
                    return taken
        streams, work = self._written(batch, decision, last, readers)
        for name in [each.name for each in plan.streams if self._stage.reads(each.name)]:
            if LogId.stream(name) in work.added:
                rows = self._logs.read(plan.stream(name), [work.added[LogId.stream(name)]])
                judged = rows.withColumn(CORRUPT, F.lit(None))
                work.reduced[name] = self._stage.reduce(name, judged, from_files=True)
        self._count_late_rows(plan.streams, readers, work)
        if decision.keeps_late_rows and work.late:
            self._keep_late_rows(plan.streams, readers, work)
        return streams, work

    # -- late rows ----------------------------------------------------------------------------------------------------

    def _count_late_rows(self, streams: Sequence[Stream], readers: Readers, work: Work) -> None:
        """Count the rows that are late for one query and not for all: see `late_rows.py`."""
        counted: Counter[str] = Counter()
        asked: list[tuple[Packed, Mapping[str, list[str]]]] = []
        for each in streams:
            watermark = work.event_time.watermark(each, after=False)
            if watermark is None:
                continue
            if each.name in work.reduced:
                reduced = work.reduced[each.name]
                for name, count in reduced.weave.late_rows(reduced.partials, watermark).items():
                    # What queries that are not woven as a whole are made of may be woven: see below.
                    if name in readers.queries and name not in readers.others:
                        counted[name] += count
            segment = work.added.get(LogId.stream(each.name))
            if segment is not None and segment.min_clock is not None and segment.min_clock < watermark:
                losing = self._losing(each, readers)
                if losing:
                    asked.append(counting(each, losing, work.event_time, work.new[LogId.stream(each.name)]))
        found = Asking(self._spark).collected([packed for packed, _ in asked])
        for packed, of_queries in asked:
            for name, of_query in of_queries.items():
                counted[name] += sum(found[packed.name][column][0].as_py() for column in of_query)
        work.late = {name: count for name, count in counted.items() if count}

    def _keep_late_rows(self, streams: Sequence[Stream], readers: Readers, work: Work) -> None:
        """Write the rows that are late for one query and not for all to the dead letters. Islands only count them."""
        if self._folders.island:
            return
        losing = {name: readers.queries[name].query.relation for name in work.late}
        for each in streams:
            log, watermark = LogId.stream(each.name), work.event_time.watermark(each, after=False)
            found = {name: late_conditions(relation, each, work.event_time) for name, relation in losing.items()}
            losers = {name: conditions for name, conditions in found.items() if conditions}
            if log in work.new and watermark is not None and losers:
                rows = self._spark.table(work.new[log]).where(f"{CLOCK} < {watermark}L")
                write_late_letters(rows, each, losers, self._storage, readers.cycle)

    def _losing(self, stream: Stream, readers: Readers) -> Mapping[str, RunningQuery]:
        """The queries not woven as a whole that may lose rows of a stream."""
        if self._losses[0] is not readers.others:
            of_streams: dict[str, dict[str, RunningQuery]] = {}
            known, self._lossy = self._lossy, {}
            for name, each in readers.others.items():
                number = each.start.number
                lossy = known[number] if number in known else streams_with_losses(each.query.relation)
                self._lossy[number] = lossy
                for lost in lossy:
                    of_streams.setdefault(lost, {})[name] = each
            # It is the same mapping as long as the queries are the same.
            self._losses = readers.others, of_streams
        return self._losses[1].get(stream.name, {})

    # -- straight -----------------------------------------------------------------------------------------------------

    def _may_go_straight(self, batch: Batch, decision: Decision, readers: Readers) -> bool:
        """Whether only joins in the driver need rows of the batch in the logs of streams, and it is cheap to read.

        Rows that are not cheap to read are read once: those of a stream that is reduced and not selected from.
        """
        streams = {LogId.stream(each.name) for each in batch.streams.values()}
        taken = (Evaluator.WEAVE, Evaluator.NETWORK)
        read = {log for piece in readers.pieces if piece.evaluator not in taken for log in piece.inputs}
        backfilled = {LogId.stream(each.name) for each in decision.plan.streams if each.backfill}
        away = {log for each in readers.network.families if each.on_executors for log in each.family.legs}
        if not streams.isdisjoint(read | backfilled | away):
            return False
        selected = {each.family.name for each in readers.network.families}

        def is_read_once(stream: Stream) -> bool:
            return self._stage.reads(stream.name) and LogId.stream(stream.name) not in selected

        return all(part.is_cheap or all(map(is_read_once, part.streams.values())) for part in batch.parts)

    def _straight(self, batch: Batch, decision: Decision, last: Commit, readers: Readers) -> Taken | None:
        """Take in all rows without writing them down; None if some must be set aside."""
        plan = decision.plan
        states = states_of(last, plan)
        before = {name: state.largest for name, state in states.items()}
        earlier = readers.event_time(before, before)
        # A batch comes with a session of its own, whose settings are those of when the streaming query started. Its
        # files go by ours: with plans that are not compiled, they would be read row by row and not column by column.
        compile_plans(batch.session, True)
        compile_plans(self._spark, True)
        reduced: dict[str, Reduced] = {}
        seen = {each.name: Seen(0, 0, None, None) for each in plan.streams}
        unknown: dict[int, Stream] = {}
        for index, each in batch.streams.items():
            if not self._stage.reads(each.name):
                unknown[index] = each
                continue
            part = batch.part_of(index)
            partials = self._stage.reduce(each.name, part.rows(index), from_files=part.is_cheap)
            if partials.has_late_rows(earlier.watermark(each, after=False)):
                return None
            seen[each.name] = Seen(partials.rows, partials.bad, partials.least, partials.latest)
            if partials.rows:
                reduced[each.name] = partials
        if any(each.bad for each in seen.values()):
            return None
        marks = {LogId.stream(each.name): earlier.watermark(each, after=False) for each in plan.streams}
        losing = {
            index: each
            for index, each in batch.streams.items()
            if marks[LogId.stream(each.name)] is not None and self._losing(each, readers)
        }
        needed = logged(plan, readers.pieces)
        found = self._asked(batch, unknown | losing, readers.network, needed)
        told = seen_in(found[MEASURES]) if MEASURES in found else {}
        if any(
            each.is_before(marks[LogId.stream(losing[index].name)]) for index, each in told.items() if index in losing
        ):
            # They are counted in the stream's log.
            return None
        seen |= {unknown[index].name: each for index, each in told.items() if index in unknown}
        if not all(seen[each.name].is_good(each, decision.latest) for each in plan.streams):
            return None
        for each in unknown.values():
            is_judged = late_everywhere(each, earlier, readers.queries) is not None
            if is_judged and seen[each.name].is_before(marks[LogId.stream(each.name)]):
                return None
        wanted = {log: (found[log], mark) for log, mark in marks.items() if log in found}
        kept = readers.network.take_straight(wanted, needed)
        streams = {}
        for name, state in states.items():
            clocks = (state.largest, seen[name].latest, decision.heartbeats.get(name))
            largest = max((clock for clock in clocks if clock is not None), default=None)
            streams[name] = replace(state, largest=largest, rows=state.rows + seen[name].rows)
        work = Work(readers.event_time(before, {name: state.largest for name, state in streams.items()}))
        work.reduced = reduced
        work.lowest = {LogId.stream(name): each.least for name, each in seen.items() if each.least is not None}
        work.passed = {LogId.stream(name): each.rows for name, each in seen.items() if each.rows}
        for index, each in enumerate(plan.streams):
            found_again = kept.get(LogId.stream(each.name))
            if found_again is not None and found_again.num_rows:
                path = f"{self._folders.of(readers.cycle)}/stream-{index}.parquet"
                work.added[LogId.stream(each.name)] = self._segment(found_again, path, seen[each.name].rows)
        return streams, work

    def _segment(self, rows: pa.Table, path: str, arrived: int) -> Segment:
        """Write down rows of a log, of so many that have arrived."""
        self._storage.write_bytes(path, parquet_file(rows))
        clocks = np.asarray(rows[CLOCK])
        return Segment(path, rows.num_rows, int(clocks.min()), int(clocks.max()), arrived=arrived)

    def _asked(
        self, batch: Batch, unknown: Mapping[int, Stream], network: NetworkPass, needed: Collection[LogId]
    ) -> dict[str, pa.Table]:
        """The rows that the network wants, by log, and what tells of streams of which nothing is known, in one job."""
        asking = Asking(batch.session)
        wanted = {each.family.name for each in network.families}
        rows, views = {}, {}
        for index, each in batch.streams.items():
            log = LogId.stream(each.name)
            if log not in wanted and index not in unknown:
                continue
            view = asking.registered(batch.part_of(index).rows(index))
            if log in wanted:
                rows[log] = f"(SELECT {columns(each.fields)}{clock_sql(each)} AS {CLOCK} FROM {view})"
            if index in unknown:
                views[index] = view
        texts = network.asked_straight(rows, needed)
        if unknown:
            texts.append(measures_of(unknown, views))
        found = asking.collected(texts, compiled=True)
        asking.drop_views()
        return found

    # -- written ------------------------------------------------------------------------------------------------------

    def _written(self, batch: Batch | None, decision: Decision, last: Commit, readers: Readers) -> Taken:
        """Write the rows of a batch to the streams' logs, in one pass over it."""
        plan, cycle = decision.plan, readers.cycle
        states = states_of(last, plan)
        before = {name: state.largest for name, state in states.items()}
        earlier = readers.event_time(before, before)
        path = f"{self._folders.of(cycle)}/streams"
        measured: Mapping[str, int] = {}
        if batch is not None and batch.parts:
            measured = self._judged_and_written(batch, decision.latest, earlier, readers.queries, path)
        streams: dict[str, StreamState] = {}
        segments: dict[LogId, Segment] = {}
        late_segments: dict[LogId, Segment] = {}
        for index, each in enumerate(plan.streams):
            known = states[each.name]
            rows = measured.get(f"rows_{index}") or 0
            lowest, highest = measured.get(f"min_{index}"), measured.get(f"max_{index}")
            late, bad = measured.get(f"late_{index}") or 0, measured.get(f"bad_{index}") or 0
            clocks = [c for c in (known.largest, highest, decision.heartbeats.get(each.name)) if c is not None]
            grown = replace(known, largest=max(clocks, default=None))
            streams[each.name] = replace(
                advanced(grown, each, measured.get("tick"), bool(rows), decision.patience),
                rows=known.rows + rows,
                late=known.late + late,
                bad=known.bad + bad,
            )
            if rows:
                where = f"{path}/stream={index}/reason=none"
                segments[LogId.stream(each.name)] = Segment(where, rows, lowest, highest, tagged=True)
            if late and each.backfill:
                # Late for all queries that there are, and perhaps not for one to come.
                where = f"{path}/stream={index}/reason=late"
                newest = earlier.watermark(each, after=False)
                least = measured.get(f"least_{index}")
                late_segments[LogId.stream(each.name)] = Segment(where, late, least, newest, tagged=True)
            # An island reads what the shared plan reads, which has set these rows aside already.
            if (late or bad) and not self._folders.island:
                write_dead_letters(self._spark, self._storage, each, index, path, cycle)
        work = Work(readers.event_time(before, {name: state.largest for name, state in streams.items()}))
        for index, each in enumerate(plan.streams):
            lowest = measured.get(f"least_{index}")
            if lowest is not None:
                work.lowest[LogId.stream(each.name)] = lowest
        work.kept_late = late_segments
        for log, segment in segments.items():
            self._logs.add_segment(log, plan.stream(log.of), segment, work)
        return streams, work

    def _judged_and_written(
        self,
        batch: Batch,
        latest: Clock,
        event_time: EventTime,
        queries: Mapping[str, RunningQuery],
        path: str,
    ) -> dict[str, int]:
        """Write the rows of a batch, by stream and reason, in one job; what it tells of the streams."""
        compile_plans(batch.session, not batch.is_small)
        layout = batch.slots()
        observations, parts = [], []
        for part in batch.parts:
            # Each part is measured apart: what a row costs does not depend on how many other streams have rows.
            observation = Observation()
            judged = judged_part(part, layout, latest, event_time, queries)
            parts.append(judged.observe(observation, F.expr(measures_of_part(part.streams)).alias("measured")))
            observations.append(observation)
        rows = in_few_tasks(union_of(parts), len(parts))
        # Rows are read once or twice more: to look for values that repeat takes longer than it saves.
        writer = rows.write.option("parquet.enable.dictionary", "false").partitionBy("stream", "reason")
        writer.mode("overwrite").parquet(self._storage.path(path))
        found: dict[str, int] = {}
        for observation in observations:
            measured = observation.get["measured"].asDict()
            found |= {name: value for name, value in measured.items() if value is not None}
        return found
