"""A provider's engine with its cycles, in one directory: the rows that came for each, and what it answered.

A provider that takes in queries builds a new engine beside the old one, a new *incarnation*, which takes its place when
it has come as far (docs/federation.md, "Moving").

    cycles/000000000012/mark.json       the place in the log, and the clocks of all streams there
    cycles/000000000012/rows.parquet    the rows of the batch's stream that the provider's queries want; perhaps none
    cycles/000000000012/answers         what is sent when the cycle is committed, written before it is
    cycles/000000000011.sent            an empty file, whose name says up to which cycle answers were sent

Cycles are numbered by the provider, without gaps. A batch that none of its queries reads has none; so the mark also
says which batch a cycle is. A batch that comes again, after a crash, finds its folder, which is there whole or not at
all. Answers are sent if and only if their cycle is true, perhaps twice, never not: a home knows an answer again by the
query and the batch that it is of.

Each file has a checksum: a provider stops with a sentence when one is damaged or missing, and sends nothing behind it.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from weft.algebra import Query, Stream
from weft.delivery.log.parcel import stream_of, table_of
from weft.federation.federation_errors import FederationError
from weft.federation.live.ledger import FederationLedger, StandingQuery
from weft.federation.live.messages import Transport, results_mailbox, send, small_enough
from weft.federation.live.site_directory import FEED_AGAIN
from weft.files.atomic import private_folder, publish, write_atomically
from weft.files.checked_file import Damaged, marker, move_marker, read_checked, write_checked
from weft.runtime.state.checksums import Seal, fault, seal_of

if TYPE_CHECKING:
    from weft.runtime.sinks.publishing import PublishedRows

#: Folders of committed cycles that stay, for those who want to look.
_KEPT = 3


@dataclass(frozen=True, slots=True)
class Address:
    """Which query of the log one in the engine is, where its user is, and which of its answers are given here.

    Those behind the place `after`, on the strength of the entry at the place `since`.
    """

    birth: int
    home: str
    after: int
    since: int


@dataclass(frozen=True)
class StoredCycle:
    """A cycle that can be run: the place and the stream of its batch, if it has one, and the clocks after it.

    The file of its rows has a seal; it has no such file if there are none.
    """

    cycle: int
    folder: Path
    place: int
    stream: str | None
    seal: Sequence[int] | None
    clocks: Mapping[str, int]

    @property
    def rows(self) -> dict[str, Path]:
        """The file of its rows, by stream."""
        return {} if self.stream is None or self.seal is None else {self.stream: self.folder / "rows.parquet"}


class CycleStore:
    """The cycles that one engine can run, or has run, and what it publishes to: every query is a group of its own.

    `addresses` are those of the queries in it, by name.
    """

    def __init__(self, folder: Path, provider: str, transport: Transport, addresses: Mapping[str, Address]) -> None:
        self._folder = private_folder(folder)
        self._provider = provider
        self._transport = transport
        self._addresses = addresses
        for each in folder.glob("*.draft"):
            shutil.rmtree(each)
        self._cycles = sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit())
        self._sent = marker(folder, "sent")
        self._committed = -1

    @property
    def last(self) -> StoredCycle | None:
        return self.at(self._cycles[-1]) if self._cycles else None

    def at(self, cycle: int) -> StoredCycle:
        path = self._path(cycle) / "mark.json"
        try:
            mark = read_checked(path)
        except Damaged as error:
            raise _broken(path, f"is damaged ({error})") from error
        if mark is None:
            raise _broken(path, "is missing")
        return StoredCycle(cycle, path.parent, **mark)

    def put(self, place: int, stream: str | None, rows: pa.Table | None, clocks: Mapping[str, int]) -> StoredCycle:
        """Keep a batch for the next cycle; one that is here already is not kept again.

        Without a stream the cycle is no batch, and only brings the clocks forward.
        """
        last = self.last
        if last is not None and (last.place, last.stream is None) == (place, stream is None):
            # It may be run again on these rows: they must be those that came.
            for path in last.rows.values():
                assert last.seal is not None
                wrong = fault(Seal(*last.seal), seal_of(path.read_bytes()) if path.exists() else None)
                if wrong is not None:
                    raise _broken(path, wrong)
            return last
        cycle = self._cycles[-1] + 1 if self._cycles else 0
        draft = private_folder(self._path(cycle).with_suffix(".draft"))
        seal = None
        if rows is not None and rows.num_rows:
            sink = pa.BufferOutputStream()
            pq.write_table(rows, sink)
            data = sink.getvalue().to_pybytes()
            write_atomically(draft / "rows.parquet", data)
            seal = seal_of(data)
        write_checked(draft / "mark.json", {"place": place, "stream": stream, "seal": seal, "clocks": dict(clocks)})
        publish(draft, self._path(cycle))
        self._cycles.append(cycle)
        return self.at(cycle)

    def wait_for_room(self) -> None:
        """Answers wait on disk, and are sent before the next batch."""

    def write(self, cycle: int, published: Sequence[PublishedRows]) -> None:
        """Keep the rows and the watermark of each query that has answered; a second call replaces them."""
        place = self.at(cycle).place
        found = []
        for each in published:
            if each.rows is None or not each.rows.num_rows:
                continue
            address = self._addresses[each.stream]
            if place > address.after:
                whose = {"query": each.stream, "birth": address.birth, "since": address.since}
                head = {**whose, "place": place, "watermark": each.watermark}
                found.append((address.home, head, stream_of(each.rows)))
        body = msgspec.msgpack.encode(found)
        write_atomically(self._path(cycle) / "answers", zlib.crc32(body).to_bytes(4) + body)

    def committed(self, cycle: int) -> None:
        """Have the answers of all cycles up to one sent, which is true now."""
        self._committed = cycle

    def send(self) -> bool:
        """Send the answers of committed cycles; whether there were any such cycles. The broker has them then."""
        waiting = range(0 if self._sent is None else self._sent + 1, self._committed + 1)
        for cycle in waiting:
            for home, head, data in self._answers(cycle):
                pieces = small_enough(table_of(data), self._transport)
                for ordinal, piece in enumerate(pieces):
                    fields = {**head, "provider": self._provider, "ordinal": ordinal, "pieces": len(pieces)}
                    identity = f"answers/{self._provider}/{head['birth']}/{head['since']}/{head['place']}/{ordinal}"
                    send(self._transport, results_mailbox(home), identity, "answers", fields, piece)
            move_marker(self._folder, "sent", self._sent, cycle)
            self._sent = cycle
        return bool(waiting)

    def delete(self, before: int) -> None:
        """Delete the cycles before one whose answers were sent, but for a few."""
        unsent = 0 if self._sent is None else self._sent + 1
        while len(self._cycles) > _KEPT and self._cycles[0] < min(before - _KEPT, unsent):
            shutil.rmtree(self._path(self._cycles.pop(0)))

    def _answers(self, cycle: int) -> list[tuple[str, dict[str, Any], bytes]]:
        path = self._path(cycle) / "answers"
        data = path.read_bytes() if path.exists() else None
        if data is None or zlib.crc32(data[4:]).to_bytes(4) != data[:4]:
            wrong = "is missing" if data is None else "is damaged (the checksum does not fit its content)"
            raise FederationError(f"{path} {wrong}; it has answers that were not sent yet: {FEED_AGAIN}")
        return msgspec.msgpack.decode(data[4:], type=list[tuple[str, dict[str, Any], bytes]])

    def _path(self, cycle: int) -> Path:
        return self._folder / f"{cycle:012d}"


def _broken(path: Path, what: str) -> FederationError:
    return FederationError(f"{path} {what}; {FEED_AGAIN}")


class EngineHandle(Protocol):
    """An engine in a directory, which runs the cycles that it is given.

    It goes on where it was.
    """

    @property
    def applied(self) -> int:
        """The place in the log up to which all was carried out; it changes together with the queries, or not at all."""

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
