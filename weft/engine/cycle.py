"""One cycle: rows in, answers out, and one commit that makes it true.

    ingest      every row once: clock checked, late and malformed rows set aside, the rest written to the streams' logs
    keep        the rows of subqueries, and the groups of running aggregates, that later cycles need
    answer      all queries in one Spark job
    deliver     answers to their sinks, under the cycle's number
    commit      one atomic record

Whatever happens before the commit leaves no trace that a second attempt would see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from weft.algebra import Answers, Relation, Select, SetOperation, Source, Stream
from weft.algebra.clocks import clock_type
from weft.algebra.sources import leaves, reads
from weft.algebra.types import TIMESTAMP
from weft.engine import running
from weft.engine.answers import Packed, held, pack, unpacked
from weft.engine.commits import Commit, QueryState, Segment, StreamState
from weft.engine.compile import Compiler, Place, Views, kept_sources, log_of
from weft.engine.dead_letter import write_dead_letters
from weft.engine.expiry import expired
from weft.engine.lateness import late_everywhere
from weft.engine.rows import ARRIVAL, BEFORE, CLOCK, CORRUPT, STREAM, TICK, clock_bounds, column, columns, log_schema
from weft.engine.sinks import parquet_file
from weft.engine.spark import compile_plans
from weft.engine.storage import Storage
from weft.engine.woven.stage import Reduced, WovenStage
from weft.engine.woven.stage import log_of as partial_log
from weft.plan.clockwork import Birth, Clockwork, Registered, gives_answers
from weft.plan.plan import Plan

#: A log with more segments than this is rewritten as one, so that reading it stays cheap.
_MOST_SEGMENTS = 24

#: Above this many rows it pays to compile the queries' plans; below it, compiling takes longer than the rows do.
_WORTH_COMPILING = 300_000

Step = Callable[[str, int], None]


@dataclass(frozen=True)
class Decision:
    """What is decided before a cycle begins, and written down, so that a second attempt does the same.

    `heartbeats` are clocks that streams have reached without rows. `patience` is how many microseconds a stream may be
    silent before its clock goes on with the ticks in the batch. `latest` is the largest TIMESTAMP that is believed of a
    clock: one row from the far future would make all that follow late. Without `sharing`, queries that begin with the
    cycle are kept by themselves.
    """

    plan: Plan
    heartbeats: Mapping[str, int]
    patience: int | None = None
    latest: int | None = None
    sharing: bool = True


@dataclass(frozen=True)
class Answered:
    """What a cycle found out: the answers of each query, and the record to commit."""

    answers: Mapping[str, pa.Table]
    commit: Commit
    garbage: tuple[str, ...]
    #: The new rows of each stream as partials, for statistics.
    reduced: Mapping[str, Reduced] = field(default_factory=dict)


@dataclass
class _Work:
    """A cycle in progress: the views it has registered and the state it is building."""

    clockwork: Clockwork
    new: dict[str, str] = field(default_factory=dict)
    old: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, str] = field(default_factory=dict)
    added: dict[str, Segment] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    #: The least clock among the rows that each log got in this cycle, late ones included.
    lowest: dict[str, int] = field(default_factory=dict)
    emit_from: dict[str, int] = field(default_factory=dict)
    names: int = 0
    #: The new rows of each stream as partials.
    reduced: dict[str, Reduced] = field(default_factory=dict)

    @cached_property
    def read_by_others(self) -> frozenset[str]:
        """The queries whose answers other queries read."""
        read = (leaf for each in self.clockwork.queries.values() for leaf in leaves(each.query.relation))
        return frozenset(leaf.query for leaf in read if isinstance(leaf, Answers))

    @property
    def views(self) -> Views:
        return Views(self.new, self.old)


class CycleRunner:
    """Runs cycles of a plan against the state of the last commit."""

    def __init__(
        self, spark: SparkSession, storage: Storage, on_step: Step | None = None, max_state: int = 4 << 30
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._on_step = on_step or (lambda step, cycle: None)
        self._stage = WovenStage(storage, max_state)
        #: The schemas of snapshots that this process has written: reading them needs no look into the files.
        self._schemas: dict[str, StructType] = {}

    def run(self, batch: DataFrame | None, cycle: int, decision: Decision, last: Commit) -> Answered:
        """Evaluate a cycle. Nothing is true before the caller commits the record that comes back."""
        plan = decision.plan
        present = _of_present_streams(last, plan)
        queries = _registered(plan, present, cycle)
        known = _continued(present, queries)
        woven = {name: each for name, each in queries.items() if self._is_woven(name, each, known, decision.sharing)}
        alone = {name: each for name, each in queries.items() if name not in woven}
        self._stage.prepare(known, plan.streams, woven)
        step = self._on_step
        step("ingest", cycle)
        streams, work = self._take_in(batch, cycle, decision, known, queries, alone)
        self._register_old(known, plan, alone, work)
        compile_plans(self._spark, _rows_at_hand(alone, plan, known, work) > _WORTH_COMPILING)
        step("weave", cycle)
        answers = self._weave(woven, work)
        step("keep", cycle)
        for name, each in alone.items():
            self._keep(name, each, work)
        step("answer", cycle)
        answers |= self._answer(alone, work)
        commit = self._commit(cycle, plan, known, streams, queries, alone, answers, work)
        self._drop_views(work)
        self._schemas = {path: self._schemas[path] for path in commit.snapshots.values() if path in self._schemas}
        return Answered(answers, commit, _garbage(last, commit), work.reduced)

    def committed(self, commit: Commit) -> None:
        """A cycle's record has been committed."""
        self._stage.committed(commit.cycle)

    def _is_woven(self, name: str, registered: Registered, last: Commit, sharing: bool) -> bool:
        """Whether a query is answered from shared partials: as it was decided in its first cycle, which may be this."""
        state = last.queries.get(name)
        if state is not None:
            return state.woven
        return sharing and self._stage.can_weave(registered.query, registered.birth.number)

    # -- ingest -------------------------------------------------------------------------------------------------------

    def _take_in(
        self,
        batch: DataFrame | None,
        cycle: int,
        decision: Decision,
        last: Commit,
        queries: Mapping[str, Registered],
        alone: Mapping[str, Registered],
    ) -> tuple[dict[str, StreamState], _Work]:
        """Take in the rows of the batch: reduced to partials straight away where nobody needs the rows themselves."""
        plan = decision.plan
        needed = {
            leaf.name for each in alone.values() for leaf in leaves(each.query.relation) if isinstance(leaf, Stream)
        }
        needed |= {each.name for each in plan.streams if each.backfill or not self._stage.reads(each.name)}
        if batch is not None and not needed and decision.patience is None:
            taken = self._reduce_all(batch, cycle, decision, last, queries)
            if taken is not None:
                return taken
        streams, work = self._ingest(batch, cycle, decision, last, queries)
        for name in [each.name for each in plan.streams if self._stage.reads(each.name)]:
            if f"stream {name}" in work.added:
                rows = self._read(plan.stream(name), [work.added[f"stream {name}"]])
                work.reduced[name] = self._stage.reduce(name, rows.withColumn(CORRUPT, F.lit(None)))
        return streams, work

    def _reduce_all(
        self, batch: DataFrame, cycle: int, decision: Decision, last: Commit, queries: Mapping[str, Registered]
    ) -> tuple[dict[str, StreamState], _Work] | None:
        """Reduce the rows of every stream; None if some rows must be set aside, which is for `_ingest` to do."""
        plan = decision.plan
        states = _states(last, plan)
        before = {name: state.largest for name, state in states.items()}
        earlier = Clockwork(cycle, before, before, queries)
        compile_plans(self._spark, True)
        reduced: dict[str, Reduced] = {}
        for index, each in enumerate(plan.streams):
            found = self._stage.reduce(each.name, batch.where(f"{STREAM} = {index}").select(f"s{index}.*", CORRUPT))
            ahead = (
                decision.latest is not None and clock_type(each) == TIMESTAMP and (found.latest or 0) > decision.latest
            )
            if found.bad or ahead or found.has_late_rows(earlier.watermark(each, after=False)):
                return None
            if found.rows:
                reduced[each.name] = found
        streams = {}
        for name, state in states.items():
            found_here = reduced.get(name)
            clocks = (state.largest, found_here.latest if found_here else None, decision.heartbeats.get(name))
            largest = max((clock for clock in clocks if clock is not None), default=None)
            streams[name] = replace(state, largest=largest, rows=state.rows + (found_here.rows if found_here else 0))
        work = _Work(Clockwork(cycle, before, {name: state.largest for name, state in streams.items()}, queries))
        work.reduced = reduced
        return streams, work

    def _ingest(
        self,
        batch: DataFrame | None,
        cycle: int,
        decision: Decision,
        last: Commit,
        queries: Mapping[str, Registered],
    ) -> tuple[dict[str, StreamState], _Work]:
        """Write the rows of the batch to the streams' logs, in one pass over it."""
        plan = decision.plan
        states = _states(last, plan)
        before = {name: state.largest for name, state in states.items()}
        earlier = Clockwork(cycle, before, before, queries)
        path = f"{_folder_of(cycle)}/streams"
        measured: Mapping[str, int | None] = {}
        if batch is not None and plan.streams:
            checked = _checked(batch, decision, earlier, queries)
            observation = Observation()
            observed = checked.observe(observation, F.expr(_measures(plan.streams)).alias("measured"))
            observed.write.partitionBy("stream", "reason").mode("overwrite").parquet(self._storage.path(path))
            measured = observation.get["measured"].asDict()
        streams: dict[str, StreamState] = {}
        segments: dict[str, Segment] = {}
        for index, each in enumerate(plan.streams):
            known = states[each.name]
            rows = measured.get(f"rows_{index}") or 0
            lowest, highest = measured.get(f"min_{index}"), measured.get(f"max_{index}")
            late, bad = measured.get(f"late_{index}") or 0, measured.get(f"bad_{index}") or 0
            clocks = [c for c in (known.largest, highest, decision.heartbeats.get(each.name)) if c is not None]
            grown = replace(known, largest=max(clocks, default=None))
            streams[each.name] = replace(
                _advanced(grown, each, measured.get("tick"), bool(rows), decision.patience),
                rows=known.rows + rows,
                late=known.late + late,
                bad=known.bad + bad,
            )
            if rows:
                where = f"{path}/stream={index}/reason=none"
                segments[f"stream {each.name}"] = Segment(where, rows, lowest, highest, struct=f"s{index}")
            if late or bad:
                write_dead_letters(self._spark, self._storage, each, index, path, cycle)
        work = _Work(Clockwork(cycle, before, {n: s.largest for n, s in streams.items()}, queries))
        for index, each in enumerate(plan.streams):
            lowest = measured.get(f"least_{index}")
            if lowest is not None:
                work.lowest[f"stream {each.name}"] = lowest
        for log, segment in segments.items():
            self._add_segment(log, plan.stream(log.removeprefix("stream ")), segment, work)
        return streams, work

    # -- logs ---------------------------------------------------------------------------------------------------------

    def _view(self, frame: DataFrame, work: _Work) -> str:
        work.names += 1
        name = f"weft_{work.names}"
        frame.createOrReplaceTempView(name)
        return name

    def _read(self, source: Source, segments: Sequence[Segment]) -> DataFrame:
        """The rows of some segments of a log."""
        frames = []
        for struct in dict.fromkeys(each.struct for each in segments):
            paths = [self._storage.path(each.path) for each in segments if each.struct == struct]
            frame = self._spark.read.schema(log_schema(source.fields, struct)).parquet(*paths)
            frames.append(frame.select(f"{struct}.*", CLOCK, ARRIVAL, BEFORE) if struct else frame)
        return reduce(DataFrame.unionAll, frames)

    def _add_segment(self, log: str, source: Source, segment: Segment, work: _Work) -> None:
        work.added[log] = segment
        work.new[log] = self._view(self._read(source, [segment]), work)

    def _register_old(self, last: Commit, plan: Plan, queries: Mapping[str, Registered], work: _Work) -> None:
        for log, source in _logged(plan, queries).items():
            segments = last.logs.get(log, ())
            if segments:
                work.old[log] = self._view(self._read(source, segments), work)
        for name in queries:
            work.emit_from.update(last.queries[name].emit_from if name in last.queries else {})
        for place, path in last.snapshots.items():
            work.snapshots[place] = self._view(self._read_snapshot(path), work)

    def _read_snapshot(self, path: str) -> DataFrame:
        reader = self._spark.read.schema(self._schemas[path]) if path in self._schemas else self._spark.read
        return reader.parquet(self._storage.path(path))

    def _drop_views(self, work: _Work) -> None:
        for number in range(1, work.names + 1):
            self._spark.catalog.dropTempView(f"weft_{number}")

    # -- weave --------------------------------------------------------------------------------------------------------

    def _weave(self, woven: Mapping[str, Registered], work: _Work) -> dict[str, pa.Table]:
        """The answers of the queries that share partials; those that others read go into a log as well."""
        found = self._stage.answer(work.reduced, work.clockwork, woven)
        for name in work.read_by_others & found.keys():
            self._log_answers(name, woven[name].query.relation, found[name], work)
        return {name: table.drop_columns([CLOCK]) for name, table in found.items()}

    def _log_answers(self, name: str, relation: Relation, table: pa.Table, work: _Work) -> None:
        cycle, before = work.clockwork.cycle, work.clockwork.watermark(relation, after=False)
        clocks = table[CLOCK]
        # An answer is never late: it is judged by what the watermark was before it closed.
        ends = np.asarray(clocks)
        judged = pa.nulls(len(ends), pa.int64()) if before is None else pa.array(np.minimum(before, ends - 1))
        values = [held(table[number], field) for number, field in enumerate(relation.fields)]
        names = [*(column(number) for number in range(len(relation.fields))), CLOCK, ARRIVAL, BEFORE]
        rows = pa.table([*values, clocks, pa.array(np.full(len(ends), cycle)), judged], names=names)
        path = f"{_folder_of(cycle)}/rows-{len(work.added)}.parquet"
        self._storage.write_bytes(path, parquet_file(rows))
        lowest, highest = int(ends.min()), int(ends.max())
        work.lowest[f"answers {name}"] = lowest
        self._add_segment(f"answers {name}", relation, Segment(path, len(clocks), lowest, highest), work)

    # -- keep ---------------------------------------------------------------------------------------------------------

    def _keep(self, name: str, registered: Registered, work: _Work) -> None:
        """Evaluate what later cycles will look at again, innermost first, and what other queries read."""
        relation, place = registered.query.relation, Place(registered.birth.number)
        self._keep_below(relation, place, registered, work)
        self._keep_memory(relation, place, registered, work)
        _note_first_rows(relation, place, work)
        if name in work.read_by_others:
            self._write(f"answers {name}", relation, place, registered, work)

    def _keep_below(self, relation: Relation, place: Place, registered: Registered, work: _Work) -> None:
        kept = {inner.log for _, inner in kept_sources(relation, place)}
        for step, below in enumerate(_relations_below(relation)):
            inner = place.below(step)
            if below is None:
                continue
            self._keep_below(below, inner, registered, work)
            self._keep_memory(below, inner, registered, work)
            _note_first_rows(below, inner, work)
            if inner.log in kept:
                self._write(log_of(below, inner), below, inner, registered, work)

    def _keep_memory(self, relation: Relation, place: Place, registered: Registered, work: _Work) -> None:
        """Merge this cycle's rows into the groups of a running aggregate, or into what an operator remembers."""
        compiler = self._compiler(registered, work)
        if isinstance(relation, Select) and running.is_kept_as_partials(relation):
            delta = compiler.delta(relation, place)
            if delta is not None:
                self._snapshot(place, running.merged(relation, work.snapshots.get(place.log), delta), work)
                work.new[running.log(place)] = self._view(self._read_snapshot(work.written[place.log]), work)
        if relation.retain is not None:
            text = compiler.remembered(relation, place)
            if text is not None:
                self._snapshot(Place(place.query, f"{place.path}.memory"), text, work)

    def _snapshot(self, place: Place, text: str, work: _Work) -> None:
        path = f"{_folder_of(work.clockwork.cycle)}/snapshot-{len(work.written)}"
        rows = self._spark.sql(text)
        rows.write.mode("overwrite").parquet(self._storage.path(path))
        self._schemas[path] = rows.schema
        work.written[place.log] = path

    def _write(self, log: str, relation: Relation, place: Place, registered: Registered, work: _Work) -> None:
        """Evaluate a relation and add what it emits to its log."""
        text = self._compiler(registered, work).computed(relation, place)
        if text is None or log in work.new:
            return
        cycle, before = work.clockwork.cycle, work.clockwork.watermark(relation, after=False)
        judged = "CAST(NULL AS BIGINT)" if before is None else f"{before}L"
        if before is not None and gives_answers(relation):
            # An answer is never late. One from history counts as if it had been given when its instance closed.
            judged = f"least({judged}, {CLOCK} - 1L)"
        listed = f"{columns(relation.fields)}{CLOCK}, {cycle}L AS {ARRIVAL}, {judged} AS {BEFORE}"
        observation = Observation()
        path = f"{_folder_of(cycle)}/rows-{len(work.added)}"
        measures = [F.count(F.lit(1)).alias("rows"), F.min(CLOCK).alias("min"), F.max(CLOCK).alias("max")]
        rows = self._spark.sql(f"SELECT {listed} FROM ({text})").observe(observation, *measures)
        rows.write.mode("overwrite").parquet(self._storage.path(path))
        found = observation.get
        if found["rows"]:
            work.lowest[log] = found["min"]
            segment = Segment(path, found["rows"], found["min"], found["max"])
            self._add_segment(log, relation, segment, work)

    def _compiler(self, registered: Registered, work: _Work) -> Compiler:
        known = {
            place.removesuffix(".memory"): view for place, view in work.snapshots.items() if place.endswith(".memory")
        }
        return Compiler(work.clockwork, work.views, registered.birth, work.emit_from, known)

    # -- answer -------------------------------------------------------------------------------------------------------

    def _answer(self, queries: Mapping[str, Registered], work: _Work) -> dict[str, pa.Table]:
        """The answers of all queries, in one job."""
        packed: list[Packed] = []
        for name, each in queries.items():
            log = f"answers {name}"
            if log in work.new:
                text: str | None = f"SELECT {columns(each.query.relation.fields)}{CLOCK} FROM {work.new[log]}"
            elif name in work.read_by_others:
                text = None
            else:
                text = self._compiler(each, work).computed(each.query.relation, Place(each.birth.number))
            if text is not None:
                packed.append(Packed(name, each.query.relation.fields, text))
        if not packed:
            return {}
        return unpacked(packed, self._spark.sql(pack(packed)).toArrow())

    # -- commit -------------------------------------------------------------------------------------------------------

    def _commit(
        self,
        cycle: int,
        plan: Plan,
        last: Commit,
        streams: Mapping[str, StreamState],
        queries: Mapping[str, Registered],
        alone: Mapping[str, Registered],
        answers: Mapping[str, pa.Table],
        work: _Work,
    ) -> Commit:
        states = {}
        for name, each in queries.items():
            known = last.queries.get(name)
            before = known.answers if known is not None else 0
            count = answers[name].num_rows if name in answers else 0
            birth, root = each.birth, Place(each.birth.number).log
            counted = {place: clock for place, clock in work.emit_from.items() if place.partition(".")[0] == root}
            states[name] = QueryState(
                birth.number, birth.first, dict(birth.largest), counted, before + count, name not in alone
            )
        logs: dict[str, tuple[Segment, ...]] = {}
        for log, source in _logged(plan, alone).items():
            segments = [*last.logs.get(log, ()), *([work.added[log]] if log in work.added else [])]
            live = [each for each in segments if not expired(each, log, plan.streams, alone, work.clockwork)]
            if len(live) > _MOST_SEGMENTS:
                live = [self._compacted(source, live, f"{_folder_of(cycle)}/compacted-{len(logs)}", cycle)]
            if live:
                logs[log] = tuple(live)
        for index, stream in enumerate(plan.streams):
            if self._stage.reads(stream.name):
                partials = self._partials_kept(cycle, index, stream, last, work)
                if partials:
                    logs[partial_log(stream.name)] = tuple(partials)
        places = set(_memories(alone))
        snapshots = {place: path for place, path in {**last.snapshots, **work.written}.items() if place in places}
        return Commit(cycle, plan.number, dict(streams), states, logs, snapshots)

    def _partials_kept(self, cycle: int, index: int, stream: Stream, last: Commit, work: _Work) -> list[Segment]:
        """The live partials of a stream after this cycle."""
        segments = list(last.logs.get(partial_log(stream.name), ()))
        path = f"{_folder_of(cycle)}/partials-{index}"
        if stream.name in work.reduced and len(work.reduced[stream.name].partials):
            segments.append(self._stage.keep(work.reduced[stream.name].partials, f"{path}.parquet"))
        live = self._stage.live(stream.name, segments, work.clockwork.watermark(stream))
        if len(live) <= _MOST_SEGMENTS:
            return live
        self._on_step("compact", cycle)
        return self._stage.compacted(live, f"{path}-compacted")

    def _compacted(self, source: Source, segments: Sequence[Segment], path: str, cycle: int) -> Segment:
        self._on_step("compact", cycle)
        self._read(source, segments).coalesce(1).write.mode("overwrite").parquet(self._storage.path(path))
        lows = [each.min_clock for each in segments if each.min_clock is not None]
        highs = [each.max_clock for each in segments if each.max_clock is not None]
        rows = sum(each.rows for each in segments)
        return Segment(path, rows, min(lows, default=None), max(highs, default=None))


def _advanced(
    state: StreamState, stream: Stream, tick: int | None, has_rows: bool, patience: int | None
) -> StreamState:
    """A stream's clock moved on by the time that has passed in silence, once that is longer than the patience.

    Ticks come from Spark's source of them and are replayed like rows, so a second attempt sees the same time.
    """
    if tick is None or patience is None or clock_type(stream) != TIMESTAMP:
        return state
    if has_rows or state.touched is None or state.largest is None:
        return replace(state, touched=tick)
    if tick - state.touched < patience:
        return state
    return replace(state, largest=state.largest + tick - state.touched, touched=tick)


def _note_first_rows(relation: Relation, place: Place, work: _Work) -> None:
    """Remember the smallest clock in the first cycle that has rows: EMIT EMPTY counts from it."""
    if isinstance(relation, Select) and relation.emit_empty and place.log not in work.emit_from:
        lowest = work.lowest.get(log_of(relation.inputs[0].source, place.below(0)))
        if lowest is not None:
            work.emit_from[place.log] = lowest


def _rows_at_hand(queries: Mapping[str, Registered], plan: Plan, last: Commit, work: _Work) -> int:
    """How many rows the queries that read rows look at in a cycle: those that are kept, and the new ones."""
    kept = sum(each.rows for log in _logged(plan, queries) for each in last.logs.get(log, ()))
    return kept + sum(each.rows for each in work.added.values())


def _states(last: Commit, plan: Plan) -> dict[str, StreamState]:
    """How far each stream of the plan had come."""
    return {
        each.name: last.streams.get(each.name, StreamState(number))
        for each, number in zip(plan.streams, plan.stream_births, strict=True)
    }


def _of_present_streams(last: Commit, plan: Plan) -> Commit:
    """The last commit without streams that are gone, or were created anew under their name."""
    born = {each.name: number for each, number in zip(plan.streams, plan.stream_births, strict=True)}
    streams = {name: state for name, state in last.streams.items() if born.get(name) == state.number}
    logs = {f"stream {name}" for name in last.streams.keys() - streams.keys()}
    return replace(last, streams=streams, logs={log: kept for log, kept in last.logs.items() if log not in logs})


def _registered(plan: Plan, last: Commit, cycle: int) -> dict[str, Registered]:
    """The plan's queries with their births: recorded in the last commit, or now."""
    largest = {name: state.largest for name, state in last.streams.items()}
    queries = {}
    for each, number in zip(plan.queries, plan.births, strict=True):
        known = last.queries.get(each.name)
        same = known is not None and known.number == number
        queries[each.name] = Registered(each, known.birth if same and known else Birth(number, cycle, largest))
    return queries


def _continued(last: Commit, queries: Mapping[str, Registered]) -> Commit:
    """The last commit as far as it concerns queries that go on: not those dropped, or created anew under their name."""
    going_on = {
        name: state
        for name, state in last.queries.items()
        if name in queries and queries[name].birth.number == state.number
    }
    answers = {f"answers {name}" for name in last.queries.keys() - going_on.keys()}
    logs = {log: segments for log, segments in last.logs.items() if log not in answers}
    places = {Place(state.number).log for state in going_on.values()}
    snapshots = {place: path for place, path in last.snapshots.items() if place.partition(".")[0] in places}
    return replace(last, queries=going_on, logs=logs, snapshots=snapshots)


def _relations_below(relation: Relation) -> list[Relation | None]:
    return [each if isinstance(each, (Select, SetOperation)) else None for each in reads(relation)]


def _logged(plan: Plan, queries: Mapping[str, Registered]) -> dict[str, Source]:
    """Every log that some query needs, or that BACKFILL keeps for later ones, and the source whose rows it keeps."""
    kept: dict[str, Source] = {f"stream {each.name}": each for each in plan.streams if each.backfill}
    for each in queries.values():
        for source, inner in kept_sources(each.query.relation, Place(each.birth.number)):
            kept[log_of(source, inner)] = source
    return kept


def _memories(queries: Mapping[str, Registered]) -> list[str]:
    """The places of running aggregates and of operators over history."""

    def below(relation: Relation, place: Place) -> list[str]:
        own = [place.log, f"{place.log}.memory"]
        for step, each in enumerate(_relations_below(relation)):
            if each is not None:
                own += below(each, place.below(step))
        return own

    return [place for each in queries.values() for place in below(each.query.relation, Place(each.birth.number))]


def _garbage(last: Commit, commit: Commit) -> tuple[str, ...]:
    """What the last commit needed and this one does not: whole folders of cycles, or files in those that live on."""
    old, live = _files(last), _files(commit)
    folders = {_folder(path) for path in old} | {_folder_of(commit.cycle)}
    gone = folders - {_folder(path) for path in live}
    rows = f"{_folder_of(commit.cycle)}/streams"
    if not any(path.startswith(rows) for path in live):
        # Rows that were written to be judged, in a stream of which only partials are kept.
        old = old | {rows}
    return tuple(sorted(gone | {path for path in old - live if _folder(path) not in gone}))


def _folder_of(cycle: int) -> str:
    """The folder of what a cycle writes."""
    return f"segments/{cycle:012d}"


def _folder(path: str) -> str:
    """The folder of the cycle that a file was written in."""
    return "/".join(path.split("/")[:2])


def _files(commit: Commit) -> set[str]:
    segments = {each.path for segments in commit.logs.values() for each in segments}
    return segments | set(commit.snapshots.values())


def _checked(
    batch: DataFrame, decision: Decision, clockwork: Clockwork, queries: Mapping[str, Registered]
) -> DataFrame:
    """The batch with every row's clock, what it is judged by, and the reason if it cannot take part in anything."""
    plan = decision.plan
    clocks, reasons, judged = [], [], []
    for index, each in enumerate(plan.streams):
        position = next(i for i, f in enumerate(each.fields) if f.name == each.clock)
        value = f"s{index}.{column(position)}"
        here = f"WHEN {STREAM} = {index}"
        is_instant = clock_type(each) == TIMESTAMP
        clocks.append(f"{here} THEN {f'unix_micros({value})' if is_instant else value}")
        least, most = clock_bounds(each)
        reasons.append(f"{here} AND {CLOCK} NOT BETWEEN {least}L AND {most}L THEN 'clock out of range'")
        if is_instant and decision.latest is not None:
            reasons.append(f"{here} AND {CLOCK} > {decision.latest}L THEN 'clock ahead of time'")
        watermark = clockwork.watermark(each, after=False)
        judged.append(f"{here} THEN {'CAST(NULL AS BIGINT)' if watermark is None else f'{watermark}L'}")
        late = late_everywhere(each, clockwork, queries)
        if late is not None:
            reasons.append(f"{here} AND {late} THEN 'late'")
    with_clock = batch.withColumn(CLOCK, F.expr(f"CASE {' '.join(clocks)} END"))
    ticks = f"WHEN {TICK} IS NOT NULL THEN 'tick'"
    bad = f"{ticks} WHEN {CORRUPT} IS NOT NULL THEN 'malformed' WHEN {CLOCK} IS NULL THEN 'no clock'"
    return with_clock.selectExpr(
        *(f"s{index}" for index in range(len(plan.streams))),
        CORRUPT,
        TICK,
        CLOCK,
        f"{clockwork.cycle}L AS {ARRIVAL}",
        f"CASE {' '.join(judged)} END AS {BEFORE}",
        f"{STREAM} AS stream",
        f"CASE {bad} {' '.join(reasons)} ELSE 'none' END AS reason",
    )


def _measures(streams: Sequence[Stream]) -> str:
    """What one pass over the rows tells of every stream, as one struct."""
    measures = [f"max({TICK}) AS tick"]
    for index in range(len(streams)):
        good = f"stream = {index} AND reason = 'none'"
        seen = f"stream = {index} AND reason IN ('none', 'late')"
        late = f"stream = {index} AND reason = 'late'"
        bad = f"stream = {index} AND reason NOT IN ('none', 'late', 'tick')"
        measures += [
            f"count(CASE WHEN {good} THEN 1 END) AS rows_{index}",
            f"min(CASE WHEN {good} THEN {CLOCK} END) AS min_{index}",
            f"max(CASE WHEN {seen} THEN {CLOCK} END) AS max_{index}",
            f"min(CASE WHEN {seen} THEN {CLOCK} END) AS least_{index}",
            f"count(CASE WHEN {late} THEN 1 END) AS late_{index}",
            f"count(CASE WHEN {bad} THEN 1 END) AS bad_{index}",
        ]
    return f"struct({', '.join(measures)})"
