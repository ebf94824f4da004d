"""The groups and open windows of aggregates over rows in the driver, from cycle to cycle.

What never closes is kept as groups, in segments of those that a cycle has changed. Windows that close are trees, which
are made again from the rows that are kept for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from weft.algebra import Select, Source, Stream
from weft.algebra.properties import leaves
from weft.plan.event_time import looks_back
from weft.plan.log_ids import LogId, LogKind
from weft.runtime.stages.cycle_state import CycleState
from weft.runtime.stages.groups.row_aggregates import DriverRows, RowAggregate, row_aggregate, row_partials
from weft.runtime.stages.operators import Operator, StageKind
from weft.runtime.stages.stage import Stage
from weft.runtime.stages.windows.partials import Partials
from weft.runtime.stages.windows.running_aggregates import RunningAggregates, order_of
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.window_answers import GroupSelection, answers, with_empty_instances
from weft.runtime.state.commits import Commit
from weft.runtime.state.continuity import CycleSpec
from weft.runtime.state.memory import MemoryAccount, MemoryUse
from weft.runtime.state.store import DriverHost, Order, StateStore

#: Reads the kept rows of a log, with the cycles that they arrived in; None if there are none.
KeptRows = Callable[[LogId], pa.Table | None]


@dataclass
class _Group:
    """The aggregates over the rows of one log."""

    source: Source
    operators: Mapping[str, Operator]
    queries: Mapping[str, RowAggregate]
    weave: StreamWeave

    def looks_back(self, cycle: int) -> bool:
        """Whether this is the first cycle of aggregates some of which answer for the history of streams.

        All over the rows of a log that looks back began together.
        """
        starts = [each.running.start for each in self.operators.values()]
        has_history = any(isinstance(leaf, Stream) and leaf.backfill for leaf in leaves(self.source))
        return has_history and looks_back(self.source) and any(cycle <= each.first and each.backlog for each in starts)

    def partials(self, table: pa.Table) -> Partials:
        return row_partials(DriverRows(self.source.fields, table), self.queries.values())


class GroupStage(Stage):
    """All aggregates over rows in the driver, as of the last commit."""

    kind = StageKind.GROUPS
    step = "keep"

    def __init__(self, store: StateStore, account: MemoryAccount) -> None:
        self._account = account
        self._running: DriverHost[RunningAggregates] = DriverHost(store)
        self._groups: dict[LogId, _Group] = {}
        #: The cycle that what is in memory is the state after; None while one is under way.
        self._cycle: int | None = None

    def prepare(self, spec: CycleSpec, operators: Sequence[Operator], last: Commit) -> None:
        """Take the aggregates of the cycle, and drop what is not the state of the last commit."""
        known = self._groups if self._cycle == last.cycle else {}
        by_log: dict[LogId, dict[str, Operator]] = {}
        for each in operators:
            by_log.setdefault(each.inputs[0], {})[each.id.text] = each
        self._groups = {log: _group(log, here, known.get(log)) for log, here in by_log.items()}
        running = {log: each for log, each in self._groups.items() if each.weave.running}
        self._running.begin(last.cycle, (_order(log, each, last) for log, each in running.items()))
        self._cycle = None

    def run(self, cycle: CycleState, operators: Sequence[Operator]) -> Mapping[str, pa.Table]:
        """The answers of some aggregates; all over the rows of one log are answered together."""
        for each in operators:
            cycle.note_first_rows(each)
        found: dict[str, pa.Table] = {}
        for log in dict.fromkeys(each.inputs[0] for each in operators):
            found |= self._answers(log, cycle)
        return found

    def _answers(self, log: LogId, cycle: CycleState) -> dict[str, pa.Table]:
        """The answers of the aggregates over a log, by id, each with its clock as the last column."""
        event_time, counted_from, rows = cycle.event_time, cycle.emit_from, cycle.rows_here(log)
        group, name = self._groups[log], LogId(LogKind.RUNNING, log)
        before, until = (event_time.watermark(group.source, after=after) for after in (False, True))
        if group.looks_back(event_time.cycle):
            # What had closed before comes now, from the history of streams, and nothing of it is late.
            before = None
        arrived = group.partials(rows) if rows is not None and rows.num_rows else None
        if arrived is not None:
            if name in self._running:
                self._account.grow(self._running[name].memory(arrived))
            self._account.grow(group.weave.fit(arrived, self._account.room(group.weave.memory_part)))
        group.weave.remember(_kept(group, log, cycle.kept_rows), before)
        parts: dict[str, GroupSelection] = {}
        if name in self._running:
            parts |= self._running.run(name, partial(RunningAggregates.take, arrived=arrived))
        closed = group.weave.advance(arrived, before, until)
        for id_, shape in group.weave.windowed.items():
            operator = group.operators[id_]
            after, _ = event_time.closing(operator.relation, operator.running.start)
            mine = [closed[id_].since(after)] if id_ in closed else []
            if id_ in counted_from and until is not None:
                mine = [with_empty_instances(shape, mine, counted_from[id_], after, until)]
            if mine:
                (parts[id_],) = mine
        found = {
            id_: answers(group.queries[id_].shape.select, group.queries[id_].shape.measures, part)
            for id_, part in parts.items()
            if len(part)
        }
        return {id_: table for id_, table in found.items() if table.num_rows}

    def memory(self) -> Iterator[MemoryUse]:
        """What open windows and groups take."""
        for group in self._groups.values():
            yield group.weave.memory()
        for name in self._running:
            yield self._running[name].memory()

    def finish(self, cycle: CycleState) -> None:
        """Hand over the groups that the cycle has changed."""
        for change in self._running.changes():
            cycle.change(change)

    def commit(self, cycle: int) -> None:
        """What is in memory is the state after a cycle."""
        self._cycle = cycle
        self._running.commit(cycle)


def _group(log: LogId, operators: Mapping[str, Operator], known: _Group | None) -> _Group:
    if known is not None and known.operators.keys() == operators.keys():
        return known
    shaped = {} if known is None else known.queries
    queries: dict[str, RowAggregate] = {}
    for id_, each in operators.items():
        assert isinstance(each.relation, Select)
        queries[id_] = shaped.get(id_) or row_aggregate(each.relation, log, each.running.start.first)
    ((_, source),) = next(iter(operators.values())).sources
    shapes = {id_: each.shape for id_, each in queries.items()}
    weave = StreamWeave(Stream(log, source.fields, "", 0, "rows"), shapes, known.weave if known else None)
    return _Group(source, operators, queries, weave)


def _order(log: LogId, group: _Group, last: Commit) -> Order[RunningAggregates]:
    running = {id_: (each, group.operators[id_].running.start.first) for id_, each in group.weave.running.items()}
    return order_of(group.weave.stream, log, running, last)


def _kept(group: _Group, log: LogId, kept: KeptRows) -> Iterator[Partials]:
    table = kept(log) if group.weave.windowed else None
    if table is not None and table.num_rows:
        yield group.partials(table)
