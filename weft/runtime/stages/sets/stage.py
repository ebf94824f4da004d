"""The stage of DISTINCT and the set operators: what each of them remembers, and its log.

A log has what each cycle added to it; when it has too many segments, one takes their place that has all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from weft.algebra import Relation, Select, SetOperator
from weft.plan.event_time import EventTime
from weft.plan.log_ids import LogId
from weft.runtime.sinks.sinks import parquet_file
from weft.runtime.stages.cycle_state import CycleState
from weft.runtime.stages.operators import Operator, StageKind
from weft.runtime.stages.sets.history_operator import HistoryOperator
from weft.runtime.stages.sets.instance_operator import InstanceOperator
from weft.runtime.stages.sets.set_rows import (
    by_position,
    clocks_of,
    needed_since,
    picked,
    picks_columns,
    shown,
    union_all,
)
from weft.runtime.stages.stage import Scan
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.cycle_spec import CycleSpec
from weft.runtime.state.memory import MemoryAccount, MemoryUse
from weft.runtime.state.store import Block, Change, StateStore


def _passes_through(relation: Relation) -> bool:
    """Whether it remembers nothing: UNION ALL without windows, or some columns of an operator."""
    if isinstance(relation, Select):
        return picks_columns(relation)
    if relation.window is not None:
        return False
    return relation.operator is SetOperator.UNION and relation.all


@dataclass
class SetStage:
    """What operators remember, as of the last commit."""

    kind: ClassVar = StageKind.SETS
    step: ClassVar = "keep"
    store: StateStore
    account: MemoryAccount
    _operators: dict[str, Operator] = field(default_factory=dict)
    _memory: dict[str, HistoryOperator | InstanceOperator] = field(default_factory=dict)
    _took: set[str] = field(default_factory=set)
    #: The cycle that what is in memory is the state after; None while one is under way.
    _cycle: int | None = None

    def prepare(self, spec: CycleSpec, operators: Sequence[Operator], last: Commit) -> None:
        """Take the operators of the cycle; what is not in memory comes from its log."""
        known = self._memory if self._cycle == last.cycle else {}
        self._operators = {each.id.text: each for each in operators if not _passes_through(each.relation)}
        self._memory = {id_: known.get(id_) or self._from_log(each, last) for id_, each in self._operators.items()}
        self._took, self._cycle = set(), None

    def _from_log(self, operator: Operator, last: Commit) -> HistoryOperator | InstanceOperator:
        relation = operator.relation
        memory = (
            HistoryOperator(relation)
            if isinstance(relation, Select) or relation.window is None
            else InstanceOperator(relation)
        )
        segments = last.logs.get(LogId.values(operator.id.text), ())
        files = (pa.BufferReader(self.store.read(each)) for each in segments)
        memory.remember(pq.ParquetFile(each).read() for each in files)
        return memory

    def takes(self, log: LogId) -> bool:
        """Rows are read from their logs."""
        return False

    def take(self, scan: Scan) -> None:
        """Take nothing."""

    def run(self, cycle: CycleState, operators: Sequence[Operator]) -> Mapping[str, pa.Table]:
        """What operators emit for the new rows of their inputs."""
        found = {}
        for each in operators:
            rows = [None if table is None else by_position(table) for table in map(cycle.rows_here, each.inputs)]
            emitted = self._taken(each, rows, cycle.event_time)
            if emitted is not None:
                found[each.id.text] = shown(emitted, each.relation.fields)
        return found

    def _taken(self, operator: Operator, rows: Sequence[pa.Table | None], event_time: EventTime) -> pa.Table | None:
        relation = operator.relation
        if _passes_through(relation):
            return picked(relation, rows) if isinstance(relation, Select) else union_all(relation, rows)
        memory = self._memory[operator.id.text]
        self._took.add(operator.id.text)
        if isinstance(memory, InstanceOperator):
            return memory.take(rows, *event_time.closing(relation, operator.running.start))
        before, after = (event_time.watermark(relation, after=when) for when in (False, True))
        return memory.take(rows, before, after)

    def memory(self) -> Iterator[MemoryUse]:
        """What operators remember."""
        held = {id_: each.bytes_held for id_, each in self._memory.items()}
        if held:
            largest = max(held, key=lambda id_: held[id_])
            name = self._operators[largest].running.query.name
            part = "the values that DISTINCT and set operators remember"
            yield MemoryUse(part, sum(held.values()), held[largest], (name,), "or RETAIN less")

    def finish(self, cycle: CycleState) -> None:
        """Hand over what operators have come to remember. Raises MemoryLimit if that is too much."""
        for use in self.memory():
            self.account.grow(use)
        for id_, memory in self._memory.items():
            relation, log = self._operators[id_].relation, LogId.values(id_)
            added = _block(memory.changed()) if id_ in self._took else None
            since = needed_since(relation, cycle.event_time.watermark(relation))
            cycle.change(Change(log, cycle.last.logs.get(log, ()), added, partial(_whole, memory), since))

    def commit(self, cycle: int) -> None:
        """What is in memory is the state after a cycle."""
        self._cycle = cycle


def _whole(memory: HistoryOperator | InstanceOperator, segments: Sequence[Segment]) -> list[Block | None]:
    """All that an operator remembers, in the place of its segments."""
    return [_block(memory.whole())]


def _block(rows: pa.Table) -> Block | None:
    """Rows with their sides, as a segment has them."""
    if not rows.num_rows:
        return None
    clocks = clocks_of(rows)
    return Block(parquet_file(rows), rows.num_rows, int(clocks.min()), int(clocks.max()))
