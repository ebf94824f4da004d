"""The stage of selections and joins: the network of all queries, evaluated together in every cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from weft.plan.event_time import Clock
from weft.plan.log_ids import LogId
from weft.runtime.stages.cycle_state import CycleState, RowLogs
from weft.runtime.stages.joins.current import JOIN_ROWS, CurrentNetwork
from weft.runtime.stages.joins.network_pass import NetworkPass
from weft.runtime.stages.joins.row_checks import clock_of_rows
from weft.runtime.stages.operators import Operator, StageKind
from weft.runtime.stages.stage import Scan
from weft.runtime.state.commits import Commit
from weft.runtime.state.cycle_spec import CycleSpec
from weft.runtime.state.memory import MemoryAccount, MemoryUse
from weft.runtime.state.store import are_many


class JoinStage:
    """The network, and its pass through the cycle."""

    kind = StageKind.JOINS
    step = "network"

    def __init__(self, logs: RowLogs, account: MemoryAccount, network: CurrentNetwork) -> None:
        self._logs, self._account = logs, account
        self.network = network
        self._pass: NetworkPass

    def prepare(self, spec: CycleSpec, operators: Sequence[Operator], last: Commit) -> None:
        """Bring the network to the selects of the cycle."""
        room = self._account.room(JOIN_ROWS)
        self._pass = self.network.begin(self._logs.spark, self._logs.storage, operators, last, spec.cycle, room)

    def memory(self) -> Iterator[MemoryUse]:
        """What kept rows take in the driver."""
        yield self.network.memory()

    def takes(self, log: LogId) -> bool:
        """Whether the joins of a log are in the driver, which selects new rows while they are scanned."""
        return not any(each.on_executors and log in each.group.legs for each in self._pass.groups)

    def take(self, scan: Scan) -> None:
        """Select new rows, if they come from the batch itself; otherwise `run` finds them in their logs."""
        if not scan.is_direct:
            return
        wanted = {each.group.name for each in self._pass.groups}
        logs: dict[str, LogId] = {}
        rows: dict[LogId, str] = {}
        watermarks: dict[str, Clock] = {}
        for index, stream in scan.streams.items():
            log = LogId.stream(stream.name)
            if log in wanted:
                logs[log] = log
                rows[log], watermarks[log] = scan.select(index), scan.watermark(stream)
        for text in self._pass.asked_straight(rows, scan.logged):
            scan.ask(text, partial(self._take, scan, logs[text.name], watermarks[text.name]))

    def _take(self, scan: Scan, log: LogId, watermark: Clock, rows: pa.Table) -> None:
        for kept, found in self._pass.take_straight({log: (rows, watermark)}, scan.logged).items():
            scan.keep(kept, found)

    def run(self, cycle: CycleState, operators: Sequence[Operator]) -> Mapping[str, pa.Table]:
        """Evaluate all selects whose logs have got their new rows."""
        ids, found = self._pass.advance(frozenset(cycle.settled), cycle.views)
        assert ids == {each.id.text for each in operators}, "the network answers the selects that are ready"
        return found

    def finish(self, cycle: CycleState) -> None:
        """Hand over the rows of joins that joins above them will look for."""
        if not self.network.may_move:
            self._account.grow(self.network.memory())
        state = self._pass.state
        for number, (group, live) in enumerate(state.live(self._pass.groups, cycle.event_time)):
            segments = live
            if are_many(live):
                cycle.begin_compaction()
                rows, since = state.read(group, live), state.needed_since(group)
                path = f"{cycle.folder}/network-compacted-{number}"
                segments = self._logs.compacted(rows, clock_of_rows(len(group.group.legs)), since, path)
            cycle.keep(group.group.name, segments)
        cycle.keep_labels(state.states)
        self._pass.arrived = cycle.new_rows
        self._pass.jobs.drop_views()

    def commit(self, cycle: int) -> None:
        """Hold the rows of a cycle in the driver."""
        self.network.committed(cycle)
