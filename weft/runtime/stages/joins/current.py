"""The network of the queries that there are now, made ready to run; it changes as they come and go."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cached_property, partial

from pyspark.sql import SparkSession

from weft.algebra import Field, Select
from weft.catalog import Catalog
from weft.optimizer.network import ForcedChoices, MeasuredSizes, Patience, Redecided, Redeciding
from weft.plan.log_ids import LogId
from weft.runtime.stages.joins.join_groups import join_groups_of
from weft.runtime.stages.joins.join_index import JoinIndex
from weft.runtime.stages.joins.join_state import JoinState
from weft.runtime.stages.joins.join_statistics import JoinStatistics
from weft.runtime.stages.joins.network_pass import NetworkPass
from weft.runtime.stages.joins.prepared import PreparedGroup, RegisteredSelect, prepared
from weft.runtime.stages.joins.spark_jobs import SparkJobs
from weft.runtime.stages.joins.stored_network import Numbers, StoredNetwork, recorded
from weft.runtime.stages.operators import Operator, selects_of
from weft.runtime.stages.windows.kernel_placement import Kernels, PlacementSettings
from weft.runtime.state.commits import Commit, Segment
from weft.runtime.state.cycle_spec import Folders
from weft.runtime.state.memory import MemoryUse
from weft.runtime.state.storage import Storage

#: How many partials take as much room in the driver as a row.
_PARTIALS_IN_A_ROW = 4

#: How a limit of memory names them.
JOIN_ROWS = "the rows that joins look for"

_log = logging.getLogger("weft")


class CurrentNetwork:
    """Keeps the plan of the network, what was prepared for it and what the driver holds of rows, between cycles.

    The catalog keeps the plan for the next process. It says nothing about cycles, so it may be written before a commit:
    a second attempt has the same selects, and answers do not depend on how the network is drawn up.
    """

    def __init__(
        self,
        hosting: PlacementSettings,
        catalog: Catalog | None = None,
        observed: MeasuredSizes | None = None,
        patience: Patience | None = None,
        forced: ForcedChoices | None = None,
        folders: Folders | None = None,
        first_node: int = 1,
    ) -> None:
        """`observed` is what is known from before; tests have selects chosen again by `forced`.

        Without a catalog, nodes are numbered from `first_node` on.
        """
        self._folders = folders or Folders()
        self._first_node = first_node
        self._hosting = hosting
        self._catalog = catalog
        self._patience, self._forced = patience or Patience(), forced
        self.observing = JoinStatistics(observed or MeasuredSizes())
        #: The decisions before the cycle that was begun last.
        self.redecided: list[Redecided] = []
        self._on_executors = False
        #: How many rows the driver keeps; fewer once they took more memory than there was.
        self._most_rows = hosting.max_driver_partials // _PARTIALS_IN_A_ROW
        #: What the driver holds, and the cycle after which it is right.
        self._held: dict[LogId, JoinIndex] = {}
        self._cycle: int | None = None
        self._tables: dict[LogId, tuple[Segment, ...]] = {}
        self._pass: NetworkPass | None = None
        self._operators: dict[str, Operator] = {}
        self._prepared: tuple[PreparedGroup, ...] = ()

    @cached_property
    def _kept(self) -> StoredNetwork:
        """The network as it was kept: taken up when there is something in it to run."""
        kept = StoredNetwork(self._catalog, statistics=self.observing.observed)
        if self._catalog is None:
            kept.planner.nodes.next_number = self._first_node
        return kept

    @cached_property
    def _redeciding(self) -> Redeciding:
        return Redeciding(self._kept.planner, self.observing.observed, self._patience, self._forced)

    def begin(
        self,
        spark: SparkSession,
        storage: Storage,
        operators: Iterable[Operator],
        last: Commit,
        cycle: int,
        room: int,
    ) -> NetworkPass:
        """The network for a cycle after the last commit. In the driver its rows may take `room` bytes."""
        tables = {log: kept for log, kept in last.logs.items() if log.is_table}
        if self._cycle != last.cycle or self._tables != tables:
            self._held = {}
        self._tables = tables
        jobs = SparkJobs(spark)
        groups = self._groups(operators, last, cycle, room)
        state = JoinState(jobs, storage, last, cycle, self._folders.of(cycle), self._held)
        self._pass = NetworkPass(groups, jobs, state, self.observing.sampling())
        return self._pass

    def committed(self, cycle: int) -> None:
        """The cycle that was begun has been committed."""
        if self._pass is not None and self._pass.state.cycle == cycle:
            self._pass.hold()
            try:
                self.observing.see(self._pass)
            except Exception:
                # No answer depends on it, and plans can do with what was known before.
                _log.warning("what the network was like in cycle %d is not known", cycle, exc_info=True)
            self._cycle, self._pass = cycle, None

    def recorded(self, cycle: int) -> Numbers:
        """What a cycle that has been committed records of the network."""
        return recorded(cycle, self.observing.observed, self.observing.pairs, self.redecided)

    @property
    def may_move(self) -> bool:
        """Whether kept rows can go to the executors when there is no room for them in the driver."""
        return self._hosting.kernels is not Kernels.DRIVER

    def memory(self) -> MemoryUse:
        """What the rows take that are held in the driver, with what they are sorted by."""
        held = {} if self._on_executors else {name: each.bytes_held for name, each in self._held.items()}
        largest = max(held, key=lambda name: held[name], default=None)
        readers = (of for each in self._prepared if each.group.name == largest for of in each.readers.values())
        ids = sorted({id_ for of in readers for id_ in of})
        names = dict.fromkeys(self._operators[id_].running.query.name for id_ in ids if id_ in self._operators)
        size = 0 if largest is None else held[largest]
        return MemoryUse(JOIN_ROWS, sum(held.values()), size, tuple(names), "or SET kernels = auto")

    def _away(self, last: Commit, operators: Mapping[str, Operator], room: int) -> bool:
        """Whether kept rows stay with the executors: there are too many for the driver, or it is set so.

        Between half the limit and the limit they stay where they are.
        """
        if self._hosting.kernels is not Kernels.AUTO:
            return self._hosting.kernels is Kernels.EXECUTORS
        logs = {log for each in operators.values() if len(each.inputs) > 1 for log in each.inputs} | last.network.keys()
        rows = sum(segment.rows for log in logs for segment in last.logs.get(log, ()))
        if sum(each.bytes_held for each in self._held.values()) > room:
            self._most_rows = min(self._most_rows, rows - 1)
        limit = self._most_rows
        return rows > (limit // 2 if self._on_executors else limit)

    def _groups(self, operators: Iterable[Operator], last: Commit, cycle: int, room: int) -> tuple[PreparedGroup, ...]:
        present = {operator.id.text: operator for operator in operators}
        if not present and not self._operators:
            return ()
        away = self._away(last, present, room)
        is_same = present.keys() == self._operators.keys() and away == self._on_executors
        if present.keys() != self._operators.keys():
            self._change_to(present)
        self._on_executors = away
        self.redecided = self._redeciding.decide(cycle)
        if is_same and not self.redecided:
            return self._prepared
        self._kept.keep()
        network = self._kept.planner.network
        groups = join_groups_of(network)
        self.observing.name_nodes(network, groups)
        self._prepared = prepared(groups, _lookup(present), _fields(present.values()), on_executors=away)
        if self.redecided:
            self._let_go_of_rows_without_columns()
        return self._prepared

    def _change_to(self, present: Mapping[str, Operator]) -> None:
        """Register the selects that are new, and deregister those that are gone."""
        for place, operator in self._operators.items():
            if place not in present and len(operator.inputs) > 1:
                self._redeciding.forget(place)
        self._kept.planned(selects_of(present.values()))
        for place, operator in present.items():
            if place not in self._operators and len(operator.inputs) > 1:
                assert isinstance(operator.relation, Select)
                asked = partial(self._kept.planner.needs_of, operator.relation, operator.inputs)
                self._redeciding.watch(place, asked)
        self._operators = dict(present)

    def _let_go_of_rows_without_columns(self) -> None:
        """What the driver holds without columns that are asked for now is read again from the logs.

        If it was a new query that asks, it would not need them of these rows. After a decision one cannot tell.
        """
        for each in self._prepared:
            names = {*(name for name, _ in each.stored), *(name for name, _ in each.columns.computed.values())}
            held = self._held.get(each.group.name)
            if held is not None and not held.has(names):
                del self._held[each.group.name]


def _lookup(operators: Mapping[str, Operator]) -> dict[str, RegisteredSelect]:
    return {
        place: RegisteredSelect(operator.relation, operator.running.start.first)
        for place, operator in operators.items()
        if isinstance(operator.relation, Select)
    }


def _fields(operators: Iterable[Operator]) -> dict[str, tuple[Field, ...]]:
    return {log: source.fields for operator in operators for log, source in operator.sources}
