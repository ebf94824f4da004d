"""The stage of DISTINCT and the set operators: what each of them remembers, and its log.

A log has what each cycle added to it; when it has too many files, one takes their place that has all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from weft.algebra import Relation, Select, SetOperator
from weft.plan.event_time import EventTime
from weft.plan.log_ids import LogId
from weft.runtime.failures.errors import MemoryLimit, megabytes
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
from weft.runtime.state.storage import Storage


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
    storage: Storage
    #: The memory that they may take together.
    limit: int
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
        files = (pa.BufferReader(self.storage.read_bytes(each.path)) for each in segments)
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

    def finish(self, cycle: CycleState) -> None:
        """Write what the cycle has added to the logs, or all that a log needs once it has too many files."""
        self._check_memory()
        for number, (id_, memory) in enumerate(self._memory.items()):
            operator = self._operators[id_]
            log = LogId.values(operator.id.text)
            since = needed_since(operator.relation, cycle.event_time.watermark(operator.relation))
            segments = [
                each
                for each in cycle.last.logs.get(log, ())
                if since is None or each.max_clock is None or each.max_clock >= since
            ]
            added = memory.changed() if id_ in self._took else None
            if added is not None and added.num_rows:
                if len(segments) >= cycle.most_segments:
                    segments, added = [], memory.whole()
                if added.num_rows:
                    segments.append(self._written(added, f"{cycle.folder}/values-{number}.parquet"))
            cycle.keep(log, segments)

    def _check_memory(self) -> None:
        """Refuse to go on with more than there is room for."""
        held = {id_: each.bytes_held for id_, each in self._memory.items()}
        if sum(held.values()) > self.limit:
            dearest = max(held, key=lambda id_: held[id_])
            name = self._operators[dearest].running.query.name
            raise MemoryLimit(
                f"DISTINCT and set operators remember about {megabytes(sum(held.values()))} MB of values, and "
                f"max_state_mb allows {megabytes(self.limit)}; most of them are those of '{name}': SET max_state_mb "
                "higher, or RETAIN less",
                (dearest,),
            )

    def _written(self, rows: pa.Table, path: str) -> Segment:
        self.storage.write_bytes(path, parquet_file(rows))
        clocks = clocks_of(rows)
        return Segment(path, rows.num_rows, int(clocks.min()), int(clocks.max()))

    def commit(self, cycle: int) -> None:
        """What is in memory is the state after a cycle."""
        self._cycle = cycle
