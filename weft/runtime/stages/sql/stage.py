"""The stage of operators that Spark evaluates, each by a plan of its own.

What other operators read, or later cycles read again, is written to a log as soon as its inputs are there. The answers
of all other queries come out of one job, at the end of the cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from weft.algebra import Select
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import Evaluator, RelationNode
from weft.runtime.spark.rows import CLOCK, Packed, columns, pack, unpacked
from weft.runtime.spark.session import compile_plans
from weft.runtime.stages.cycle_state import WORTH_COMPILING, CycleState, RowLogs
from weft.runtime.stages.running_plan import RunningPlan
from weft.runtime.stages.sql import running
from weft.runtime.stages.sql.compile import Compiler
from weft.runtime.stages.stage import Stage
from weft.runtime.state.commits import Commit
from weft.runtime.state.continuity import CycleSpec


class SqlStage(Stage):
    """Compiles operators to Spark SQL; all state is in the logs and snapshots of the commit."""

    kind = Evaluator.SQL
    step = "keep"

    def __init__(self, logs: RowLogs) -> None:
        self._logs = logs
        self._relations: Sequence[RelationNode] = ()

    def prepare(self, spec: CycleSpec, planned: RunningPlan, last: Commit) -> None:
        self._relations = planned.plan.evaluated_by[self.kind]

    def run(self, cycle: CycleState, relations: Sequence[RelationNode]) -> Mapping[str, pa.Table]:
        """Write what relations remember, and the rows that others or later cycles read."""
        self._compile_plans(cycle)
        for each in relations:
            _write_groups(cycle, each)
            cycle.note_first_rows(each)
            names = cycle.planned.answered[each.text]
            read = {LogId(LogKind.ANSWERS, name) for name in names if name in cycle.planned.read_by_others}
            if _is_logged(cycle, each):
                read.add(each.log)
            text = _compiler(cycle, each).computed(each.relation, each.node_id) if read else None
            if text is not None:
                for log in sorted(read):
                    cycle.add_select(log, each.relation, text)
        return {}

    def _compile_plans(self, cycle: CycleState) -> None:
        """Have Spark compile plans if these operators read many rows."""
        read = {log for each in self._relations for log in each.logs}
        kept = sum(segment.rows for log in read for segment in cycle.last.logs.get(log, ()))
        new = sum(cycle.added[log].rows for log in read if log in cycle.arrivals.segments)
        compile_plans(self._logs.spark, kept + new > WORTH_COMPILING)

    def finish(self, cycle: CycleState) -> None:
        """Answer all queries in one job."""
        packed: list[Packed] = []
        names: dict[str, tuple[str, ...]] = {}
        for each in self._relations:
            answered = cycle.planned.answered[each.text]
            text = _answers(cycle, each) if answered else None
            if text is not None:
                packed.append(Packed(each.text, each.relation.fields, text))
                names[each.text] = answered
        if packed:
            self._compile_plans(cycle)
            found = unpacked(packed, self._logs.spark.sql(pack(packed)).toArrow())
            for id_, table in found.items():
                cycle.give_answers(names[id_], table)

    def commit(self, cycle: int) -> None:
        """Nothing is in memory."""


def _compiler(cycle: CycleState, operator: RelationNode) -> Compiler:
    return Compiler(cycle.event_time, cycle.views, operator.start, cycle.emit_from)


def _write_groups(cycle: CycleState, operator: RelationNode) -> None:
    """Merge new rows into the groups of a running aggregate."""
    relation, id_ = operator.relation, operator.node_id
    if isinstance(relation, Select) and running.keeps_partials(relation):
        new = _compiler(cycle, operator).new_partials(relation, id_)
        if new is not None:
            text = running.merged(relation, cycle.snapshots.get(id_.text), new)
            cycle.write_snapshot(id_.text, running.log(id_.text), text)


def _is_logged(cycle: CycleState, operator: RelationNode) -> bool:
    """Whether later cycles or other stages read the rows of an operator."""
    planned = cycle.planned
    return operator.log in planned.kept_logs or bool(planned.readers_of(operator) - {Evaluator.SQL})


def _answers(cycle: CycleState, operator: RelationNode) -> str | None:
    """The answers of an operator as a select: from its log if it has been written, or computed."""
    names = cycle.planned.answered[operator.text]
    logs = [LogId(LogKind.ANSWERS, name) for name in names if name in cycle.planned.read_by_others] + [operator.log]
    new = cycle.views.new
    written = next((new[log] for log in logs if log in new), None)
    if written is not None:
        return f"SELECT {columns(operator.relation.fields)}{CLOCK} FROM {written}"
    if len(logs) > 1 or _is_logged(cycle, operator):
        return None
    return _compiler(cycle, operator).computed(operator.relation, operator.node_id)
