"""The stage of aggregates over streams: its trees in memory, and the partials on disk that they are rebuilt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import pyarrow as pa

from weft.algebra import Stream
from weft.optimizer.aggregates.stream_shapes import Woven
from weft.optimizer.rules.indexes import stream_shape
from weft.optimizer.rules.share_reductions import reduce_id
from weft.plan.event_time import Clock, EventTime, first_open_start
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import Evaluator, KeySet, ReduceNode, RelationNode, WindowTreeNode
from weft.plan.shared_plan import SharedPlan
from weft.runtime.spark.session import compile_plans
from weft.runtime.stages.cycle_state import WORTH_COMPILING, CycleState, RowLogs
from weft.runtime.stages.running_plan import RunningPlan
from weft.runtime.stages.stage import Scan, SeenRows
from weft.runtime.stages.windows.aggregate_stage import AggregateStage
from weft.runtime.stages.windows.backfill import closed_before, stored_partials
from weft.runtime.stages.windows.executors import Executors, KeySetTask, pickled_plan
from weft.runtime.stages.windows.live_partials import LivePartials
from weft.runtime.stages.windows.partials import PartialFiles, PartialLog, Partials, block_of
from weft.runtime.stages.windows.stream_weave import ReducedRows, StreamWeave
from weft.runtime.stages.windows.warm_start import PendingRestore
from weft.runtime.stages.windows.window_answers import GroupSelection
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.continuity import CycleSpec
from weft.runtime.state.store import Change, MemoryAccount, StateStore
from weft.sql.settings import Settings
from weft.windows.slicing import ends_between

#: On one machine, one task reduces up to this many rows: with more, a second core is worth a shuffle.
_FEW = 1_000_000


class WindowStage(AggregateStage):
    """The weaves of all streams, as of the last commit."""

    kind = Evaluator.WINDOWS
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
        #: The operators that have had all rows since some watermark: they answer all windows that close.
        self._caught_up: set[str] = set()
        self.log = PartialLog(store)
        self.settings = settings
        self._live = LivePartials(self.log.read)
        #: The key sets, by stream, that the driver had no memory for, and the queries of that time.
        self.displaced: dict[tuple[str, KeySet], Mapping[str, Woven]] = {}
        #: The windows of new queries that had closed before, by stream, found in stored rows.
        self._closed_before: dict[str, dict[str, list[GroupSelection]]] = {}
        #: The shapes of the aggregates, by stream and id.
        self._wanted: dict[str, dict[str, Woven]] = {}
        #: The new rows of each stream as partials.
        self.reduced: dict[str, ReducedRows] = {}

    def prepare(self, spec: CycleSpec, planned: RunningPlan, last: Commit) -> None:
        """Have the trees of the plan, and bring those that are new to where the last commit is."""
        self._begin_from(last)
        beginning: frozenset[str] = frozenset()
        if planned is not self._planned:
            self._take(planned)
            self._take_shapes()
            beginning = frozenset(id_ for id_, each in self._relations.items() if each.start.first > last.cycle)
        self._closed_before, self._stored = {}, {}
        self.log.begin(each for name in self._wanted for each in last.logs.get(LogId(LogKind.PARTIALS, name), ()))
        weaves = {}
        for stream in spec.plan.streams:
            if stream.name in self._wanted:
                weave = self._woven(stream, last, beginning)
                self._catch_up(weave, spec, last, beginning)
                weaves[stream.name] = weave
        self._weaves = weaves
        of_logs = {LogId(LogKind.STREAM, name): weave for name, weave in weaves.items()}
        self._begin_running(last, of_logs)

    def _take_shapes(self) -> None:
        """The shapes of the plan's aggregates, by stream and id."""
        shapes = {id_: shape for of in self._wanted.values() for id_, shape in of.items()}
        self._wanted = {}
        for id_, node in self._relations.items():
            shape = shapes.get(id_) or stream_shape(node)
            self._wanted.setdefault(shape.stream, {})[id_] = shape

    def _begin_from(self, last: Commit) -> None:
        """Keep in memory the state of the last commit, or nothing."""
        if self._pending is not None:
            # If the state is damaged, the cycle will find it as well, and say so.
            if self._pending.exception() is None:
                restored = self._pending.result()
                self._cycle, self._weaves = restored.cycle, dict(restored.weaves)
                self._wanted = {name: dict(weave.queries) for name, weave in self._weaves.items()}
            self._pending = None
        if self._cycle != last.cycle:
            # Trees that are ahead of the commit or behind it are useless: an attempt has failed, or none was made.
            self._weaves = {}

    def _woven(self, stream: Stream, last: Commit, beginning: frozenset[str]) -> StreamWeave:
        """The weave of a stream: the known one, if it is still what the plan has."""
        wanted = self._wanted[stream.name]
        # A stream that the last commit does not know begins now, whatever had its name before.
        known = self._weaves.get(stream.name) if stream.name in last.streams else None
        if known is not None and known.is_overgrown:
            known = None
        trees = {id_: self._trees[id_] for id_ in wanted if id_ in self._trees}
        away = frozenset(each.spec.keys for each in trees.values() if each.on_executors)
        if known is not None and (known.queries, known.chosen, known.away) == (wanted, trees, away):
            return known
        # Queries that look back begin with the stored rows.
        newborn = frozenset() if stream.backfill else beginning & wanted.keys()
        reduce = self._planned.plan.nodes[reduce_id(stream.name)]
        assert isinstance(reduce, ReduceNode)
        return StreamWeave(stream, wanted, trees, known, reduce=reduce, away=away, newborn=newborn)

    def displaced_in(self, plan: SharedPlan) -> frozenset[tuple[str, KeySet]]:
        """The key sets, by stream, that the driver has no memory for, as long as the queries are the same."""
        self.displaced = {key: of for key, of in self.displaced.items() if of == self._wanted.get(key[0])}
        return frozenset(self.displaced)

    def live_partials(self, plan: SharedPlan, last: Commit) -> dict[tuple[str, KeySet], int]:
        """About how many partials are live, by stream and key set, where there may be too many for the driver."""
        found: dict[tuple[str, KeySet], int] = {}
        for node in plan.of(ReduceNode):
            segments = last.logs.get(LogId(LogKind.PARTIALS, node.stream), ())
            if sum(each.rows for each in segments) > self.settings.max_driver_partials // 2:
                trees = (plan.nodes[id_] for id_ in plan.readers_of(node.id))
                for keys in dict.fromkeys(each.spec.keys for each in trees if isinstance(each, WindowTreeNode)):
                    found[node.stream, keys] = self._live.partials(node.stream, keys, segments)
        return found

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
                self._closed_before[stream.name] = closed_before(weave, new, past, judged, watermark)
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
                for id_, count in reduced.late_rows(watermark).items():
                    for name in self._planned.answered[id_]:
                        scan.count_late(name, count)

    # -- answers ------------------------------------------------------------------------------------------------------

    def run(self, cycle: CycleState, relations: Sequence[RelationNode]) -> Mapping[str, pa.Table]:
        """The answers of all queries in this cycle, by operator id, each with its clock as the last column."""
        for each in relations:
            cycle.note_first_rows(each)
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
            found |= self._advanced(log, weave, arrived, history, bounds, after, cycle.emit_from, past)
        for id_, table in self._answered_on_executors(cycle).items():
            found[id_] = pa.concat_tables([found[id_], table]) if id_ in found else table
        return {id_: table for id_, table in found.items() if table.num_rows}

    def _answered_after(self, id_: str, event_time: EventTime, before: Clock) -> Clock:
        """An aggregate answers the instances that end after this instant."""
        if id_ in self._caught_up:
            return before
        node = self._relations[id_]
        after, _ = event_time.closing(node.relation, node.start)
        if after is not None and after == before:
            self._caught_up.add(id_)
        return after

    def _make_room(self, name: str, arrived: Partials) -> None:
        """Prepare the trees of a stream for arrived partials, on the executors if the driver has no room."""
        weave = self._weaves[name]
        use = self._of_queries(weave.fit(arrived, self._account.room(weave.memory_part)))
        keys = weave.largest_keys
        if self._account.allows(use) or self.settings.kernels != "auto" or keys is None:
            self._account.grow(use)
            return
        self.displaced[name, keys] = weave.queries
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
            pickled_plan(
                {id_: shape.select for id_, shape in shapes.items()}, {id_: weave.chosen[id_] for id_ in shapes}
            ),
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
