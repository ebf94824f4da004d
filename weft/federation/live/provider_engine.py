"""A provider's engine in a directory: it runs a batch of the log as a cycle, and what it answers is sent.

One batch is one cycle, and after it the clocks are those of the whole streams, whatever part of the rows came here. A
batch that none of the queries reads has no cycle. A provider that takes in queries builds another engine beside the one
it has, which takes its place when it has come as far (docs/federation.md, "Moving").

    engines/3/engine                      a project of weft
    engines/3/answers                     what the newest cycle has answered, written before the cycle is committed
    engines/3/000000000011.sent           an empty file, whose name says up to which cycle answers were sent
    engines/3/000000000012.parquet        the rows that the newest cycle has read

Answers are sent if and only if their cycle is committed, and before the next cycle: perhaps twice, never not. A home
knows an answer again by the query and the batch that it is of. A provider stops with a sentence when its answers are
damaged or missing. The rows of a cycle that was begun are taken from the broker again, or from their owner.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from weft.algebra import Query, Stream
from weft.arrays.arrow_types import table_of
from weft.catalog import Catalog
from weft.delivery.parcel import stream_of
from weft.federation import FederationError
from weft.federation.live.ledger import FederationLedger, StandingQuery
from weft.federation.live.messages import results_mailbox, send, small_enough
from weft.federation.live.site_directory import FEED_AGAIN
from weft.federation.live.transport import Transport
from weft.files.atomic import private_folder, write_atomically
from weft.files.checked_file import marker, move_marker

if TYPE_CHECKING:
    from weft.runtime.sinks.publishing import PublishedRows
    from weft.runtime.spark.session import SparkSession

_APPLIED = "federation_place"


class SparkEngine:
    """An engine in a directory, which is a project, and goes on where it was. Its cycles are run one by one."""

    def __init__(self, spark: SparkSession, directory: Path, answers: ProviderEngine) -> None:
        from weft.runtime.engine import Engine
        from weft.runtime.project_state import state_directory

        private_folder(directory)
        self._spark = spark
        self._catalog = Catalog.open(directory)
        # Owners of streams have judged all clocks; they are not judged a second time, by another machine's time.
        self._catalog.set_setting("max_ahead", "off")
        self._engine = Engine(spark, self._catalog, state_directory(directory))
        self._engine.publisher = answers

    @property
    def applied(self) -> int:
        """The place in the log up to which all was carried out; it changes together with the queries, or not at all."""
        return int(str(self._catalog.setting(_APPLIED, 0)))

    @property
    def last_cycle(self) -> int:
        """The newest cycle that is committed; −1 before the first."""
        return self._engine.last.cycle

    def declare(self, streams: Sequence[Stream]) -> None:
        """Declare those of some streams that are new."""
        with self._catalog.transaction():
            known = {each.name for each in self._catalog.streams()}
            for stream in streams:
                if stream.name not in known:
                    self._catalog.add(stream)

    def change(self, place: int, create: Sequence[Query] = (), drop: Sequence[str] = ()) -> None:
        """Drop and create queries, and note the place: all of it or nothing."""
        from weft.runtime.sinks.publishing import publishing_sink

        with self._catalog.transaction():
            for name in drop:
                self._catalog.drop(Query, name)
            for query in create:
                self._catalog.add(replace(query, sink=publishing_sink(query.name, 0, 0)))
            self._catalog.set_setting(_APPLIED, place)

    def cycle(self, rows: Mapping[str, Path], clocks: Mapping[str, int]) -> None:
        """Run the next cycle on Parquet files, by stream, after which the streams' clocks are at least these."""
        from weft.runtime.sources.batches import external_batch

        batch = external_batch(self._spark, self._catalog.streams(), rows)
        self._engine.cycle(batch, self.last_cycle + 1, clocks)

    def close(self) -> None:
        self._catalog.close()


#: Makes or opens the engine of a directory, which publishes the answers of a cycle before and when it commits it.
EngineMaker: TypeAlias = Callable[[Path, "ProviderEngine"], SparkEngine]


def spark_engines(master: str | None, settings: Mapping[str, str]) -> EngineMaker:
    """Makes engines on one Spark session, which is started now."""
    from weft.runtime.spark.session import session

    spark = session(master, settings)
    return lambda directory, answers: SparkEngine(spark, directory, answers)


class ProviderEngine:
    """One engine of a provider, and what it publishes to."""

    def __init__(self, directory: Path, provider: str, transport: Transport, make_engine: EngineMaker) -> None:
        self.directory = private_folder(directory)
        self._provider = provider
        self._transport = transport
        #: The queries by name, each with the place behind which its answers are given here.
        self.addresses: dict[str, tuple[StandingQuery, int]] = {}
        self._sent = marker(directory, "sent")
        #: The places in the log of the newest committed cycle, 0 if it is not known, and of the one that is run.
        self._place = self._running = 0
        self.engine = make_engine(directory / "engine", self)
        if self.engine.last_cycle >= 0:
            cycle, place, _ = self._answers()
            # All that came before a cycle that was begun, and not committed, was noted.
            self._place = place if cycle == self.engine.last_cycle else 0

    def begin(self, place: int, ledger: FederationLedger, queries: Sequence[StandingQuery]) -> None:
        """Create queries at a place.

        A query that begins must find the clocks as they are, also of streams that no query here has read so far.
        """
        self.engine.declare([record.stream for record in ledger.streams.values()])
        if ledger.clocks(place) != ledger.clocks(self._place):
            self._run(place, ledger, {})
        self.engine.change(place, create=[each.query for each in queries])

    def take_batch(self, place: int, ledger: FederationLedger, stream: str, rows: pa.Table) -> None:
        """Run the batch at a place, unless the process died between its cycle and the note of it."""
        if place != self._place:
            self._run(place, ledger, {stream: rows} if rows.num_rows else {})
        self.engine.change(place)

    def send(self) -> bool:
        """Send the answers of the newest committed cycle, if they wait; whether they did. The broker has them then."""
        if self.engine.last_cycle <= (-1 if self._sent is None else self._sent):
            return False
        cycle, place, answers = self._answers()
        if cycle != self.engine.last_cycle:
            raise self._broken(f"has the answers of cycle {cycle}, not of {self.engine.last_cycle}")
        for home, head, data in answers:
            pieces = small_enough(table_of(data), self._transport)
            for ordinal, piece in enumerate(pieces):
                fields = {**head, "provider": self._provider, "ordinal": ordinal, "pieces": len(pieces)}
                identity = f"answers/{self._provider}/{head['birth']}/{head['since']}/{place}/{ordinal}"
                send(self._transport, results_mailbox(home), identity, "answers", fields, piece)
        move_marker(self.directory, "sent", self._sent, cycle)
        self._sent = cycle
        return True

    def wait_for_room(self) -> None:
        """Answers are sent before the next cycle."""

    def write(self, cycle: int, published: Sequence[PublishedRows]) -> None:
        """Keep the rows and the watermark of each query that has answered; a second call replaces them."""
        found = []
        for each in published:
            if each.rows is None or not each.rows.num_rows:
                continue
            standing, after = self.addresses[each.stream]
            if self._running > after:
                whose = {"query": each.stream, "birth": standing.birth, "since": standing.stays[-1].since}
                head = {**whose, "place": self._running, "watermark": each.watermark}
                found.append((standing.home, head, stream_of(each.rows)))
        body = msgspec.msgpack.encode((cycle, self._running, found))
        write_atomically(self.directory / "answers", zlib.crc32(body).to_bytes(4) + body)

    def committed(self, cycle: int) -> None:
        """Note that the answers of the cycle that is run are true now."""
        self._place = self._running

    def _run(self, place: int, ledger: FederationLedger, rows: Mapping[str, pa.Table]) -> None:
        self.send()
        for each in self.directory.glob("*.parquet"):
            each.unlink()
        # Spark may know a file that it has read by its name.
        path = self.directory / f"{self.engine.last_cycle + 1:012d}.parquet"
        for table in rows.values():
            pq.write_table(table, path)
        self._running = place
        self.engine.cycle(dict.fromkeys(rows, path), ledger.clocks(place))

    def _answers(self) -> tuple[int, int, list[tuple[str, dict[str, Any], bytes]]]:
        """The cycle whose answers were written last, its place, and the answers."""
        try:
            data = (self.directory / "answers").read_bytes()
        except FileNotFoundError:
            raise self._broken("is missing") from None
        if zlib.crc32(data[4:]).to_bytes(4) != data[:4]:
            raise self._broken("is damaged (the checksum does not fit its content)")
        return msgspec.msgpack.decode(data[4:], type=tuple[int, int, list[tuple[str, dict[str, Any], bytes]]])

    def _broken(self, what: str) -> FederationError:
        path = self.directory / "answers"
        return FederationError(f"{path} {what}; it may have answers that were not sent yet: {FEED_AGAIN}")
