"""The woven stage of a cycle: what of its trees is in memory, and the partials on disk that it can be rebuilt from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from weft.algebra import Query, Stream
from weft.plan.event_time import Clock, EventTime, RunningQuery, first_open_start
from weft.plan.facts import Facts
from weft.plan.log_ids import LogId
from weft.runtime.sources.late_rows import closed_for
from weft.runtime.stages.windows import total_files
from weft.runtime.stages.windows.backfill import StoredRows, closed_before, history
from weft.runtime.stages.windows.executors import Executors, KeySetRequest, PartialFiles
from weft.runtime.stages.windows.kernel_placement import (
    Kernels,
    KeySet,
    Placement,
    PlacementSettings,
    displaced,
    placement_of,
    slices_and_keys,
)
from weft.runtime.stages.windows.partial_log import PartialLog
from weft.runtime.stages.windows.partials import LATEST, LEAST, Partials, without_clockless, without_clocks
from weft.runtime.stages.windows.running_aggregates import RunningAggregates, kept_in_files
from weft.runtime.stages.windows.shard import ShardTask, pickled_plan
from weft.runtime.stages.windows.stream_weave import StreamWeave, WindowMemoryLimit
from weft.runtime.stages.windows.warm_start import PendingRestore, RestoredState
from weft.runtime.stages.windows.window_answers import GroupSelection, answers, with_empty_instances
from weft.runtime.stages.windows.woven_queries import NotWoven, Woven, woven
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.storage import Storage
from weft.windows.schedule import instances_ending

#: On one machine so many rows are reduced by one task: with more, a second core is worth a shuffle.
_FEW = 1_000_000


class Reduced:
    """The rows of one stream in one cycle, reduced, and what can be told of them."""

    def __init__(self, weave: StreamWeave, table: pa.Table) -> None:
        everything = Partials(weave.reduction.layout, table)
        usable = without_clockless(everything)
        self.rows = int(usable.row_counts.sum())
        self.bad = int(everything.row_counts.sum()) - self.rows
        #: The largest clock, and the smallest if somebody asks for it.
        self.latest: Clock = pc.max(usable.table[LATEST]).as_py()
        self.least: Clock = pc.min(table[LEAST]).as_py() if weave.reduction.tells_least else None
        self.partials = Partials(usable.layout, without_clocks(usable.table))
        self.weave = weave

    def has_late_rows(self, watermark: Clock) -> bool:
        """Whether some row is of no more use to any window. All rows of a cell are, or none of them is."""
        if watermark is None or not len(self.partials) or len(self.weave.windowed) < len(self.weave.queries):
            # Nothing is late for a window that never closes.
            return False
        cells, _ = self.partials.distinct_slices
        # No instance that covers a clock after the watermark has closed; mostly that is all there is to see.
        cells = cells[cells < watermark]
        if not len(cells):
            return False
        closed = [closed_for(window, cells, watermark) for window in self.weave.windows]
        return bool(np.logical_and.reduce(closed).any())


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


@dataclass(frozen=True)
class _Wanted:
    """Queries as they were asked for, and by stream: their shapes, and what those that have windows group by."""

    queries: Mapping[str, RunningQuery]
    shapes: Mapping[str, Mapping[str, Woven]]
    key_sets: Mapping[str, Sequence[KeySet]]


class WovenStage:
    """The weaves of all streams, as of the last commit."""

    def __init__(
        self, spark: SparkSession, storage: Storage, hosting: PlacementSettings, ahead: PendingRestore | None
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._hosting = hosting
        master = spark.sparkContext.master
        self._is_local = master == "local" or master.startswith("local[")
        #: How many rows each stream had in the last cycle: the next one will have about as many.
        self._rows: dict[str, int] = {}
        self._ahead = ahead
        self._cycle: int | None = None
        self._weaves: dict[str, StreamWeave] = {}
        #: The partials of each stream, as the last commit has them.
        self._kept: dict[str, tuple[Segment, ...]] = {}
        #: The numbers of queries that lack no rows any more: they are answered for whatever closes.
        self._grown_up: set[int] = set()
        #: Where the kernels of each key set live, by stream.
        self.hosts: dict[str, dict[KeySet, Placement]] = {}
        #: What was sent to the executors because the driver had no room for it, with the queries that there were then.
        self._crowded_out: dict[tuple[str, KeySet], Mapping[str, Woven]] = {}
        #: How many partials of a key set there are in a file for all that it has, by its path.
        self._shares: dict[tuple[str, KeySet], int] = {}
        self.log = PartialLog(storage)
        self._totals: dict[str, RunningAggregates] = {}
        #: What queries that are new find closed in the rows that their stream has kept, by stream.
        self._past: dict[str, dict[str, list[GroupSelection]]] = {}
        self._shapes: dict[int, Woven | NotWoven] = {}
        self._wanted = _Wanted({}, {}, {})

    def can_weave(self, query: Query, number: int) -> bool:
        """Whether a query can share partials with others."""
        return isinstance(self._shape(query, number), Woven)

    def _shape(self, query: Query, number: int) -> Woven | NotWoven:
        known = self._shapes.get(number)
        if known is None:
            try:
                known = woven(query)
            except NotWoven as reason:
                known = reason
            self._shapes[number] = known
        return known

    def prepare(
        self,
        last: Commit,
        streams: Sequence[Stream],
        queries: Mapping[str, RunningQuery],
        kept_rows: Callable[[Stream], StoredRows | None],
        facts: Mapping[str, Facts],
    ) -> None:
        """Weave the queries that are there now, and bring what is new to where the last commit is.

        `kept_rows` gives the rows that a stream with BACKFILL has kept. `facts` are what is known of streams: trees
        that are better off otherwise by now are made anew.
        """
        self._begin_from(last)
        beginning: frozenset[str] = frozenset()
        if queries is not self._wanted.queries:
            self._wanted = self._wishes(queries)
            beginning = frozenset(name for name, each in queries.items() if each.start.first > last.cycle)
        wanted = self._wanted.shapes
        self._past, self._kept = {}, {}
        self.log.begin(each.path for name in wanted for each in last.logs.get(LogId.partials(name), ()))
        weaves = {}
        for stream in streams:
            if stream.name in wanted:
                weave = self._woven(stream, last, beginning, facts.get(stream.name, Facts()))
                self._catch_up(weave, last, beginning, kept_rows)
                weaves[stream.name] = weave
        self._weaves = weaves
        paths = {each.path for segments in self._kept.values() for each in segments}
        self._shares = {place: share for place, share in self._shares.items() if place[0] in paths}
        self._totals = {name: self._running(weave, queries, last) for name, weave in weaves.items()}
        self._cycle = None

    def _begin_from(self, last: Commit) -> None:
        """Have in memory what the last commit has, or nothing."""
        if self._ahead is not None:
            # If something is wrong with the state, the cycle will find it as well, and say so.
            left = self._ahead.result() if self._ahead.exception() is None else RestoredState()
            self._ahead = None
            self._cycle, self._weaves = left.cycle, dict(left.weaves)
            self._shapes = {**left.shapes, **self._shapes}
        if self._cycle != last.cycle:
            # Trees that are ahead of the commit, or behind it, are of no use: an attempt has failed, or none was made.
            self._weaves, self._totals = {}, {}

    def _woven(self, stream: Stream, last: Commit, beginning: frozenset[str], facts: Facts) -> StreamWeave:
        """The weave of a stream: the one that there is, if that is what is wanted now."""
        wanted = self._wanted.shapes[stream.name]
        # A stream that the last commit does not know begins now, whatever had its name before.
        known = self._weaves.get(stream.name) if stream.name in last.streams else None
        if known is not None and known.is_overgrown:
            known = None
        away = self._away(stream.name, wanted, known, last.logs.get(LogId.partials(stream.name), ()))
        if known is not None and (known.queries, known.away, known.facts) == (wanted, away, facts):
            return known
        # Whoever looks back begins with what is kept.
        newborn = frozenset() if stream.backfill else beginning & wanted.keys()
        return StreamWeave(stream, wanted, known, facts=facts, away=away, newborn=newborn)

    def _catch_up(
        self,
        weave: StreamWeave,
        last: Commit,
        beginning: frozenset[str],
        kept_rows: Callable[[Stream], StoredRows | None],
    ) -> None:
        """Bring a weave to where the last commit is, from the partials that are kept, or from rows that are."""
        stream = weave.stream
        segments = last.logs.get(LogId.partials(stream.name), ())
        largest = last.streams[stream.name].largest if stream.name in last.streams else None
        watermark = None if largest is None else largest - stream.delay
        new = {name: weave.windowed[name] for name in sorted(beginning & weave.windowed.keys())}
        if stream.backfill and new:
            segments = self._look_back(weave, new, watermark, kept_rows(stream)) or segments
        weave.remember(self.log.pieces(segments), watermark)
        self._kept[stream.name] = segments

    def _wishes(self, queries: Mapping[str, RunningQuery]) -> _Wanted:
        shapes: dict[str, dict[str, Woven]] = {}
        for name, each in queries.items():
            shape = self._shape(each.query, each.start.number)
            assert isinstance(shape, Woven)
            shapes.setdefault(shape.stream, {})[name] = shape
        key_sets = {
            stream: tuple(dict.fromkeys(each.keys for each in of.values() if not each.is_running))
            for stream, of in shapes.items()
        }
        return _Wanted(queries, shapes, key_sets)

    def _away(
        self, stream: str, queries: Mapping[str, Woven], known: StreamWeave | None, segments: Sequence[Segment]
    ) -> frozenset[KeySet]:
        """The key sets of a stream whose kernels live on the executors."""
        hosts = {}
        for keys in self._wanted.key_sets[stream]:
            partials = self._live_partials(keys, segments)
            if self._crowded_out.get((stream, keys)) == queries:
                hosts[keys] = displaced(partials)
            else:
                hosts[keys] = placement_of(keys, partials, self._hosting, known is not None and keys in known.away)
        self.hosts[stream] = hosts
        return frozenset(keys for keys, host in hosts.items() if host.on_executors)

    def _live_partials(self, keys: KeySet, segments: Sequence[Segment]) -> int:
        """How many cells and keys of a key set there are in a log: never more than rows, and if these are many, as
        many as the newest file says for its share of them."""
        rows = sum(each.rows for each in segments)
        if not keys or self._hosting.kernels is not Kernels.AUTO or rows <= self._hosting.max_driver_partials // 2:
            return rows
        newest = segments[-1]
        if (newest.path, keys) not in self._shares:
            self._shares[newest.path, keys] = slices_and_keys(keys, self.log.read(newest))
        return rows * self._shares[newest.path, keys] // newest.rows

    def _look_back(
        self, weave: StreamWeave, new: Mapping[str, Woven], watermark: Clock, kept: StoredRows | None
    ) -> tuple[Segment, ...]:
        """Reduce the rows that a stream has kept for all its queries; gives the partials that are kept from now on."""
        if kept is None or watermark is None:
            return ()
        stream = weave.stream
        past = history(weave.reduction, kept.rows)
        if not len(past.partials):
            return ()
        self._past[stream.name] = closed_before(stream, new, past, watermark)
        return (self.log.keep(past.partials, kept.path),)

    def _running(self, weave: StreamWeave, registered: Mapping[str, RunningQuery], last: Commit) -> RunningAggregates:
        """The groups of a stream's queries that never close, as the last commit has them."""
        queries, first_cycles = weave.running, {name: registered[name].start.first for name in weave.running}
        known = self._totals.get(weave.stream.name)
        if known is not None and known.stream != weave.stream:
            # Another stream has the name now.
            known = None
        totals = RunningAggregates(weave.stream, queries, first_cycles, known)
        if known is None and queries:
            files = last.logs.get(LogId.running(LogId.stream(weave.stream.name)), ())
            totals.remember(total_files.decoded(self._storage.read_bytes(each.path)) for each in files)
        return totals

    def shapes(self, stream: str) -> Mapping[str, Woven]:
        """The queries that are woven over a stream, by name."""
        return self._wanted.shapes.get(stream, {})

    def reads(self, stream: str) -> bool:
        """Whether some woven query reads a stream."""
        return stream in self._weaves

    def reduce(self, stream: str, rows: DataFrame, *, from_files: bool) -> Reduced:
        """The rows of a stream as partials; one Spark job.

        Where they come `from_files`, Spark sees by itself whether one task reads them all.
        """
        weave = self._weaves[stream]
        few = not from_files and self._is_local and self._rows.get(stream, _FEW + 1) <= _FEW
        reduced = Reduced(weave, weave.reduction.of(rows, in_one_task=few))
        self._rows[stream] = reduced.rows
        return reduced

    def answer(
        self,
        reduced: Mapping[str, Reduced],
        event_time: EventTime,
        queries: Mapping[str, RunningQuery],
        counted_from: Mapping[str, int],
        paths: Mapping[str, str],
    ) -> dict[str, pa.Table]:
        """The answers of all woven queries in this cycle, each with its clock as the last column.

        `counted_from` has, for queries that say EMIT EMPTY, the clock from which on every instance is answered; `paths`
        where the partials of each stream will be kept.
        """
        found: dict[str, list[pa.Table]] = {}
        for name in self._weaves:
            arrived = reduced[name].partials if name in reduced else None
            if arrived is not None:
                self._make_room(name, arrived)
                self._totals[name].check_memory(arrived, self._hosting.max_state)
            weave = self._weaves[name]
            before = event_time.watermark(weave.stream, after=False)
            weave.remember(self.log.pieces(self._kept.get(name, ())), before)
            until = event_time.watermark(weave.stream)
            closed = weave.advance(arrived, before, until)
            past = self._past.get(name, {})
            parts = {query: [part] for query, part in self._totals[name].take(arrived).items()}
            for query, shape in weave.windowed.items():
                mine = [*past.get(query, ()), closed[query]] if query in closed else past.get(query, [])
                if not mine and query not in counted_from:
                    continue
                after = self._answered_after(shape, queries[query], event_time, before)
                parts[query] = [part.since(after) for part in mine]
                if query in counted_from and until is not None:
                    parts[query] = [with_empty_instances(shape, parts[query], counted_from[query], after, until)]
            for query, of_query in parts.items():
                shape = weave.queries[query]
                kind = weave.kinds[query]
                found[query] = [answers(shape.select, shape.measures, part, kind) for part in of_query if len(part)]
        for query, table in self._answered_on_executors(reduced, event_time, queries, paths).items():
            found.setdefault(query, []).append(table)
        whole = {query: _together(tables) for query, tables in found.items() if tables}
        return {query: table for query, table in whole.items() if table.num_rows}

    def _answered_after(self, shape: Woven, query: RunningQuery, event_time: EventTime, before: Clock) -> Clock:
        """The instant after which instances end that a query is answered for."""
        if query.start.number in self._grown_up:
            return before
        after, _ = event_time.closing(shape.select, query.start)
        if after is not None and after == before:
            self._grown_up.add(query.start.number)
        return after

    def _make_room(self, name: str, arrived: Partials) -> None:
        """Have the trees of a stream ready for what has arrived, in the driver or, if there is no room, elsewhere."""
        weave = self._weaves[name]
        try:
            weave.fit(arrived, self._hosting.max_state)
        except WindowMemoryLimit as reason:
            if self._hosting.kernels is not Kernels.AUTO or reason.keys is None:
                raise
            self._crowded_out[name, reason.keys] = weave.queries
            self.hosts[name][reason.keys] = displaced(self.hosts[name][reason.keys].partials)
            self._weaves[name] = weave.without(reason.keys)
            self._make_room(name, arrived)

    # --- on the executors --------------------------------------------------------------------------------------------

    @cached_property
    def _executors(self) -> Executors:
        return Executors(self._spark)

    def _answered_on_executors(
        self,
        reduced: Mapping[str, Reduced],
        event_time: EventTime,
        queries: Mapping[str, RunningQuery],
        paths: Mapping[str, str],
    ) -> Mapping[str, pa.Table]:
        """The answers of key sets that live there; one Spark job if some window of them closes, and none otherwise."""
        wanted: list[KeySetRequest] = []
        files: list[PartialFiles] = []
        for name, weave in self._weaves.items():
            asked = [self._asked(weave, keys, event_time, queries) for keys in weave.away]
            if any(asked):
                wanted += [each for each in asked if each is not None]
                arrived = reduced[name].partials if name in reduced and len(reduced[name].partials) else None
                written = None if arrived is None else self.log.keep(arrived, paths[name])
                files += self.log.files(name, self._kept[name], written)
        if not wanted:
            return {}
        found = self._executors.answers(files, wanted)
        for each, keys in zip(wanted, found.keys, strict=True):
            self._weaves[each.asked.stream].keys_away[each.keys] = keys
        return found.answers

    def _asked(
        self, weave: StreamWeave, keys: KeySet, event_time: EventTime, queries: Mapping[str, RunningQuery]
    ) -> KeySetRequest | None:
        """What a cycle asks of a key set; None if no window closes."""
        shapes = weave.key_sets()[keys]
        before, until = event_time.watermark(weave.stream, after=False), event_time.watermark(weave.stream)
        windows = {each.window for each in shapes.values()}
        if until is None or (before is not None and not any(instances_ending(each, before, until) for each in windows)):
            return None
        starts = [None if before is None else first_open_start(window, before) for window in windows]
        return KeySetRequest(
            keys,
            frozenset(text for each in shapes.values() for measure in each.all_measures for text in measure.texts),
            None if before is None else min(start for start in starts if start is not None),
            ShardTask(
                weave.stream.name,
                pickled_plan({name: queries[name].query for name in shapes}, weave.grouping.of(shapes)),
                before,
                until,
                {name: self._answered_after(each, queries[name], event_time, before) for name, each in shapes.items()},
            ),
        )

    # --- what is kept ------------------------------------------------------------------------------------------------

    def kept(self, stream: str) -> tuple[Segment, ...]:
        """The partials of a stream from before this cycle."""
        return self._kept[stream]

    def keeps_partials(self, stream: str) -> bool:
        """Whether some window of a stream is kept as partials."""
        return bool(self._weaves[stream].windowed)

    def keep_totals(self, stream: str, segments: Sequence[Segment], path: str, most: int) -> list[Segment]:
        """Write the groups that a cycle has changed; all of them instead, if that makes more files than `most`."""
        return kept_in_files(self._totals[stream], self._storage, segments, path, most)

    def live(self, stream: str, segments: Sequence[Segment], watermark: Clock) -> list[Segment]:
        """The segments that some open window needs."""
        since = self.needed_since(stream, watermark)
        return [each for each in segments if since is None or each.max_clock is None or each.max_clock >= since]

    def needed_since(self, stream: str, watermark: Clock) -> Clock:
        """The least clock that some open window of a stream needs; None for all."""
        return self._weaves[stream].needed_since(watermark)

    def committed(self, cycle: int) -> None:
        """A cycle has been committed: what is in memory is its state."""
        self._cycle = cycle
