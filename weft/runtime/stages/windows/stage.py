"""The stage of aggregates over streams: its trees in memory, and the partials on disk that they are rebuilt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial

import pyarrow as pa

from weft.algebra import Query, Stream
from weft.plan.event_time import Clock, EventTime, first_open_start
from weft.plan.facts import Facts, facts_of
from weft.plan.log_ids import LogId, LogKind
from weft.runtime.spark.session import compile_plans
from weft.runtime.stages.cycle_state import WORTH_COMPILING, CycleState, RowLogs
from weft.runtime.stages.operators import Operator, StageKind
from weft.runtime.stages.stage import Scan, SeenRows
from weft.runtime.stages.windows.aggregate_stage import AggregateStage
from weft.runtime.stages.windows.backfill import closed_before, stored_partials
from weft.runtime.stages.windows.executors import Executors, KeySetTask, pickled_plan
from weft.runtime.stages.windows.kernel_placement import KeySet, Placements
from weft.runtime.stages.windows.partials import PartialFiles, PartialLog, Partials, block_of
from weft.runtime.stages.windows.stream_weave import ReducedRows, StreamWeave
from weft.runtime.stages.windows.warm_start import PendingRestore
from weft.runtime.stages.windows.window_answers import GroupSelection
from weft.runtime.stages.windows.woven_queries import NotWoven, Woven, woven
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.continuity import CycleSpec
from weft.runtime.state.store import Change, MemoryAccount, StateStore
from weft.sql.settings import Settings
from weft.windows.slicing import ends_between

#: On one machine, one task reduces up to this many rows: with more, a second core is worth a shuffle.
_FEW = 1_000_000


class WindowStage(AggregateStage):
    """The weaves of all streams, as of the last commit."""

    kind = StageKind.WINDOWS
    step = "weave"

    def __init__(
        self,
        logs: RowLogs,
        store: StateStore,
        settings: Settings,
        account: MemoryAccount,
        pending: PendingRestore | None,
    ) -> None:
        super().__init__(store, account)
        self._spark, self._logs = logs.spark, logs
        master = self._spark.sparkContext.master
        self._is_local = master == "local" or master.startswith("local[")
        #: The rows of each stream in the last cycle: the next one will have about as many.
        self._rows: dict[str, int] = {}
        self._pending = pending
        #: The stored partials of each stream, as of the last commit.
        self._stored: dict[str, tuple[Segment, ...]] = {}
        #: The numbers of queries that have had all rows since some watermark: they answer all windows that close.
        self._caught_up: set[int] = set()
        self.log = PartialLog(store)
        self.placements = Placements(settings, self.log.read)
        #: The windows of new queries that had closed before, by stream, found in stored rows.
        self._closed_before: dict[str, dict[str, list[GroupSelection]]] = {}
        self._shapes: dict[int, Woven | None] = {}
        #: The operators of this cycle, and the same by the names of the queries that they are.
        self._operators: Sequence[Operator] = ()
        self._named: dict[str, Operator] = {}
        #: The shapes of these queries by stream.
        self._wanted: dict[str, dict[str, Woven]] = {}
        #: The queries that are answered as a whole.
        self._whole: frozenset[str] = frozenset()
        #: The new rows of each stream as partials.
        self.reduced: dict[str, ReducedRows] = {}

    def can_weave(self, query: Query, number: int) -> bool:
        """Whether a query can share partials with others."""
        return self._shape(query, number) is not None

    def _shape(self, query: Query, number: int) -> Woven | None:
        if number not in self._shapes:
            self._shapes[number] = None
            with suppress(NotWoven):
                self._shapes[number] = woven(query)
        return self._shapes[number]

    def prepare(self, spec: CycleSpec, operators: Sequence[Operator], last: Commit) -> None:
        """Weave the queries of the cycle, and bring what is new to where the last commit is.

        Trees that would be cheaper in another form, by what is known of streams now, are made again.
        """
        self._begin_from(last)
        beginning = self._take_operators(operators, last.cycle) if operators is not self._operators else frozenset()
        facts = {name: facts_of(numbers) for name, numbers in spec.intent.facts.items()}
        self._closed_before, self._stored = {}, {}
        self.log.begin(each for name in self._wanted for each in last.logs.get(LogId(LogKind.PARTIALS, name), ()))
        weaves = {}
        for stream in spec.plan.streams:
            if stream.name in self._wanted:
                weave = self._woven(stream, last, beginning, facts.get(stream.name, Facts()))
                self._catch_up(weave, spec, last, beginning)
                weaves[stream.name] = weave
        self._weaves = weaves
        of_logs = {LogId(LogKind.STREAM, name): weave for name, weave in weaves.items()}
        self._begin_running(last, of_logs, lambda name: self._named[name].as_query.start.first)

    def _take_operators(self, operators: Sequence[Operator], last_cycle: int) -> frozenset[str]:
        """Take other operators than those of the last cycle; return the names of the queries that begin now."""
        self._operators = operators
        self._named = {each.as_query.query.name: each for each in operators}
        self._whole = frozenset(name for each in operators if each.is_whole_query for name in each.names)
        self._wanted = {}
        for name, operator in self._named.items():
            shape = self._shape(operator.as_query.query, operator.as_query.start.number)
            assert shape is not None
            self._wanted.setdefault(shape.stream, {})[name] = shape
        return frozenset(name for name, each in self._named.items() if each.as_query.start.first > last_cycle)

    def _begin_from(self, last: Commit) -> None:
        """Keep in memory the state of the last commit, or nothing."""
        if self._pending is not None:
            # If the state is damaged, the cycle will find it as well, and say so.
            if self._pending.exception() is None:
                restored = self._pending.result()
                self._cycle, self._weaves = restored.cycle, dict(restored.weaves)
                self._shapes = {**restored.shapes, **self._shapes}
            self._pending = None
        if self._cycle != last.cycle:
            # Trees that are ahead of the commit or behind it are useless: an attempt has failed, or none was made.
            self._weaves = {}

    def _woven(self, stream: Stream, last: Commit, beginning: frozenset[str], facts: Facts) -> StreamWeave:
        """The weave of a stream: the known one, if it is still what the queries need."""
        wanted = self._wanted[stream.name]
        # A stream that the last commit does not know begins now, whatever had its name before.
        known = self._weaves.get(stream.name) if stream.name in last.streams else None
        if known is not None and known.is_overgrown:
            known = None
        segments = last.logs.get(LogId(LogKind.PARTIALS, stream.name), ())
        now = known.away if known is not None else frozenset()
        away = self.placements.place(stream.name, wanted, now, segments)
        if known is not None and (known.queries, known.away, known.facts) == (wanted, away, facts):
            return known
        # Queries that look back begin with the stored rows.
        newborn = frozenset() if stream.backfill else beginning & wanted.keys()
        return StreamWeave(stream, wanted, known, facts=facts, away=away, newborn=newborn)

    def _catch_up(self, weave: StreamWeave, spec: CycleSpec, last: Commit, beginning: frozenset[str]) -> None:
        """Bring a weave to where the last commit is, from stored partials, or from stored rows for new queries."""
        stream = weave.stream
        segments = last.logs.get(LogId(LogKind.PARTIALS, stream.name), ())
        largest = last.streams[stream.name].largest if stream.name in last.streams else None
        watermark = None if largest is None else largest - stream.delay
        new = {name: weave.windowed[name] for name in sorted(beginning & weave.windowed.keys())}
        rows = last.logs.get(LogId(LogKind.STREAM, stream.name), ())
        if stream.backfill and new and rows and watermark is not None:
            compile_plans(self._spark, sum(each.rows for each in rows) > WORTH_COMPILING)
            past, judged = stored_partials(weave.reduction, self._logs.read(stream, rows))
            if len(past):
                self._closed_before[stream.name] = closed_before(stream, new, past, judged, watermark)
                # They replace the stored partials, which may lack what the new queries need.
                path = f"{self._logs.folders.of(spec.cycle)}/history-{spec.plan.streams.index(stream)}.parquet"
                segments = (self.log.written(past, path),)
        weave.remember(self.log.pieces(segments), watermark)
        self._stored[stream.name] = segments

    # -- rows of the cycle --------------------------------------------------------------------------------------------

    def takes(self, log: LogId) -> bool:
        """Rows are reduced while they are scanned."""
        return True

    def take(self, scan: Scan) -> None:
        """Reduce the new rows of all streams that are read, unless some are late for all queries of their stream."""
        self.reduced = {}
        for index, stream in scan.streams.items():
            weave = self._weaves.get(stream.name)
            if weave is None:
                continue
            # Where rows come from files, Spark sees whether one task reads them all.
            few = not scan.has_files(index) and self._is_local and self._rows.get(stream.name, _FEW + 1) <= _FEW
            reduced = ReducedRows(weave, weave.reduction.of(scan.rows(index), in_one_task=few))
            self._rows[stream.name] = reduced.rows
            watermark = scan.watermark(stream)
            if scan.is_direct and reduced.has_late_rows(watermark):
                scan.refuse()
                return
            scan.see(stream, SeenRows(reduced.rows, reduced.bad, reduced.least, reduced.latest))
            if reduced.rows or not scan.is_direct:
                self.reduced[stream.name] = reduced
                for name, count in reduced.late_rows(watermark).items():
                    if name in self._whole:
                        scan.count_late(name, count)

    # -- answers ------------------------------------------------------------------------------------------------------

    def run(self, cycle: CycleState, operators: Sequence[Operator]) -> Mapping[str, pa.Table]:
        """The answers of all queries in this cycle, by operator id, each with its clock as the last column."""
        # For queries that say EMIT EMPTY, the clock from which on every instance is answered.
        counted_from = {}
        for each in operators:
            cycle.note_first_rows(each)
            if each.id.text in cycle.emit_from:
                counted_from[each.as_query.query.name] = cycle.emit_from[each.id.text]
        event_time = cycle.event_time
        found: dict[str, pa.Table] = {}
        for name in self._weaves:
            arrived = self.reduced[name].partials if name in self.reduced else None
            log = LogId(LogKind.STREAM, name)
            if arrived is not None:
                self._make_room(name, arrived)
                self._make_room_for_groups(log, arrived)
            weave, history = self._weaves[name], self.log.pieces(self._stored.get(name, ()))
            bounds = event_time.watermark(weave.stream, after=False), event_time.watermark(weave.stream)
            after = partial(self._answered_after, event_time=event_time, before=bounds[0])
            past = self._closed_before.get(name, {})
            found |= self._advanced(log, weave, arrived, history, bounds, after, counted_from, past)
        for query, table in self._answered_on_executors(cycle).items():
            found[query] = pa.concat_tables([found[query], table]) if query in found else table
        return {self._named[query].id.text: table for query, table in found.items() if table.num_rows}

    def _answered_after(self, query: str, event_time: EventTime, before: Clock) -> Clock:
        """A query answers the instances that end after this instant."""
        start = self._named[query].as_query.start
        if start.number in self._caught_up:
            return before
        after, _ = event_time.closing(self._named[query].relation, start)
        if after is not None and after == before:
            self._caught_up.add(start.number)
        return after

    def _make_room(self, name: str, arrived: Partials) -> None:
        """Prepare the trees of a stream for arrived partials, on the executors if the driver has no room."""
        weave = self._weaves[name]
        use = weave.fit(arrived, self._account.room(weave.memory_part))
        keys = weave.largest_keys
        if self._account.allows(use) or self.placements.settings.kernels != "auto" or keys is None:
            self._account.grow(use)
            return
        self.placements.displace(name, keys, weave.queries)
        self._weaves[name] = weave.without(keys)
        self._make_room(name, arrived)

    # --- on the executors --------------------------------------------------------------------------------------------

    @cached_property
    def _executors(self) -> Executors:
        return Executors(self._spark)

    def _answered_on_executors(self, cycle: CycleState) -> Mapping[str, pa.Table]:
        """The answers of key sets on the executors: one Spark job if some of their windows close, else none."""
        tasks: list[KeySetTask] = []
        files: list[PartialFiles] = []
        for number, (name, weave) in enumerate(self._weaves.items()):
            of_stream = [each for keys in weave.away if (each := self._task_of(weave, keys, cycle.event_time))]
            if of_stream:
                tasks += of_stream
                arrived, path = self._arrived(name), f"{cycle.folder}/partials-{number}"
                written = None if arrived is None else self.log.written(arrived, f"{path}.parquet")
                self._stored[name] = self.log.apart(self._stored[name], f"{path}-kept")
                files += self.log.files(name, self._stored[name], written)
        if not tasks:
            return {}
        found, key_counts = self._executors.answers(files, tasks)
        for task, count in zip(tasks, key_counts, strict=True):
            self._weaves[task.stream].keys_away[task.keys] = count
        return found

    def _task_of(self, weave: StreamWeave, keys: KeySet, event_time: EventTime) -> KeySetTask | None:
        """What the executors compute for a key set in a cycle; None if no window closes."""
        shapes = {name: each for name, each in weave.windowed.items() if each.keys == keys}
        before, until = event_time.watermark(weave.stream, after=False), event_time.watermark(weave.stream)
        windows = {each.window for each in shapes.values()}
        if until is None or (before is not None and not any(ends_between(each, before, until) for each in windows)):
            return None
        starts = [None if before is None else first_open_start(window, before) for window in windows]
        return KeySetTask(
            weave.stream.name,
            keys,
            frozenset(text for each in shapes.values() for measure in each.all_measures for text in measure.texts),
            None if before is None else min(start for start in starts if start is not None),
            pickled_plan({name: self._named[name].as_query.query for name in shapes}, weave.grouping.of(shapes)),
            before,
            until,
            {name: self._answered_after(name, event_time, before) for name in shapes},
        )

    # --- state -------------------------------------------------------------------------------------------------------

    def finish(self, cycle: CycleState) -> None:
        """Hand over new partials, too; those whose kernels are on the executors go to files of their own."""
        for number, (name, weave) in enumerate(self._weaves.items()):
            if weave.windowed:
                arrived, apart = self._arrived(name), bool(weave.away)
                segments, since = self._stored[name], weave.needed_since(cycle.event_time.watermark(weave.stream))
                if apart and arrived is not None:
                    written = self.log.written(arrived, f"{cycle.folder}/partials-{number}.parquet")
                    segments, arrived = (*segments, written), None
                added = None if arrived is None else block_of(arrived)
                rewritten = partial(self.log.rewritten, added=arrived, since=since)
                cycle.change(
                    Change(
                        LogId(LogKind.PARTIALS, name), segments, added, rewritten, since, is_keyed=False, apart=apart
                    )
                )
        super().finish(cycle)

    def _arrived(self, stream: str) -> Partials | None:
        """The new partials of a stream, if there are any."""
        reduced = self.reduced.get(stream)
        return reduced.partials if reduced is not None and len(reduced.partials) else None
