"""The relations of all queries in a cycle: each as soon as what it reads is there, by whoever evaluates it.

weave      has been answered before, from the partials of streams
network    selections and joins, all whose logs are there at once
derived    groups of rows that the driver has
sets       values that the driver remembers
spark      a select of its own: written to a log if somebody else reads it, or in one job with all the others
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.algebra import Relation, Select, Source, Stream
from weft.plan.event_time import Clock, QueryStart, RunningQuery, gives_answers
from weft.plan.log_ids import LogId
from weft.runtime.columnar.packed_selects import Packed, pack, unpacked
from weft.runtime.columnar.rows import ARRIVAL, BEFORE, CLOCK, columns
from weft.runtime.pieces.pieces import Evaluator, Piece
from weft.runtime.places import Place, log_of
from weft.runtime.stages.groups.stage import DerivedStage
from weft.runtime.stages.joins.stage import NetworkPass
from weft.runtime.stages.sets.stage import SetsStage
from weft.runtime.stages.sql import running
from weft.runtime.stages.sql.compile import Compiler
from weft.runtime.work import Logs, Work, memory_of

#: Who reads rows that are in the driver.
_IN_THE_DRIVER = frozenset({Evaluator.DERIVED, Evaluator.SETS})


@dataclass
class Evaluation:
    """The relations of one cycle."""

    spark: SparkSession
    logs: Logs
    work: Work
    network: NetworkPass
    derived: DerivedStage
    sets: SetsStage
    #: Called before relations are evaluated one by one.
    before_each: Callable[[], None]
    answers: dict[str, pa.Table] = field(default_factory=dict)
    #: What aggregates over rows in the driver have answered, by log and place.
    _derived: dict[str, dict[str, pa.Table]] = field(default_factory=dict)

    def run(self, pieces: Sequence[Piece], settled: set[str]) -> dict[str, pa.Table]:
        """Evaluate all relations. `settled` are the logs that have got their rows; the answers of queries are given."""
        waiting = {each.place.log: each for each in pieces if each.evaluator is not Evaluator.WEAVE}
        while waiting:
            done = self._given_by_network(waiting, settled)
            self.before_each()
            for place, piece in waiting.items():
                is_ready = piece.evaluator is not Evaluator.NETWORK and settled.issuperset(piece.inputs)
                if is_ready:
                    self._evaluate(piece)
                    self._settle(piece, settled)
                    done.add(place)
            assert done, "some query reads what nobody gives"
            waiting = {place: each for place, each in waiting.items() if place not in done}
        self.answers |= self._of_spark([each for each in pieces if each.evaluator is Evaluator.SPARK])
        return self.answers

    def give_answers(self, name: str, table: pa.Table) -> None:
        """Give a query its answers, which come by position and with their clocks in the last column."""
        self.answers[name] = self._shown(name, table.remove_column(table.num_columns - 1))
        if name in self.work.read_by_others:
            relation = self.work.event_time.queries[name].query.relation
            self.logs.add_table(LogId.answers(name), relation, table, self.work)
            self.work.tables[LogId.answers(name)] = table

    def give(self, piece: Piece, table: pa.Table) -> None:
        """Put the rows of a relation, with their clocks, to where they are looked for."""
        for name in piece.names:
            self.give_answers(name, table)
        if piece.readers & _IN_THE_DRIVER:
            self.work.tables[piece.log] = table
        if piece.is_kept:
            self.logs.add_table(piece.log, piece.relation, table, self.work)
        elif piece.readers - _IN_THE_DRIVER:
            self.logs.view_of_table(piece.log, piece.relation, table, self.work)

    def _shown(self, name: str, table: pa.Table) -> pa.Table:
        """Rows with the names that a query's answers have."""
        return table.rename_columns([each.name for each in self.work.event_time.queries[name].query.relation.fields])

    def _settle(self, piece: Piece, settled: set[str]) -> None:
        settled.add(piece.log)
        settled.update(LogId.answers(name) for name in piece.names)

    def _given_by_network(self, waiting: Mapping[str, Piece], settled: set[str]) -> set[str]:
        """The places of relations that the network has given their rows, if there are any."""
        places, found = self.network.advance(frozenset(settled), self.work.views)
        for place in places:
            if place in found:
                self.give(waiting[place], found[place])
            self._settle(waiting[place], settled)
        return places

    def _evaluate(self, piece: Piece) -> None:
        if piece.evaluator is Evaluator.DERIVED:
            self._derive(piece)
        elif piece.evaluator is Evaluator.SETS:
            self._combine(piece)
        else:
            self._keep(piece)

    # -- rows in the driver -------------------------------------------------------------------------------------------

    def _combine(self, piece: Piece) -> None:
        operands = [self._rows_here(log) for log in piece.inputs]
        found = self.sets.answer(piece, operands, self.work.event_time)
        if found is not None:
            self.give(piece, found)

    def _derive(self, piece: Piece) -> None:
        """All aggregates over the rows of a log are answered together."""
        (log,) = piece.inputs
        if log not in self._derived:
            for each in self.derived.pieces(log):
                self.note_first_rows(each.relation, each.place, each.registered)
            self._derived[log] = self.derived.answer(
                log, self._rows_here(log), self._kept_rows, self.work.event_time, self.work.emit_from
            )
        if piece.place.log in self._derived[log]:
            self.give(piece, self._derived[log][piece.place.log])

    def _rows_here(self, log: LogId) -> pa.Table | None:
        """The new rows of a log, in the driver."""
        if log not in self.work.tables and log in self.work.new:
            self.work.tables[log] = self.spark.table(self.work.new[log]).drop(ARRIVAL, BEFORE).toArrow()
        return self.work.tables.get(log)

    def _kept_rows(self, log: LogId) -> pa.Table | None:
        return self.spark.table(self.work.old[log]).toArrow() if log in self.work.old else None

    # -- one by one ---------------------------------------------------------------------------------------------------

    def _keep(self, piece: Piece) -> None:
        """Evaluate what later cycles will look at again, and what others read."""
        self._keep_memory(piece)
        self.note_first_rows(piece.relation, piece.place, piece.registered)
        read = {LogId.answers(name) for name in piece.names if name in self.work.read_by_others}
        if piece.is_kept or piece.readers - {Evaluator.SPARK}:
            read.add(piece.log)
        text = self._compiler(piece).computed(piece.relation, piece.place) if read else None
        if text is not None:
            for log in sorted(read):
                self.logs.add_select(log, piece.relation, text, self.work)

    def note_first_rows(self, relation: Relation, place: Place, registered: RunningQuery) -> None:
        """Remember the smallest clock in the first cycle that has rows: EMIT EMPTY counts from it.

        What had closed before that cycle was not answered then, and is not later, when a query looks back.
        """
        work = self.work
        if not emits_empty(relation) or place.log in work.emit_from:
            return
        source = relation.inputs[0].source
        lowest = self._first_kept_clock(source, registered.start)
        log = log_of(source, place.below(0))
        if lowest is None and log in work.lowest:
            lowest = work.lowest[log]
            watermark = work.event_time.watermark(source, after=False)
            # Answers for the history of streams are older, and not late: they come when there is a query that asks.
            if watermark is not None and not gives_answers(source):
                lowest = max(lowest, watermark)
        if lowest is not None:
            work.emit_from[place.log] = lowest

    def _first_kept_clock(self, source: Source, start: QueryStart) -> Clock:
        """The smallest clock in the first cycle of the history that a query finds when it is created."""
        work = self.work
        log = log_of(source, Place(start.number))
        horizon = work.event_time.horizon(source, start)
        is_new = work.event_time.cycle == start.first
        if not (isinstance(source, Stream) and source.backfill and is_new and log in work.old and horizon is not None):
            return None
        if log not in work.first_kept:
            kept = f"SELECT min(struct({ARRIVAL}, {CLOCK}, {BEFORE})) AS first FROM {work.old[log]}"
            found = self.spark.sql(f"{kept} WHERE {CLOCK} > {horizon}L").selectExpr(
                f"greatest(first.{CLOCK}, first.{BEFORE})"
            )
            (work.first_kept[log],) = found.toArrow().column(0).to_pylist()
        return work.first_kept[log]

    def _keep_memory(self, piece: Piece) -> None:
        """Merge this cycle's rows into the groups of a running aggregate, or into what an operator remembers."""
        compiler, relation, place = self._compiler(piece), piece.relation, piece.place
        if isinstance(relation, Select) and running.is_kept_as_partials(relation):
            delta = compiler.delta(relation, place)
            if delta is not None:
                text = running.merged(relation, self.work.snapshots.get(place.log), delta)
                self.logs.write_snapshot(place.log, text, self.work)
                merged = self.logs.read_snapshot(self.work.written[place.log])
                self.work.new[running.log(place)] = self.logs.view(merged, self.work)
        if relation.retain is not None:
            remembered = compiler.remembered(relation, place)
            if remembered is not None:
                self.logs.write_snapshot(memory_of(place), remembered, self.work)

    def _compiler(self, piece: Piece) -> Compiler:
        known = {
            place.removesuffix(".memory"): view
            for place, view in self.work.snapshots.items()
            if place.endswith(".memory")
        }
        start = piece.registered.start
        return Compiler(self.work.event_time, self.work.views, start, self.work.emit_from, known)

    def _of_spark(self, pieces: Sequence[Piece]) -> dict[str, pa.Table]:
        """The answers of queries that Spark evaluates one by one, in one job."""
        packed: list[Packed] = []
        names: dict[str, tuple[str, ...]] = {}
        for piece in pieces:
            if not piece.names:
                continue
            logs = [LogId.answers(name) for name in piece.names if name in self.work.read_by_others] + [piece.log]
            written = next((self.work.new[log] for log in logs if log in self.work.new), None)
            if written is not None:
                text: str | None = f"SELECT {columns(piece.relation.fields)}{CLOCK} FROM {written}"
            elif len(logs) > 1 or piece.is_kept or piece.readers - {Evaluator.SPARK}:
                text = None
            else:
                text = self._compiler(piece).computed(piece.relation, piece.place)
            if text is not None:
                packed.append(Packed(piece.place.log, piece.relation.fields, text))
                names[piece.place.log] = piece.names
        if not packed:
            return {}
        found = unpacked(packed, self.spark.sql(pack(packed)).toArrow())
        return {name: self._shown(name, table) for place, table in found.items() for name in names[place]}


def emits_empty(relation: Relation) -> TypeGuard[Select]:
    """Whether a relation says EMIT EMPTY."""
    return isinstance(relation, Select) and relation.emit_empty
