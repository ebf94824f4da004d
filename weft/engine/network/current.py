"""The network of the queries that there are now, made ready to run; it changes as they come and go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from pyspark.sql import SparkSession

from weft.algebra import Field, Select
from weft.algebra.sources import reads
from weft.catalog import Catalog
from weft.engine.commits import Commit, Segment
from weft.engine.continuity import folder_of
from weft.engine.network.asking import Asking
from weft.engine.network.families import families_of
from weft.engine.network.held import Held
from weft.engine.network.keeping import Keeping
from weft.engine.network.prepared import Asked, Prepared, prepared
from weft.engine.network.stage import NetworkPass
from weft.engine.pieces.pieces import Piece, selects_of
from weft.engine.storage import Storage
from weft.engine.woven.hosts import Hosting, Kernels
from weft.optimizer.network import KeptNetwork
from weft.plan.network import is_table

#: A row takes about as much room in the driver as so many partials.
_PARTIALS_IN_A_ROW = 4


class CurrentNetwork:
    """Keeps the plan of the network, what was prepared for it and what the driver holds of rows, between cycles.

    The catalog keeps the plan for the next process. It says nothing about cycles, so it may be written before a commit:
    a second attempt has the same selects, and so has the same plan.
    """

    def __init__(self, hosting: Hosting, catalog: Catalog | None = None) -> None:
        self._hosting = hosting
        self._catalog = catalog
        self._on_executors = False
        #: What the driver holds, and the cycle after which it is right.
        self._held: dict[str, Held] = {}
        self._cycle: int | None = None
        self._tables: dict[str, tuple[Segment, ...]] = {}
        self._pass: NetworkPass | None = None
        self._pieces: dict[str, Piece] = {}
        self._prepared: tuple[Prepared, ...] = ()

    @cached_property
    def _kept(self) -> KeptNetwork:
        """The network as it was kept: taken up when there is something in it to run."""
        return KeptNetwork(self._catalog)

    def begin(
        self, spark: SparkSession, storage: Storage, pieces: Iterable[Piece], last: Commit, cycle: int
    ) -> NetworkPass:
        """The network for a cycle after the last commit."""
        tables = {log: kept for log, kept in last.logs.items() if is_table(log)}
        if self._cycle != last.cycle or self._tables != tables:
            self._held = {}
        self._tables = tables
        asking = Asking(spark)
        keeping = Keeping(asking, storage, last, cycle, folder_of(cycle), self._held)
        self._pass = NetworkPass(self._families(pieces, last), asking, keeping)
        return self._pass

    def committed(self, cycle: int) -> None:
        """The cycle that was begun has been committed."""
        if self._pass is not None and self._pass.keeping.cycle == cycle:
            self._pass.hold()
            self._cycle, self._pass = cycle, None

    def _away(self, last: Commit, pieces: Mapping[str, Piece]) -> bool:
        """Whether kept rows stay with the executors: there are too many for the driver, or it is told so.

        Between half the limit and the limit they stay where they are.
        """
        if self._hosting.kernels is not Kernels.AUTO:
            return self._hosting.kernels is Kernels.EXECUTORS
        logs = {log for piece in pieces.values() if len(piece.inputs) > 1 for log in piece.inputs} | last.network.keys()
        rows = sum(segment.rows for log in logs for segment in last.logs.get(log, ()))
        limit = self._hosting.max_driver_partials // _PARTIALS_IN_A_ROW
        return rows > (limit // 2 if self._on_executors else limit)

    def _families(self, pieces: Iterable[Piece], last: Commit) -> tuple[Prepared, ...]:
        wanted = {piece.place.log: piece for piece in pieces}
        away = self._away(last, wanted)
        if wanted.keys() == self._pieces.keys() and away == self._on_executors:
            return self._prepared
        network = self._kept.network_of(selects_of(wanted.values()))
        fields: dict[str, tuple[Field, ...]] = {}
        for piece in wanted.values():
            fields |= {log: each.fields for log, each in zip(piece.inputs, reads(piece.relation), strict=True)}
        asked = {
            place: Asked(piece.relation, piece.registered.birth.first)
            for place, piece in wanted.items()
            if isinstance(piece.relation, Select)
        }
        self._prepared = prepared(families_of(network), asked, fields, on_executors=away)
        self._pieces, self._on_executors = wanted, away
        return self._prepared
