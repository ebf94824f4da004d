"""The stage of selections and joins: the network of all queries, evaluated together in every cycle.

It keeps what was prepared for the plan's network, and the rows that the driver has of its joins, between cycles.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from weft.optimizer.network.redeciding import ForcedChoices, Patience, Redecided
from weft.optimizer.network.sizes import MeasuredSizes
from weft.optimizer.rules.facts import RevisedJoins
from weft.plan.event_time import Clock
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import Evaluator, RelationNode
from weft.plan.shared_plan import SharedPlan
from weft.runtime.stages.cycle_state import CycleState, RowLogs
from weft.runtime.stages.joins.join_groups import JoinGroup, join_groups_of
from weft.runtime.stages.joins.join_statistics import JoinStatistics
from weft.runtime.stages.joins.lookups import JoinIndex
from weft.runtime.stages.joins.network_pass import NetworkPass
from weft.runtime.stages.joins.network_records import Numbers, recorded
from weft.runtime.stages.joins.prepared import prepare
from weft.runtime.stages.joins.row_checks import clock_of_rows
from weft.runtime.stages.joins.spark_jobs import SparkJobs, straight_rows
from weft.runtime.stages.running_plan import RunningPlan
from weft.runtime.stages.stage import Scan, Stage
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.continuity import CycleSpec, Folders
from weft.runtime.state.store import MemoryAccount, MemoryUse, are_many
from weft.sql.settings import Settings

#: How many partials take as much room in the driver as a row.
_PARTIALS_IN_A_ROW = 4

#: How a limit of memory names them.
JOIN_ROWS = "the rows that joins look for"

_log = logging.getLogger("weft")


class JoinStage(Stage):
    """What was prepared for the network of a plan, the rows that the driver holds, and the pass of a cycle."""

    kind = Evaluator.JOINS
    step = "network"

    def __init__(
        self,
        settings: Settings,
        observed: MeasuredSizes | None = None,
        patience: Patience | None = None,
        forced: ForcedChoices | None = None,
        folders: Folders | None = None,
    ) -> None:
        """`observed` is what is known from before; tests have selects chosen again by `forced`."""
        self._folders = folders or Folders()
        self.settings = settings
        self.revised = RevisedJoins(patience or Patience(), forced)
        self.observing = JoinStatistics(observed or MeasuredSizes())
        self._planned = RunningPlan(SharedPlan())
        #: How many rows the driver keeps; fewer once they took more memory than there was.
        self._most_rows = settings.max_driver_partials // _PARTIALS_IN_A_ROW
        #: What the driver holds, and the cycle after which it is right.
        self._held: dict[LogId, JoinIndex] = {}
        self._cycle: int | None = None
        self._tables: dict[LogId, tuple[Segment, ...]] = {}
        self._pass: NetworkPass
        self._logs: RowLogs
        self._account: MemoryAccount
        self._relations: dict[str, RelationNode] = {}
        self._prepared: tuple[JoinGroup, ...] = ()

    def attach(self, logs: RowLogs, account: MemoryAccount) -> None:
        """Run in cycles that have these logs and this account."""
        self._logs, self._account = logs, account

    def prepare(self, spec: CycleSpec, planned: RunningPlan, last: Commit) -> None:
        """Make the network of the plan ready to run, and drop what is not the state of the last commit."""
        cycle, logs = spec.cycle, self._logs
        tables = {log: kept for log, kept in last.logs.items() if log.is_table}
        if self._cycle != last.cycle or self._tables != tables:
            self._held = {}
        self._tables = tables
        jobs = SparkJobs(logs.spark)
        groups = self._groups(planned)
        folder, sampling = self._folders.of(cycle), self.observing.sampling()
        self._pass = NetworkPass(groups, jobs, logs.storage, last, cycle, folder, self._held, sampling)

    def recorded(self, cycle: int) -> Numbers:
        """What a cycle that has been committed records of the network."""
        return recorded(cycle, self.observing.observed, self.observing.pairs, self.redecided)

    @property
    def redecided(self) -> list[Redecided]:
        """The decisions before the cycle that was begun last."""
        return [each for each in self._planned.plan.events if isinstance(each, Redecided)]

    def memory(self) -> Iterator[MemoryUse]:
        """What the rows take that are held in the driver, with what they are sorted by."""
        away = self._planned.plan.joins_on_executors
        held = {} if away else {name: each.bytes_held for name, each in self._held.items()}
        largest = max(held, key=lambda name: held[name], default=None)
        found = (of for each in self._prepared if each.name == largest for of in each.readers.values())
        readers = sorted({id_ for of in found for id_ in of})
        nodes = (self._relations[id_] for id_ in readers if id_ in self._relations)
        names = dict.fromkeys(name for each in nodes for name in self._planned.owners(each))
        size = 0 if largest is None else held[largest]
        yield MemoryUse(JOIN_ROWS, sum(held.values()), size, tuple(names), "or SET kernels = auto")

    def kept_rows(self, plan: SharedPlan, last: Commit) -> tuple[int, int]:
        """How many rows are kept for the joins of a plan, and how many of them the driver has room for."""
        joins = (each for each in plan.evaluated_by[self.kind] if len(each.logs) > 1)
        logs = {log for each in joins for log in each.logs} | last.network.keys()
        rows = sum(segment.rows for log in logs for segment in last.logs.get(log, ()))
        if sum(each.bytes_held for each in self._held.values()) > self._account.room(JOIN_ROWS):
            self._most_rows = min(self._most_rows, rows - 1)
        return rows, self._most_rows

    def _groups(self, planned: RunningPlan) -> tuple[JoinGroup, ...]:
        if planned is self._planned:
            return self._prepared
        before, self._planned = self._planned, planned
        plan = planned.plan
        self._relations = {each.text: each for each in plan.evaluated_by[self.kind]}
        network = plan.network
        if network == before.plan.network and plan.joins_on_executors == before.plan.joins_on_executors:
            return self._prepared
        groups = join_groups_of(network)
        self.observing.name_nodes(network, groups)
        self._prepared = prepare(groups, self._relations, on_executors=plan.joins_on_executors)
        if self.redecided:
            self._let_go_of_rows_without_columns()
        return self._prepared

    def _let_go_of_rows_without_columns(self) -> None:
        """What the driver holds without columns that are asked for now is read again from the logs.

        If it was a new query that asks, it would not need them of these rows. After a decision one cannot tell.
        """
        for each in self._prepared:
            names = {*(name for name, _ in each.stored), *(name for name, _ in each.columns.computed.values())}
            held = self._held.get(each.name)
            if held is not None and not held.has(names):
                del self._held[each.name]

    # -- a cycle ------------------------------------------------------------------------------------------------------

    def takes(self, log: LogId) -> bool:
        """Whether the joins of a log are in the driver, which selects new rows while they are scanned."""
        return not any(each.on_executors and log in each.legs for each in self._pass.groups)

    def take(self, scan: Scan) -> None:
        """Select new rows, if they come from the batch itself; otherwise `run` finds them in their logs."""
        if not scan.is_direct:
            return
        groups = {each.name: each for each in self._pass.groups}
        for index, stream in scan.streams.items():
            group = groups.get(LogId(LogKind.STREAM, stream.name))
            if group is not None:
                name = group.name
                text = straight_rows(group, scan.select(index), self._pass.sampling.get(name), kept=name in scan.logged)
                scan.ask(text, partial(self._take, scan, group, scan.watermark(stream)))

    def _take(self, scan: Scan, group: JoinGroup, watermark: Clock, rows: pa.Table) -> None:
        name = group.name
        kept = self._pass.take_straight(group, rows, watermark, name in scan.logged)
        if kept is not None:
            scan.keep(name, kept)

    def run(self, cycle: CycleState, relations: Sequence[RelationNode]) -> Mapping[str, pa.Table]:
        """Evaluate all selects whose logs have got their new rows."""
        ids, found = self._pass.advance(frozenset(cycle.settled), cycle.views)
        assert ids == {each.text for each in relations}, "the network answers the selects that are ready"
        return found

    def finish(self, cycle: CycleState) -> None:
        """Hand over the rows of joins that joins above them will look for."""
        if self.settings.kernels == "driver":
            # Kept rows cannot go to the executors when there is no room for them.
            for use in self.memory():
                self._account.grow(use)
        for number, (group, live) in enumerate(self._pass.live(cycle.event_time)):
            segments = live
            if are_many(live):
                cycle.begin_compaction()
                rows, since = self._pass.read(group, live), self._pass.since[group.name]
                path = f"{cycle.folder}/network-compacted-{number}"
                segments = self._logs.compacted(rows, clock_of_rows(len(group.legs)), since, path)
            cycle.keep(group.name, segments)
        cycle.labels = self._pass.states
        self._pass.arrived = cycle.new_rows
        self._pass.jobs.drop_views()

    def commit(self, cycle: int) -> None:
        """Hold the rows of a cycle in the driver."""
        if self._cycle == cycle or self._pass.cycle != cycle:
            # The commit of an island that rests is reported in every cycle.
            return
        self._pass.hold()
        try:
            self.observing.see(self._pass)
        except Exception:
            # No answer depends on it, and plans can do with what was known before.
            _log.warning("what the network was like in cycle %d is not known", cycle, exc_info=True)
        self._cycle = cycle
