"""The engine: runs the registered queries as cycles of one Spark streaming query.

    engine = Engine(spark, catalog, directory)
    engine.start(until_idle=True)
    engine.wait()

Queries may be created and dropped while it runs; a change takes effect between two cycles. Everything the engine knows
is in the catalog and in the state directory, so a process that dies can be followed by another at any time.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from weft.algebra import Stream, Table
from weft.catalog import Catalog
from weft.plan.plan import Plan, restricted, tables_of, with_read
from weft.runtime.cluster_checks import StorageProbe, check_executors
from weft.runtime.cycle import Answered, CycleRunner
from weft.runtime.eviction import Evicting, Failure
from weft.runtime.failures.errors import EngineError
from weft.runtime.failures.reasons import reason_of
from weft.runtime.islands import CaughtUp, Islands, begun, plan_of, present, shared_part, without_needless
from weft.runtime.plans import Plans
from weft.runtime.progress import Progress, progress_of
from weft.runtime.recorder import Recorder
from weft.runtime.retries import Retries
from weft.runtime.sinks.dead_letter import write_file_letters
from weft.runtime.sinks.kept import told
from weft.runtime.sinks.outbox import FOLDER as WAITING
from weft.runtime.sinks.outbox import Outbox, of_present_queries
from weft.runtime.sinks.publishing import PublishedRows, Publisher, is_published, published_rows
from weft.runtime.sinks.results import AnswerFiles
from weft.runtime.sinks.sinks import take_folder
from weft.runtime.sources import replay
from weft.runtime.sources.bad_files import (
    Faults,
    check_batch,
    file_at_fault,
    missing_files,
    missing_files_message,
    sentences,
    together,
)
from weft.runtime.sources.batches import Batch, BatchReader
from weft.runtime.sources.shedding import (
    ArrivedRows,
    after_idle,
    count_arrived,
    rate_after,
    rate_of,
    with_shed_rows,
    without_shed_rows,
)
from weft.runtime.sources.stream_sources import Sources, sources
from weft.runtime.sources.table_snapshots import GivenRows, TableSnapshots
from weft.runtime.spark.spark_failures import end_behind, end_of, failure_of
from weft.runtime.stages.cycle_state import Step
from weft.runtime.stages.joins.stage import CurrentNetwork
from weft.runtime.stages.joins.stored_network import observed_before
from weft.runtime.stages.windows.kernel_placement import placement_settings
from weft.runtime.stages.windows.warm_start import PendingRestore
from weft.runtime.state.catalog_copy import CatalogCopy, check_catalog
from weft.runtime.state.checkpoint import Checkpoint, check_is_same_batch, is_repeated, made_anew
from weft.runtime.state.checksums import damaged, read_record
from weft.runtime.state.commits import (
    Commit,
    CommitLog,
    Island,
    Segment,
    StreamState,
    check_files,
    errors_of,
    with_seals,
)
from weft.runtime.state.continuity import garbage
from weft.runtime.state.cycle_spec import CycleSpec, folder_in, snapshots_in
from weft.runtime.state.offsets import CHECKPOINT, Offsets, new_files, offsets_of, outdated, with_files
from weft.runtime.state.offsets import FOLDER as FILE_LISTS
from weft.runtime.state.storage import Storage, local_uri
from weft.runtime.state.trouble import Waiting, lost_with
from weft.sql import durations

#: Held while a session has the setting by which sources have names; two threads would each restore what the other set.
_naming_sources = threading.RLock()

#: The folders in which each cycle, or each query, has a folder of its own.
_FOLDERS = ("segments", "held", WAITING)

#: So many held cycles of an island are evaluated between two cycles.
_CAUGHT_UP_AT_ONCE = 10

#: Characters that Spark would take for a pattern in a path.
_PATTERNS = frozenset("*?[]{}")


class Engine:
    """Runs one project's queries on Spark."""

    _failure: BaseException | None
    _spark_error: BaseException | None

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        state: str,
        *,
        on_step: Step | None = None,
        memory_limit: int = 100_000,
        ahead: PendingRestore | None = None,
        network: CurrentNetwork | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ahead` is what was made while Spark started; `network` is how selections and joins are shared; `clock` has
        the seconds by which cycles are in time or late."""
        self._spark = spark
        self._clock = clock
        self._catalog = catalog
        if _PATTERNS & set(state):
            raise EngineError(
                f"{state} cannot hold state: Spark takes * ? [ ] {{ }} in a path for a pattern; use another directory"
            )
        self._storage = Storage.made_private(spark, state)
        self._recorder = Recorder(catalog, spark, on_step or (lambda step, cycle: None))
        self._on_step = self._recorder.step
        self._commits = CommitLog(self._storage, catalog.project)
        self._run_anew(network, ahead)
        self._check_state()
        self._copy = CatalogCopy(catalog, self._storage)
        self._files = AnswerFiles(self._storage, memory_limit, self._commits.last.seals)
        self._outbox = Outbox(spark, self._storage, self._retention, self._tell, partial(take_folder, spark, catalog))
        self._retries = Retries()
        #: The streams with columns in CSV files that are not declared, which is said once.
        self._ignoring: set[str] = set()
        #: Held while a cycle runs, and while queries in error are tried again between two cycles.
        self._between = threading.Lock()
        self._plans = Plans(catalog)
        self._streams: Mapping[int, Stream] | None = None
        self._replays = catalog.path.parent / "replay"
        self._query: StreamingQuery | None = None
        self._interval: float | None = None
        self._pace = rate_of(self._commits.last)
        #: When the newest cycle was over.
        self._over_since: float | None = None
        #: Reads the batches of the streaming query, as soon as it has begun: its first batch may come before that.
        self._reader: Future[BatchReader] = Future()
        self._trigger: Mapping[str, Any] = {}
        self._is_ticking = False
        #: The streams whose replayed files are being fed.
        self._fed: set[int] = set()
        self._stopping = threading.Event()
        self._in_cycle = threading.Lock()
        self._cycling: int | None = None
        #: Whether no streaming query runs, and none is about to take the place of another.
        self._ended = threading.Event()
        self._ended.set()
        #: Held while the streaming query is stopped, or replaced.
        self._replacing = threading.Lock()
        self._replaced: StreamingQuery | None = None
        self._follow_wanted = threading.Event()
        #: Whether a cycle that was begun is finished first, with the streams that it had.
        self._is_finishing = False
        self._failure = self._spark_error = None
        self.frames: dict[str, DataFrame] = {}
        #: The rows of tables that Python code hands over, by name.
        self.tables: dict[str, GivenRows] = {}
        self._tables = TableSnapshots(spark, self._storage, self.tables, catalog.allowed_paths())
        self._islands = Islands(spark, self._storage, catalog, self._tables, self._on_step)
        self.listeners: list[Callable[[Progress], None]] = []
        #: Takes sentences for people.
        self.say: Callable[[str], None] = lambda sentence: None
        #: Takes the rows that are published for groups of queries, if there are any.
        self.publisher: Publisher | None = None
        #: Called before each new cycle, when changes of the plan may still be part of it.
        self.before_cycle: Callable[[], None] = lambda: None
        self._sweep()

    @cached_property
    def _probe(self) -> StorageProbe:
        return StorageProbe(self._spark, self._storage)

    # -- running ------------------------------------------------------------------------------------------------------

    @property
    def last(self) -> Commit:
        """The newest commit."""
        return self._commits.last

    def add_callable(self, query: str, function: Callable[[pa.Table, int], object]) -> None:
        """Call a function with a query's answers, cycle by cycle."""
        self._outbox.add_callable(query, function)

    def resume(self, query: str) -> bool:
        """Try a query again as soon as the cycle that is running is over; False if it is not in error."""
        if query not in errors_of(self.last):
            return False
        self._retries.resume(query)
        return True

    def start(self, *, until_idle: bool = False, interval: str | None = None) -> None:
        """Start the streaming query. `until_idle` stops when all that is there now has been processed."""
        streams = self._streams_to_read()
        if not streams:
            raise EngineError("no stream is registered; CREATE STREAM first")
        for sentence in self._files.damages:
            self.say(sentence)
        self._probe.check()
        check_executors(self._spark, self._catalog.settings().kernels)
        self._check_sources()
        self._fit_checkpoint()
        self._read_tables()
        self._stopping.clear()
        self._failure = self._spark_error = None
        self._fed.clear()
        self._is_ticking = self._catalog.settings().heartbeat is not None and not until_idle
        if until_idle:
            self._trigger = {"availableNow": True}
        elif interval is not None:
            self._trigger = {"processingTime": interval}
            self._interval = durations.parse(interval) / 1e6
        else:
            self._trigger = {}
        read = self._sources_of(streams)
        in_error = set(errors_of(self.last))
        self._evict_unreadable()
        self.try_again(in_error)
        self._ended.clear()
        try:
            self._begin(streams, read)
        except BaseException:
            self._ended.set()
            raise
        threading.Thread(target=self._try_again_when_due, name="weft-retries", daemon=True).start()

    def _sources_of(self, streams: Mapping[int, Stream]) -> Sources:
        with self._sources_by_name():
            return sources(
                self._spark,
                streams,
                self.frames,
                self._replays,
                ticks=self._is_ticking,
                say=self.say,
                allowed=self._catalog.allowed_paths(),
            )

    def _begin(self, streams: Mapping[int, Stream], read: Sources) -> None:
        """Begin the streaming query over the sources of some streams."""
        self._streams = streams
        self._reader = Future()
        with self._sources_by_name():
            writer = read.union.writeStream.queryName("weft").foreachBatch(self._on_batch)
            writer = writer.option("checkpointLocation", self._storage.path("checkpoint"))
            if self._trigger:
                writer = writer.trigger(**self._trigger)
            self._query = writer.start()
        self._reader.set_result(BatchReader(read, self._query))
        threading.Thread(target=self._watch, args=(self._query,), daemon=True).start()
        for number, stream in streams.items():
            if stream.format == replay.FORMAT and "speed" in dict(stream.options) and number not in self._fed:
                self._fed.add(number)
                feeder = threading.Thread(
                    target=replay.feed, args=(stream, self._replays / str(number), self._stopping)
                )
                feeder.daemon = True
                feeder.start()

    @property
    def follows_streams(self) -> bool:
        """Whether streams can come and go while the engine runs. Not if some are DataFrames from Python."""
        return self.is_running and not self.frames

    def follow_streams(self) -> None:
        """Begin to read the streams that were registered, and cease to read those that were dropped.

        It happens in the background, between two cycles: Spark's streaming query is replaced by another one, which goes
        on at the same offsets. A stream that cannot be read is left out until the next start.
        """
        if self.follows_streams and not self._follow_wanted.is_set():
            self._follow_wanted.set()
            threading.Thread(target=self._follow, name="weft-streams", daemon=True).start()

    def _follow(self) -> None:
        with self._replacing:
            self._follow_wanted.clear()
            query = self._query
            streams = self._streams_to_read()
            if query is None or not streams or self._streams is None or tuple(streams) == tuple(self._streams):
                return
            try:
                read = self._sources_of(streams)
            except (EngineError, PySparkException) as error:
                self.say(f"{reason_of(error)}; the streams are read as before until the next start")
                return
            with self._in_cycle:
                if self._stopping.is_set() or not query.isActive:
                    return
                self._replaced, self._query = query, None
                query.stop()
            try:
                self._begin(streams, read)
            except PySparkException as error:
                self._spark_error = error
                self._ended.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the engine has stopped; False if it still runs after `timeout` seconds. Raises what stopped it."""
        if not self._ended.wait(timeout):
            return False
        if self._spark_error is not None and not self._stopping.is_set():
            raise self._explained(self._spark_error) from self._spark_error
        return True

    def stop(self) -> None:
        """Stop after the cycle that is running now."""
        if threading.get_ident() == self._cycling:
            # Somebody who is called in the cycle asks; it must go on to its end.
            threading.Thread(target=self.stop).start()
            return
        with self._replacing:
            query, self._query = self._query, None
            if query is None:
                return
            self._stopping.set()
            with self._in_cycle, self._between:
                try:
                    query.stop()
                except (Py4JError, OSError) as error:
                    if not end_behind(error):
                        raise
        self._ended.wait()

    def _watch(self, query: StreamingQuery) -> None:
        """Wait for the end of the streaming query. A thread of its own does, since Ctrl-C must not interrupt Py4J."""
        failure = end_of(query)
        if query is self._replaced:
            return
        self._spark_error = failure
        # Whatever holds the lock when Java has ended may wait for it for ever.
        with nullcontext() if end_behind(failure) else self._between:
            self._ended.set()

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    def _explained(self, error: BaseException) -> EngineError:
        streams = () if self._streams is None else self._streams.values()
        found = failure_of(self._failure or error, streams)
        return EngineError(str(found)) if found is self._failure else found

    # -- queries in error ---------------------------------------------------------------------------------------------

    def try_again(self, names: Collection[str], most: int | None = None) -> None:
        """Try some queries that are in error again, between two cycles; the last commit is written anew.

        Of what was held for an island, at most so many cycles are evaluated; the others come next time.
        """
        self._retries.begin(names)
        running = self._catalog.running_numbers() if names else {}
        present = of_present_queries(self.last.waiting, running)
        waiting = [name for name in names if name in present and present[name].trouble is not None]
        if waiting:
            self._on_step("try again", self.last.cycle)
            queries = {each.name: each for each in self._plans.stored(self.last.plan).queries}
            self._commit_anew(replace(self.last, waiting=self._outbox.try_again(present, queries, waiting)))
        for key, island in self.last.islands.items():
            is_running = any(running.get(name) == number for name, number in island.roots.items())
            if island.trouble is not None and is_running and not set(names).isdisjoint(island.members):
                self._catch_up(key, running, most)

    def _catch_up(self, key: str, running: Mapping[str, int], most: int | None) -> None:
        """Evaluate the cycles that are held for an island, until it has caught up or fails again."""
        done = 0
        while (island := self.last.islands[key]).trouble is not None:
            last = self.last
            cycle = next((each.cycle for each in last.held if each.cycle > island.commit.cycle), None)
            wrong = self._unreadable(island) if cycle is None else None
            if wrong is not None:
                self._commit_island(key, replace(island, trouble=island.trouble.again(wrong)))
                return
            if cycle is None:
                self._commit_island(key, replace(island, trouble=None))
                self._tell(f"{_listed(island.members)} {_is_or_are(island.members)} no longer in error")
            elif done == most:
                trouble = replace(island.trouble, sentence=f"it catches up, from cycle {cycle} on", next_try=0.0)
                self._commit_island(key, replace(island, trouble=trouble))
                return
            else:
                self._on_step("catch up", cycle)
                caught = self._islands.catch_up(key, island, cycle, self._plans.stored)
                if caught.island.commit.cycle == island.commit.cycle:
                    self._commit_island(key, caught.island)
                    return
                self._deliver_late(key, caught, running)
                done += 1

    def _unreadable(self, island: Island) -> str | None:
        """What is wrong with a table that an island will read in the next cycle; None if all can be read."""
        plan = self._plans.current(self._streams)
        here = present(plan, {"": island})
        tables = plan_of(plan, here[""])[0] if here else None
        if tables is None:
            return None
        _, wrong = self._tables.found(dict(zip(tables.table_numbers, tables.tables, strict=True)))
        return next(iter(wrong.values()), None)

    def _deliver_late(self, key: str, caught: CaughtUp, running: Mapping[str, int]) -> None:
        """Deliver what an island has answered for a cycle that was held for it, and commit that it has."""
        plan, island, cycle = caught.plan, caught.island, caught.island.commit.cycle
        answers = {name: table for name, table in caught.answers.items() if running.get(name) == plan.number_of[name]}
        if any(is_published(each) for each in plan.queries if each.name in answers):
            # Subscribers take rows in the order of cycles, and are past this one.
            island = replace(island, lost=lost_with(island.lost, cycle))
        waiting = self._deliver(cycle, plan, answers, of_present_queries(self.last.waiting, running), key)
        self._commit_island(key, island, waiting)

    def _commit_island(self, key: str, island: Island, waiting: Mapping[str, Waiting] | None = None) -> None:
        last = self.last
        islands = {**last.islands, key: island}
        self._commit_anew(
            without_needless(replace(last, islands=islands, waiting=last.waiting if waiting is None else waiting))
        )
        self._islands.committed(islands)

    def _commit_anew(self, commit: Commit) -> None:
        """Put a record in the place of the last one, which differs from it in nothing that later cycles read."""
        last = self.last
        commit = with_seals(commit, last, self._storage, self._files.seals)
        self._commits.draft(commit)
        self._on_step("rename anew", commit.cycle)
        self._commits.commit(commit)
        self._on_step("after anew", commit.cycle)
        self._files.committed()
        for path in garbage(last, commit):
            self._storage.delete(path)

    def _evict_unreadable(self) -> None:
        """Evict the queries that read tables which cannot be read, as the engine starts and before any row comes."""
        last = self.last
        if last.cycle < 0 or self._commits.intent(last.cycle + 1) is not None:
            return
        plan = self._plans.current(self._streams)
        _, evicted = self._found_tables(plan)
        if evicted:
            self._tell_of(evicted)
            self._commit_anew(replace(last, islands={**last.islands, **begun(plan, last, evicted)}))

    def _found_tables(self, plan: Plan) -> tuple[dict[str, Segment], dict[str, str]]:
        """The snapshots of tables that a cycle needs, and the queries of the shared plan that read one which has none,
        each with what is wrong."""
        shared = shared_part(plan, self.last.islands)
        beside = [plan_of(plan, each)[0] for each in present(plan, self.last.islands).values() if each.trouble is None]
        needed = {each.name for part in (shared, *beside) for each in part.tables}
        tables = {
            number: each for number, each in zip(plan.table_numbers, plan.tables, strict=True) if each.name in needed
        }
        snapshots, wrong = self._tables.found(tables)
        evicted: dict[str, str] = {}
        for query in shared.queries if wrong else ():
            read = tables_of(query)
            sentences = [wrong[each.name] for each in shared.tables if each.name in read and each.name in wrong]
            if sentences:
                evicted[query.name] = sentences[0]
        return snapshots, evicted

    def _tell_of(self, evicted: Mapping[str, str]) -> None:
        for sentence in dict.fromkeys(evicted.values()):
            names = [name for name, each in evicted.items() if each == sentence]
            self._tell(
                f"{_listed(names)} {_is_or_are(names)} in error: {sentence}; rows are kept for what reads it, and all "
                "other queries go on"
            )

    def _due(self) -> set[str]:
        return self._retries.due(errors_of(self.last))

    def _try_again_when_due(self) -> None:
        """Try queries in error again when it is time, also when no rows come and so no cycle begins."""
        while not self._ended.is_set():
            self._retries.wait()
            if not self._due():
                continue
            with self._between:
                if self._ended.is_set() or self._stopping.is_set():
                    return
                try:
                    self.try_again(self._due(), _CAUGHT_UP_AT_ONCE)
                except Exception as error:
                    # What stops a retry, such as a full disk, stops the next cycle too, and is reported there.
                    self.say(reason_of(error))

    def _tell(self, sentence: str) -> None:
        self.say(sentence)

    def _retention(self) -> int:
        return self._catalog.settings().error_retention

    # -- the cycle ----------------------------------------------------------------------------------------------------

    def _on_batch(self, batch: DataFrame, batch_id: int) -> None:
        # While the engine stops, the lock is taken and no cycle begins: the batch comes again at the next start.
        if not self._in_cycle.acquire(blocking=False):
            raise EngineError("the engine is stopping")
        self._cycling = threading.get_ident()
        try:
            with self._between, _without_collections():
                self._probe.check()
                self.try_again(self._due(), _CAUGHT_UP_AT_ONCE)
                offsets = offsets_of(self._storage, batch_id)
                self.cycle(self._read(batch), batch_id, offsets=offsets)
            if self._is_finishing:
                self.follow_streams()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._cycling = None
            self._in_cycle.release()

    def _read(self, batch: DataFrame) -> Batch:
        """The rows of a micro-batch of the streaming query."""
        return self._reader.result().read(batch)

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
        last = self._commits.last
        if is_repeated(last, cycle, offsets):
            return {}
        if self._over_since is not None:
            self._pace = after_idle(self._pace, self._clock() - self._over_since, self._interval)
        if self.publisher is not None:
            self.publisher.wait_for_room()
        started = self._clock()
        self._recorder.begin()
        is_repeated_attempt = self._commits.intent(cycle) is not None
        spec, answered, came, batch = self._attempted(batch, cycle, heartbeats or {}, offsets)
        plan = spec.plan
        beside = self._islands.run(batch, spec, last)
        self._tell_of(beside.failures)
        commit = with_shed_rows(answered.commit, last, spec, came)
        streams = self._with_missing_files(commit, spec, everywhere=is_repeated_attempt)
        streams = self._with_bad_files(streams, spec, cycle)
        commit = replace(commit, streams=streams, offsets=spec.offsets, plan_digest=spec.plan_digest)
        commit = self._with_islands(replace(commit, islands=beside.islands, held=last.held), batch, plan)
        found = told({**answered.answers, **beside.answers}, plan, commit)
        answered = replace(answered, answers=found, commit=commit)
        self._on_step("deliver", cycle)
        commit = replace(
            commit, waiting=self._deliver(cycle, plan, found, of_present_queries(last.waiting, plan.number_of))
        )
        if self.publisher is not None:
            self.publisher.write(cycle, self._published(spec, commit, answered.answers))
        self._on_step("commit", cycle)
        answered = replace(answered, commit=with_seals(commit, last, self._storage, self._files.seals))
        self._copy.keep()
        self._commits.draft(answered.commit)
        self._on_step("rename", cycle)
        self._commits.commit(answered.commit)
        self._runner.committed(answered.commit)
        self._islands.committed(commit.islands)
        self._on_step("after commit", cycle)
        if self.publisher is not None:
            self.publisher.committed(cycle)
        self._files.committed()
        for path in (*garbage(last, answered.commit), *outdated(last.offsets, commit.offsets)):
            self._storage.delete(path)
        seconds = self._clock() - started
        self._pace = rate_after(self._pace, seconds, self._interval)
        of_network = partial(self._network.recorded, cycle)
        self._recorder.end(answered, last, plan.streams, of_network, self._pace.behind)
        self._report(answered.commit, last, answered.answers, seconds)
        self._over_since = self._clock()
        return dict(answered.answers)

    def _attempted(
        self, batch: Batch | None, cycle: int, heartbeats: Mapping[str, int], offsets: Offsets | None
    ) -> tuple[CycleSpec, Answered, Mapping[str, ArrivedRows], Batch | None]:
        """Decide what a cycle goes by, and run it; again without a file at which it fails, if there is one."""
        looked = None if batch is None else check_batch(batch)
        for name, columns in () if looked is None else looked.ignored.items():
            if name not in self._ignoring:
                self._ignoring.add(name)
                self._tell(f"stream '{name}': columns {', '.join(columns)} of its files are not declared, and ignored")
        while True:
            spec = self._decide(cycle, heartbeats, offsets, {} if looked is None else looked.faults)
            self._on_step("begin", cycle)
            try:
                readable = None if looked is None else looked.readable(spec.bad_files)
                came = {} if readable is None else count_arrived(readable, spec)
                if readable is not None:
                    readable = without_shed_rows(readable, spec.kept, cycle)
                answered, spec = self._evaluated(readable, spec, self.last)
                return spec, answered, came, readable
            except Exception as error:
                if not self._sets_aside(self._file_at_fault(batch, error, spec), cycle):
                    raise

    def _file_at_fault(self, batch: Batch | None, error: Exception, spec: CycleSpec) -> Faults:
        return {} if batch is None else file_at_fault(batch, error, spec.bad_files)

    def _with_missing_files(self, commit: Commit, spec: CycleSpec, *, everywhere: bool) -> dict[str, StreamState]:
        """The streams of a commit, with the files of the cycle counted that were gone before they were read."""
        streams = dict(commit.streams)
        files = spec.offsets and new_files(self._storage, spec.offsets, self.last.offsets)
        for source, paths in missing_files(self._spark, files or {}, everywhere=everywhere).items():
            name = next((each for each, state in streams.items() if source == f"stream_{state.number}"), None)
            if name is not None:
                streams[name] = replace(streams[name], missing_files=streams[name].missing_files + len(paths))
                self._tell(missing_files_message(name, commit.cycle, paths))
        return streams

    def _deliver(
        self, cycle: int, plan: Plan, answers: Mapping[str, pa.Table], waiting: Mapping[str, Waiting], island: str = ""
    ) -> Mapping[str, Waiting]:
        """Hand the answers of a cycle to their sinks; what waits for sinks after that."""
        queries, number_of = {each.name: each for each in plan.queries}, plan.number_of
        delivered = {name: table for name, table in answers.items() if not is_published(queries[name])}
        for name, table in delivered.items():
            waiting = self._outbox.deliver(waiting, queries[name], number_of[name], table, cycle)
        self._files.write(cycle, delivered, island)
        return waiting

    def _evaluated(self, batch: Batch | None, spec: CycleSpec, last: Commit) -> tuple[Answered, CycleSpec]:
        """Evaluate the shared plan. Queries that fail are evicted from it, and the others are evaluated again."""
        was_of_the_moment, cycle = False, spec.cycle
        while True:
            shared = replace(spec, plan=shared_part(spec.plan, last.islands, spec.evicted))
            try:
                return self._runner.run(batch, shared, last), spec
            except Exception as error:
                if self._stopping.is_set() or self._file_at_fault(batch, error, spec):
                    raise
                evicting = Evicting(self._spark, self._storage, self._catalog, self._islands)
                found = evicting.evicted(Failure(error, batch, shared, last))
                if not found and was_of_the_moment:
                    raise
                was_of_the_moment = not found
            if found:
                self._tell_of(found)
                spec = replace(spec, evicted={**spec.evicted, **found})
                intent = self._commits.intent(cycle)
                assert intent is not None
                self._on_step("evict", cycle)
                self._commits.declare(cycle, {**intent, "evicted": spec.evicted})
                self._on_step("after evict", cycle)
            # What was in memory belongs to the attempt that failed.
            self._run_anew(None, None)

    def _with_islands(self, commit: Commit, batch: Batch | None, plan: Plan) -> Commit:
        """A commit with what is held for the islands that are behind."""
        if all(each.trouble is None for each in commit.islands.values()):
            return replace(commit, held=())
        cycle, intent = commit.cycle, self._commits.intent(commit.cycle)
        assert intent is not None
        self._on_step("hold", cycle)
        self._islands.hold_rows(batch, cycle, plan)
        held = self._islands.hold(cycle, intent, commit)
        return self._islands.limited(replace(commit, held=(*commit.held, held)), self._retention())

    def _published(self, spec: CycleSpec, commit: Commit, answers: Mapping[str, pa.Table]) -> list[PublishedRows]:
        """What is published after a cycle, also of islands that have caught up."""
        shared = shared_part(spec.plan, commit.islands)
        found = published_rows(shared, commit, answers)
        for island in commit.islands.values():
            if island.trouble is None:
                own = {name: table for name, table in answers.items() if name in island.members}
                part, _ = plan_of(spec.plan, island)
                members = {each.name for each in part.queries} & set(island.members)
                found += published_rows(restricted(part, with_read(part, members)), island.commit, own)
        return found

    def _with_bad_files(
        self, streams: Mapping[str, StreamState], spec: CycleSpec, cycle: int
    ) -> dict[str, StreamState]:
        """The streams of a commit, with the files counted that are set aside; the dead letter has their names."""
        counted = dict(streams)
        for name, faults in spec.bad_files.items():
            if name in counted:
                counted[name] = replace(counted[name], bad_files=counted[name].bad_files + len(faults))
                write_file_letters(self._storage, name, faults, cycle)
        for sentence in sentences(spec.bad_files):
            self._tell(sentence)
        return counted

    def _sets_aside(self, found: Faults, cycle: int) -> bool:
        """Set files aside at which a cycle has failed, so that it can be run again; False if there are none."""
        intent = self._commits.intent(cycle)
        if not found or intent is None:
            return False
        self._commits.declare(cycle, {**intent, "bad_files": together(intent["bad_files"], found)})
        self._on_step("set aside", cycle)
        # What the failed attempt has left in memory goes with its runner.
        self._run_anew(None, None)
        return True

    def _run_anew(self, network: CurrentNetwork | None, ahead: PendingRestore | None) -> None:
        """Make what runs cycles, as the last commit and the catalog have it."""
        hosted = placement_settings(self._catalog)
        self._network = network or CurrentNetwork(hosted, self._catalog, observed_before(self._catalog))
        self._runner = CycleRunner(self._spark, self._storage, self._on_step, hosted, ahead, self._network)

    def _decide(
        self, cycle: int, heartbeats: Mapping[str, int], offsets: Offsets | None, bad_files: Faults
    ) -> CycleSpec:
        """What a cycle goes by, written down first so that a second attempt goes by the same."""
        intent = self._commits.intent(cycle)
        begun = None if intent is None else Offsets.from_json(intent["offsets"])
        if intent is not None:
            check_is_same_batch(cycle, begun, offsets)
            all_bad = together(intent["bad_files"], bad_files)
            if all_bad != intent["bad_files"]:
                intent = {**intent, "bad_files": all_bad}
                self._commits.declare(cycle, intent)
        else:
            self.before_cycle()
            begun = offsets and with_files(self._storage, offsets, self.last.offsets, cycle)
            plan = self._plans.current(self._streams)
            snapshots, evicted = self._found_tables(plan)
            self._tell_of(evicted)
            settings = self._catalog.settings()
            intent = {
                "plan": plan.number,
                "plan_digest": self._copy.digest(plan.number),
                "heartbeats": dict(heartbeats),
                "patience": settings.heartbeat,
                "latest": None if settings.max_ahead is None else time.time_ns() // 1000 + settings.max_ahead,
                "sharing": settings.sharing,
                "facts": {name: each.numbers() for name, each in self._recorder.facts().items()},
                "tables": {name: (each.path, each.rows) for name, each in snapshots.items()},
                "kept": self._pace.kept,
                "keeps_late_rows": settings.keeps_late_rows,
                "offsets": begun and begun.to_json(),
                "evicted": evicted,
                "bad_files": {name: dict(faults) for name, faults in bad_files.items()},
            }
            self._copy.keep()
            self._commits.declare(cycle, intent)
        spec = CycleSpec.of(cycle, intent, self._plans.stored(intent["plan"]))
        return replace(spec, offsets=begun)

    def _read_tables(self) -> None:
        """Read every table that is registered, and keep its rows as they are now for as long as the engine runs."""
        with self._catalog.transaction():
            numbers = self._catalog.table_numbers()
            registered: dict[int, Table] = {numbers[each.name]: each for each in self._catalog.tables()}
        intent = self._commits.intent(self.last.cycle + 1) or {}
        begun = {each.path for each in snapshots_in(intent).values()} | self._islands.snapshots(self.last)
        parts = [self.last, *(each.commit for each in self.last.islands.values())]
        last = {each.path for part in parts for log, segments in part.logs.items() if log.is_table for each in segments}
        self._tables.say = self.say
        self._tables.begin(registered, begun, last)

    def _streams_to_read(self) -> dict[int, Stream]:
        """The streams that are registered; but a cycle that was begun is finished first, with the streams it had."""
        registered = self._plans.registered_streams()
        intent = self._commits.intent(self.last.cycle + 1)
        begun = None if intent is None else self._plans.stored(intent["plan"])
        self._is_finishing = begun is not None and tuple(registered)[: len(begun.streams)] != begun.stream_numbers
        if begun is None or not self._is_finishing:
            return registered
        return dict(zip(begun.stream_numbers, begun.streams, strict=True))

    def _report(self, commit: Commit, last: Commit, answers: Mapping[str, pa.Table], seconds: float) -> None:
        delays = {each.name: each.delay for each in self._catalog.streams()}
        overrun = 0.0 if self._interval is None else max(0.0, seconds - self._interval)
        count = sum(table.num_rows for table in answers.values())
        progress = progress_of(
            commit, last, self._plans.newest, delays, answers=count, seconds=seconds, overrun=overrun
        )
        for listener in self.listeners:
            listener(progress)

    # -- state --------------------------------------------------------------------------------------------------------

    def _check_sources(self) -> None:
        """Spark knows sources by name or by number, for the whole life of a checkpoint."""
        named = not self.frames
        if self._storage.exists("sources.json"):
            _refuse_other_sources(self._storage.read_json("sources.json")["named"], named)
        elif self.last.cycle >= 0:
            raise damaged(self._storage.path("sources.json"), "is missing")
        else:
            self._storage.write_json("sources.json", {"named": named})

    def _fit_checkpoint(self) -> None:
        """Make Spark's checkpoint fit the newest commit, and the cycle that was begun after it."""
        if self.last.cycle < 0 and not self._storage.names(CHECKPOINT):
            return
        interval = int(str(self._spark.conf.get("spark.sql.streaming.fileSource.log.compactInterval")))
        intent = self._commits.intent(self.last.cycle + 1) or {}
        checkpoint = Checkpoint(self._storage, interval)
        begun = Offsets.from_json(intent.get("offsets"))
        anew = checkpoint.fit(self.last.cycle, self.last.offsets, begun, may_write=not self.frames)
        if anew:
            self.say(made_anew(anew, self.last.cycle))

    @contextmanager
    def _sources_by_name(self) -> Iterator[None]:
        """Sources are known by name, so that streams can come and go between runs; those from Python have none.

        The setting holds for our query alone: under it nobody else could read a source without naming it.
        """
        name = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
        with _naming_sources:
            before = self._spark.conf.get(name)
            self._spark.conf.set(name, str(not self.frames).lower())
            try:
                yield
            finally:
                self._spark.conf.set(name, str(before))

    def _check_state(self) -> None:
        """Raise EngineError unless the catalog and all files are those that the last commit was made with."""
        check_catalog(self._catalog, self.last, self._commits.intent(self.last.cycle + 1))
        check_files(self.last, self._storage)

    def _sweep(self) -> None:
        """Remove what an attempt that never committed has left behind."""
        live = {folder_in(path) for path in self.last.paths}
        for folder in _FOLDERS:
            for name in self._storage.names(folder):
                if f"{folder}/{name}" not in live:
                    self._storage.delete(f"{folder}/{name}")
        begun = Offsets.from_json((self._commits.intent(self.last.cycle + 1) or {}).get("offsets"))
        lists = {each.path for offsets in (self.last.offsets, begun) if offsets is not None for each in offsets.lists}
        for name in self._storage.names(FILE_LISTS):
            if f"{FILE_LISTS}/{name}" not in lists:
                self._storage.delete(f"{FILE_LISTS}/{name}")


@contextmanager
def _without_collections() -> Iterator[None]:
    """Python looks for garbage only afterwards.

    It looks whenever many objects have been made, through all that there are. A cycle makes some for each query and
    lets go of them by itself; with ten thousand queries, looking would be a quarter of what Python does.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _listed(names: Collection[str]) -> str:
    """Some queries, for people."""
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"quer{'y' if len(names) == 1 else 'ies'} {quoted}"


def _is_or_are(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


def refuse_other_sources(directory: Path, *, named: bool) -> None:
    """Raise EngineError if the project in a directory has run with sources that are not `named` alike."""
    known = directory / "state" / "sources.json"
    if known.exists():
        _refuse_other_sources(read_record(known)["named"], named)


def _refuse_other_sources(known: bool, named: bool) -> None:
    if known != named:
        raise EngineError(
            f"this state was made {'with' if named else 'without'} streams from Python DataFrames; "
            "keep it so, or use another project directory"
        )


def state_directory(directory: Path) -> str:
    """Where a project's state is kept unless it says otherwise."""
    return local_uri(directory / "state")
