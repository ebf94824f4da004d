"""Queries that have failed are evaluated apart from the others: as an island.

A query that fails in a cycle is evicted from the shared plan, with all queries that read its answers. The island begins
with the state of the last commit; what both need is in files that neither of them changes.

    behind        the island is in error. The rows of each cycle are held for it, together with what the cycle was
                  decided by; a retry evaluates the held cycles one after the other, and delivers under their numbers
    beside        it has caught up, and is evaluated in each cycle after the shared plan

    held/<cycle>/rows             the tagged rows of a cycle, as Parquet, for all islands that are behind
    held/<cycle>/decision.json    what the cycle was decided by, and how far streams had come after it

An island also evaluates the queries that its members read, silently. All of this is part of the main commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from weft.catalog import Catalog
from weft.plan.query_list import QueryList, restricted, with_read, with_readers, without
from weft.runtime.cycle import CycleRunner
from weft.runtime.sinks.shed_notices import with_notices_of_streams
from weft.runtime.sources.batches import Batch, BatchPart
from weft.runtime.sources.table_snapshots import TableSnapshots
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.spark.rows import CORRUPT, STREAM, TICK, slots_of
from weft.runtime.spark.spark_failures import is_attributable, reason_of
from weft.runtime.stages.cycle_state import Step
from weft.runtime.stages.joins.stage import JoinStage
from weft.runtime.state.commits import (
    Commit,
    Held,
    HeldCycle,
    Island,
    Trouble,
    held_record,
    held_rows,
    lost_with,
)
from weft.runtime.state.continuity import CycleSpec, Folders
from weft.runtime.state.storage import Storage

#: Where a cycle writes while queries are evaluated to see whether they fail.
_TRIAL = Folders("search")


@dataclass(eq=False)
class Islands:
    """Evaluates the islands of one engine."""

    spark: SparkSession
    storage: Storage
    catalog: Catalog
    tables: TableSnapshots
    on_step: Step
    #: The runner of each island, and the cycle that it has come to.
    _runners: dict[str, tuple[CycleRunner, int]] = field(default_factory=dict)

    # -- in a cycle ---------------------------------------------------------------------------------------------------

    def run(
        self, batch: Batch | None, spec: CycleSpec, last: Commit
    ) -> tuple[dict[str, Island], dict[str, pa.Table], dict[str, str]]:
        """Evaluate the islands that have caught up in a cycle, and begin those of queries that were evicted in it.

        Returns the islands after the cycle, their answers, and what is wrong with members that have failed in it.
        """
        found: dict[str, Island] = {}
        answers: dict[str, pa.Table] = {}
        failures: dict[str, str] = {}
        for key, island in islands_in(spec.plan, last.islands).items():
            found[key] = island
            if island.trouble is None:
                try:
                    found[key], own = self._evaluated(key, island, batch, spec)
                    answers |= own
                except Exception as error:
                    found[key] = self._failed(key, island, error)
                    failures |= dict.fromkeys(island.roots, sentence_of(error))
        return {**found, **new_islands(spec.plan, last, spec.intent.evicted)}, answers, failures

    def _evaluated(
        self, key: str, island: Island, batch: Batch | None, spec: CycleSpec
    ) -> tuple[Island, dict[str, pa.Table]]:
        """Evaluate a cycle of an island: its new state, and the answers of its members."""
        plan, blocked = island_plan(spec.plan, island)
        intent, numbered = spec.intent, zip(plan.table_numbers, plan.tables, strict=True)
        unread = {each.name: self.tables.snapshot(at, each) for at, each in numbered if each.name not in intent.tables}
        intent = replace(intent, tables={**intent.tables, **unread})
        runner, at = self._runners.pop(key, (None, None))
        if runner is None or at != island.commit.cycle:
            runner = self._new_runner(island.commit, Folders(key))
        self.on_step("island", spec.cycle)
        answered = runner.run(batch, CycleSpec(spec.cycle, plan, intent), island.commit)
        self._runners[key] = runner, spec.cycle
        own = {name: table for name, table in answered.answers.items() if name in island.members}
        after = replace(island, commit=answered.commit, blocked=tuple(sorted(blocked)), is_anew=False)
        return after, own

    def _new_runner(self, state: Commit, folders: Folders) -> CycleRunner:
        """A runner that begins with a state and shares nothing with others but files."""
        settings = self.catalog.settings()
        network = JoinStage(settings, folders=folders)
        return CycleRunner(self.spark, self.storage, lambda step, cycle: None, settings, network, folders=folders)

    def failure(self, batch: Batch | None, spec: CycleSpec, last: Commit) -> Exception | None:
        """Evaluate a cycle, and leave no trace of it; the error if that fails."""
        runner = self._new_runner(last, _TRIAL)
        try:
            runner.run(batch, spec, last)
        except Exception as error:
            return error
        finally:
            self.storage.delete(_TRIAL.of(spec.cycle))
        return None

    def _failed(self, key: str, island: Island, error: Exception) -> Island:
        """An island whose evaluation has failed; the error itself if that is no query's fault."""
        self._runners.pop(key, None)
        if not is_attributable(error):
            raise error
        sentence = sentence_of(error)
        trouble = Trouble.begin(sentence) if island.trouble is None else island.trouble.again(sentence)
        return replace(island, trouble=trouble)

    def committed(self, islands: Mapping[str, Island]) -> None:
        """The state of islands has been committed."""
        self._runners = {key: each for key, each in self._runners.items() if key in islands}
        for key, (runner, cycle) in self._runners.items():
            if islands[key].commit.cycle == cycle:
                runner.committed(islands[key].commit)

    # -- between cycles -----------------------------------------------------------------------------------------------

    def catch_up(
        self, key: str, island: Island, cycle: int, plan_of_number: Callable[[int], QueryList]
    ) -> tuple[Island, QueryList, Mapping[str, pa.Table]]:
        """Evaluate a held cycle: the island after it, the whole plan, and what the members have answered.

        An island that fails again comes back as it was, with its new trouble.
        """
        record = self._record(cycle)
        plan = plan_of_number(record.intent.plan)
        here = islands_in(plan, {key: island})
        if key not in here:
            # Its queries were not registered in this cycle.
            return replace(island, commit=replace(island.commit, cycle=cycle)), plan, {}
        spec = CycleSpec(cycle, plan, record.intent)
        try:
            after, answers = self._evaluated(key, here[key], self.held(cycle, plan), spec)
        except Exception as error:
            return self._failed(key, island, error), plan, {}
        return after, plan, with_notices_of_streams(answers, plan, replace(after.commit, streams=record.streams))

    # -- held rows ----------------------------------------------------------------------------------------------------

    def hold_rows(self, batch: Batch | None, cycle: int) -> int:
        """Write down the rows of a cycle for islands that are behind; how many there are."""
        if batch is None or not batch.parts:
            return 0
        observation = Observation()
        observed = batch.tagged().observe(observation, F.count(F.lit(1)).alias("rows"))
        observed.write.mode("overwrite").parquet(self.storage.path(held_rows(cycle)))
        return int(observation.get["rows"])

    def hold(self, batch: Batch | None, spec: CycleSpec, commit: Commit) -> Held:
        """Write down the rows of a cycle, and what it was decided by."""
        cycle = spec.cycle
        rows = self.hold_rows(batch, cycle)
        self.storage.write_record(held_record(cycle), HeldCycle(spec.intent, commit.streams))
        return Held(cycle, rows, sum(seal.size for seal in self.storage.seals(held_rows(cycle)).values()))

    def held(self, cycle: int, plan: QueryList) -> Batch | None:
        """The rows of a cycle that were written down."""
        if not self.storage.exists(held_rows(cycle)):
            return None
        # Slots of streams that had no rows are not in the files, and are NULL.
        types_ = {STREAM: "INT", **slots_of(plan.streams), CORRUPT: "STRING", TICK: "BIGINT"}
        schema = ", ".join(f"{name} {type_}" for name, type_ in types_.items())
        rows = self.spark.read.schema(schema).parquet(self.storage.path(held_rows(cycle)))
        return Batch([BatchPart(dict(enumerate(plan.streams)), rows)])

    def _record(self, cycle: int) -> HeldCycle:
        record: HeldCycle = self.storage.read_record(held_record(cycle), HeldCycle)
        return record

    def snapshots(self, commit: Commit) -> set[str]:
        """The paths of the snapshots of tables that held cycles read."""
        return {each.path for held in commit.held for each in self._record(held.cycle).intent.tables.values()}

    def limited(self, commit: Commit) -> Commit:
        """A commit without the oldest cycles, if more bytes are held than may be.

        An island that needs them starts over after them: incomplete windows would give wrong answers.
        """
        held, islands, limit = list(commit.held), dict(commit.islands), self.catalog.settings().error_retention
        while held and sum(each.bytes for each in held) > limit:
            dropped = held.pop(0).cycle
            for key, island in islands.items():
                if island.commit.cycle < dropped:
                    streams = commit.streams if dropped == commit.cycle else self._record(dropped).streams
                    # It begins after the cycle that it lacks like a query that is created then.
                    state, first = Commit(dropped, island.commit.plan, streams), island.commit.cycle + 1
                    lost = lost_with(lost_with(island.lost, first), dropped)
                    islands[key] = replace(island, commit=state, is_anew=True, lost=lost)
        return without_passed_cycles(replace(commit, held=tuple(held), islands=islands))


def sentence_of(error: Exception) -> str:
    """What is wrong with a query whose evaluation has failed."""
    reason = reason_of(error)
    return reason if isinstance(error, EngineError) else f"its evaluation fails: {reason}"


def shared_part(plan: QueryList, islands: Mapping[str, Island], evicted: Collection[str] = ()) -> QueryList:
    """A plan without the queries that are evaluated in islands, or will be."""
    roots = {name for each in islands.values() for name in _roots(plan, each)}
    return without(plan, with_readers(plan, roots | set(evicted)))


def islands_in(plan: QueryList, islands: Mapping[str, Island]) -> dict[str, Island]:
    """The islands whose queries are in a plan, with the members that they have in it.

    A query that reads two islands belongs to the one that began first.
    """
    found: dict[str, Island] = {}
    taken: set[str] = set()
    for key, island in islands.items():
        members = with_readers(plan, _roots(plan, island)) - taken
        if members:
            roots = {name: number for name, number in island.roots.items() if name in members}
            found[key] = replace(island, roots=roots, members=tuple(sorted(members)))
            taken |= members
    return found


def new_islands(plan: QueryList, last: Commit, evicted: Mapping[str, str]) -> dict[str, Island]:
    """The islands of queries that are evicted from the shared plan; those with the same sentence are one island."""
    taken = {name for each in islands_in(plan, last.islands).values() for name in each.members}
    number_of = plan.number_of
    found: dict[str, Island] = {}
    for sentence in dict.fromkeys(evicted.values()):
        present = (name for name, each in evicted.items() if each == sentence and name in number_of)
        roots = {name: number_of[name] for name in present if name not in taken}
        members = with_readers(plan, roots) - taken
        if roots:
            needed = with_read(plan, members)
            state = replace(
                last,
                queries={name: each for name, each in last.queries.items() if name in needed},
                answered={name: count for name, count in last.answered.items() if name in needed},
                late={name: count for name, count in last.late.items() if name in needed},
                offsets=None,
                waiting={},
                islands={},
                held=(),
                seals={},
            )
            key = str(min(roots.values()))
            found[key] = Island(roots, tuple(sorted(members)), state, Trouble.begin(sentence), is_anew=True)
            taken |= members
    return found


def island_plan(plan: QueryList, island: Island) -> tuple[QueryList, set[str]]:
    """What an island evaluates of a plan, and the members that are blocked.

    A query that is new may read, besides members, only queries whose state the island has.
    """
    number_of, members = plan.number_of, set(island.members)
    known = {name for name, state in island.commit.queries.items() if number_of.get(name) == state.number}
    blocked: set[str] = set()
    if not island.is_anew:
        for name in members - known:
            if with_read(plan, {name}) - members - known:
                blocked.add(name)
        blocked = set(with_readers(plan, blocked)) & members
    return restricted(plan, with_read(plan, members - blocked)), blocked


def _roots(plan: QueryList, island: Island) -> set[str]:
    number_of = plan.number_of
    return {name for name, number in island.roots.items() if number_of.get(name) == number}


def without_passed_cycles(commit: Commit) -> Commit:
    """A commit without held cycles that all islands have passed."""
    needed = min((each.commit.cycle for each in commit.islands.values() if each.trouble is not None), default=None)
    held = () if needed is None else tuple(each for each in commit.held if each.cycle > needed)
    return replace(commit, held=held)
