"""What the stages of aggregates have in common: open windows in a weave, and groups that never close."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from weft.plan.event_time import Clock
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import RelationNode, WindowTreeNode
from weft.plan.shared_plan import SharedPlan
from weft.runtime.stages.cycle_state import CycleState
from weft.runtime.stages.running_plan import RunningPlan
from weft.runtime.stages.stage import Stage
from weft.runtime.stages.windows.partials import Partials
from weft.runtime.stages.windows.running_aggregates import RunningAggregates
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.window_answers import GroupSelection, answers, with_empty_instances
from weft.runtime.state.commits import Commit
from weft.runtime.state.store import DriverHost, MemoryAccount, MemoryUse, StateStore


class AggregateStage(Stage):
    """A stage with a weave for each stream or log whose rows it aggregates."""

    def __init__(self, store: StateStore, account: MemoryAccount) -> None:
        self._account = account
        self._running: DriverHost[RunningAggregates] = DriverHost(store)
        #: The cycle that what is in memory is the state after; None while one is under way.
        self._cycle: int | None = None
        self._weaves: dict[str, StreamWeave] = {}
        self._planned = RunningPlan(SharedPlan())
        #: The aggregates of this cycle, by the text of their ids, and the trees of those that have windows.
        self._relations: dict[str, RelationNode] = {}
        self._trees: dict[str, WindowTreeNode] = {}

    def _take(self, planned: RunningPlan) -> None:
        """Take the nodes of a plan."""
        if planned is not self._planned:
            nodes = planned.plan.nodes
            self._planned = planned
            self._relations = {each.text: each for each in planned.plan.evaluated_by[self.kind]}
            below = {id_: nodes[each.inputs[0]] for id_, each in self._relations.items()}
            self._trees = {id_: each for id_, each in below.items() if isinstance(each, WindowTreeNode)}

    def _begin_running(self, last: Commit, weaves: Mapping[LogId, StreamWeave]) -> None:
        """Have the groups of the last commit over some logs."""
        nodes = {}
        for log, weave in weaves.items():
            if weave.running:
                running = {id_: (each, self._relations[id_].start.first) for id_, each in weave.running.items()}
                nodes[LogId(LogKind.RUNNING, log)] = partial(RunningAggregates, weave.stream, running)
        self._running.begin(last.cycle, last.logs, nodes)
        self._cycle = None

    def _make_room_for_groups(self, log: LogId, arrived: Partials) -> None:
        """Note what the groups over a log need that never close. Raises MemoryLimit if that is too much."""
        node = LogId(LogKind.RUNNING, log)
        if node in self._running:
            self._account.grow(self._of_queries(self._running[node].memory(arrived)))

    def _of_queries(self, use: MemoryUse) -> MemoryUse:
        """The same use by the names of queries, in the place of ids."""
        return replace(use, names=tuple(dict.fromkeys(name for id_ in use.names for name in self._queries_of(id_))))

    def _queries_of(self, id_: str) -> tuple[str, ...]:
        # Of aggregates that are gone, something may still be in memory.
        return self._planned.owners(self._relations[id_]) if id_ in self._relations else ()

    def _advanced(
        self,
        log: LogId,
        weave: StreamWeave,
        arrived: Partials | None,
        history: Iterable[Partials],
        bounds: tuple[Clock, Clock],
        after: Callable[[str], Clock],
        counted_from: Mapping[str, int],
        past: Mapping[str, Sequence[GroupSelection]] | None = None,
    ) -> dict[str, pa.Table]:
        """Take in the partials of a cycle: the answers by query, each with its clock as the last column.

        `bounds` are the watermarks before the cycle and after it. A query answers the instances that end `after` some
        instant, those among them that had closed in the `past`; with EMIT EMPTY, every one from some clock on.
        """
        node = LogId(LogKind.RUNNING, log)
        weave.remember(history, bounds[0])
        parts: dict[str, list[GroupSelection]] = {}
        if node in self._running:
            changed = self._running.run(node, partial(RunningAggregates.take, arrived=arrived))
            parts = {name: [part] for name, part in changed.items()}
        closed = weave.advance(arrived, *bounds)
        for name, shape in weave.windowed.items():
            mine = [*(past or {}).get(name, ()), *([closed[name]] if name in closed else [])]
            if mine or name in counted_from:
                since, until = after(name), bounds[1]
                parts[name] = [part.since(since) for part in mine]
                if name in counted_from and until is not None:
                    parts[name] = [with_empty_instances(shape, parts[name], counted_from[name], since, until)]
        found = {}
        for name, of_query in parts.items():
            shape, kind = weave.queries[name], weave.kinds[name]
            tables = [answers(shape.select, shape.measures, part, kind) for part in of_query if len(part)]
            if tables:
                found[name] = pa.concat_tables(tables)
        return found

    def memory(self) -> Iterator[MemoryUse]:
        """What open windows and groups take."""
        for weave in self._weaves.values():
            yield self._of_queries(weave.memory())
        for node in self._running:
            yield self._of_queries(self._running[node].memory())

    def finish(self, cycle: CycleState) -> None:
        """Hand over the groups that never close which the cycle has changed."""
        for change in self._running.changes():
            cycle.change(change)

    def commit(self, cycle: int) -> None:
        self._cycle = cycle
        self._running.commit(cycle)
