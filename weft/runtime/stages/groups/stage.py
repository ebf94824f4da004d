"""The groups and open windows of aggregates over rows in the driver, from cycle to cycle.

What never closes is kept as groups, in segments of those that a cycle has changed. Windows that close are trees, which
are made again from the rows that are kept for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from weft.algebra import Select, Source, Stream
from weft.algebra.properties import leaves
from weft.optimizer.aggregates.row_shapes import RowAggregate, row_aggregate
from weft.plan.event_time import Clock, looks_back
from weft.plan.log_ids import LogId
from weft.plan.nodes import Evaluator, RelationNode, WindowTreeNode
from weft.runtime.stages.cycle_state import CycleState
from weft.runtime.stages.groups.row_partials import DriverRows, row_partials
from weft.runtime.stages.running_plan import RunningPlan
from weft.runtime.stages.windows.aggregate_stage import AggregateStage
from weft.runtime.stages.windows.partials import Partials
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.state.commits import Commit
from weft.runtime.state.continuity import CycleSpec
from weft.runtime.state.store import MemoryAccount, StateStore


@dataclass
class _Group:
    """The aggregates over the rows of one log."""

    source: Source
    operators: Mapping[str, RelationNode]
    queries: Mapping[str, RowAggregate]
    weave: StreamWeave

    def looks_back(self, cycle: int) -> bool:
        """Whether this is the first cycle of aggregates some of which answer for the history of streams.

        All over the rows of a log that looks back began together.
        """
        starts = [each.start for each in self.operators.values()]
        has_history = any(isinstance(leaf, Stream) and leaf.backfill for leaf in leaves(self.source))
        return has_history and looks_back(self.source) and any(cycle <= each.first and each.backlog for each in starts)

    def partials(self, table: pa.Table) -> Partials:
        return row_partials(DriverRows(self.source.fields, table), self.queries.values())

    def history(self, log: LogId, cycle: CycleState) -> Iterator[Partials]:
        """The rows of earlier cycles, which are read only if a tree needs them."""
        table = cycle.kept_rows(log) if self.weave.windowed else None
        if table is not None and table.num_rows:
            yield self.partials(table)


class GroupStage(AggregateStage):
    """All aggregates over rows in the driver, as of the last commit."""

    kind = Evaluator.GROUPS
    step = "keep"

    def __init__(self, store: StateStore, account: MemoryAccount) -> None:
        super().__init__(store, account)
        self._groups: dict[LogId, _Group] = {}

    def prepare(self, spec: CycleSpec, planned: RunningPlan, last: Commit) -> None:
        """Take the aggregates of the cycle, and drop what is not the state of the last commit."""
        known = self._groups if self._cycle == last.cycle else {}
        self._take(planned)
        by_log: dict[LogId, dict[str, RelationNode]] = {}
        for each in self._relations.values():
            by_log.setdefault(each.logs[0], {})[each.text] = each
        self._groups = {log: _group(log, here, self._trees, known.get(log)) for log, here in by_log.items()}
        weaves = {log: each.weave for log, each in self._groups.items()}
        self._weaves = {str(log): weave for log, weave in weaves.items()}
        self._begin_running(last, weaves)

    def run(self, cycle: CycleState, relations: Sequence[RelationNode]) -> Mapping[str, pa.Table]:
        """The answers of some aggregates; all over the rows of one log are answered together."""
        for each in relations:
            cycle.note_first_rows(each)
        found: dict[str, pa.Table] = {}
        for log in dict.fromkeys(each.logs[0] for each in relations):
            found |= self._answers(log, cycle)
        return found

    def _answers(self, log: LogId, cycle: CycleState) -> dict[str, pa.Table]:
        """The answers of the aggregates over a log, by id, each with its clock as the last column."""
        event_time, rows, group = cycle.event_time, cycle.rows_here(log), self._groups[log]
        before, until = (event_time.watermark(group.source, after=after) for after in (False, True))
        if group.looks_back(event_time.cycle):
            # What had closed before comes now, from the history of streams, and nothing of it is late.
            before = None
        arrived = group.partials(rows) if rows is not None and rows.num_rows else None
        if arrived is not None:
            self._make_room_for_groups(log, arrived)
            self._account.grow(self._of_queries(group.weave.fit(arrived, self._account.room(group.weave.memory_part))))

        def after(id_: str) -> Clock:
            operator = group.operators[id_]
            return event_time.closing(operator.relation, operator.start)[0]

        history, bounds = group.history(log, cycle), (before, until)
        found = self._advanced(log, group.weave, arrived, history, bounds, after, cycle.emit_from)
        return {id_: table for id_, table in found.items() if table.num_rows}


def _group(
    log: LogId, operators: Mapping[str, RelationNode], trees: Mapping[str, WindowTreeNode], known: _Group | None
) -> _Group:
    mine = {id_: trees[id_] for id_ in operators if id_ in trees}
    if known is not None and known.operators.keys() == operators.keys() and known.weave.chosen == mine:
        return known
    shaped = {} if known is None else known.queries
    queries: dict[str, RowAggregate] = {}
    for id_, each in operators.items():
        assert isinstance(each.relation, Select)
        queries[id_] = shaped.get(id_) or row_aggregate(each.relation, log, each.start.first)
    ((_, source),) = next(iter(operators.values())).sources
    shapes = {id_: each.shape for id_, each in queries.items()}
    weave = StreamWeave(Stream(log, source.fields, "", 0, "rows"), shapes, mine, known.weave if known else None)
    return _Group(source, operators, queries, weave)
