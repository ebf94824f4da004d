"""Cycles from their intent to their commit: what is decided is written down, evaluated, delivered and committed.

A cycle that fails because of a file is run again without the file, and one that fails because of a query without the
query. Islands are evaluated after the shared plan, and are part of the same commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypedDict, Unpack

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.catalog import Catalog
from weft.runtime.cycle import Answered, CycleRunner
from weft.runtime.islands import Islands, shared_part
from weft.runtime.plans import Plans
from weft.runtime.project_state import ProjectState
from weft.runtime.queries_in_error import QueriesInError, evicted
from weft.runtime.recorder import Progress, Recorder, progress_of
from weft.runtime.sinks.publishing import RowPublisher, published_rows
from weft.runtime.sinks.shed_notices import with_notices_of_streams
from weft.runtime.sinks.sinks import SinkOutbox, of_present_queries, write_file_letters
from weft.runtime.sources import bad_files, shedding
from weft.runtime.sources.bad_files import Faults, together
from weft.runtime.sources.batches import Batch
from weft.runtime.sources.table_snapshots import GivenRows, TableSnapshots
from weft.runtime.stages.cycle_state import Step
from weft.runtime.stages.joins.network_records import observed_before
from weft.runtime.stages.joins.stage import JoinStage
from weft.runtime.stages.windows.warm_start import PendingRestore
from weft.runtime.state.checkpoint import Offsets, check_is_same_batch, is_repeated, new_files, with_files
from weft.runtime.state.commits import Commit, Intent, StreamState
from weft.runtime.state.continuity import CycleSpec
from weft.runtime.state.stored_plan import StoredPlan


class EngineOptions(TypedDict, total=False):
    """What an engine may be given besides its catalog and its state."""

    on_step: Step | None
    #: What was brought back while Spark started.
    restored: PendingRestore | None
    #: How selections and joins are shared.
    network: JoinStage | None
    #: The seconds by which cycles are in time or late.
    clock: Callable[[], float]


class CycleEngine:
    """Runs cycles over batches that are handed over; `Engine` gets them from a streaming query."""

    def __init__(self, spark: SparkSession, catalog: Catalog, state: str, **options: Unpack[EngineOptions]) -> None:
        self._spark = spark
        self._catalog = catalog
        self._clock = options.get("clock", time.monotonic)
        self._recorder = Recorder(catalog, spark, options.get("on_step") or (lambda step, cycle: None))
        self._on_step = self._recorder.step
        self._state = ProjectState(spark, catalog, state, self._on_step)
        self._storage = self._state.storage
        self._reset_runner(options.get("network"), options.get("restored"))
        self._plans = Plans(catalog)
        #: The rows of tables that Python code hands over, by name.
        self.tables: dict[str, GivenRows] = {}

        def say(sentence: str) -> None:
            self.say(sentence)

        self._tables = TableSnapshots(spark, self._storage, self.tables, catalog.allowed_paths(), say)
        self._islands = Islands(spark, self._storage, catalog, self._tables, self._on_step)
        self.outbox = SinkOutbox(spark, self._storage, catalog, say)
        self.in_error = QueriesInError(self._state, self._plans, self._islands, self.outbox, say)
        #: The streams with columns in CSV files that are not declared, which is said once.
        self._ignoring: set[str] = set()
        #: Seconds between two cycles, if they come at intervals, and when the newest one was over.
        self._interval: float | None = None
        self._over_since: float | None = None
        self._shed_rate = shedding.rate_of(self.last)
        #: Set while the engine stops, which makes cycles fail.
        self._stopping = threading.Event()
        self.listeners: list[Callable[[Progress], None]] = []
        #: Takes sentences for people.
        self.say: Callable[[str], None] = lambda sentence: None
        #: Takes the rows that are published for groups of queries, if there are any.
        self.publisher: RowPublisher | None = None
        #: Called before each new cycle, when changes of the plan may still be part of it.
        self.before_cycle: Callable[[], None] = lambda: None

    @property
    def last(self) -> Commit:
        return self._state.last

    # -- the cycle ----------------------------------------------------------------------------------------------------

    def cycle(
        self,
        batch: Batch | None,
        cycle: int,
        heartbeats: Mapping[str, int] | None = None,
        *,
        offsets: Offsets | None = None,
    ) -> dict[str, pa.Table]:
        """Run one cycle over a batch, unless it is committed already, and give its answers.

        `offsets` say which rows of Spark's sources it has; None if they are handed over.
        """
        last = self.last
        if is_repeated(last.cycle, last.offsets, cycle, offsets):
            return {}
        if self._over_since is not None:
            self._shed_rate = shedding.after_idle(self._shed_rate, self._clock() - self._over_since, self._interval)
        if self.publisher is not None:
            self.publisher.wait_for_room()
        started = self._clock()
        self._recorder.begin()
        is_second_attempt = self._state.intent is not None
        spec, answered, came, batch = self._attempted(batch, cycle, heartbeats or {}, offsets)
        islands, of_islands, failures = self._islands.run(batch, spec, last)
        self.in_error.announce(failures)
        commit = shedding.with_shed_rows(answered.commit, last, spec, came)
        commit = replace(
            commit,
            streams=self._with_lost_files(commit, spec, everywhere=is_second_attempt),
            offsets=spec.intent.offsets,
            plan_digest=spec.intent.plan_digest,
            islands=islands,
            held=last.held,
        )
        commit = self._with_islands(commit, batch, spec)
        answers = with_notices_of_streams({**answered.answers, **of_islands}, spec.plan, commit)
        commit = self._delivered_and_committed(spec, last, commit, answers)
        seconds = self._clock() - started
        self._shed_rate = shedding.rate_after(self._shed_rate, seconds, self._interval)
        of_network = partial(self._network.recorded, cycle)
        answered = replace(answered, answers=answers, commit=commit)
        self._recorder.end(answered, last, spec.plan.streams, of_network, self._shed_rate.behind)
        self._report(commit, last, answers, seconds)
        self._over_since = self._clock()
        return dict(answers)

    def _delivered_and_committed(
        self, spec: CycleSpec, last: Commit, commit: Commit, answers: Mapping[str, pa.Table]
    ) -> Commit:
        """Hand answers to their sinks, and make the cycle true; its record."""
        cycle, plan = spec.cycle, spec.plan
        self._on_step("deliver", cycle)
        known = of_present_queries(last.waiting, plan.number_of)
        commit = replace(commit, waiting=self.in_error.deliver(cycle, plan, answers, known))
        if self.publisher is not None:
            self.publisher.write(cycle, published_rows(plan, commit, answers))
        self._on_step("commit", cycle)
        commit = self._state.commit(commit)
        self._runner.committed(commit)
        self._islands.committed(commit.islands)
        self._on_step("after commit", cycle)
        if self.publisher is not None:
            self.publisher.committed(cycle)
        self._state.tidy(last)
        return commit

    def _report(self, commit: Commit, last: Commit, answers: Mapping[str, pa.Table], seconds: float) -> None:
        delays = {each.name: each.delay for each in self._catalog.streams()}
        overrun = 0.0 if self._interval is None else max(0.0, seconds - self._interval)
        count = sum(table.num_rows for table in answers.values())
        progress = progress_of(commit, last, self._plans.newest, delays, count, seconds, overrun)
        for listener in self.listeners:
            listener(progress)

    # -- decisions and attempts ---------------------------------------------------------------------------------------

    def _decide(
        self, cycle: int, heartbeats: Mapping[str, int], offsets: Offsets | None, bad_files: Faults
    ) -> CycleSpec:
        """Decide what is known of a cycle before it runs, and write it down, so that a second attempt does the same."""
        intent = self._state.intent
        if intent is not None:
            check_is_same_batch(cycle, intent.offsets, offsets)
            all_bad = together(intent.bad_files, bad_files)
            if all_bad != intent.bad_files:
                intent = replace(intent, bad_files=all_bad)
                self._state.declare(intent)
        else:
            self.before_cycle()
            plan = self._plans.current()
            snapshots, without_tables = self.in_error.found_tables(plan)
            self.in_error.announce(without_tables)
            settings, last = self._catalog.settings(), self.last
            digest = last.plan_digest if plan.number == last.plan else self._catalog.plan_digest(plan.number) or ""
            intent = Intent(
                plan=plan.number,
                plan_digest=digest,
                heartbeats=heartbeats,
                patience=settings.heartbeat,
                latest=None if settings.max_ahead is None else time.time_ns() // 1000 + settings.max_ahead,
                sharing=settings.sharing,
                facts={name: each.numbers() for name, each in self._recorder.facts().items()},
                tables=snapshots,
                kept=self._shed_rate.kept,
                keeps_late_rows=settings.keeps_late_rows,
                offsets=offsets and with_files(self._storage, offsets, last.offsets, cycle),
                evicted=without_tables,
                bad_files=bad_files,
            )
            self._state.keep_catalog()
            self._state.declare(intent)
        return CycleSpec(cycle, self._plans.stored(intent.plan), intent)

    def _attempted(
        self, batch: Batch | None, cycle: int, heartbeats: Mapping[str, int], offsets: Offsets | None
    ) -> tuple[CycleSpec, Answered, Mapping[str, shedding.ArrivedRows], Batch | None]:
        """Decide on a cycle, and run it; again without a file at which it fails, if there is one."""
        looked = None if batch is None else bad_files.check_batch(batch)
        for name, columns in () if looked is None else looked.ignored.items():
            if name not in self._ignoring:
                self._ignoring.add(name)
                self.say(f"stream '{name}': columns {', '.join(columns)} of its files are not declared, and ignored")
        while True:
            spec = self._decide(cycle, heartbeats, offsets, {} if looked is None else looked.faults)
            self._on_step("begin", cycle)
            try:
                readable = None if looked is None else looked.readable(spec.intent.bad_files)
                came = {} if readable is None else shedding.count_arrived(readable, spec)
                if readable is not None:
                    readable = shedding.without_shed_rows(readable, spec.intent.kept, cycle)
                answered, spec = self._evaluated(readable, spec, self.last)
                return spec, answered, came, readable
            except Exception as error:
                found, intent = bad_files.file_at_fault(batch, error, spec.intent.bad_files), self._state.intent
                if not found or intent is None:
                    raise
                self._state.declare(replace(intent, bad_files=together(intent.bad_files, found)))
                self._on_step("set aside", cycle)
                # What the failed attempt has left in memory goes with its runner.
                self._reset_runner()

    def _evaluated(self, batch: Batch | None, spec: CycleSpec, last: Commit) -> tuple[Answered, CycleSpec]:
        """Evaluate the shared plan. Queries that fail are evicted from it, and the others are evaluated again."""
        was_of_the_moment, cycle = False, spec.cycle
        while True:
            shared = replace(spec, plan=shared_part(spec.plan, last.islands, spec.intent.evicted))
            try:
                return self._runner.run(batch, shared, last), spec
            except Exception as error:
                if self._stopping.is_set() or bad_files.file_at_fault(batch, error, spec.intent.bad_files):
                    raise
                found = evicted(self._islands, error, batch, shared, last)
                if not found and was_of_the_moment:
                    raise
                was_of_the_moment = not found
            if found:
                self.in_error.announce(found)
                spec = replace(spec, intent=replace(spec.intent, evicted={**spec.intent.evicted, **found}))
                self._on_step("evict", cycle)
                self._state.declare(spec.intent)
                self._on_step("after evict", cycle)
            # What was in memory belongs to the attempt that failed.
            self._reset_runner()

    def _reset_runner(self, network: JoinStage | None = None, ahead: PendingRestore | None = None) -> None:
        """Make what runs cycles, as the last commit and the catalog have it."""
        settings = self._catalog.settings()
        self._network = network or JoinStage(settings, observed_before(self._catalog))
        stored = StoredPlan(self._catalog)
        self._runner = CycleRunner(
            self._spark, self._storage, self._on_step, settings, self._network, ahead, stored=stored
        )

    # -- parts of the record ------------------------------------------------------------------------------------------

    def _with_lost_files(self, commit: Commit, spec: CycleSpec, *, everywhere: bool) -> dict[str, StreamState]:
        """The streams of a commit, with the files of the cycle counted that were gone before they were read, or are set
        aside; the dead letter has the names of these."""
        streams, bad = dict(commit.streams), spec.intent.bad_files
        names = {f"stream_{state.number}": name for name, state in streams.items()}
        files = spec.intent.offsets and new_files(self._storage, spec.intent.offsets, self.last.offsets)
        for source, paths in bad_files.missing_files(self._spark, files or {}, everywhere=everywhere).items():
            if source in names:
                state = streams[names[source]]
                streams[names[source]] = replace(state, missing_files=state.missing_files + len(paths))
                self.say(bad_files.missing_files_message(names[source], commit.cycle, paths))
        for name in bad.keys() & streams.keys():
            streams[name] = replace(streams[name], bad_files=streams[name].bad_files + len(bad[name]))
            write_file_letters(self._storage, name, bad[name], spec.cycle)
        for sentence in bad_files.sentences(bad):
            self.say(sentence)
        return streams

    def _with_islands(self, commit: Commit, batch: Batch | None, spec: CycleSpec) -> Commit:
        """A commit with what is held for the islands that are behind."""
        if all(each.trouble is None for each in commit.islands.values()):
            return replace(commit, held=())
        self._on_step("hold", commit.cycle)
        held = self._islands.hold(batch, spec, commit)
        return self._islands.limited(replace(commit, held=(*commit.held, held)))
