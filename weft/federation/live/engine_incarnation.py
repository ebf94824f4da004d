"""A provider's engine with its rows and its answers, in one directory.

An engine's time cannot be turned back. A provider that takes in queries which have been running elsewhere therefore
builds a new engine beside the old one, a new *incarnation*: all of its queries, the old ones and those that come, are
created in it where feeding them must begin, and it is fed the batches since then, as the streams' owners have kept
them. Answers that were given before are not given again. When it has come as far as the old one, it takes its place.
So all queries of a provider share one plan, whenever and from wherever they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import pyarrow as pa

from weft.algebra import Query, Stream
from weft.federation.live.cycle_store import Address, CycleStore
from weft.federation.live.ledger import FederationLedger, StandingQuery
from weft.federation.live.messages import Transport


class EngineHandle(Protocol):
    """An engine in a directory, which runs the cycles that it is given.

    It goes on where it was. `applied` is the place in the log up to which it has been told everything; it changes
    together with the queries, or not at all.
    """

    @property
    def applied(self) -> int:
        """The place in the log up to which all was carried out."""

    @property
    def last_cycle(self) -> int:
        """The newest cycle that is committed; −1 before the first."""

    def change(
        self,
        place: int | None = None,
        *,
        streams: Sequence[Stream] = (),
        create: Sequence[Query] = (),
        drop: Sequence[str] = (),
    ) -> None:
        """Declare streams that are new, drop and create queries, and note the place if given: all of it or nothing."""

    def cycle(self, number: int, rows: Mapping[str, Path], clocks: Mapping[str, int]) -> None:
        """Run a cycle on Parquet files, by stream, after which the streams' clocks are at least these.

        A cycle that is committed already is not run again.
        """

    def close(self) -> None:
        """Close the directory."""


#: Makes or opens the engine of a directory. It writes the answers of a cycle to a store before it commits the cycle,
#: and tells the store of it when it has.
EngineMaker: TypeAlias = Callable[[Path, CycleStore], EngineHandle]


class EngineIncarnation:
    """One engine of a provider, and its cycles. `addresses` say where the answers of its queries go, by name."""

    def __init__(self, directory: Path, provider: str, transport: Transport, make_engine: EngineMaker) -> None:
        self.directory = directory
        self.addresses: dict[str, Address] = {}
        self.cycles = CycleStore(directory / "cycles", provider, transport, self.addresses)
        self.engine = make_engine(directory / "engine", self.cycles)
        last = self.cycles.last
        #: How far the engine knows the clocks to be.
        self._clocks = dict(last.clocks) if last is not None and last.cycle <= self.engine.last_cycle else {}
        self.cycles.committed(self.engine.last_cycle)

    def begin(self, place: int, ledger: FederationLedger, queries: Sequence[StandingQuery]) -> None:
        """Create queries at a place.

        A query that begins must find the clocks as they are, also of streams that no query here has read so far.
        """
        clocks = ledger.clocks(place)
        self.engine.change(streams=[record.stream for record in ledger.streams.values()])
        if any(self._clocks.get(name) != clock for name, clock in clocks.items()):
            self._run(place, None, None, clocks)
        self.engine.change(place, create=[each.query for each in queries])

    def take_batch(self, place: int, stream: str, rows: pa.Table, clocks: Mapping[str, int]) -> None:
        self._run(place, stream, rows, clocks)
        self.engine.change(place)

    def _run(self, place: int, stream: str | None, rows: pa.Table | None, clocks: Mapping[str, int]) -> None:
        cycle = self.cycles.put(place, stream, rows, clocks)
        self.engine.cycle(cycle.cycle, cycle.rows, cycle.clocks)
        self._clocks = dict(cycle.clocks)
        self.cycles.delete(cycle.cycle)
