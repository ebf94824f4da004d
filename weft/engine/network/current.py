"""The network of the queries that there are now, made ready to run; it changes as they come and go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from weft.algebra import Field, Select
from weft.algebra.sources import reads
from weft.engine.commits import Commit, Segment
from weft.engine.continuity import folder_of
from weft.engine.network.asking import Asking
from weft.engine.network.families import families_of
from weft.engine.network.held import Held
from weft.engine.network.keeping import Keeping
from weft.engine.network.prepared import Asked, Prepared, prepared
from weft.engine.network.stage import NetworkPass
from weft.engine.network.steps import Step
from weft.engine.storage import Storage
from weft.engine.woven.hosts import Hosting, Kernels
from weft.optimizer.network import Planner
from weft.plan.network import is_table

#: A row takes about as much room in the driver as so many partials.
_PARTIALS_IN_A_ROW = 4


class CurrentNetwork:
    """Keeps the plan of the network, what was prepared for it and what the driver holds of rows, between cycles."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._planner = Planner()
        self._on_executors = False
        #: What the driver holds, and the cycle after which it is right.
        self._held: dict[str, Held] = {}
        self._cycle: int | None = None
        self._tables: dict[str, tuple[Segment, ...]] = {}
        self._pass: NetworkPass | None = None
        self._steps: dict[str, Step] = {}
        self._prepared: tuple[Prepared, ...] = ()

    def begin(
        self, spark: SparkSession, storage: Storage, steps: Iterable[Step], last: Commit, cycle: int
    ) -> NetworkPass:
        """The network for a cycle after the last commit."""
        tables = {log: kept for log, kept in last.logs.items() if is_table(log)}
        if self._cycle != last.cycle or self._tables != tables:
            self._held = {}
        self._tables = tables
        asking = Asking(spark)
        keeping = Keeping(asking, storage, last, cycle, folder_of(cycle), self._held)
        self._pass = NetworkPass(self._families(steps, last), asking, keeping)
        return self._pass

    def committed(self, cycle: int) -> None:
        """The cycle that was begun has been committed."""
        if self._pass is not None and self._pass.keeping.cycle == cycle:
            self._pass.hold()
            self._cycle, self._pass = cycle, None

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

    def _families(self, steps: Iterable[Step], last: Commit) -> tuple[Prepared, ...]:
        wanted = {step.place.log: step for step in steps}
        away = self._away(last, wanted)
        if wanted.keys() == self._steps.keys() and away == self._on_executors:
            return self._prepared
        self._on_executors = away
        for place in self._steps.keys() - wanted.keys():
            self._planner.deregister(place)
        for place, step in wanted.items():
            if place not in self._steps:
                assert isinstance(step.relation, Select)
                self._planner.register(place, step.relation, step.inputs)
        self._steps = wanted
        fields: dict[str, tuple[Field, ...]] = {}
        for step in wanted.values():
            fields |= {log: each.fields for log, each in zip(step.inputs, reads(step.relation), strict=True)}
        asked = {
            place: Asked(step.relation, step.registered.birth.first)
            for place, step in wanted.items()
            if isinstance(step.relation, Select)
        }
        self._prepared = prepared(families_of(self._planner.network), asked, fields, on_executors=away)
        return self._prepared
