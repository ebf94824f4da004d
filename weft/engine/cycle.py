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

from weft.algebra import Answers, Relation, Select, Source, Stream
from weft.algebra.clocks import clock_type
from weft.algebra.sources import leaves
from weft.algebra.types import TIMESTAMP
from weft.engine import running
from weft.engine.answers import Packed, held, pack, unpacked
from weft.engine.commits import Commit, QueryState, Segment, StreamState
from weft.engine.compile import Compiler, Place, Views, log_of
from weft.engine.continuity import (
    continued,
    folder_of,
    garbage,
    logged,
    memories,
    of_present_streams,
    partials_path,
    reads_history,
    registered_queries,
    states_of,
)
from weft.engine.dead_letter import write_dead_letters
from weft.engine.expiry import Expiry
from weft.engine.intake import advanced, judged_batch, measures_of_batch
from weft.engine.network.current import CurrentNetwork
from weft.engine.network.prepared import Prepared
from weft.engine.network.stage import NetworkPass
from weft.engine.network.steps import Step as Unit
from weft.engine.network.steps import has_networked, is_networked, steps_of
from weft.engine.rows import ARRIVAL, BEFORE, CLOCK, CORRUPT, STREAM, column, columns, log_schema
from weft.engine.sinks import parquet_file
from weft.engine.spark import compile_plans
from weft.engine.storage import Storage
from weft.engine.woven.ahead import Ahead
from weft.engine.woven.backfill import KeptRows
from weft.engine.woven.hosts import Host, Hosting, KeySet
from weft.engine.woven.stage import Reduced, WovenStage, totals_of
from weft.engine.woven.stage import log_of as partial_log
from weft.plan.clockwork import Birth, Clock, Clockwork, Registered, gives_answers
from weft.plan.facts import facts_of
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
    cycle are kept by themselves. `facts` are what trees are chosen by, see `weft/plan/facts.py`; no answer depends on
    them.
    """

    plan: Plan
    heartbeats: Mapping[str, int]
    patience: int | None = None
    latest: int | None = None
    sharing: bool = True
    facts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Answered:
    """What a cycle found out: the answers of each query, and the record to commit."""

    answers: Mapping[str, pa.Table]
    commit: Commit
    garbage: tuple[str, ...]
    #: The new rows of each stream as partials, for statistics.
    reduced: Mapping[str, Reduced] = field(default_factory=dict)
    #: Where the kernels of each key set live, by stream.
    hosts: Mapping[str, Mapping[KeySet, Host]] = field(default_factory=dict)


@dataclass
class _Work:
    """A cycle in progress: the views it has registered and the state it is building."""

    clockwork: Clockwork
    new: dict[str, str] = field(default_factory=dict)
    old: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, str] = field(default_factory=dict)
    added: dict[str, Segment] = field(default_factory=dict)
    #: Rows that are late for every query and kept all the same, by log.
    kept_late: dict[str, Segment] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    #: The least clock among the rows that each log got in this cycle, late ones included.
    lowest: dict[str, int] = field(default_factory=dict)
    emit_from: dict[str, int] = field(default_factory=dict)
    #: The smallest clock in the first cycle of what a stream has kept for queries that are new, by log.
    first_kept: dict[str, Clock] = field(default_factory=dict)
    names: int = 0
    #: The new rows of each stream as partials.
    reduced: dict[str, Reduced] = field(default_factory=dict)
    #: The logs of relations that the network evaluates.
    given: frozenset[str] = frozenset()

    @cached_property
    def read_by_others(self) -> frozenset[str]:
        """The queries whose answers other queries read."""
        read = (leaf for each in self.clockwork.queries.values() for leaf in leaves(each.query.relation))
        return frozenset(leaf.query for leaf in read if isinstance(leaf, Answers))

    @property
    def views(self) -> Views:
        return Views(self.new, self.old, self.given)


class CycleRunner:
    """Runs cycles of a plan against the state of the last commit."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        on_step: Step | None = None,
        hosting: Hosting | None = None,
        ahead: Ahead | None = None,
        network: CurrentNetwork | None = None,
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._on_step = on_step or (lambda step, cycle: None)
        self._stage = WovenStage(spark, storage, hosting or Hosting(), ahead)
        self._expiry = Expiry()
        self._network = network or CurrentNetwork(hosting or Hosting())
        #: The schemas of snapshots that this process has written: reading them needs no look into the files.
        self._schemas: dict[str, StructType] = {}

    def run(self, batch: DataFrame | None, cycle: int, decision: Decision, last: Commit) -> Answered:
        """Evaluate a cycle. Nothing is true before the caller commits the record that comes back."""
        plan = decision.plan
        present = of_present_streams(last, plan)
        queries = registered_queries(plan, present, cycle)
        known = continued(present, queries)
        woven = {name: each for name, each in queries.items() if self._is_woven(name, each, known, decision.sharing)}
        alone = {name: each for name, each in queries.items() if name not in woven}
        networked = {name for name, each in alone.items() if _is_networked(name, each, known, decision.sharing)}
        units = [unit for name, each in alone.items() for unit in steps_of(name, each)]
        shared = [unit for unit in units if unit.name in networked and is_networked(unit.relation)]
        step = self._on_step
        step("ingest", cycle)
        facts = {name: facts_of(numbers) for name, numbers in decision.facts.items()}
        self._stage.prepare(
            known, plan.streams, woven, lambda stream: self._kept_rows(stream, plan, known, cycle), facts
        )
        streams, work = self._take_in(batch, cycle, decision, known, queries, alone)
        self._register_old(known, plan, alone, work)
        work.given = frozenset(unit.log for unit in shared)
        left = {name: each for name, each in alone.items() if f"answers {name}" not in work.given}
        compiled = _rows_at_hand(left, plan, known, work) > _WORTH_COMPILING
        compile_plans(self._spark, compiled)
        step("weave", cycle)
        answers = self._weave(plan, woven, work)
        step("network", cycle)
        network = self._network.begin(self._spark, self._storage, shared, known, cycle)
        answers |= self._evaluate(units, network, {f"answers {name}" for name in woven}, plan, compiled, work)
        step("answer", cycle)
        answers |= self._answer(left, work)
        commit = self._commit(cycle, plan, known, streams, queries, alone, answers, work)
        commit = self._with_network(commit, networked, network, work)
        network.arrived = {log: each.rows for log, each in work.added.items()}
        network.asking.drop_views()
        self._drop_views(work)
        self._schemas = {path: self._schemas[path] for path in commit.snapshots.values() if path in self._schemas}
        return Answered(answers, commit, garbage(last, commit), work.reduced, self._stage.hosts)

    def committed(self, commit: Commit) -> None:
        """A cycle's record has been committed."""
        self._stage.committed(commit.cycle)
        self._network.committed(commit.cycle)

    def _kept_rows(self, stream: Stream, plan: Plan, last: Commit, cycle: int) -> KeptRows | None:
        """The rows that a stream has kept for queries that are new, if it has any."""
        segments = last.logs.get(f"stream {stream.name}", ())
        if not segments:
            return None
        compile_plans(self._spark, sum(each.rows for each in segments) > _WORTH_COMPILING)
        path = f"{folder_of(cycle)}/history-{plan.streams.index(stream)}.parquet"
        return KeptRows(self._read(stream, segments), path)

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
        states = states_of(last, plan)
        before = {name: state.largest for name, state in states.items()}
        earlier = Clockwork(cycle, before, before, queries)
        # A batch comes with a session of its own, whose settings are those of when the streaming query started.
        compile_plans(batch.sparkSession, True)
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
        work.lowest = {f"stream {name}": each.least for name, each in reduced.items() if each.least is not None}
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
        states = states_of(last, plan)
        before = {name: state.largest for name, state in states.items()}
        earlier = Clockwork(cycle, before, before, queries)
        path = f"{folder_of(cycle)}/streams"
        measured: Mapping[str, int | None] = {}
        if batch is not None and plan.streams:
            checked = judged_batch(batch, plan.streams, decision.latest, earlier, queries)
            observation = Observation()
            observed = checked.observe(observation, F.expr(measures_of_batch(plan.streams)).alias("measured"))
            observed.write.partitionBy("stream", "reason").mode("overwrite").parquet(self._storage.path(path))
            measured = observation.get["measured"].asDict()
        streams: dict[str, StreamState] = {}
        segments: dict[str, Segment] = {}
        late_segments: dict[str, Segment] = {}
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
                segments[f"stream {each.name}"] = Segment(where, rows, lowest, highest, struct=f"s{index}")
            if late and each.backfill:
                # Late for all queries that there are, and perhaps not for one to come.
                where = f"{path}/stream={index}/reason=late"
                newest = earlier.watermark(each, after=False)
                late_segments[f"stream {each.name}"] = Segment(
                    where, late, measured.get(f"least_{index}"), newest, struct=f"s{index}"
                )
            if late or bad:
                write_dead_letters(self._spark, self._storage, each, index, path, cycle)
        work = _Work(Clockwork(cycle, before, {n: s.largest for n, s in streams.items()}, queries))
        for index, each in enumerate(plan.streams):
            lowest = measured.get(f"least_{index}")
            if lowest is not None:
                work.lowest[f"stream {each.name}"] = lowest
        work.kept_late = late_segments
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
        for log, source in logged(plan, queries).items():
            segments = last.logs.get(log, ())
            if segments:
                work.old[log] = self._view(self._read(source, segments), work)
        for state in last.queries.values():
            work.emit_from.update(state.emit_from)
        for place, path in last.snapshots.items():
            work.snapshots[place] = self._view(self._read_snapshot(path), work)

    def _read_snapshot(self, path: str) -> DataFrame:
        reader = self._spark.read.schema(self._schemas[path]) if path in self._schemas else self._spark.read
        return reader.parquet(self._storage.path(path))

    def _drop_views(self, work: _Work) -> None:
        for number in range(1, work.names + 1):
            self._spark.catalog.dropTempView(f"weft_{number}")

    # -- weave --------------------------------------------------------------------------------------------------------

    def _weave(self, plan: Plan, woven: Mapping[str, Registered], work: _Work) -> dict[str, pa.Table]:
        """The answers of the queries that share partials; those that others read go into a log as well."""
        counted_from = {}
        for name, each in woven.items():
            place = Place(each.birth.number)
            self._note_first_rows(each.query.relation, place, each, work)
            if place.log in work.emit_from:
                counted_from[name] = work.emit_from[place.log]
        paths = {each.name: partials_path(work.clockwork.cycle, index) for index, each in enumerate(plan.streams)}
        found = self._stage.answer(work.reduced, work.clockwork, woven, counted_from, paths)
        for name in work.read_by_others & found.keys():
            self._log_rows(f"answers {name}", woven[name].query.relation, found[name], work)
        return {name: table.drop_columns([CLOCK]) for name, table in found.items()}

    def _log_rows(self, log: str, relation: Relation, table: pa.Table, work: _Work) -> None:
        """Add rows that were found in the driver, with their clocks, to a log."""
        cycle, before = work.clockwork.cycle, work.clockwork.watermark(relation, after=False)
        clocks = table[CLOCK]
        # The answer of an instance is never late: it is judged by what the watermark was before it closed.
        ends = np.asarray(clocks)
        judged = pa.nulls(len(ends), pa.int64())
        if before is not None:
            judged = pa.array(np.minimum(before, ends - 1) if gives_answers(relation) else np.full(len(ends), before))
        values = [held(table[number], field) for number, field in enumerate(relation.fields)]
        names = [*(column(number) for number in range(len(relation.fields))), CLOCK, ARRIVAL, BEFORE]
        rows = pa.table([*values, clocks, pa.array(np.full(len(ends), cycle)), judged], names=names)
        path = f"{folder_of(cycle)}/rows-{len(work.added)}.parquet"
        self._storage.write_bytes(path, parquet_file(rows))
        lowest, highest = int(ends.min()), int(ends.max())
        work.lowest[log] = lowest
        self._add_segment(log, relation, Segment(path, len(clocks), lowest, highest), work)

    # -- keep ---------------------------------------------------------------------------------------------------------

    def _evaluate(
        self,
        units: Sequence[Unit],
        network: NetworkPass,
        settled: set[str],
        plan: Plan,
        compiled: bool,
        work: _Work,
    ) -> dict[str, pa.Table]:
        """Evaluate what later cycles will look at again and what others read, as soon as all that it reads is there.

        What the network evaluates, it does for all queries at once. Given back are the answers found on the way.
        """
        settled |= {f"stream {each.name}" for each in plan.streams}
        shared = {unit.place.log: unit for unit in units if unit.log in work.given}
        waiting = [unit for unit in units if unit.log not in work.given]
        answers: dict[str, pa.Table] = {}
        while waiting or shared:
            places, found = network.advance(frozenset(settled), work.views)
            for unit in [shared.pop(place) for place in places]:
                if unit.place.log in found:
                    self._give(unit, found[unit.place.log], answers, work)
                settled.add(unit.log)
            self._on_step("keep", work.clockwork.cycle)
            compile_plans(self._spark, compiled)
            left = []
            for unit in waiting:
                if settled.issuperset(unit.inputs):
                    self._keep(unit, work)
                    settled.add(unit.log)
                else:
                    left.append(unit)
            assert places or len(left) < len(waiting), "some query reads what nobody gives"
            waiting = left
        return answers

    def _give(self, unit: Unit, table: pa.Table, answers: dict[str, pa.Table], work: _Work) -> None:
        """Put what the network has found for a relation to where it is looked for."""
        if unit.is_root:
            answers[unit.name] = table.drop_columns([CLOCK])
        if unit.is_kept or (unit.is_root and unit.name in work.read_by_others):
            self._log_rows(unit.log, unit.relation, table, work)
        elif not unit.is_root:
            fields = unit.relation.fields
            values = [held(table[number], each) for number, each in enumerate(fields)]
            names = [*(column(number) for number in range(len(fields))), CLOCK]
            work.new[unit.log] = self._view(self._spark.createDataFrame(pa.table([*values, table[CLOCK]], names)), work)

    def _keep(self, unit: Unit, work: _Work) -> None:
        """Evaluate what later cycles will look at again, and what other queries read."""
        self._keep_memory(unit.relation, unit.place, unit.registered, work)
        self._note_first_rows(unit.relation, unit.place, unit.registered, work)
        if unit.is_kept or (unit.is_root and unit.name in work.read_by_others):
            self._write(unit.log, unit.relation, unit.place, unit.registered, work)

    def _note_first_rows(self, relation: Relation, place: Place, registered: Registered, work: _Work) -> None:
        """Remember the smallest clock in the first cycle that has rows: EMIT EMPTY counts from it.

        What had closed before that cycle was not answered then, and is not later, when a query looks back.
        """
        if not isinstance(relation, Select) or not relation.emit_empty or place.log in work.emit_from:
            return
        source = relation.inputs[0].source
        lowest = self._first_kept_clock(source, registered.birth, work)
        if lowest is None and log_of(source, place.below(0)) in work.lowest:
            clocks = work.lowest[log_of(source, place.below(0))], work.clockwork.watermark(source, after=False)
            lowest = max(clock for clock in clocks if clock is not None)
        if lowest is not None:
            work.emit_from[place.log] = lowest

    def _first_kept_clock(self, source: Source, birth: Birth, work: _Work) -> Clock:
        """The smallest clock in the first cycle of the history that a query finds when it is created."""
        log = log_of(source, Place(birth.number))
        horizon = work.clockwork.horizon(source, birth)
        is_new = work.clockwork.cycle == birth.first
        if not (isinstance(source, Stream) and source.backfill and is_new and log in work.old and horizon is not None):
            return None
        if log not in work.first_kept:
            kept = f"SELECT min(struct({ARRIVAL}, {CLOCK}, {BEFORE})) AS first FROM {work.old[log]}"
            found = self._spark.sql(f"{kept} WHERE {CLOCK} > {horizon}L").selectExpr(
                f"greatest(first.{CLOCK}, first.{BEFORE})"
            )
            (work.first_kept[log],) = found.toArrow().column(0).to_pylist()
        return work.first_kept[log]

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
        path = f"{folder_of(work.clockwork.cycle)}/snapshot-{len(work.written)}"
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
        path = f"{folder_of(cycle)}/rows-{len(work.added)}"
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
        # Where rows are kept for queries to come, those of open windows are among them: see `woven/backfill.py`.
        readers = {name: each for name, each in queries.items() if name in alone or reads_history(each)}
        needs = self._expiry.needs(plan.streams, readers, work.clockwork)
        for log, source in logged(plan, alone).items():
            arrived = [of[log] for of in (work.added, work.kept_late) if log in of]
            segments = [*last.logs.get(log, ()), *arrived]
            live = [each for each in segments if not needs.expired(each, log)]
            if len(live) > _MOST_SEGMENTS:
                live = [self._compacted(source, live, f"{folder_of(cycle)}/compacted-{len(logs)}", cycle)]
            if live:
                logs[log] = tuple(live)
        for index, stream in enumerate(plan.streams):
            if self._stage.reads(stream.name):
                partials = self._partials_kept(cycle, index, stream, last, work)
                if partials:
                    logs[partial_log(stream.name)] = tuple(partials)
                totals = self._totals_kept(cycle, index, stream, last)
                if totals:
                    logs[totals_of(stream.name)] = tuple(totals)
        places = set(memories(alone))
        snapshots = {place: path for place, path in {**last.snapshots, **work.written}.items() if place in places}
        return Commit(cycle, plan.number, dict(streams), states, logs, snapshots)

    def _with_network(self, commit: Commit, networked: set[str], network: NetworkPass, work: _Work) -> Commit:
        """A commit with what the network keeps."""
        logs = dict(commit.logs)
        for family, live in network.keeping.live(network.families, work.clockwork):
            segments = live
            if len(live) > _MOST_SEGMENTS:
                self._on_step("compact", commit.cycle)
                path = f"{folder_of(commit.cycle)}/network-compacted-{len(logs)}"
                segments = [self._family_compacted(family, live, network, path)]
            if segments:
                logs[family.family.name] = tuple(segments)
        queries = {
            name: replace(state, networked=name in networked) if name in networked else state
            for name, state in commit.queries.items()
        }
        return replace(commit, logs=logs, queries=queries, network=network.keeping.states)

    def _family_compacted(
        self, family: Prepared, segments: Sequence[Segment], network: NetworkPass, path: str
    ) -> Segment:
        network.keeping.read(family, segments).coalesce(1).write.mode("overwrite").parquet(self._storage.path(path))
        return _of_all(segments, path)

    def _partials_kept(self, cycle: int, index: int, stream: Stream, last: Commit, work: _Work) -> list[Segment]:
        """The live partials of a stream after this cycle."""
        if not self._stage.keeps_partials(stream.name):
            return []
        segments = list(self._stage.kept(stream.name))
        path = partials_path(cycle, index)
        if stream.name in work.reduced and len(work.reduced[stream.name].partials):
            segments.append(self._stage.log.keep(work.reduced[stream.name].partials, path))
        live = self._stage.live(stream.name, segments, work.clockwork.watermark(stream))
        if len(live) <= _MOST_SEGMENTS:
            return live
        self._on_step("compact", cycle)
        return self._stage.log.compacted(live, f"{folder_of(cycle)}/partials-{index}-compacted")

    def _totals_kept(self, cycle: int, index: int, stream: Stream, last: Commit) -> list[Segment]:
        """The files that together have the groups of a stream's aggregates that never close."""
        segments = last.logs.get(totals_of(stream.name), ())
        if len(segments) >= _MOST_SEGMENTS:
            self._on_step("compact", cycle)
        path = f"{folder_of(cycle)}/totals-{index}.parquet"
        return self._stage.keep_totals(stream.name, segments, path, _MOST_SEGMENTS)

    def _compacted(self, source: Source, segments: Sequence[Segment], path: str, cycle: int) -> Segment:
        self._on_step("compact", cycle)
        self._read(source, segments).coalesce(1).write.mode("overwrite").parquet(self._storage.path(path))
        return _of_all(segments, path)


def _of_all(segments: Sequence[Segment], path: str) -> Segment:
    """Some segments in one file."""
    lows = [each.min_clock for each in segments if each.min_clock is not None]
    highs = [each.max_clock for each in segments if each.max_clock is not None]
    return Segment(path, sum(each.rows for each in segments), min(lows, default=None), max(highs, default=None))


def _is_networked(name: str, registered: Registered, last: Commit, sharing: bool) -> bool:
    """Whether the network evaluates parts of a query: as it was decided in its first cycle, which may be this."""
    state = last.queries.get(name)
    if state is not None:
        return state.networked
    return sharing and registered.query.sharing and has_networked(registered.query)


def _rows_at_hand(queries: Mapping[str, Registered], plan: Plan, last: Commit, work: _Work) -> int:
    """How many rows the queries that read rows look at in a cycle: those that are kept, and the new ones."""
    kept = sum(each.rows for log in logged(plan, queries) for each in last.logs.get(log, ()))
    return kept + sum(each.rows for each in work.added.values())
