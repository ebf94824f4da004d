"""One cycle: rows in, answers out, and one commit that makes it true.

    begin     the engine has written down what is decided: the cycle's spec
    prepare   each stage takes its operators, and brings its memory to the state of the last commit
    scan      each new row is read once: its clock is checked, stages reduce it or select it, and rows that are late or
              malformed are set aside (`batch_scan.py`)
    run       each operator is evaluated by its stage as soon as its inputs are there
    finish    stages give the last answers, and hand over the state that later cycles need
    sinks     the engine hands answers to their sinks, under the cycle's number
    commit    one atomic record; then the memory of the stages is the state after the cycle

What happens before the commit leaves no trace that a second attempt would see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.algebra import Relation
from weft.plan.event_time import RunningQuery
from weft.plan.log_ids import LogId
from weft.runtime.batch_scan import Scanner
from weft.runtime.sources.batches import Batch
from weft.runtime.spark.engine_errors import MemoryLimit
from weft.runtime.spark.rows import CLOCK
from weft.runtime.stages.cycle_state import CycleState, RowLogs, Step
from weft.runtime.stages.groups.stage import GroupStage
from weft.runtime.stages.joins.stage import JoinStage
from weft.runtime.stages.operators import (
    Operator,
    OperatorId,
    PlannedQueries,
    StageKind,
    logged,
    needed_of_logs,
    operators_of,
    roots_of,
    stage_for,
    whole_query,
)
from weft.runtime.stages.sets.set_rows import combines_rows
from weft.runtime.stages.sets.stage import SetStage
from weft.runtime.stages.sql.stage import SqlStage
from weft.runtime.stages.stage import Stage
from weft.runtime.stages.windows.kernel_placement import KeySet, Placement
from weft.runtime.stages.windows.stage import WindowStage
from weft.runtime.stages.windows.stream_weave import ReducedRows
from weft.runtime.stages.windows.warm_start import PendingRestore
from weft.runtime.state.commits import Commit, QueryState, Segment
from weft.runtime.state.continuity import (
    CycleSpec,
    Folders,
    continued,
    of_present_streams,
    running_queries,
    with_tables,
)
from weft.runtime.state.storage import Storage
from weft.runtime.state.store import MemoryAccount, StateStore, are_many, live
from weft.sql.settings import Settings

_SHARED = Folders()

_AFTER_ALL_CLOCKS = 1 << 63


@dataclass(frozen=True)
class Answered:
    """The outcome of a cycle: the answers of each query, and the record to commit."""

    answers: Mapping[str, pa.Table]
    commit: Commit
    #: The new rows of each stream as partials, for statistics.
    reduced: Mapping[str, ReducedRows] = field(default_factory=dict)
    #: Where the kernels of each key set live, by stream.
    hosts: Mapping[str, Mapping[KeySet, Placement]] = field(default_factory=dict)


class CycleRunner:
    """Runs cycles of a plan against the state of the last commit."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        on_step: Step,
        settings: Settings,
        network: JoinStage,
        restored: PendingRestore | None = None,
        folders: Folders = _SHARED,
    ) -> None:
        self._on_step = on_step
        self._logs = RowLogs(spark, storage, folders)
        self._scanner = Scanner(self._logs)
        self._store = StateStore(storage)
        self._account = MemoryAccount(settings.max_state)
        self._windows = WindowStage(self._logs, self._store, settings, self._account, restored)
        self._joins = network
        self._joins.attach(self._logs, self._account)
        #: Joins come last: they run when nothing else can, and so in few Spark jobs.
        self._stages: tuple[Stage, ...] = (
            self._windows,
            GroupStage(self._store, self._account),
            SetStage(self._store, self._account),
            SqlStage(self._logs),
            self._joins,
        )
        #: The queries of this cycle, and the plan and the cycle of the last commit, with its queries.
        self._planned = PlannedQueries()
        self._committed: tuple[int, int, PlannedQueries] | None = None

    def run(self, batch: Batch | None, spec: CycleSpec, last: Commit) -> Answered:
        """Evaluate a cycle. Nothing is true before the caller commits the record. MemoryLimit names queries."""
        try:
            return self._run(batch, spec, last)
        except MemoryLimit as error:
            names = (self._planned.owner_of.get(each, each) for each in error.needing_most)
            raise MemoryLimit(str(error), tuple(dict.fromkeys(names))) from error

    def _run(self, batch: Batch | None, spec: CycleSpec, last: Commit) -> Answered:
        self._planned, known = self._plan(spec, last)
        self._on_step("ingest", spec.cycle)
        for stage in self._stages:
            stage.prepare(spec, self._planned.of_stage[stage.kind], known)
        self._account.begin(use for stage in self._stages for use in stage.memory())
        cycle = self._scan(batch, spec, known)
        waiting = list(self._planned.operators)
        while waiting:
            waiting = self._run_next(cycle, waiting)
        self._on_step("answer", spec.cycle)
        for stage in self._stages:
            stage.finish(cycle)
        cycle.write_state(self._store)
        commit = self._record(cycle)
        cycle.drop_views()
        self._logs.forget_snapshots(commit.snapshots.values())
        return Answered(cycle.answers, commit, self._windows.reduced, self._windows.placements.by_stream)

    def _scan(self, batch: Batch | None, spec: CycleSpec, last: Commit) -> CycleState:
        """Read the new rows, again if they turn out to need it."""
        stages = {stage.kind: stage for stage in self._stages}
        scans = self._scanner.scans(batch, spec, self._planned, last, lambda kind, log: stages[kind].takes(log))
        for scan in scans:
            for stage in self._stages:
                stage.take(scan)
            arrivals = scan.arrivals()
            if arrivals is not None:
                return CycleState(spec, last, self._planned, arrivals, self._logs, self._on_step)
        raise AssertionError("the last scan has an outcome")

    def _run_next(self, cycle: CycleState, waiting: list[Operator]) -> list[Operator]:
        """Run the first stage that has operators whose inputs are there; those that still wait."""
        ready = [each for each in waiting if cycle.is_ready(each)]
        kinds = {each.stage for each in ready}
        assert ready, "some operator reads what no other gives"
        stage = next(stage for stage in self._stages if stage.kind in kinds)
        operators = [each for each in ready if each.stage is stage.kind]
        waiting = [each for each in waiting if each.stage is not stage.kind or not cycle.is_ready(each)]
        self._on_step(stage.step, cycle.number)
        rows = stage.run(cycle, operators)
        for each in operators:
            if each.id.text in rows:
                cycle.give(each, rows[each.id.text])
        cycle.settle(operators)
        return waiting

    def committed(self, commit: Commit) -> None:
        """A cycle's record has been committed."""
        self._committed = commit.plan, commit.cycle, self._planned
        for stage in self._stages:
            stage.commit(commit.cycle)

    # -- queries and their operators ----------------------------------------------------------------------------------

    def _plan(self, spec: CycleSpec, last: Commit) -> tuple[PlannedQueries, Commit]:
        """The queries of a cycle with their operators, and the last commit as far as it concerns those that go on."""
        present = with_tables(of_present_streams(last, spec.plan), spec.intent.tables)
        if self._committed is not None and self._committed[:2] == (spec.plan.number, present.cycle):
            # No query has come or gone: with thousands of them it pays not to look at each.
            return self._committed[2], present
        queries = running_queries(spec.plan, present, spec.cycle)
        known = continued(present, queries)
        # Whether a query is answered from shared partials, and whether its operators are shared with other queries, is
        # decided in its first cycle, which may be this.
        begun, sharing, can_weave = known.queries, spec.intent.sharing, self._windows.can_weave
        whole = {
            name: each
            for name, each in queries.items()
            if (begun[name].woven if name in begun else sharing and can_weave(each.query, each.start.number))
        }
        alone = {name: each for name, each in queries.items() if name not in whole}
        shared = {
            name
            for name, each in alone.items()
            if (begun[name].shared if name in begun else sharing and each.query.sharing)
        }
        # Those that are planned already keep their roots.
        numbers = {each.start.number for each in alone.values()}
        roots = {number: root for number, root in self._planned.roots.items() if number in numbers}
        others = {name: each for name, each in alone.items() if each.start.number not in roots}
        found = roots_of(others, shared, {name: state.root for name, state in known.queries.items()})
        roots |= {alone[name].start.number: root for name, root in found.items()}

        def stage_of(query: RunningQuery, relation: Relation, id_: OperatorId) -> StageKind:
            if id_.query >= 0:
                return StageKind.SETS if combines_rows(relation) else StageKind.SQL
            if id_.text in known.evaluators:
                return StageKind(known.evaluators[id_.text])
            return stage_for(relation, id_, query.start.first, self._windows.can_weave)

        single = operators_of(alone, {name: roots[each.start.number] for name, each in alone.items()}, stage_of)
        operators = (*map(whole_query, whole.values()), *single)
        return PlannedQueries(queries, operators, roots, frozenset(shared)), known

    # -- the record ---------------------------------------------------------------------------------------------------

    def _record(self, cycle: CycleState) -> Commit:
        """The record that makes the cycle true."""
        last, planned = cycle.last, self._planned
        answered = {name: last.answered.get(name, 0) for name in planned.queries}
        for name, table in cycle.answers.items():
            answered[name] += table.num_rows
        snapshots = {**last.snapshots, **cycle.written_snapshots}
        remembered = {each.id.text for each in planned.of_stage[StageKind.SQL]}
        late = Counter(last.late)
        late.update(cycle.arrivals.late)
        return Commit(
            cycle.number,
            cycle.spec.plan.number,
            dict(cycle.arrivals.streams),
            self._states(cycle),
            answered,
            {**self._rows_kept(cycle), **cycle.kept},
            {id_: path for id_, path in snapshots.items() if id_ in remembered},
            network=cycle.labels,
            evaluators={each.id.text: each.stage.value for each in planned.operators if each.id.query < 0},
            late=late,
        )

    def _rows_kept(self, cycle: CycleState) -> dict[LogId, tuple[Segment, ...]]:
        """The rows that later cycles read again, by log."""
        plan = cycle.spec.plan
        since = needed_of_logs(plan.streams, self._planned.operators, cycle.event_time)
        logs: dict[LogId, tuple[Segment, ...]] = {}
        for log, source in logged(plan, self._planned).items():
            arrived = [of[log] for of in (cycle.added, cycle.arrivals.kept_late) if log in of]
            # What neither an open window needs, nor a row that can still arrive in time, is expired.
            kept = live([*cycle.last.logs.get(log, ()), *arrived], since.get(log, _AFTER_ALL_CLOCKS))
            if are_many(kept):
                cycle.begin_compaction()
                path = f"{cycle.folder}/compacted-{len(logs)}"
                kept = self._logs.compacted(self._logs.read(source, kept), CLOCK, since.get(log), path)
            if kept:
                logs[log] = tuple(kept)
        return logs

    def _states(self, cycle: CycleState) -> Mapping[str, QueryState]:
        """The record of each query, mostly the one that it has already."""
        planned = self._planned
        if self._committed is not None and self._committed[2] is planned and not cycle.emit_from:
            return cycle.last.queries
        counted_from: dict[int, dict[str, int]] = {}
        for id_, clock in cycle.emit_from.items():
            counted_from.setdefault(int(id_.partition(".")[0]), {})[id_] = clock
        states = {}
        for name, each in planned.queries.items():
            start, root = each.start, planned.roots.get(each.start.number)
            numbers, record = ((start.number,), "") if root is None else (root.id.numbers, root.record)
            counted = {id_: clock for number in numbers for id_, clock in counted_from.get(number, {}).items()}
            is_woven, is_shared = name in planned.whole, name in planned.shared
            states[name] = QueryState(start.number, start.first, start.largest, counted, is_woven, is_shared, record)
        return states
