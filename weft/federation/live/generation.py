"""A provider's engine with its landed rows and its outbox, in one directory.

An engine's time cannot be turned back. A provider that takes in queries which have been running elsewhere therefore
builds a new engine beside the old one, a new *generation*: all of its queries, the old ones and those that come, are
created in it where feeding them must begin, and it is fed the batches since then, as the streams' owners have kept
them. Answers that were given before are not given again. When it has come as far as the old one, it takes its place.
So all queries of a provider share one plan, whenever and from wherever they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from weft.algebra import Stream
from weft.federation.live.engine_handle import EngineMaker
from weft.federation.live.landing import Landing
from weft.federation.live.ledger import Standing
from weft.federation.live.outbox import Address, Outbox
from weft.federation.live.wire import Wire


class Generation:
    """One engine of a provider. `addresses` say whose the answers of its queries are, by name."""

    def __init__(self, directory: Path, provider: str, wire: Wire, make_engine: EngineMaker) -> None:
        self.directory = directory
        self.addresses: dict[str, Address] = {}
        self._landing = Landing(directory / "landed")
        self._outbox = Outbox(directory / "outbox", provider, wire, self.addresses, self._landing.place_of)
        self._engine = make_engine(directory / "engine", self._outbox)
        last = self._landing.last
        #: How far the engine knows the clocks to be.
        self._clocks = dict(last.clocks) if last is not None and last.cycle <= self._engine.last_cycle else {}
        self._outbox.committed(self._engine.last_cycle)

    @property
    def applied(self) -> int:
        """The place in the log up to which all that concerns the queries was carried out."""
        return self._engine.applied

    def begin(
        self, place: int, streams: Iterable[Stream], queries: Sequence[Standing], clocks: Mapping[str, int]
    ) -> None:
        """Create queries at a place, where the clocks of streams are these.

        A query that begins must find the clocks as they are, also of streams that nobody here has read so far.
        """
        self._engine.change(streams=list(streams))
        if any(self._clocks.get(name) != clock for name, clock in clocks.items()):
            self._run(place, None, None, clocks)
        self._engine.change(place, create=[each.query for each in queries])

    def end(self, place: int, queries: Sequence[str]) -> None:
        """Drop queries at a place."""
        self._engine.change(place, drop=queries)

    def take_batch(self, place: int, stream: str, rows: pa.Table, clocks: Mapping[str, int]) -> None:
        """Run the cycle of a batch."""
        self._run(place, stream, rows, clocks)
        self._engine.change(place)

    def send(self) -> bool:
        """Send the answers of committed cycles; whether there were any."""
        return self._outbox.send()

    def note(self, place: int) -> None:
        """All up to a place was carried out."""
        self._engine.change(place)

    def close(self) -> None:
        self._engine.close()

    def _run(self, place: int, stream: str | None, rows: pa.Table | None, clocks: Mapping[str, int]) -> None:
        landed = self._landing.land(place, stream, rows, clocks)
        self._engine.cycle(landed.cycle, landed.rows, landed.clocks)
        self._clocks = dict(landed.clocks)
        self._landing.let_go(landed.cycle)
