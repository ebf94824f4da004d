"""What the network keeps from cycle to cycle.

    the rows of streams     in their logs, as for everybody, and those of tables
    the rows of joins       that joins above look for: one log for each group, whose rows are labelled with their nodes
    held rows               copies of both in the driver (`lookups.py`)

A node that is new begins with nothing, which is right for a query that is new. If an older query has come to read it,
because the network was drawn up in another way, or because what was joined with a table went when the table changed,
the pairs of rows that arrived before are put together then. So they are if the node was there all the time, for others:
what is kept of its rows is what its readers need, of columns and of time. Labels of nodes that were there before, and
were gone for a while, are not used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.plan.event_time import Clock, EventTime
from weft.plan.log_ids import LogId
from weft.predicates.row_matching import RowMatches
from weft.runtime.columnar.spark_expressions import spark_type
from weft.runtime.sinks.sinks import parquet_file
from weft.runtime.stages.joins.join_groups import needed_since
from weft.runtime.stages.joins.lookups import JoinIndex, NewRows, clocks_of, pairs_of
from weft.runtime.stages.joins.prepared import NODES, PreparedGroup
from weft.runtime.stages.joins.spark_jobs import SparkJobs, all_rows, met_before, rows_of_log, side_columns
from weft.runtime.stages.sql.compile import Views
from weft.runtime.state.commits import Commit, FamilyState, Segment
from weft.runtime.state.storage import Storage

#: Above this many kept rows it pays to compile plans, which are the same in every cycle.
_WORTH_COMPILING = 100_000


@dataclass
class JoinState:
    """What is kept of groups before a cycle, and after it."""

    jobs: SparkJobs
    storage: Storage
    last: Commit
    cycle: int
    folder: str
    #: What the driver holds of rows from before this cycle, by group, as of the last commit.
    held: dict[LogId, JoinIndex]
    #: Where Spark finds the rows of logs.
    views: Views = field(default_factory=lambda: Views({}, {}))
    #: How the rows of groups are labelled, by group.
    states: dict[LogId, FamilyState] = field(default_factory=dict)
    #: Pairs of this cycle, and pairs of earlier rows that had to be put together now, by group.
    _added: dict[LogId, list[Segment]] = field(default_factory=dict)
    _made_up: dict[LogId, list[Segment]] = field(default_factory=dict)
    #: What was read in this cycle of rows that the driver should hold.
    _read_again: dict[LogId, JoinIndex] = field(default_factory=dict)
    #: For each group the least clock that is needed after this cycle.
    _since: dict[LogId, Clock] = field(default_factory=dict)

    # -- rows from before this cycle ----------------------------------------------------------------------------------

    def before(self, prepared: PreparedGroup) -> str | None:
        """The rows of a group from before this cycle, as a select; None if there are none."""
        name = prepared.group.name
        if not prepared.sides:
            return rows_of_log(prepared, self.views.old[name]) if name in self.views.old else None
        segments = self._segments(name)
        if not segments:
            return None
        listed = ", ".join(name for name, _ in prepared.stored)
        return f"SELECT {listed} FROM {self.jobs.registered(self.read(prepared, segments))}"

    def _segments(self, name: LogId) -> list[Segment]:
        return [*self.last.logs.get(name, ()), *self._made_up.get(name, ())]

    def is_worth_compiling(self, groups: Iterable[PreparedGroup]) -> bool:
        """Whether enough rows of some groups are kept for compiling the plans that read them."""
        logs = {each.group.name for each in groups}
        return sum(segment.rows for log in logs for segment in self._segments(log)) > _WORTH_COMPILING

    def read(self, prepared: PreparedGroup, segments: Iterable[Segment]) -> DataFrame:
        """Kept rows of a joined group. Columns that were not needed when a row was kept are NULL."""
        schema = ", ".join(f"{name} {spark_type(type_)}" for name, type_ in prepared.stored)
        return self.jobs.spark.read.schema(schema).parquet(*(self.storage.path(each.path) for each in segments))

    def held_rows(self, prepared: PreparedGroup) -> JoinIndex | None:
        """What the driver holds of a group, read again if it does not hold all that is needed; None for nothing."""
        name, needed = prepared.group.name, _needed(prepared)
        for known in (self._read_again, self.held):
            if name in known and known[name].covers(needed, self.cycle):
                return known[name]
        rows = self.before(prepared)
        if rows is None or JoinIndex({}).covers(needed, self.cycle):
            return None
        self._read_again[name] = held = JoinIndex(needed)
        compiled = self.is_worth_compiling([prepared])
        table = self.jobs.collected([all_rows(prepared, rows)], compiled=compiled).get(name)
        if table is not None:
            table = self.jobs.with_computed({prepared: table})[prepared]
            if not prepared.sides:
                table = table.filter(pa.array(prepared.evaluator.of(table).in_any(needed)))
            held.add(table, clocks_of(table, len(prepared.group.legs)))
        return held

    # -- labels -------------------------------------------------------------------------------------------------------

    def labels(self, prepared: PreparedGroup) -> dict[int, str]:
        """The labels of the nodes of a joined group that joins above read."""
        return self.states[prepared.group.name].labels_by_node if prepared.sides and prepared.group.feeding else {}

    def membership(self, prepared: PreparedGroup, table: pa.Table) -> RowMatches:
        """Which rows of a join are in which nodes, their parents being labelled."""
        parents: dict[int, str] = {}
        for side in prepared.sides:
            parents |= self.labels(side)
        return prepared.evaluator.of(table, parents)

    def label(self, prepared: PreparedGroup) -> None:
        """Settle how the nodes of a group are labelled in its log, and make up for rows that are not in it."""
        if not prepared.group.feeding:
            return
        name = prepared.group.name
        state = self.last.network.get(name, FamilyState(prepared.group.legs, {}))
        labels: dict[str, tuple[int, int]] = {}
        missing: dict[int, str] = {}
        needed = _needed(prepared)
        for node in prepared.group.feeding:
            if node not in needed:
                # Joins of this cycle read its rows; no later ones do, and they are not kept.
                labels[str(node)] = (self.cycle, self.cycle + 1)
                continue
            first = needed[node]
            known = state.labels.get(str(node))
            if known is not None and known[1] <= first and self._is_kept_for_all(prepared, node, state):
                labels[str(node)] = known
                continue
            labels[str(node)] = (self.cycle, min(first, self.cycle))
            if first < self.cycle:
                missing[node] = f"{node}.{self.cycle}"
        readers = {str(node): tuple(prepared.readers[node]) for node in prepared.group.feeding}
        self.states[name] = FamilyState(prepared.group.legs, labels, readers)
        if missing:
            # What the driver holds has the labels of before.
            self.held.pop(name, None)
            self._make_up(prepared, missing)

    def _is_kept_for_all(self, prepared: PreparedGroup, node: int, state: FamilyState) -> bool:
        """Whether the rows of a node have been kept for all selects that need some from before this cycle."""
        kept_for = frozenset(state.readers.get(str(node), ()))
        return all(place in kept_for for place, first in prepared.readers[node].items() if first < self.cycle)

    def _make_up(self, prepared: PreparedGroup, missing: Mapping[int, str]) -> None:
        """Put together the pairs of kept rows that are in some nodes."""
        left, right = (self.before(side) for side in prepared.sides)
        if left is None or right is None:
            return
        compiled = self.is_worth_compiling(prepared.sides)
        found = self.jobs.collected([met_before(prepared, left, right)], compiled=compiled)
        if not found:
            return
        (table,) = found.values()
        sides = [
            pa.table({name: table[f"{alias}_{name}"] for name, _ in side_columns(prepared, side)})
            for side, alias in enumerate("lr")
        ]
        table = self.jobs.with_computed({prepared: pairs_of(prepared, *sides)})[prepared]
        self._write(prepared, table, self.membership(prepared, table), missing, self._made_up)

    # -- rows of this cycle -------------------------------------------------------------------------------------------

    def keep(self, prepared: PreparedGroup, table: pa.Table, membership: RowMatches) -> pa.Table:
        """Keep the new rows of a joined group that joins above will look for; all rows, labelled."""
        return self._write(prepared, table, membership, self.labels(prepared), self._added)

    def _write(
        self,
        prepared: PreparedGroup,
        table: pa.Table,
        membership: RowMatches,
        labels: Mapping[int, str],
        segments: dict[LogId, list[Segment]],
    ) -> pa.Table:
        labelled = table.append_column(NODES, membership.labels(labels))
        rows = labelled.filter(pa.array(membership.in_any(labels.keys() & _needed(prepared).keys())))
        if rows.num_rows:
            files = sum(map(len, (*self._added.values(), *self._made_up.values())))
            path = f"{self.folder}/network-{files}.parquet"
            self.storage.write_bytes(path, parquet_file(rows.select([name for name, _ in prepared.stored])))
            clocks = clocks_of(rows, len(prepared.group.legs))
            segment = Segment(path, rows.num_rows, int(clocks.min()), int(clocks.max()))
            segments.setdefault(prepared.group.name, []).append(segment)
        return labelled

    def live(
        self, groups: Sequence[PreparedGroup], event_time: EventTime
    ) -> Iterator[tuple[PreparedGroup, list[Segment]]]:
        """The segments of each group that later cycles may need."""
        self._since = {each.group.name: needed_since(each.reach, event_time) for each in groups}
        for each in groups:
            if each.group.feeding and each.sides:
                since = self.needed_since(each)
                segments = [*self._segments(each.group.name), *self._added.get(each.group.name, ())]
                yield each, [s for s in segments if since is None or s.max_clock is None or s.max_clock >= since]

    def needed_since(self, prepared: PreparedGroup) -> Clock:
        """The least clock of rows of a group that later cycles may need; None for all."""
        return self._since[prepared.group.name]

    def hold(self, groups: Sequence[PreparedGroup], fresh: Mapping[LogId, NewRows]) -> None:
        """Hold the rows of this cycle as well, now that it is committed."""
        held = {**self.held, **self._read_again}
        self.held.clear()
        for each in groups:
            name = each.group.name
            if _needed(each) and not each.on_executors:
                kept = self._with_new(each, held.get(name, JoinIndex({})), fresh.get(name))
                if kept is not None:
                    self.held[name] = kept

    def _with_new(self, prepared: PreparedGroup, held: JoinIndex, fresh: NewRows | None) -> JoinIndex | None:
        """What is held of a group, with the rows of this cycle; None if that is not all that is needed."""
        needed, name = _needed(prepared), prepared.group.name
        if self._segments(name) and not held.covers(needed, self.cycle):
            # It will be read when a kept row is looked for.
            return None
        held.since = {node: min(first, self.cycle) for node, first in needed.items()}
        if fresh is not None:
            rows = fresh.table.filter(pa.array(fresh.membership.in_any(needed)))
            held.add(rows, clocks_of(rows, len(prepared.group.legs)))
        held.expire(self._since.get(name))
        return held


def _needed(prepared: PreparedGroup) -> dict[int, int]:
    """For each node whose rows joins above look for in later cycles, the first cycle whose rows are seen."""
    return {node: first for node, first in prepared.awaited_from.items() if node in prepared.group.feeding}
