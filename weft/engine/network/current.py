"""The network of the queries that there are now, made ready to run; it changes as they come and go."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from pyspark.sql import SparkSession

from weft.algebra import Field, Select
from weft.algebra.sources import reads
from weft.engine.commits import Commit
from weft.engine.continuity import folder_of
from weft.engine.network.asking import Asking
from weft.engine.network.evidence import Numbers, recorded
from weft.engine.network.families import families_of
from weft.engine.network.held import Held
from weft.engine.network.keeping import Keeping
from weft.engine.network.observing import Observing
from weft.engine.network.prepared import Asked, Prepared, prepared
from weft.engine.network.stage import NetworkPass
from weft.engine.network.steps import Step
from weft.engine.storage import Storage
from weft.engine.woven.hosts import Hosting, Kernels
from weft.optimizer.network import Observed, Patience, Planner, Redecided, Redeciding, Whim, wanted

#: A row takes about as much room in the driver as so many partials.
_PARTIALS_IN_A_ROW = 4

_log = logging.getLogger("weft")


class CurrentNetwork:
    """Keeps the plan of the network, what was prepared for it and what the driver holds of rows, between cycles."""

    def __init__(
        self,
        hosting: Hosting,
        observed: Observed | None = None,
        patience: Patience | None = None,
        whim: Whim | None = None,
    ) -> None:
        """`observed` is what is known from before; `whim` is how tests have selects chosen anew."""
        self._hosting = hosting
        observed = observed or Observed()
        self.observing = Observing(observed)
        self._planner = Planner(statistics=observed)
        self._redeciding = Redeciding(self._planner, observed, patience or Patience(), whim)
        #: What was decided anew before the cycle that was begun last.
        self.redecided: list[Redecided] = []
        self._on_executors = False
        #: What the driver holds, and the cycle after which it is right.
        self._held: dict[str, Held] = {}
        self._cycle: int | None = None
        self._pass: NetworkPass | None = None
        self._steps: dict[str, Step] = {}
        self._prepared: tuple[Prepared, ...] = ()

    def begin(
        self, spark: SparkSession, storage: Storage, steps: Iterable[Step], last: Commit, cycle: int
    ) -> NetworkPass:
        """The network for a cycle after the last commit."""
        if self._cycle != last.cycle:
            self._held = {}
        asking = Asking(spark)
        families = self._families(steps, last, cycle)
        keeping = Keeping(asking, storage, last, cycle, folder_of(cycle), self._held)
        self._pass = NetworkPass(families, asking, keeping, self.observing.sampling())
        return self._pass

    def committed(self, cycle: int) -> None:
        """The cycle that was begun has been committed."""
        if self._pass is not None and self._pass.keeping.cycle == cycle:
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

    def _away(self, last: Commit, steps: Mapping[str, Step]) -> bool:
        """Whether kept rows stay with the executors: there are too many for the driver, or it is told so.

        Between half the limit and the limit they stay where they are.
        """
        if self._hosting.kernels is not Kernels.AUTO:
            return self._hosting.kernels is Kernels.EXECUTORS
        logs = {log for step in steps.values() if len(step.inputs) > 1 for log in step.inputs} | last.network.keys()
        rows = sum(segment.rows for log in logs for segment in last.logs.get(log, ()))
        limit = self._hosting.max_driver_partials // _PARTIALS_IN_A_ROW
        return rows > (limit // 2 if self._on_executors else limit)

    def _families(self, steps: Iterable[Step], last: Commit, cycle: int) -> tuple[Prepared, ...]:
        present = {step.place.log: step for step in steps}
        away = self._away(last, present)
        is_same = present.keys() == self._steps.keys() and away == self._on_executors
        self._on_executors = away
        for place in self._steps.keys() - present.keys():
            if len(self._steps[place].inputs) > 1:
                self._redeciding.forget(place)
            self._planner.deregister(place)
        for place, step in present.items():
            if place not in self._steps:
                assert isinstance(step.relation, Select)
                self._planner.register(place, step.relation, step.inputs)
                if len(step.inputs) > 1:
                    self._redeciding.watch(place, partial(wanted, step.relation, step.inputs))
        self._steps = present
        self.redecided = self._redeciding.decide(cycle)
        if is_same and not self.redecided:
            return self._prepared
        fields: dict[str, tuple[Field, ...]] = {}
        for step in present.values():
            fields |= {log: each.fields for log, each in zip(step.inputs, reads(step.relation), strict=True)}
        asked = {
            place: Asked(step.relation, step.registered.birth.first)
            for place, step in present.items()
            if isinstance(step.relation, Select)
        }
        network = self._planner.network
        families = families_of(network)
        self.observing.name_nodes(network, families)
        self._prepared = prepared(families, asked, fields, on_executors=away)
        if self.redecided:
            self._let_go_of_rows_without_columns()
        return self._prepared

    def _let_go_of_rows_without_columns(self) -> None:
        """What the driver holds without columns that are asked for now is read again from the logs.

        If it was a new query that asks, it would not need them of these rows. After a decision one cannot tell.
        """
        for each in self._prepared:
            names = {*(name for name, _ in each.stored), *(name for name, _ in each.columns.computed.values())}
            held = self._held.get(each.family.name)
            if held is not None and not held.has(names):
                del self._held[each.family.name]
