"""One cycle: rows in, answers out, and one commit that makes it true.

    ingest      every row once: clock checked, late and malformed rows set aside, the others taken in (`ingest.py`)
    weave       aggregates over streams, from partials
    network     all other relations, each once, by whoever evaluates it (`pieces/`)
    keep        what Spark evaluates by itself, and later cycles or others need
    answer      what Spark evaluates by itself, in one job; and what is kept of everything else
    deliver     answers to their sinks, under the cycle's number
    commit      one atomic record

Whatever happens before the commit leaves no trace that a second attempt would see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.algebra import Answers, Relation, Stream
from weft.algebra.properties import leaves
from weft.plan.event_time import RunningQuery
from weft.plan.facts import facts_of
from weft.plan.log_ids import LogId
from weft.plan.plan import Plan
from weft.runtime.columnar.rows import CLOCK
from weft.runtime.continuity import (
    Folders,
    continued,
    logged,
    of_present_streams,
    reads_history,
    registered_queries,
    with_tables,
)
from weft.runtime.decision import Decision
from weft.runtime.failures.errors import MemoryLimit
from weft.runtime.ingest import Ingest, Readers
from weft.runtime.pieces.choice import evaluator_for
from weft.runtime.pieces.evaluation import Evaluation, emits_empty
from weft.runtime.pieces.pieces import Evaluator, Piece, Root, pieces_of
from weft.runtime.pieces.roots import roots_of
from weft.runtime.places import Place
from weft.runtime.sources.batches import Batch
from weft.runtime.spark.session import compile_plans
from weft.runtime.stages.groups.stage import DerivedStage
from weft.runtime.stages.joins.conditions import clock_of_rows
from weft.runtime.stages.joins.current import CurrentNetwork
from weft.runtime.stages.joins.stage import NetworkPass
from weft.runtime.stages.sets.stage import SetsStage
from weft.runtime.stages.windows.backfill import StoredRows
from weft.runtime.stages.windows.kernel_placement import KeySet, Placement, PlacementSettings
from weft.runtime.stages.windows.partial_log import small_ones
from weft.runtime.stages.windows.stage import Reduced, WovenStage
from weft.runtime.stages.windows.warm_start import PendingRestore
from weft.runtime.state.commits import Commit, QueryState, Segment, StreamState
from weft.runtime.state.expiry import Expiry
from weft.runtime.state.storage import Storage
from weft.runtime.work import Logs, Work, memory_of

#: A log with more segments than this is rewritten as one, so that reading it stays cheap.
_MOST_SEGMENTS = 24

#: Above this many rows it pays to compile the queries' plans; below it, compiling takes longer than the rows do.
_WORTH_COMPILING = 300_000

Step = Callable[[str, int], None]


@dataclass(frozen=True)
class Answered:
    """What a cycle found out: the answers of each query, and the record to commit."""

    answers: Mapping[str, pa.Table]
    commit: Commit
    #: The new rows of each stream as partials, for statistics.
    reduced: Mapping[str, Reduced] = field(default_factory=dict)
    #: Where the kernels of each key set live, by stream.
    hosts: Mapping[str, Mapping[KeySet, Placement]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Cast:
    """The queries of a plan by how they are evaluated: from partials as a whole, or not, and then perhaps shared."""

    queries: Mapping[str, RunningQuery]
    whole: Mapping[str, RunningQuery]
    alone: Mapping[str, RunningQuery]
    shared: set[str]


class CycleRunner:
    """Runs cycles of a plan against the state of the last commit."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        on_step: Step | None = None,
        hosting: PlacementSettings | None = None,
        ahead: PendingRestore | None = None,
        network: CurrentNetwork | None = None,
        folders: Folders | None = None,
    ) -> None:
        self._folders = folders or Folders()
        self._spark = spark
        self._storage = storage
        self._on_step = on_step or (lambda step, cycle: None)
        self._hosting = hosting or PlacementSettings()
        self._logs = Logs(spark, storage, self._folders)
        self._stage = WovenStage(spark, storage, self._hosting, ahead)
        self._ingest = Ingest(spark, storage, self._logs, self._stage, self._folders)
        self._expiry = Expiry()
        self._network = network or CurrentNetwork(self._hosting, folders=self._folders)
        self._derived = DerivedStage(storage, self._hosting.max_state)
        self._sets = SetsStage(storage, self._hosting.max_state)
        #: The roots of queries, by number; and their relations, as long as the queries are the same.
        self._roots: dict[int, Root] = {}
        self._known_pieces: tuple[object, tuple[Piece, ...]] = (None, ())
        #: The queries of this cycle; and the plan and the cycle of the last commit, with those that it has.
        self._cast = _Cast({}, {}, {}, set())
        self._committed: tuple[int, int, _Cast] | None = None
        #: The queries that others read, and the number of the plan in which they do.
        self._read: tuple[int | None, frozenset[str]] = (None, frozenset())

    def run(self, batch: Batch | None, cycle: int, decision: Decision, last: Commit) -> Answered:
        """Evaluate a cycle. Nothing is true before the caller commits the record that comes back.

        MemoryLimit names queries.
        """
        try:
            return self._run(batch, cycle, decision, last)
        except MemoryLimit as error:
            _, pieces = self._known_pieces
            owners = {log: each for each in pieces for log in (each.log, each.place.log)}
            names = (owners[log].registered.query.name if log in owners else log for log in error.needing_most)
            raise MemoryLimit(str(error), tuple(dict.fromkeys(names))) from error

    def _run(self, batch: Batch | None, cycle: int, decision: Decision, last: Commit) -> Answered:
        plan = decision.plan
        present = with_tables(of_present_streams(last, plan), decision.tables)
        known, self._cast = self._casting(plan, present, cycle, decision.sharing)
        queries, whole, shared = self._cast.queries, self._cast.whole, self._cast.shared
        pieces = self._pieces(self._cast.alone, shared, known)
        parts: dict[str, RunningQuery] = {
            each.log: each.as_query for each in pieces if each.evaluator is Evaluator.WEAVE
        }
        # As long as it is the same mapping, the weave sees at a glance that nothing is new.
        woven = {**whole, **parts} if parts else whole
        step = self._on_step
        step("ingest", cycle)
        facts = {name: facts_of(numbers) for name, numbers in decision.facts.items()}
        self._stage.prepare(
            known, plan.streams, woven, lambda stream: self._kept_rows(stream, plan, known, cycle), facts
        )
        self._derived.prepare(known, [each for each in pieces if each.evaluator is Evaluator.DERIVED])
        self._sets.prepare(known, [each for each in pieces if each.evaluator is Evaluator.SETS])
        network = self._network.begin(
            self._spark, self._storage, [each for each in pieces if each.evaluator is Evaluator.NETWORK], known, cycle
        )
        readers = Readers(cycle, queries, pieces, network, self._cast.alone)
        streams, work = self._ingest.take_in(batch, decision, known, readers)
        self._logs.register_old(known, logged(plan, pieces), work)
        work.read_by_others = self._read_by_others(plan)
        work.given = frozenset(each.log for each in pieces if each.evaluator is not Evaluator.SPARK)
        compiled = _rows_at_hand(pieces, known, work) > _WORTH_COMPILING

        def before_each() -> None:
            step("keep", cycle)
            compile_plans(self._spark, compiled)

        evaluation = Evaluation(self._spark, self._logs, work, network, self._derived, self._sets, before_each)
        compile_plans(self._spark, compiled)
        step("weave", cycle)
        found = self._weave(plan, woven, evaluation)
        for name in whole.keys() & found.keys():
            evaluation.give_answers(name, found[name])
        for piece in pieces:
            if piece.log in found:
                evaluation.give(piece, found[piece.log])
        step("network", cycle)
        settled = {LogId.stream(each.name) for each in plan.streams} | {LogId.answers(name) for name in whole}
        settled |= {LogId.table(each.name) for each in plan.tables}
        answers = evaluation.run(pieces, settled | {each.log for each in pieces if each.evaluator is Evaluator.WEAVE})
        step("answer", cycle)
        commit = self._commit(cycle, plan, known, streams, queries, whole, pieces, answers, work)
        commit = self._with_shared(commit, pieces, network, known, work)
        network.arrived = {**{log: each.rows for log, each in work.added.items()}, **work.passed}
        network.asking.drop_views()
        self._logs.drop_views(work)
        self._logs.forget_snapshots(commit)
        return Answered(answers, commit, work.reduced, self._stage.hosts)

    def _casting(self, plan: Plan, present: Commit, cycle: int, sharing: bool) -> tuple[Commit, _Cast]:
        """The last commit as far as it concerns queries that go on, and who is evaluated how."""
        if self._committed is not None and self._committed[:2] == (plan.number, present.cycle):
            # Nobody has come or gone: with thousands of queries it pays not to ask each of them.
            return present, self._committed[2]
        queries = registered_queries(plan, present, cycle)
        known = continued(present, queries)
        whole = {name: each for name, each in queries.items() if self._is_woven(name, each, known, sharing)}
        alone = {name: each for name, each in queries.items() if name not in whole}
        shared = {name for name, each in alone.items() if _is_shared(name, each, known, sharing)}
        return known, _Cast(queries, whole, alone, shared)

    def _read_by_others(self, plan: Plan) -> frozenset[str]:
        """The queries of a plan whose answers other queries read."""
        if self._read[0] != plan.number:
            read = (leaf for each in plan.queries for leaf in leaves(each.relation))
            self._read = plan.number, frozenset(leaf.query for leaf in read if isinstance(leaf, Answers))
        return self._read[1]

    def _pieces(self, queries: Mapping[str, RunningQuery], shared: set[str], known: Commit) -> tuple[Piece, ...]:
        """The relations of queries that are not woven as a whole."""
        same = {name: (each.start.number, each.start.first, name in shared) for name, each in queries.items()}
        if self._known_pieces[0] != same:
            self._known_pieces = same, self._found_pieces(queries, shared, known)
        return self._known_pieces[1]

    def _found_pieces(self, queries: Mapping[str, RunningQuery], shared: set[str], known: Commit) -> tuple[Piece, ...]:
        numbers = {each.start.number for each in queries.values()}
        self._roots = {number: root for number, root in self._roots.items() if number in numbers}
        others = {name: each for name, each in queries.items() if each.start.number not in self._roots}
        roots = roots_of(others, shared, {name: state.root for name, state in known.queries.items()})
        self._roots |= {queries[name].start.number: root for name, root in roots.items()}

        def evaluator_of(registered: RunningQuery, relation: Relation, place: Place) -> Evaluator:
            if place.query >= 0:
                return Evaluator.SPARK
            if place.log in known.evaluators:
                return Evaluator(known.evaluators[place.log])
            return evaluator_for(relation, place, registered.start.first, self._stage.can_weave)

        roots = {name: self._roots[each.start.number] for name, each in queries.items()}
        return pieces_of(queries, roots, evaluator_of)

    def committed(self, commit: Commit) -> None:
        """A cycle's record has been committed."""
        self._committed = commit.plan, commit.cycle, self._cast
        self._stage.committed(commit.cycle)
        self._network.committed(commit.cycle)
        self._derived.committed(commit.cycle)
        self._sets.committed(commit.cycle)

    def _kept_rows(self, stream: Stream, plan: Plan, last: Commit, cycle: int) -> StoredRows | None:
        """The rows that a stream has kept for queries that are new, if it has any."""
        segments = last.logs.get(LogId.stream(stream.name), ())
        if not segments:
            return None
        compile_plans(self._spark, sum(each.rows for each in segments) > _WORTH_COMPILING)
        path = f"{self._folders.of(cycle)}/history-{plan.streams.index(stream)}.parquet"
        return StoredRows(self._logs.read(stream, segments), path)

    def _is_woven(self, name: str, registered: RunningQuery, last: Commit, sharing: bool) -> bool:
        """Whether a query is answered from shared partials: as it was decided in its first cycle, which may be this."""
        state = last.queries.get(name)
        if state is not None:
            return state.woven
        return sharing and self._stage.can_weave(registered.query, registered.start.number)

    # -- weave --------------------------------------------------------------------------------------------------------

    def _weave(self, plan: Plan, woven: Mapping[str, RunningQuery], evaluation: Evaluation) -> dict[str, pa.Table]:
        """What is answered from partials, with clocks."""
        work, counted_from = evaluation.work, {}
        for name, each in woven.items():
            relation = each.query.relation
            if emits_empty(relation):
                place = Place(each.start.number)
                evaluation.note_first_rows(relation, place, each)
                if place.log in work.emit_from:
                    counted_from[name] = work.emit_from[place.log]
        paths = {
            each.name: self._folders.partials(work.event_time.cycle, index) for index, each in enumerate(plan.streams)
        }
        return self._stage.answer(work.reduced, work.event_time, woven, counted_from, paths)

    # -- commit -------------------------------------------------------------------------------------------------------

    def _commit(
        self,
        cycle: int,
        plan: Plan,
        last: Commit,
        streams: Mapping[str, StreamState],
        queries: Mapping[str, RunningQuery],
        whole: Mapping[str, RunningQuery],
        pieces: Sequence[Piece],
        answers: Mapping[str, pa.Table],
        work: Work,
    ) -> Commit:
        answered = {
            name: last.answered.get(name, 0) + (answers[name].num_rows if name in answers else 0) for name in queries
        }
        logs: dict[LogId, tuple[Segment, ...]] = {}
        # Where rows are kept for queries to come, those of open windows are among them: see `woven/backfill.py`.
        has_history = any(each.backfill for each in plan.streams)
        looking_back = [_as_piece(each) for each in whole.values() if has_history and reads_history(each)]
        rows_read = [each for each in pieces if each.evaluator is not Evaluator.WEAVE or reads_history(each.as_query)]
        needs = self._expiry.needs(plan.streams, [*rows_read, *looking_back], work.event_time)
        for log, source in logged(plan, pieces).items():
            arrived = [of[log] for of in (work.added, work.kept_late) if log in of]
            segments = [*last.logs.get(log, ()), *arrived]
            live = [each for each in segments if not needs.expired(each, log)]
            if len(live) > _MOST_SEGMENTS:
                self._on_step("compact", cycle)
                path = f"{self._folders.of(cycle)}/compacted-{len(logs)}"
                live = self._logs.compacted(self._logs.read(source, live), CLOCK, needs.since.get(log), path)
            if live:
                logs[log] = tuple(live)
        for index, stream in enumerate(plan.streams):
            if self._stage.reads(stream.name):
                partials = self._partials_kept(cycle, index, stream, last, work)
                if partials:
                    logs[LogId.partials(stream.name)] = tuple(partials)
                totals = self._totals_kept(cycle, index, stream, last)
                if totals:
                    logs[LogId.running(LogId.stream(stream.name))] = tuple(totals)
        remembered = {name for each in pieces for name in (each.place.log, memory_of(each.place))}
        snapshots = {place: path for place, path in {**last.snapshots, **work.written}.items() if place in remembered}
        late = Counter(last.late)
        late.update(work.late)
        return Commit(cycle, plan.number, dict(streams), self._states(last, work), answered, logs, snapshots, late=late)

    def _states(self, last: Commit, work: Work) -> Mapping[str, QueryState]:
        """What is kept of each query: mostly what there is already."""
        cast = self._cast
        if self._committed is not None and self._committed[2] is cast and not work.emit_from:
            return last.queries
        counted_from: dict[int, dict[str, int]] = {}
        for place, clock in work.emit_from.items():
            counted_from.setdefault(int(place.partition(".")[0]), {})[place] = clock
        states = {}
        for name, each in cast.queries.items():
            start, number = each.start, each.start.number
            root = self._roots.get(number)
            places = (number,) if root is None else root.place.numbers
            counted = {place: clock for of in places for place, clock in counted_from.get(of, {}).items()}
            states[name] = QueryState(
                number, start.first, start.largest, counted, name in cast.whole, name in cast.shared,
                "" if root is None else root.record,
            )  # fmt: skip
        return states

    def _with_shared(
        self, commit: Commit, pieces: Sequence[Piece], network: NetworkPass, last: Commit, work: Work
    ) -> Commit:
        """A commit with what is kept of relations that are evaluated together."""
        logs = dict(commit.logs)
        folder = self._folders.of(commit.cycle)
        logs |= self._derived.keep(last, lambda number: f"{folder}/derived-{number}.parquet", _MOST_SEGMENTS)
        self._sets.check_memory()
        logs |= self._sets.keep(
            last, work.event_time, lambda number: f"{folder}/values-{number}.parquet", _MOST_SEGMENTS
        )
        for family, live in network.keeping.live(network.families, work.event_time):
            segments = live
            if len(live) > _MOST_SEGMENTS:
                self._on_step("compact", commit.cycle)
                path = f"{self._folders.of(commit.cycle)}/network-compacted-{len(logs)}"
                rows, since = network.keeping.read(family, live), network.keeping.needed_since(family)
                segments = self._logs.compacted(rows, clock_of_rows(len(family.family.legs)), since, path)
            if segments:
                logs[family.family.name] = tuple(segments)
        evaluators = {each.place.log: each.evaluator.value for each in pieces if each.place.query < 0}
        return replace(commit, logs=logs, network=network.keeping.states, evaluators=evaluators)

    def _partials_kept(self, cycle: int, index: int, stream: Stream, last: Commit, work: Work) -> list[Segment]:
        """The live partials of a stream after this cycle."""
        if not self._stage.keeps_partials(stream.name):
            return []
        segments = list(self._stage.kept(stream.name))
        path = self._folders.partials(cycle, index)
        if stream.name in work.reduced and len(work.reduced[stream.name].partials):
            segments.append(self._stage.log.keep(work.reduced[stream.name].partials, path))
        live = self._stage.live(stream.name, segments, work.event_time.watermark(stream))
        if len(small_ones(live)) <= _MOST_SEGMENTS:
            return live
        self._on_step("compact", cycle)
        since = self._stage.needed_since(stream.name, work.event_time.watermark(stream))
        return self._stage.log.compacted(live, since, f"{self._folders.of(cycle)}/partials-{index}-compacted")

    def _totals_kept(self, cycle: int, index: int, stream: Stream, last: Commit) -> list[Segment]:
        """The files that together have the groups of a stream's aggregates that never close."""
        segments = last.logs.get(LogId.running(LogId.stream(stream.name)), ())
        if len(segments) >= _MOST_SEGMENTS:
            self._on_step("compact", cycle)
        path = f"{self._folders.of(cycle)}/totals-{index}.parquet"
        return self._stage.keep_totals(stream.name, segments, path, _MOST_SEGMENTS)


def _is_shared(name: str, registered: RunningQuery, last: Commit, sharing: bool) -> bool:
    """Whether a query's relations are evaluated with those of others: as decided in its first cycle, perhaps this."""
    state = last.queries.get(name)
    return state.shared if state is not None else sharing and registered.query.sharing


def _as_piece(registered: RunningQuery) -> Piece:
    """A query that is woven as a whole."""
    return Piece(registered, registered.query.relation, Place(registered.start.number), Evaluator.WEAVE)


def _rows_at_hand(pieces: Sequence[Piece], last: Commit, work: Work) -> int:
    """How many rows the relations that Spark evaluates one by one look at: those that are kept, and the new ones."""
    read = {log for each in pieces if each.evaluator is Evaluator.SPARK for log in each.inputs}
    kept = sum(segment.rows for log in read for segment in last.logs.get(log, ()))
    return kept + sum(work.added[log].rows for log in read if log in work.added)
