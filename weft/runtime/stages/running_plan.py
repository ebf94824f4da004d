"""The shared plan as the runtime reads it: what each stage evaluates, who reads whose rows, and which rows are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from weft.algebra import Select, SetOperation, Source, Stream, Table
from weft.plan.event_time import Clock, EventTime, RunningQuery, first_open_start, is_windowed
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import Evaluator, RelationNode
from weft.plan.query_list import QueryList
from weft.plan.shared_plan import SharedPlan
from weft.runtime.stages.joins.join_groups import Use, needed_since, reach_of
from weft.runtime.stages.sql import running

#: For each input of a join, how much newer than its rows what they meet can be; None if there is no limit.
Reaches: TypeAlias = tuple[Mapping[Source, int | None], ...]


@dataclass(frozen=True)
class RunningPlan:
    """A plan that runs: the same object for as long as the plan is the same."""

    plan: SharedPlan
    _reaches: dict[str, Reaches] = field(default_factory=dict, compare=False, repr=False)

    @property
    def queries(self) -> Mapping[str, RunningQuery]:
        return self.plan.queries

    @property
    def relations(self) -> tuple[RelationNode, ...]:
        return self.plan.relations

    @cached_property
    def answered(self) -> Mapping[str, tuple[str, ...]]:
        """The queries that each relation answers, by the text of its id."""
        return {each.text: self.plan.queries_of(each.id) for each in self.relations}

    def owners(self, node: RelationNode) -> tuple[str, ...]:
        """The queries that a relation answers, or else those that need it."""
        return self.answered[node.text] or tuple(sorted(self.plan.users_of(node.id)))

    def outputs(self, node: RelationNode) -> tuple[LogId, ...]:
        """The logs that have a relation's rows: its own, and those of the queries that it answers."""
        return (node.log, *(LogId(LogKind.ANSWERS, name) for name in self.answered[node.text]))

    @cached_property
    def from_partials(self) -> frozenset[str]:
        """The queries that are answered from the partials of a stream."""
        return frozenset(
            name for each in self.plan.evaluated_by[Evaluator.WINDOWS] for name in self.answered[each.text]
        )

    @cached_property
    def from_rows(self) -> Mapping[str, RunningQuery]:
        """The other queries."""
        return {name: each for name, each in self.queries.items() if name not in self.from_partials}

    @cached_property
    def read_by_others(self) -> frozenset[str]:
        return self.plan.read_by_others

    @cached_property
    def kept_logs(self) -> Mapping[LogId, Source]:
        """The logs whose rows later cycles read again, with their sources."""
        return {log: source for each in self.relations for log, source in looked_at_again(each).items()}

    @cached_property
    def stages_reading(self) -> Mapping[LogId, frozenset[Evaluator]]:
        """The stages that read the rows of each log."""
        found: dict[LogId, set[Evaluator]] = {}
        for each in self.relations:
            for log in each.logs:
                found.setdefault(log, set()).add(each.evaluator)
        return {log: frozenset(stages) for log, stages in found.items()}

    def readers_of(self, node: RelationNode) -> frozenset[Evaluator]:
        return self.stages_reading.get(node.log, frozenset())

    def reaches(self, join: RelationNode) -> Reaches:
        """How much newer than a row of each input what it meets can be, by what that is read from."""
        if join.text not in self._reaches:
            assert isinstance(join.relation, Select)
            uses = (Use(join.relation, (number,), 0, join.bounds) for number in range(len(join.relation.inputs)))
            self._reaches[join.text] = tuple(reach_of([each]) for each in uses)
        return self._reaches[join.text]

    @cached_property
    def given(self) -> frozenset[LogId]:
        """The logs of relations that are evaluated for all queries together."""
        return frozenset(each.log for each in self.relations if each.evaluator is not Evaluator.SQL)


# -- kept rows --------------------------------------------------------------------------------------------------------


def looked_at_again(node: RelationNode) -> Mapping[LogId, Source]:
    """The inputs whose rows of earlier cycles a relation reads, or whose rows it finds in a log only."""
    relation = node.relation
    if node.evaluator in (Evaluator.WINDOWS, Evaluator.SETS) or not isinstance(relation, Select):
        return {}
    if relation.inputs[1:] and len(relation.flowing) == 1:
        # A row that is joined with tables only is joined in the cycle in which it arrives.
        return {log: source for log, source in node.sources if isinstance(source, (Table, Select, SetOperation))}
    is_kept = relation.inputs[1:] or is_windowed(relation) or running.is_recomputed(relation)
    return dict(node.sources) if is_kept else {}


def logged(queries: QueryList, planned: RunningPlan) -> dict[LogId, Source]:
    """The logs that relations read again, or that BACKFILL keeps for later ones, with the sources of their rows."""
    return {LogId(LogKind.STREAM, each.name): each for each in queries.streams if each.backfill} | dict(
        planned.kept_logs
    )


def needed_of_logs(streams: Sequence[Stream], planned: RunningPlan, event_time: EventTime) -> dict[LogId, Clock]:
    """The least clock of each log that relations need after a cycle, or BACKFILL keeps; None for every row.

    Windows over a stream are answered from partials, and need its rows only if it keeps them for queries to come: then
    those of open windows are among them, see `windows/backfill.py`.
    """
    since: dict[LogId, Clock] = {}

    def use(log: LogId, least: Clock) -> None:
        known = since.get(log, least)
        since[log] = None if least is None or known is None else min(known, least)

    histories = {LogId(LogKind.STREAM, each.name): each.backfill for each in streams if each.backfill}
    for each in planned.relations:
        if each.evaluator is not Evaluator.WINDOWS or each.logs[0] in histories:
            for log, least in _needs(planned, each, event_time):
                use(log, least)
    for log, backfill in histories.items():
        largest = event_time.after.get(log.of)
        use(log, None if largest is None else largest - backfill)
    return since


def _needs(planned: RunningPlan, node: RelationNode, event_time: EventTime) -> Iterator[tuple[LogId, Clock]]:
    """The least clock of each log that a relation still needs after a cycle; None if it needs every row."""
    relation = node.relation
    if not isinstance(relation, Select):
        return
    if relation.inputs[1:]:
        if len(relation.flowing) > 1:
            for (log, source), reach in zip(node.sources, planned.reaches(node), strict=True):
                if not isinstance(source, Table):
                    yield log, needed_since(reach, event_time)
    elif is_windowed(relation) and relation.window is not None:
        yield node.logs[0], first_open_start(relation.window, event_time.watermark(relation))
    elif running.is_recomputed(relation):
        yield node.logs[0], None
