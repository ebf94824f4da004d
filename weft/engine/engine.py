"""The engine: runs the registered queries as cycles of one Spark streaming query.

    engine = Engine(spark, catalog, directory)
    engine.start(until_idle=True)
    engine.wait()

Queries may be created and dropped while it runs; a change takes effect between two cycles. Everything the engine knows
is in the catalog and in the state directory, so a process that dies can be followed by another at any time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from weft.algebra import Query, Stream
from weft.catalog import Catalog, register
from weft.engine import replay
from weft.engine.answer_files import AnswerFiles
from weft.engine.commits import Commit, CommitLog
from weft.engine.cycle import CycleRunner, Step
from weft.engine.errors import EngineError
from weft.engine.sinks import CallableSink, Memory, Sink, sink_of
from weft.engine.sources import tagged
from weft.engine.storage import Storage
from weft.plan.plan import Plan, build
from weft.sql import durations

register(Plan)


@dataclass(frozen=True)
class Progress:
    """What one cycle did, for people and dashboards."""

    cycle: int
    seconds: float
    rows: int
    answers: int
    late: int
    bad: int
    watermarks: Mapping[str, int | None]


class Engine:
    """Runs one project's queries on Spark."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        state: str,
        *,
        on_step: Step | None = None,
        memory_limit: int = 100_000,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._storage = Storage(spark, state)
        self._on_step = on_step or (lambda step, cycle: None)
        self._commits = CommitLog(self._storage, application=str(catalog.path.parent.resolve().name))
        self._runner = CycleRunner(spark, self._storage, self._on_step)
        self._files = AnswerFiles(self._storage, memory_limit)
        self._sinks: dict[str, tuple[Query, Sink | None]] = {}
        self._callables: dict[str, CallableSink] = {}
        self._plan: Plan | None = None
        self._streams: tuple[Stream, ...] | None = None
        self._replays = catalog.path.parent / "replay"
        self._query: StreamingQuery | None = None
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self.memory = Memory(memory_limit)
        self.frames: dict[str, DataFrame] = {}
        self.listeners: list[Callable[[Progress], None]] = []
        #: Called before each new cycle, when changes of the plan may still be part of it.
        self.before_cycle: Callable[[], None] = lambda: None
        self._sweep()

    # -- running ------------------------------------------------------------------------------------------------------

    @property
    def last(self) -> Commit:
        """The newest commit."""
        return self._commits.last

    def add_callable(self, query: str, function: Callable[[pa.Table, int], object]) -> None:
        """Call a function with a query's answers, cycle by cycle."""
        self._callables[query] = CallableSink(function)

    def start(self, *, until_idle: bool = False, interval: str | None = None) -> None:
        """Start the streaming query. `until_idle` stops when all that is there now has been processed."""
        streams = self._catalog.streams()
        if not streams:
            raise EngineError("no stream is registered; CREATE STREAM first")
        self._check_sources()
        self._streams = streams
        ticks = self._patience() is not None and not until_idle
        frame = tagged(self._spark, streams, self.frames, self._replays, ticks=ticks)
        writer = frame.writeStream.queryName("weft").foreachBatch(self._on_batch)
        writer = writer.option("checkpointLocation", self._storage.path("checkpoint"))
        if until_idle:
            writer = writer.trigger(availableNow=True)
        elif interval is not None:
            writer = writer.trigger(processingTime=interval)
        self._stopping.clear()
        self._query = writer.start()
        for stream in streams:
            if stream.format == replay.FORMAT and "speed" in dict(stream.options):
                feeder = threading.Thread(
                    target=replay.feed, args=(stream, self._replays / stream.name, self._stopping)
                )
                feeder.daemon = True
                feeder.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the engine has stopped; False if it still runs after `timeout` seconds. Raises what stopped it."""
        if self._query is None:
            return True
        try:
            stopped = self._query.awaitTermination(timeout) if timeout is not None else self._query.awaitTermination()
        except PySparkException as error:
            raise self._explained(error) from error
        return stopped is not False

    def stop(self) -> None:
        """Stop after the cycle that is running now."""
        query, self._query = self._query, None
        if query is None:
            return
        self._stopping.set()
        while query.isActive and query.status["isTriggerActive"]:
            time.sleep(0.02)
        query.stop()

    @property
    def is_running(self) -> bool:
        return self._query is not None and self._query.isActive

    def _explained(self, error: PySparkException) -> EngineError:
        cause = self._failure
        if cause is not None:
            return EngineError(str(cause))
        lines = [line.strip() for line in str(error).split("\n") if line.strip()]
        return EngineError(f"Spark stopped the stream: {lines[0] if lines else error}; mend the cause and start again")

    # -- the cycle ----------------------------------------------------------------------------------------------------

    def _on_batch(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.cycle(batch, batch_id)
        except BaseException as error:
            self._failure = error
            raise

    def cycle(
        self, batch: DataFrame | None, cycle: int, heartbeats: Mapping[str, int] | None = None
    ) -> dict[str, pa.Table]:
        """Run one cycle over a batch of tagged rows, unless it is committed already, and give its answers."""
        last = self._commits.last
        if cycle <= last.cycle:
            return {}
        if cycle != last.cycle + 1:
            raise EngineError(
                f"Spark's checkpoint is at cycle {cycle}, the state at {last.cycle}: they belong to different runs; "
                "restore both together, or remove the state directory to start afresh"
            )
        started = time.monotonic()
        plan, beats = self._decide(cycle, heartbeats or {})
        self._on_step("begin", cycle)
        answered = self._runner.run(batch, cycle, plan, last, beats, self._patience())
        self._on_step("deliver", cycle)
        for name, table in answered.answers.items():
            self._deliver(plan, name, table, cycle)
        self._files.write(cycle, answered.answers)
        self._on_step("commit", cycle)
        self._commits.commit(answered.commit)
        self._on_step("after commit", cycle)
        for name, table in answered.answers.items():
            self.memory.add(name, table)
        for path in answered.garbage:
            self._storage.delete(path)
        self._report(answered.commit, last, answered.answers, time.monotonic() - started)
        return dict(answered.answers)

    def _decide(self, cycle: int, heartbeats: Mapping[str, int]) -> tuple[Plan, Mapping[str, int]]:
        """The plan and heartbeats of a cycle, written down first so that a second attempt decides the same."""
        intent = self._commits.intent(cycle)
        if intent is not None:
            return self._stored_plan(intent["plan"]), intent["heartbeats"]
        self.before_cycle()
        plan = self._current_plan()
        self._commits.declare(cycle, {"plan": plan.number, "heartbeats": dict(heartbeats)})
        return plan, heartbeats

    def _stored_plan(self, number: int) -> Plan:
        if self._plan is not None and self._plan.number == number:
            return self._plan
        stored: Plan = self._catalog.plan(number).plan
        return stored

    def _current_plan(self) -> Plan:
        """The plan for what is registered now: the last one, or a new version if anything has changed."""
        if self._plan is None:
            newest = self._catalog.latest_plan()
            self._plan = newest.plan if newest is not None else None
        known = self._plan
        # Streams that were registered after the start join in at the next one.
        streams = self._streams if self._streams is not None else self._catalog.streams()
        candidate = build(known.number if known else 0, streams, self._catalog.queries())
        if known is None or candidate != known:
            number = known.number + 1 if known else 1
            candidate = build(number, candidate.streams, self._catalog.queries())
            self._catalog.append_plan(number, candidate)
            self._plan = known = candidate
        return known

    def _deliver(self, plan: Plan, name: str, table: pa.Table, cycle: int) -> None:
        if name in self._callables:
            self._callables[name].write(table, cycle)
        query = next(each for each in plan.queries if each.name == name)
        known = self._sinks.get(name)
        if known is None or known[0] != query:
            known = self._sinks[name] = query, sink_of(query, self._spark)
        if known[1] is not None:
            known[1].write(table, cycle)

    def _report(self, commit: Commit, last: Commit, answers: Mapping[str, pa.Table], seconds: float) -> None:
        def grown(field: str) -> int:
            return sum(int(getattr(each, field)) for each in commit.streams.values()) - sum(
                int(getattr(each, field)) for each in last.streams.values()
            )

        delays = {each.name: each.delay for each in self._catalog.streams()}
        progress = Progress(
            cycle=commit.cycle,
            seconds=seconds,
            rows=grown("rows"),
            answers=sum(table.num_rows for table in answers.values()),
            late=grown("late"),
            bad=grown("bad"),
            watermarks={
                name: None if state.largest is None else state.largest - delays.get(name, 0)
                for name, state in commit.streams.items()
            },
        )
        for listener in self.listeners:
            listener(progress)

    # -- state --------------------------------------------------------------------------------------------------------

    def _patience(self) -> int | None:
        """How long a stream may be silent before its clock goes on by itself: the setting `heartbeat`."""
        value = str(self._catalog.setting("heartbeat", "off"))
        if value == "off":
            return None
        return int(value) * 1_000_000 if value.isdigit() else durations.parse(value)

    def _check_sources(self) -> None:
        """Spark knows sources by name or by number, for the whole life of a checkpoint."""
        named = not self.frames
        if self._storage.exists("sources.json"):
            if self._storage.read_json("sources.json")["named"] != named:
                raise EngineError(
                    "this state was made "
                    + ("without" if named is False else "with")
                    + " streams from Python DataFrames; keep it so, or use another project directory"
                )
        else:
            self._storage.write_json("sources.json", {"named": named})
        self._spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", str(named).lower())

    def _sweep(self) -> None:
        """Remove what an attempt that never committed has left behind."""
        live = {each.path for segments in self.last.logs.values() for each in segments}
        live |= set(self.last.snapshots.values())
        cycles = {path.split("/")[1] for path in live}
        for name in self._storage.names("segments"):
            if name not in cycles:
                self._storage.delete(f"segments/{name}")


def state_directory(directory: Path) -> str:
    """Where a project's state is kept unless it says otherwise."""
    return (directory / "state").resolve().as_uri()
