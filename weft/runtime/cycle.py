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

from weft.optimizer.optimizer import EMPTY, optimise
from weft.optimizer.rules.facts import Facts
from weft.plan.facts import facts_of
from weft.plan.log_ids import LogId
from weft.plan.nodes import Evaluator, RelationNode
from weft.plan.shared_plan import SharedPlan
from weft.runtime.batch_scan import Scanner
from weft.runtime.sources.batches import Batch
from weft.runtime.spark.rows import CLOCK
from weft.runtime.stages.cycle_state import CycleState, RowLogs, Step
from weft.runtime.stages.groups.stage import GroupStage
from weft.runtime.stages.joins.stage import JoinStage
from weft.runtime.stages.running_plan import RunningPlan, logged, needed_of_logs
from weft.runtime.stages.sets.stage import SetStage
from weft.runtime.stages.sql.stage import SqlStage
from weft.runtime.stages.stage import Stage
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
from weft.runtime.state.stored_plan import StoredPlan
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
    #: The plan that it was made by.
    plan: SharedPlan = field(default_factory=SharedPlan)


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
        stored: StoredPlan | None = None,
    ) -> None:
        """`stored` keeps the plan for the next process."""
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
        self._settings, self._stored = settings, stored
        #: The plan of this cycle; None before the first one.
        self._planned: RunningPlan | None = None
        #: The number of the queries and the cycle of the last commit, with the plan that it was made by.
        self._committed: tuple[int, int, RunningPlan] | None = None

    def run(self, batch: Batch | None, spec: CycleSpec, last: Commit) -> Answered:
        """Evaluate a cycle. Nothing is true before the caller commits the record."""
        planned, known = self._plan(spec, last)
        self._on_step("ingest", spec.cycle)
        for stage in self._stages:
            stage.prepare(spec, planned, known)
        self._account.begin(use for stage in self._stages for use in stage.memory())
        cycle = self._scan(batch, spec, planned, known)
        waiting = list(planned.relations)
        while waiting:
            waiting = self._run_next(cycle, waiting)
        self._on_step("answer", spec.cycle)
        for stage in self._stages:
            stage.finish(cycle)
        cycle.write_state(self._store)
        commit = self._record(cycle)
        cycle.drop_views()
        self._logs.forget_snapshots(commit.snapshots.values())
        return Answered(cycle.answers, commit, self._windows.reduced, planned.plan)

    def _scan(self, batch: Batch | None, spec: CycleSpec, planned: RunningPlan, last: Commit) -> CycleState:
        """Read the new rows, again if they turn out to need it."""
        stages = {stage.kind: stage for stage in self._stages}
        scans = self._scanner.scans(batch, spec, planned, last, lambda kind, log: stages[kind].takes(log))
        for scan in scans:
            for stage in self._stages:
                stage.take(scan)
            arrivals = scan.arrivals()
            if arrivals is not None:
                return CycleState(spec, last, planned, arrivals, self._logs, self._on_step)
        raise AssertionError("the last scan has an outcome")

    def _run_next(self, cycle: CycleState, waiting: list[RelationNode]) -> list[RelationNode]:
        """Run the first stage that has relations whose inputs are there; those that still wait."""
        ready = [each for each in waiting if cycle.is_ready(each)]
        kinds = {each.evaluator for each in ready}
        assert ready, "some relation reads what no other gives"
        stage = next(stage for stage in self._stages if stage.kind in kinds)
        relations = [each for each in ready if each.evaluator is stage.kind]
        waiting = [each for each in waiting if each.evaluator is not stage.kind or not cycle.is_ready(each)]
        self._on_step(stage.step, cycle.number)
        rows = stage.run(cycle, relations)
        for each in relations:
            if each.text in rows:
                cycle.give(each, rows[each.text])
        cycle.settle(relations)
        return waiting

    def committed(self, commit: Commit) -> None:
        """A cycle's record has been committed."""
        if self._planned is not None:
            self._committed = commit.plan, commit.cycle, self._planned
        for stage in self._stages:
            stage.commit(commit.cycle)

    # -- the plan -----------------------------------------------------------------------------------------------------

    def _plan(self, spec: CycleSpec, last: Commit) -> tuple[RunningPlan, Commit]:
        """The plan of a cycle, and the last commit as far as it concerns queries that go on."""
        known = with_tables(of_present_streams(last, spec.plan), spec.intent.tables)
        if self._committed is not None and self._committed[:2] == (spec.plan.number, known.cycle):
            # No query has come or gone: with thousands of them it pays not to look at each.
            queries = self._committed[2].queries
        else:
            queries = running_queries(spec.plan, known, spec.cycle)
            known = continued(known, queries)
        before = self._previous()
        plan = optimise(queries, self._facts(spec, known, before), before)
        if self._planned is None or plan is not self._planned.plan:
            self._planned = RunningPlan(plan)
            if self._stored is not None:
                self._stored.keep(plan)
        return self._planned, known

    def _previous(self) -> SharedPlan:
        """The plan of the cycle before, or of the process before."""
        if self._planned is not None:
            return self._planned.plan
        return EMPTY if self._stored is None else self._stored.load()

    def _facts(self, spec: CycleSpec, last: Commit, plan: SharedPlan) -> Facts:
        """What is known before a cycle."""
        rows, most_rows = self._joins.kept_rows(plan, last)
        return Facts(
            cycle=spec.cycle,
            is_start=self._planned is None,
            sharing=spec.intent.sharing,
            begun=last.queries,
            evaluators=last.evaluators,
            settings=self._settings,
            streams={name: facts_of(numbers) for name, numbers in spec.intent.facts.items()},
            live_partials=self._windows.live_partials(plan, last),
            displaced=self._windows.displaced_in(plan),
            sizes=self._joins.observing.observed,
            join_rows=rows,
            most_join_rows=most_rows,
            revised=self._joins.revised,
        )

    # -- the record ---------------------------------------------------------------------------------------------------

    def _record(self, cycle: CycleState) -> Commit:
        """The record that makes the cycle true."""
        last, planned = cycle.last, cycle.planned
        answered = {name: last.answered.get(name, 0) for name in planned.queries}
        for name, table in cycle.answers.items():
            answered[name] += table.num_rows
        snapshots = {**last.snapshots, **cycle.written_snapshots}
        remembered = {each.text for each in planned.plan.evaluated_by[Evaluator.SQL]}
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
            evaluators={each.text: each.evaluator.value for each in planned.relations if each.node_id.is_shared},
            late=late,
            shared_plan="" if self._stored is None else self._stored.digest,
        )

    def _rows_kept(self, cycle: CycleState) -> dict[LogId, tuple[Segment, ...]]:
        """The rows that later cycles read again, by log."""
        plan = cycle.spec.plan
        since = needed_of_logs(plan.streams, cycle.planned, cycle.event_time)
        logs: dict[LogId, tuple[Segment, ...]] = {}
        for log, source in logged(plan, cycle.planned).items():
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
        planned = cycle.planned
        if self._committed is not None and self._committed[2] is planned and not cycle.emit_from:
            return cycle.last.queries
        counted_from: dict[int, dict[str, int]] = {}
        for id_, clock in cycle.emit_from.items():
            counted_from.setdefault(int(id_.partition(".")[0]), {})[id_] = clock
        states = {}
        for name, each in planned.queries.items():
            start, output = each.start, planned.plan.outputs[name]
            numbers = output.node_id.numbers
            counted = {id_: clock for number in numbers for id_, clock in counted_from.get(number, {}).items()}
            states[name] = QueryState(start.number, start.first, start.largest, counted, output.is_shared, output.form)
        return states
