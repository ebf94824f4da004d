"""A provider: it follows the log, and does at each entry what the entry says of it.

    created here            the query begins, in the present engine
    dropped, or goes away   it ends, and its users' site hears that no more answers of it will come from here
    comes here              another engine is built, and takes the place of the one that runs, see `provider_engine.py`
    a batch                 if a query here reads the stream: one cycle is run on its rows

After each entry the place is written down together with what changed. A provider that dies goes on behind the last
place that it wrote down, and everything it does can be done twice.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from weft.delivery.delivery_errors import BrokerError
from weft.federation import FederationError
from weft.federation.live import messages
from weft.federation.live.ledger import StandingQuery, feeding_begins
from weft.federation.live.provider_engine import EngineMaker, ProviderEngine
from weft.federation.live.site_directory import Follower, Role, engine_directory, engine_number
from weft.federation.live.transport import Transport
from weft.files.atomic import flush
from weft.files.checked_file import move_marker

#: Rows by the stream and number of their batch.
BatchRows: TypeAlias = dict[tuple[str, int], pa.Table]

#: Seconds without a batch after which it is said that the owner is waited for.
_PATIENCE = 10.0


class BatchGoneError(FederationError):
    """The owner of a stream has deleted a batch, since no answer to it is missing."""


class Provider(Role):
    """Runs the queries that the log gives to a site."""

    def __init__(
        self,
        site: str,
        directory: Path,
        transport: Transport,
        make_engine: EngineMaker,
        say: Callable[[str], None] = lambda sentence: None,
        idle: Callable[[], None] = lambda: time.sleep(0.05),
        rejoin: Callable[[], None] = lambda: None,
    ) -> None:
        """`idle` is called while the owner of a stream is waited for, `rejoin` when the federation has given it up."""
        super().__init__(transport, directory / "provider.db")
        self.site = site
        self._directory = directory
        self._make_engine = make_engine
        self._say = say
        self._idle = idle
        self._seconds = 0.0
        self._rejoin = rejoin
        self._has_left = False
        #: An entry that was not carried out to its end: the broker was away, say.
        self._unfinished: tuple[int, messages.Entry] | None = None
        number = engine_number(directory)
        self.is_new = number is None
        self._number = number or 0
        self._current = self._opened(self._number)
        self._note_number(number)

    @property
    def place(self) -> int:
        """How far it has come with all that concerns its queries."""
        return self._current.engine.applied

    def start_over(self) -> bool:
        """Begin with an empty engine if other providers have taken over all that ran here; whether they have."""
        left = place = behind = 0
        while entries := self._transport.entries(place):
            for place, data in entries:
                entry = messages.entry_of(data)
                if isinstance(entry, messages.SiteLeft) and entry.site == self.site:
                    # What goes on here, since there is no other provider, comes with that entry.
                    left, behind = place, place - any(each.target == self.site for each in entry.moves)
        if left <= self.place:
            return False
        fresh = self._fresh()
        fresh.engine.change(behind)
        self._replace(fresh)
        self._follower = Follower(self._transport, self._store)
        self._unfinished = None
        return True

    def close(self) -> None:
        self._current.engine.close()
        super().close()

    def step(self) -> bool:
        """Carry out the entries that are new, each to its end; whether there were any."""
        try:
            if self._unfinished is not None:
                self._carry_out(*self._unfinished)
            worked = self._current.send()
            for place, entry in self._follower.read():
                worked = True
                self._carry_out(place, entry)
        except BatchGoneError:
            # No user waits for answers to a batch that was deleted: the federation has given this provider up.
            if not self.start_over():
                raise
            self._has_left = worked = True
        if self._has_left:
            self._has_left = False
            self._rejoin()
        return worked

    def _carry_out(self, place: int, entry: messages.Entry) -> None:
        self._unfinished = place, entry
        if place > self.place:
            self._do(place, entry)
        elif place == self.place:
            self._find_addresses()
        self._unfinished = None

    def _do(self, place: int, entry: messages.Entry) -> None:
        ledger = self._follower.ledger
        match entry:
            case messages.BatchPublished():
                if any(entry.stream in each.reads for each in ledger.run_by(self.site)):
                    rows = self._rows(entry)
                    started = time.monotonic()
                    self._current.take_batch(place, ledger, entry.stream, rows)
                    self._seconds += time.monotonic() - started
            case messages.QueryCreated(provider=provider, query=name) if provider == self.site:
                self._find_addresses()
                self._current.begin(place, ledger, [ledger.query(name)])
            case messages.QueryDropped(query=name):
                self._end(self._current, place, [name])
            case messages.QueriesMoved(moves=moves) | messages.SiteLeft(moves=moves):
                going = [each.query for each in moves if each.source == self.site]
                coming = {each.birth for each in moves if each.target == self.site}
                self._end(self._current, place, going, drop=not coming)
                if coming:
                    self._rebuild(place, coming)
                self._has_left = self._has_left or (isinstance(entry, messages.SiteLeft) and entry.site == self.site)
            case _:
                return
        self._report(place)

    def _find_addresses(self) -> None:
        """Find out from the log where the answers of the queries go that run here."""
        running = self._follower.ledger.run_by(self.site)
        self._current.addresses.clear()
        self._current.addresses.update({each.name: (each, each.stays[-1].after) for each in running})

    def _end(self, provider_engine: ProviderEngine, place: int, names: Sequence[str], *, drop: bool = True) -> None:
        """End queries: send what they answered before, and then that no more will come.

        An engine that is replaced next does not drop them, nor note the place: the entry is not carried out yet.
        """
        addresses = provider_engine.addresses
        # Queries that read others' answers end first.
        here = sorted((addresses[name][0] for name in names if name in addresses), key=lambda each: -each.birth)
        if not here:
            return
        provider_engine.send()
        for each in here:
            fields = {"provider": self.site, "birth": each.birth, "through": place}
            identity = f"ended/{self.site}/{each.birth}/{place}"
            messages.send(self._transport, messages.results_mailbox(each.home), identity, "ended", fields)
        if drop:
            provider_engine.engine.change(place, drop=[each.name for each in here])
        for each in here:
            del addresses[each.name]

    def _report(self, place: int) -> None:
        """Tell the coordinator how far all answers are with the broker."""
        self._current.send()
        fields = {"site": self.site, "through": place, "seconds": round(self._seconds, 3)}
        messages.send(self._transport, messages.COORDINATOR, f"progress/{self.site}/{place}", "progress", fields)

    def _rows(self, entry: messages.BatchPublished) -> pa.Table:
        """The rows of a batch that are wanted here; from the owner of the stream if the broker has dropped them."""
        parts = [self._part(entry, each) for each in entry.parts if self.site in each.sites]
        found = [each for each in parts if each is not None]
        if len(found) < len(parts):
            batch = entry.stream, entry.number
            return self._fetched(self._follower.ledger.run_by(self.site), [batch])[batch]
        return pa.concat_tables(found, promote_options="default") if found else pa.table({})

    def _part(self, batch: messages.BatchPublished, part: messages.PublishedPart) -> pa.Table | None:
        """The rows of a part; None if the broker has dropped some, or has other messages under their numbers."""
        received = [
            messages.message_of(data) for number in part.numbers if (data := self._transport.get(number)) is not None
        ]
        expected = "rows", {"stream": batch.stream, "number": batch.number}
        rows = [each.rows for each in received if each.rows is not None and (each.kind, each.fields) == expected]
        whole = len(rows) == len(part.numbers) and sum(each.num_rows for each in rows) == part.rows
        return pa.concat_tables(rows) if whole else None

    def _fetched(self, queries: list[StandingQuery], batches: Collection[tuple[str, int]]) -> BatchRows:
        """The rows of batches that queries want, from the owners of the streams. Raises BatchGoneError."""
        found: BatchRows = {}
        ledger = self._follower.ledger
        wanting = {"place": ledger.place, "queries": [each.birth for each in queries]}
        for stream in {stream for stream, _ in batches}:
            identity, owner = uuid.uuid4().hex, ledger.streams[stream].owner
            mailbox = messages.reply_mailbox(identity)
            numbers = sorted(number for name, number in batches if name == stream)
            fields = {"stream": stream, "numbers": numbers, "reply": mailbox, **wanting}
            messages.send(self._transport, messages.source_mailbox(owner), identity, "replay", fields)
            late = f"waiting for site {owner} to send batches of stream '{stream}' again; is it running?"
            answered = self._answered(mailbox, len(numbers), late)
            found |= {(stream, number): rows for number, rows in answered.items()}
        return found

    def _answered(self, mailbox: str, count: int, late: str) -> dict[int, pa.Table]:
        """The rows of a number of batches that come to a mailbox. What is said if they are `late` is said once."""
        heard, has_said = time.monotonic(), False
        pieces: dict[int, list[pa.Table]] = {}
        place = at = 0
        while count:
            found = self._transport.take(mailbox, place)
            if found is None:
                if not has_said and time.monotonic() > heard + _PATIENCE:
                    self._say(late)
                    has_said = True
                self._idle()
                continue
            heard, has_said = time.monotonic(), False
            place, data = found
            message = messages.message_of(data)
            if message.kind == "gone":
                raise BatchGoneError(message["error"])
            if message["at"] > at:
                raise BrokerError(
                    f"{self._transport.name} has dropped rows that were sent again for this site; they are asked for "
                    "once more"
                )
            if message["at"] < at:
                # The owner was started again in the middle, and began its answer again.
                continue
            at += 1
            pieces.setdefault(message["number"], []).append(message.rows)
            count -= message["left"] == 0
        return {number: pa.concat_tables(each) for number, each in pieces.items()}

    def _rebuild(self, place: int, coming: set[int]) -> None:
        """Build an engine that has all queries of this provider, with those that come, and let it take over."""
        # The old one goes with all that it has: what it had answered when it died, perhaps, and not sent.
        self._current.send()
        ledger = self._follower.ledger
        mine = ledger.run_by(self.site)
        self._say(f"taking in {len(coming)} queries; {len(mine)} will run here")
        # One that was dropped may come too: the provider that ran it has died before it had answered all.
        mine += [ledger.queries[birth] for birth in coming if ledger.queries[birth].ended is not None]
        mine.sort(key=lambda each: each.birth)
        fresh = self._fresh()
        after = {each.birth: each.stays[-1].after if each.birth in coming else place for each in mine}
        self._feed(fresh, mine, after, place)
        fresh.engine.change(place)
        self._replace(fresh)

    def _feed(self, fresh: ProviderEngine, mine: list[StandingQuery], after: Mapping[int, int], until: int) -> None:
        """Create queries where feeding them begins, run the batches since then, and give missing answers."""
        ledger = self._follower.ledger
        begins = feeding_begins(ledger, after)
        # The batches that a query which has begun, and not ended, reads.
        batches = {
            mark.place: (stream, number)
            for stream, record in ledger.streams.items()
            for number, mark in enumerate(record.marks)
            for each in mine
            if stream in each.reads and begins[each.birth] < mark.place <= (each.ended or until)
        }
        rows = self._fetched(mine, batches.values())
        ends = {each.ended for each in mine if each.ended is not None}
        # A query is fed what is behind the place where it begins.
        for place in sorted({*batches, *begins.values(), *ends}):
            if place in batches:
                fresh.take_batch(place, ledger, batches[place][0], rows.pop(batches[place]))
            self._end(fresh, place, [each.name for each in mine if each.ended == place])
            beginning = [each for each in mine if begins[each.birth] == place]
            if beginning:
                fresh.addresses.update({each.name: (each, after[each.birth]) for each in beginning})
                fresh.begin(place, ledger, beginning)

    def _opened(self, number: int) -> ProviderEngine:
        directory = engine_directory(self._directory, number)
        return ProviderEngine(directory, self.site, self._transport, self._make_engine)

    def _fresh(self) -> ProviderEngine:
        """An engine without a past. What an attempt before has left of it goes."""
        shutil.rmtree(engine_directory(self._directory, self._number + 1), ignore_errors=True)
        return self._opened(self._number + 1)

    def _replace(self, fresh: ProviderEngine) -> None:
        old, self._current = self._current, fresh
        self._number += 1
        self._note_number(self._number - 1)
        old.engine.close()
        shutil.rmtree(old.directory, ignore_errors=True)

    def _note_number(self, before: int | None) -> None:
        engines = self._directory / "engines"
        move_marker(engines, "current", before, self._number)
        flush(engines)
