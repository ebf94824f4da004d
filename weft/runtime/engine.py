"""The engine: runs the registered queries as cycles of one Spark streaming query.

    engine = Engine(spark, catalog, directory)
    engine.start(until_idle=True)
    engine.wait()

A change of queries takes effect between two cycles. Everything the engine knows is in the catalog and in the state
directory, so a process that dies can be followed by another at any time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import Any, Unpack

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from weft.algebra import Stream, Table
from weft.catalog import Catalog
from weft.runtime.cluster_checks import StorageProbe, check_executors
from weft.runtime.cycle_engine import CycleEngine, EngineOptions
from weft.runtime.queries_in_error import CAUGHT_UP_AT_ONCE
from weft.runtime.sources import replay
from weft.runtime.sources.batches import BatchReader
from weft.runtime.sources.stream_sources import Sources, sources
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.spark.spark_failures import end_behind, end_of, failure_of, reason_of
from weft.runtime.state.checkpoint import offsets_of
from weft.runtime.state.commits import errors_of
from weft.sql import durations

#: Held while a session has the setting by which sources have names; two threads would each restore what the other set.
_naming_sources = threading.RLock()


class Engine(CycleEngine):
    """Runs one project's queries on Spark, over the streams that are registered."""

    def __init__(self, spark: SparkSession, catalog: Catalog, state: str, **options: Unpack[EngineOptions]) -> None:
        super().__init__(spark, catalog, state, **options)
        #: Streams that are DataFrames from Python, by name.
        self.frames: dict[str, DataFrame] = {}
        #: Held while a cycle runs, and while queries in error are tried again between two cycles.
        self._between = threading.Lock()
        self._replays = catalog.path.parent / "replay"
        self._query: StreamingQuery | None = None
        #: Reads the batches of the streaming query, as soon as it has begun: its first batch may come before that.
        self._reader: Future[BatchReader] = Future()
        self._trigger: Mapping[str, Any] = {}
        self._is_ticking = False
        #: The streams whose replayed files are being fed.
        self._fed: set[int] = set()
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
        self._failure: BaseException | None = None
        self._spark_error: BaseException | None = None
        self._probe = StorageProbe(spark, self._storage)

    # -- start --------------------------------------------------------------------------------------------------------

    def start(self, *, until_idle: bool = False, interval: str | None = None) -> None:
        """Start the streaming query. `until_idle` stops when all that is there now has been processed."""
        streams = self._streams_to_read()
        if not streams:
            raise EngineError("no stream is registered; CREATE STREAM first")
        for sentence in self._state.files.damages:
            self.say(sentence)
        self._probe.check()
        check_executors(self._spark, self._catalog.settings().kernels)
        renewed = self._state.fit_sources(named=not self.frames)
        if renewed is not None:
            self.say(renewed)
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
        self.in_error.evict_unreadable()
        self.in_error.try_again(in_error)
        self._ended.clear()
        try:
            self._begin(streams, read)
        except BaseException:
            self._ended.set()
            raise
        threading.Thread(target=self._try_again_when_due, name="weft-retries", daemon=True).start()

    def _read_tables(self) -> None:
        """Read every table that is registered, and keep its rows as they are now for as long as the engine runs."""
        with self._catalog.transaction():
            numbers = self._catalog.table_numbers()
            registered: dict[int, Table] = {numbers[each.name]: each for each in self._catalog.tables()}
        tables = {} if self._state.intent is None else self._state.intent.tables
        begun = {each.path for each in tables.values()} | self._islands.snapshots(self.last)
        parts = [self.last, *(each.commit for each in self.last.islands.values())]
        last = {each.path for part in parts for log, segments in part.logs.items() if log.is_table for each in segments}
        self._tables.begin(registered, begun, last)

    def _streams_to_read(self) -> dict[int, Stream]:
        """The streams that are registered; but a cycle that was begun is finished first, with the streams it had."""
        registered = self._plans.registered_streams()
        intent = self._state.intent
        begun = None if intent is None else self._plans.stored(intent.plan)
        self._is_finishing = begun is not None and tuple(registered)[: len(begun.streams)] != begun.stream_numbers
        if begun is None or not self._is_finishing:
            return registered
        return dict(zip(begun.stream_numbers, begun.streams, strict=True))

    def _sources_of(self, streams: Mapping[int, Stream]) -> Sources:
        with self._sources_by_name():
            allowed, ticks = self._catalog.allowed_paths(), self._is_ticking
            return sources(self._spark, streams, self.frames, self._replays, ticks=ticks, say=self.say, allowed=allowed)

    @contextmanager
    def _sources_by_name(self) -> Iterator[None]:
        """Sources are known by name, so that streams can come and go between runs; those from Python have none.

        The setting holds for our query only: under it, other queries could not read a source without naming it.
        """
        name = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
        with _naming_sources:
            before = self._spark.conf.get(name)
            self._spark.conf.set(name, str(not self.frames).lower())
            try:
                yield
            finally:
                self._spark.conf.set(name, str(before))

    def _begin(self, streams: Mapping[int, Stream], read: Sources) -> None:
        """Begin the streaming query over the sources of some streams."""
        self._plans.streams = streams
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
                fed = stream, self._replays / str(number), self._stopping
                threading.Thread(target=replay.feed, args=fed, daemon=True).start()

    # -- streams that come and go -------------------------------------------------------------------------------------

    @property
    def follows_streams(self) -> bool:
        """Whether streams can come and go while the engine runs. Not if some are DataFrames from Python."""
        return self.is_running and not self.frames

    def follow_streams(self) -> None:
        """Begin to read the streams that were registered, and cease to read those that were dropped.

        In the background, between two cycles, Spark's streaming query is replaced by another one, which goes on at the
        same offsets. A stream that cannot be read is left out until the next start.
        """
        if self.follows_streams and not self._follow_wanted.is_set():
            self._follow_wanted.set()
            threading.Thread(target=self._follow, name="weft-streams", daemon=True).start()

    def _follow(self) -> None:
        with self._replacing:
            self._follow_wanted.clear()
            query = self._query
            streams = self._streams_to_read()
            if query is None or not streams or tuple(streams) == tuple(self._plans.streams or streams):
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

    # -- end ----------------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the engine has stopped; False if it still runs after `timeout` seconds. Raises what stopped it."""
        if not self._ended.wait(timeout):
            return False
        if self._spark_error is not None and not self._stopping.is_set():
            streams = () if self._plans.streams is None else self._plans.streams.values()
            found = failure_of(self._failure or self._spark_error, streams)
            raise (EngineError(str(found)) if found is self._failure else found) from self._spark_error
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

    # -- between Spark's micro-batches and cycles ---------------------------------------------------------------------

    def _on_batch(self, batch: DataFrame, batch_id: int) -> None:
        # While the engine stops, the lock is taken and no cycle begins: the batch comes again at the next start.
        if not self._in_cycle.acquire(blocking=False):
            raise EngineError("the engine is stopping")
        self._cycling = threading.get_ident()
        # Garbage is collected only afterwards: with ten thousand queries, that would be a quarter of Python's time.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            with self._between:
                self._probe.check()
                self.in_error.try_again(self.in_error.due(), CAUGHT_UP_AT_ONCE)
                offsets = offsets_of(self._storage, batch_id)
                self.cycle(self._reader.result().read(batch), batch_id, offsets=offsets)
            if self._is_finishing:
                self.follow_streams()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            if was_enabled:
                gc.enable()
            self._cycling = None
            self._in_cycle.release()

    def _try_again_when_due(self) -> None:
        """Try queries in error again when it is time, also when no rows come and so no cycle begins."""
        while not self._ended.is_set():
            self.in_error.wait()
            if not self.in_error.due():
                continue
            with self._between:
                if self._ended.is_set() or self._stopping.is_set():
                    return
                try:
                    self.in_error.try_again(self.in_error.due(), CAUGHT_UP_AT_ONCE)
                except Exception as error:
                    # What stops a retry, such as a full disk, stops the next cycle too, and is reported there.
                    self.say(reason_of(error))
