"""The stage of DISTINCT and the set operators: what each of them remembers, and its log.

A log has what each cycle added to it; when it has too many segments, one takes their place that has all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from weft.algebra import Relation, Select
from weft.optimizer.rules.keep_sets import picks_columns
from weft.plan.event_time import Clock, EventTime, passes_rows
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import Evaluator, RelationNode
from weft.plan.shared_plan import SharedPlan
from weft.runtime.sinks.sinks import parquet_file
from weft.runtime.stages.cycle_state import CycleState
from weft.runtime.stages.running_plan import RunningPlan
from weft.runtime.stages.sets.set_operators import HistoryOperator, InstanceOperator
from weft.runtime.stages.sets.set_rows import (
    by_position,
    clocks_of,
    needed_since,
    picked,
    shown,
    union_all,
)
from weft.runtime.stages.stage import Stage
from weft.runtime.state.commits import Commit
from weft.runtime.state.continuity import CycleSpec
from weft.runtime.state.store import Block, DriverHost, MemoryAccount, MemoryUse, StateStore


def _passes_through(relation: Relation) -> bool:
    """Whether it remembers nothing: UNION ALL without windows, or some columns of an operator."""
    return picks_columns(relation) if isinstance(relation, Select) else passes_rows(relation)


class SetStage(Stage):
    """What operators remember, as of the last commit."""

    kind = Evaluator.SETS
    step = "keep"

    def __init__(self, store: StateStore, account: MemoryAccount) -> None:
        self._account = account
        self._planned = RunningPlan(SharedPlan())
        self._operators: dict[LogId, RelationNode] = {}
        self._host: DriverHost[OperatorValues] = DriverHost(store)

    def prepare(self, spec: CycleSpec, planned: RunningPlan, last: Commit) -> None:
        """Take the operators of the cycle; what is not in memory comes from its log."""
        self._planned = planned
        remembering = (each for each in planned.plan.evaluated_by[self.kind] if not _passes_through(each.relation))
        self._operators = {LogId(LogKind.VALUES, each.text): each for each in remembering}
        nodes = {log: partial(OperatorValues.of, each.relation) for log, each in self._operators.items()}
        self._host.begin(last.cycle, last.logs, nodes)

    def run(self, cycle: CycleState, relations: Sequence[RelationNode]) -> Mapping[str, pa.Table]:
        """What operators emit for the new rows of their inputs."""
        found = {}
        for each in relations:
            rows = [None if table is None else by_position(table) for table in map(cycle.rows_here, each.logs)]
            emitted = self._taken(each, rows, cycle.event_time)
            if emitted is not None:
                found[each.text] = shown(emitted, each.relation.fields)
        return found

    def _taken(self, operator: RelationNode, rows: Sequence[pa.Table | None], event_time: EventTime) -> pa.Table | None:
        relation = operator.relation
        if _passes_through(relation):
            return picked(relation, rows) if isinstance(relation, Select) else union_all(relation, rows)
        if relation.window is None:
            bounds = tuple(event_time.watermark(relation, after=when) for when in (False, True))
        else:
            bounds = event_time.closing(relation, operator.start)
        return self._host.run(LogId(LogKind.VALUES, operator.text), lambda values: values.operator.take(rows, *bounds))

    def memory(self) -> Iterator[MemoryUse]:
        """What operators remember."""
        held = {log: each.operator.bytes_held for log, each in self._host.items()}
        if held:
            largest = max(held, key=lambda log: held[log])
            names = self._planned.owners(self._operators[largest])
            part = "the values that DISTINCT and set operators remember"
            yield MemoryUse(part, sum(held.values()), held[largest], names, "or RETAIN less")

    def finish(self, cycle: CycleState) -> None:
        """Hand over what operators have come to remember. Raises MemoryLimit if that is too much."""
        for use in self.memory():
            self._account.grow(use)

        def since(log: LogId) -> Clock:
            relation = self._operators[log].relation
            return needed_since(relation, cycle.event_time.watermark(relation))

        for change in self._host.changes(since):
            cycle.change(change)

    def commit(self, cycle: int) -> None:
        """What is in memory is the state after a cycle."""
        self._host.commit(cycle)


@dataclass
class OperatorValues:
    """What an operator remembers, as keyed state: segments are Parquet."""

    operator: HistoryOperator | InstanceOperator

    @classmethod
    def of(cls, relation: Relation, known: OperatorValues | None) -> OperatorValues:
        if known is not None:
            return known
        if isinstance(relation, Select) or relation.window is None:
            return cls(HistoryOperator(relation))
        return cls(InstanceOperator(relation))

    def restore(self, blocks: Iterable[bytes]) -> None:
        self.operator.remember(pq.ParquetFile(pa.BufferReader(each)).read() for each in blocks)

    def changed(self) -> Block | None:
        return _block(self.operator.changed())

    def whole(self) -> Block | None:
        return _block(self.operator.whole())


def _block(rows: pa.Table) -> Block | None:
    """Rows with their sides, as a segment has them."""
    if not rows.num_rows:
        return None
    clocks = clocks_of(rows)
    return Block(parquet_file(rows), rows.num_rows, int(clocks.min()), int(clocks.max()))
