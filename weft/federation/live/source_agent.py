"""A stream's owner: it takes batches from files, numbers them, and sends every row once, to providers that want it.

A file must appear whole, under its final name, as for Spark. Each becomes one batch, in order, which is kept until no
query can need it again. Rows are divided by which providers want them (`docs/federation.md`, "Rows travel once"):

    take      a file becomes a numbered batch, and is kept                     (durable: the copy, and its number)
    send      the messages                                                     (may be sent again after a crash)
    append    the entry, if the log still is as it was when rows were divided  (the batch is there now, for all)

If another site has appended meanwhile, perhaps that a new query runs somewhere, rows are divided again. So a provider
never lacks rows for a query that was created before the batch.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from weft.algebra import Stream
from weft.algebra.properties import clock_type
from weft.algebra.types import TIMESTAMP
from weft.arrays.arrow_types import arrow_type
from weft.federation import FederationError
from weft.federation.distribution.stream_interest import Interest, united
from weft.federation.live import messages
from weft.federation.live.site_directory import Mailbox, Role, RoleStore
from weft.federation.live.transport import Transport
from weft.files.atomic import private_folder, publish
from weft.runtime.sources import replay
from weft.runtime.spark.rows import clock_bounds

#: Rows that tell the coordinator which values are how frequent.
_SAMPLE = 500
_SAMPLE_EVERY = 20

#: How far a TIMESTAMP may be ahead of the owner's time: one row from the far future would make all that follow late.
_MOST_AHEAD = 86_400_000_000

BATCHES_TABLE = (
    "batches (stream TEXT NOT NULL, number INTEGER NOT NULL, file TEXT NOT NULL, clock INTEGER, "
    "PRIMARY KEY (stream, number), UNIQUE (stream, file))"
)


class SourceAgent(Role):
    """Publishes the streams that a site owns."""

    def __init__(self, site: str, directory: Path, transport: Transport) -> None:
        super().__init__(transport, directory / "source.db", [BATCHES_TABLE])
        self.site = site
        self._directory = directory
        self._mailbox = Mailbox(transport, self._store, messages.source_mailbox(site))
        self._files: dict[str, BatchFiles] = {}
        self._rate: dict[str, tuple[float, float]] = {}

    def step(self) -> bool:
        """Answer one message, or publish one batch of each stream."""
        self._follower.catch_up()
        for name, record in self._follower.ledger.streams.items():
            if record.owner == self.site and name not in self._files:
                folder = self._directory / "streams" / str(len(self._files))
                self._files[name] = BatchFiles(record.stream, folder, self._store)
        asked = (found := self._mailbox.next()) is not None and self._answer(*found)
        streams = self._follower.ledger.streams
        published = [self._publish(name) for name in self._files if not streams[name].is_dropped]
        return any(published) or asked

    def _publish(self, name: str) -> bool:
        files = self._files[name]
        number = len(self._follower.ledger.streams[name].marks)
        if number > files.taken:
            raise FederationError(
                f"{self._directory} knows of {files.taken} batches of stream '{name}', the log of the federation of "
                f"{number}: it is not the directory that they came from; restore it"
            )
        # A batch that was taken, and of which the log knows nothing, comes first.
        if number >= files.taken and files.take() is None:
            return False
        rows, clock = files.rows(number), files.clock(number)
        if rows is None:
            raise FederationError(f"batch {number} of stream '{name}' is gone from {self._directory}: restore it")
        # What was sent in an attempt before: if providers want the same now, it is not sent again.
        sent: list[tuple[dict[str, Interest], tuple[messages.PublishedPart, ...]]] = []

        def entry() -> messages.BatchPublished | None:
            if len(self._follower.ledger.streams[name].marks) > number:
                # An append of ours had come through although we were told that it had not.
                return None
            wanting = self._wanting(name)
            if not sent or sent[-1][0] != wanting:
                sent.append((wanting, tuple(self._sent(name, number, *each) for each in divided(rows, wanting))))
            return messages.BatchPublished(name, number, clock, rows.num_rows, sent[-1][1])

        self._follower.append(entry)
        self._tell_rate(name, number, rows)
        return True

    def _wanting(self, name: str) -> dict[str, Interest]:
        """By provider what its queries need of a stream."""
        found: defaultdict[str, list[Mapping[str, Interest]]] = defaultdict(list)
        for query in self._follower.ledger.running():
            if name in query.reads:
                found[query.provider].append(query.interests)
        return {provider: united(interests)[name] for provider, interests in found.items()}

    def _sent(self, name: str, number: int, sites: tuple[str, ...], rows: pa.Table) -> messages.PublishedPart:
        numbers = []
        for ordinal, piece in enumerate(messages.small_enough(rows, self._transport)):
            identity = f"rows/{name}/{number}/{self._follower.ledger.place}/{','.join(sites)}/{ordinal}"
            fields = {"stream": name, "number": number}
            numbers.append(messages.send(self._transport, messages.rows_mailbox(name), identity, "rows", fields, piece))
        return messages.PublishedPart(sites, tuple(numbers), rows.num_rows)

    def _tell_rate(self, name: str, number: int, rows: pa.Table) -> None:
        """Tell the coordinator now and then how much flows, and what it looks like."""
        since, size = self._rate.get(name, (time.monotonic(), 0.0))
        self._rate[name] = since, size + rows.nbytes
        if number % _SAMPLE_EVERY == 0 and rows.num_rows:
            seconds = max(time.monotonic() - since, 1.0)
            step = max(1, rows.num_rows // _SAMPLE)
            fields = {"stream": name, "rate": self._rate[name][1] / seconds}
            sample = messages.SiteMessage("sample", fields, rows.take(pa.array(range(0, rows.num_rows, step))))
            data = messages.message_bytes(sample)
            if len(data) <= self._transport.largest:
                self._transport.put(messages.COORDINATOR, f"sample/{self.site}/{name}/{number}", data)

    def _answer(self, number: int, message: messages.SiteMessage) -> bool:
        if message.kind == "replay":
            if self._follower.ledger.place < message["place"]:
                # The log up to there says what the queries are that want rows: it is read first.
                return False
            self._replay(message)
        elif message.kind == "release" and message["stream"] in self._files:
            self._files[message["stream"]].delete(message["before"])
        self._mailbox.read(number)
        return True

    def _replay(self, message: messages.SiteMessage) -> None:
        """Send batches again, as far as they are wanted, or say that one is not kept any more."""
        ledger, files = self._follower.ledger, self._files[message["stream"]]
        interest = united(ledger.queries[birth].interests for birth in message["queries"])[message["stream"]]
        at = 0
        for number in message["numbers"]:
            rows = files.rows(number)
            if rows is None:
                problem = f"batch {number} of stream '{message['stream']}' is not kept any more by {self.site}"
                messages.send(self._transport, message["reply"], message["reply"], "gone", {"error": problem})
                return
            wanted = chosen(rows, interest.columns, interest.mask(rows))
            pieces = messages.small_enough(wanted, self._transport)
            for ordinal, piece in enumerate(pieces):
                fields = {"at": at, "number": number, "left": len(pieces) - ordinal - 1}
                identity = f"{message['reply']}/{message['stream']}/{number}/{ordinal}"
                at += 1
                messages.send(self._transport, message["reply"], identity, "replayed", fields, piece)


def divided(rows: pa.Table, wanting: dict[str, Interest]) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """Rows by the providers that want them, in the order of their names; rows that none wants are left out."""
    sites = sorted(wanting)
    if not sites or not rows.num_rows:
        return
    masks = np.stack([wanting[site].mask(rows) for site in sites])
    kinds, kind_of_row = np.unique(masks, axis=1, return_inverse=True)
    for kind in range(kinds.shape[1]):
        who = tuple(site for site, wants in zip(sites, kinds[:, kind], strict=True) if wants)
        if who:
            columns = frozenset().union(*(wanting[site].columns for site in who))
            yield who, chosen(rows, columns, kind_of_row.reshape(-1) == kind)


def chosen(rows: pa.Table, columns: frozenset[str], mask: NDArray[np.bool_]) -> pa.Table:
    return rows.select([name for name in rows.column_names if name in columns]).filter(pa.array(mask))


class BatchFiles:
    """The batches of one stream: those that were taken, by number, and the next one."""

    def __init__(self, stream: Stream, directory: Path, store: RoleStore) -> None:
        self.stream = stream
        self._store = store
        self._kept = directory / "kept"
        private_folder(self._kept)
        self._folder = Path(dict(stream.options)["path"])
        if stream.format == replay.FORMAT:
            folder = directory / "replay"
            self._folder = replay.prepare(stream, folder)
            if "speed" in dict(stream.options):
                feeding = stream, folder, threading.Event()
                threading.Thread(target=replay.feed, args=feeding, daemon=True, name="weft-replay").start()

    @property
    def taken(self) -> int:
        return int(self._store.rows("SELECT count(*) FROM batches WHERE stream = ?", self.stream.name)[0][0])

    def clock(self, number: int) -> int | None:
        """The largest clock of the stream up to a batch."""
        largest = "SELECT max(clock) FROM batches WHERE stream = ? AND number <= ?"
        ((clock,),) = self._store.rows(largest, self.stream.name, number)
        return None if clock is None else int(clock)

    def take(self) -> int | None:
        """Take the next file, if there is one; the number of the batch that it becomes."""
        if (name := self._next_file()) is None:
            return None
        number = self.taken
        rows, clock = self._judged(self._read(self._folder / name))
        path = self._path(number)
        draft = path.with_suffix(".draft")
        pq.write_table(rows, draft)
        publish(draft, path)
        self._store.rows("INSERT INTO batches VALUES (?, ?, ?, ?)", self.stream.name, number, name, clock)
        return number

    def rows(self, number: int) -> pa.Table | None:
        """The rows of a batch that was taken; None if they were deleted."""
        try:
            return pq.read_table(self._path(number))
        except FileNotFoundError:
            return None

    def delete(self, before: int) -> None:
        """Delete the rows of batches with smaller numbers."""
        for path in self._kept.glob("*.parquet"):
            if int(path.stem) < before:
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._kept / f"{number:012d}.parquet"

    def _next_file(self) -> str | None:
        known = {name for (name,) in self._store.rows("SELECT file FROM batches WHERE stream = ?", self.stream.name)}
        try:
            files = [each for each in os.scandir(self._folder) if each.name.endswith(".parquet")]
        except FileNotFoundError:
            return None
        found = [each for each in files if not each.name.startswith((".", "_")) and each.name not in known]
        return min(found, key=lambda each: (each.stat().st_mtime_ns, each.name)).name if found else None

    def _read(self, path: Path) -> pa.Table:
        try:
            found = pq.read_table(path)
            columns = {name.lower(): name for name in found.column_names}
            fields = {each.name: (columns[each.name.lower()], arrow_type(each.type)) for each in self.stream.fields}
            return pa.table({name: found[column].cast(type_) for name, (column, type_) in fields.items()})
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, OSError) as error:
            reason = f"it has no column {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0]
            raise FederationError(
                f"{path} is no batch of stream '{self.stream.name}': {reason}; mend it or take it away, and start this "
                "site again"
            ) from error

    def _judged(self, rows: pa.Table) -> tuple[pa.Table, int | None]:
        """The rows whose clock can be believed, and the largest of these clocks.

        What is wrong with a row is decided here, once, and not by each provider that it might reach.
        """
        clocks = rows[self.stream.clock].cast(pa.int64()).combine_chunks()
        least, most = clock_bounds(self.stream)
        if clock_type(self.stream) == TIMESTAMP:
            most = min(most, time.time_ns() // 1000 + _MOST_AHEAD)
        good = pc.and_(pc.greater_equal(clocks, least), pc.less_equal(clocks, most)).fill_null(False)
        if not np.asarray(good).all():
            rows, clocks = rows.filter(good), clocks.filter(good)
        return rows, pc.max(clocks).as_py() if len(clocks) else None
