"""What a provider needs of an engine: one that runs the cycles it is told to run, on the rows it is told to take.

An engine belongs to a directory and goes on where it was. `applied` is the place in the log up to which it has been
told everything; it changes together with the queries, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from weft.algebra import Query, Stream
from weft.federation.live.answer_outbox import Address, Outbox
from weft.federation.live.ledger import Standing
from weft.federation.live.row_inbox import Landing
from weft.federation.live.transport import Wire


class AnswerSink(Protocol):
    """Takes the answers of a cycle before it is committed, and hears of it when it is."""

    def write(self, cycle: int, answers: Mapping[str, tuple[pa.Table, int | None]]) -> None:
        """The rows and the watermark of each query that has answered. A second call with the same cycle replaces it."""

    def committed(self, cycle: int) -> None:
        """The cycle is true now."""


class EngineHandle(Protocol):
    """An engine in a directory."""

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
        """Let go of the directory."""


class EngineMaker(Protocol):
    """Makes or opens the engine of a directory, which gives its answers to a sink."""

    def __call__(self, directory: Path, answers: AnswerSink) -> EngineHandle: ...


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
