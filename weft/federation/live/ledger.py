"""The ledger: what follows from the log of a federation, up to a place in it.

Ledgers that have read the same entries are equal. A query is known by the place of the entry that created it, since
its name may be used again after it was dropped.

A follower notes how far it has read and a digest of all entries up to there, before it acts on them. The next process
reads the log from the beginning, and must find the same entries.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import networkx as nx

from weft.algebra import Answers, Query, Stream
from weft.algebra.properties import leaves
from weft.federation import FederationError
from weft.federation.distribution.stream_interest import Interest, interests_of
from weft.federation.live import messages
from weft.federation.live.site_directory import RoleStore
from weft.federation.live.transport import LostError, Transport
from weft.sql import NamesInMemory, read, statements

#: How often an append is refused, although the log has nothing new, until the log must be taken for a shorter one.
_REFUSALS = 50
_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Stay:
    """The batches behind the place `after`, up to `until` (None: so far), for which a provider answers a query.

    `since` is the place of the entry that gave it the query: later than `after` if it has to make good for one that
    died. A stay that the provider did not end itself is `broken_off`: what it has answered by then lies in the home's
    mailbox before the entry that says so.
    """

    provider: str
    after: int
    since: int
    until: int | None = None
    broken_off: bool = False

    def reached(self, through: int) -> int:
        """Up to where it has answered, if the provider has carried out all entries up to a place."""
        if self.broken_off and self.until is not None:
            return self.until
        done = self.after if through < self.since else max(self.after, through)
        return done if self.until is None else min(done, self.until)


@dataclass(frozen=True)
class StandingQuery:
    """A query of the federation: created at the place `birth`, dropped at `ended` if it was."""

    query: Query
    home: str
    birth: int
    stays: tuple[Stay, ...]
    ended: int | None = None

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def provider(self) -> str:
        """The provider that answers it now, or did last."""
        return self.stays[-1].provider

    @cached_property
    def reads(self) -> frozenset[str]:
        """The streams that it reads, not through other queries."""
        return frozenset(each.name for each in leaves(self.query.relation) if isinstance(each, Stream))

    @cached_property
    def parents(self) -> frozenset[str]:
        """The queries whose answers it reads."""
        return frozenset(each.query for each in leaves(self.query.relation) if isinstance(each, Answers))

    @cached_property
    def interests(self) -> Mapping[str, Interest]:
        return interests_of(self.query)

    def unfinished(self, through: Mapping[str, int]) -> Iterator[tuple[Stay, int]]:
        """The stays that still have something to answer, with the place up to which they have."""
        for stay in self.stays:
            reached = stay.reached(through.get(stay.provider, 0))
            if stay.until is None or reached < stay.until:
                yield stay, reached


@dataclass(frozen=True, slots=True)
class BatchMark:
    """A batch's place in the log, and the largest clock of its stream after it."""

    place: int
    clock: int | None


@dataclass
class StreamRecord:
    """A stream, the site that owns it, all of its batches so far, and whether it was dropped."""

    stream: Stream
    owner: str
    marks: list[BatchMark] = field(default_factory=list)
    is_dropped: bool = False

    def count_at(self, place: int) -> int:
        """The number of batches up to a place."""
        return bisect_right(self.marks, place, key=lambda mark: mark.place)

    def clock_at(self, place: int) -> int | None:
        """The largest clock of the batches up to a place."""
        known = self.count_at(place)
        return self.marks[known - 1].clock if known else None

    def last_below(self, clock: int) -> int:
        """The last place up to which no row had reached a clock; 0 if that is before the first batch."""
        # Clocks of marks never fall, and are None until the first row.
        reached = bisect_right(self.marks, False, key=lambda mark: mark.clock is not None and mark.clock >= clock)
        if reached < len(self.marks):
            return self.marks[reached].place - 1
        return self.marks[-1].place if self.marks else 0


class FederationLedger:
    """The state of a federation at a place in its log. Only `apply` changes it."""

    def __init__(self) -> None:
        self.place = 0
        self.names = NamesInMemory()
        self.members: list[str] = []
        self.streams: dict[str, StreamRecord] = {}
        #: All queries by birth, those that were dropped too.
        self.queries: dict[int, StandingQuery] = {}
        #: The requests that have been carried out.
        self.done: set[str] = set()

    def query(self, name: str) -> StandingQuery:
        """A query that runs."""
        found = next((each for each in self.running() if each.name.lower() == name.lower()), None)
        if found is None:
            raise FederationError(f"there is no query '{name}' in the federation; `weft federation status` lists them")
        return found

    def running(self) -> list[StandingQuery]:
        """The queries that run now, in the order of their creation."""
        return [each for each in self.queries.values() if each.ended is None]

    def run_by(self, provider: str) -> list[StandingQuery]:
        """The queries that a provider answers from here on."""
        return [each for each in self.running() if each.provider == provider]

    def family(self, name: str) -> list[StandingQuery]:
        """A query with all that it reads the answers of, or that read its answers: they run at one place."""
        related = nx.Graph((each.name, other) for each in self.running() for other in each.parents | {each.name})
        found = nx.node_connected_component(related, self.query(name).name)
        return [each for each in self.running() if each.name in found]

    def clocks(self, place: int) -> dict[str, int]:
        """The largest clock of each stream that has one, up to a place."""
        found = {name: record.clock_at(place) for name, record in self.streams.items()}
        return {name: clock for name, clock in found.items() if clock is not None}

    def apply(self, place: int, entry: messages.Entry) -> None:
        if place != self.place + 1:
            raise FederationError(
                f"the log of this federation goes from entry {self.place} to {place}: its broker has lost entries; "
                "restore its store"
            )
        match entry:
            case messages.SiteJoined(site=site):
                if site not in self.members:
                    self.members.append(site)
            case messages.SiteLeft(site, moves):
                self.members = [each for each in self.members if each != site]
                self._hand_over(moves, place, broken_off=True)
            case messages.Declared():
                self._declare(entry)
            case messages.QueryCreated():
                statement = read(entry.text, self.names)
                assert isinstance(statement, statements.Create)
                assert isinstance(statement.definition, Query)
                self.names.add(statement.definition)
                stay = Stay(entry.provider, place, place)
                self.queries[place] = StandingQuery(statement.definition, entry.home, place, (stay,))
            case messages.QueryDropped(query=name):
                standing = self.query(name)
                self.names.drop(name)
                ended = (*standing.stays[:-1], replace(standing.stays[-1], until=place))
                self.queries[standing.birth] = replace(standing, stays=ended, ended=place)
            case messages.QueriesMoved(moves=moves):
                self._hand_over(moves, place, broken_off=False)
            case messages.BatchPublished():
                self.streams[entry.stream].marks.append(BatchMark(place, entry.clock))
        if not isinstance(entry, messages.SiteLeft | messages.BatchPublished):
            self.done.add(entry.id)
        self.place = place

    def _declare(self, entry: messages.Declared) -> None:
        statement = read(entry.text, self.names)
        match statement:
            case statements.Create(definition):
                self.names.add(definition)
                if isinstance(definition, Stream):
                    self.streams[definition.name] = StreamRecord(definition, entry.site)
            case statements.Drop(kind, name):
                dropped = self.names.find(name)
                self.names.drop(name)
                if kind == "STREAM" and dropped is not None:
                    self.streams[dropped.name].is_dropped = True

    def _hand_over(self, moves: tuple[messages.Handover, ...], place: int, *, broken_off: bool) -> None:
        """Cut what was said of who answers a query at a place, and have the target go on there."""
        for each in moves:
            standing = self.queries[each.birth]
            after = place if each.after is None else each.after
            kept = [stay for stay in standing.stays if stay.after < after or stay is standing.stays[0]]
            kept[-1] = replace(kept[-1], until=after, broken_off=broken_off or kept[-1].broken_off)
            stays = (*kept, Stay(each.target, after, place, standing.ended))
            self.queries[standing.birth] = replace(standing, stays=stays)


class Follower:
    """A ledger, and the transport that it is read from."""

    def __init__(self, transport: Transport, store: RoleStore) -> None:
        self.transport = transport
        self.ledger = FederationLedger()
        self._store = store
        known = store.rows("SELECT place, digest FROM log")
        self._known: tuple[int, bytes] = known[0] if known else (0, b"")
        self._digest = b""

    def read(self) -> Iterator[tuple[int, messages.Entry]]:
        """The entries that are new, each after it was taken into the ledger.

        Raises LostError if they are not those that were read before.
        """
        while found := self.transport.entries(self.ledger.place):
            digests = list(accumulate((data for _, data in found), _digest_behind, initial=self._digest))[1:]
            for (place, _), digest in zip(found, digests, strict=True):
                if place == self._known[0] and digest != self._known[1]:
                    raise self._lost("it has other entries up to there now")
            if found[-1][0] > self._known[0]:
                self._known = found[-1][0], digests[-1]
                self._store.rows("INSERT OR REPLACE INTO log VALUES (1, ?, ?)", *self._known)
            for (place, data), self._digest in zip(found, digests, strict=True):
                entry = messages.entry_of(data)
                self.ledger.apply(place, entry)
                yield place, entry
        if self.ledger.place < self._known[0]:
            raise self._lost(f"it ends at entry {self.ledger.place}")

    def catch_up(self) -> bool:
        """Take in all new entries; whether there were any."""
        return len(list(self.read())) > 0

    def append(self, entry: Callable[[], messages.Entry | None]) -> None:
        """Append an entry, which is made again whenever another site was faster: None if it is not wanted any more."""
        refusals = 0
        while True:
            refusals = 0 if self.catch_up() else refusals + 1
            made = entry()
            if made is None:
                return
            if self.transport.append(messages.entry_bytes(made), self.ledger.place) is not None:
                self.catch_up()
                return
            if refusals > _REFUSALS:
                raise self._lost("it takes no entry behind that one, and has none there")
            if refusals:
                time.sleep(_PAUSE)

    def _lost(self, what: str) -> LostError:
        return LostError(
            f"the log at {self.transport.name} was read up to entry {self._known[0]} before, and {what}; restore the "
            "broker's store, or begin a federation of another name with new directories"
        )


class Role(ABC):
    """A part of a federation, which does a little at a time on what it has read of the log, and has a store for it."""

    def __init__(self, transport: Transport, store: Path, tables: Sequence[str] = ()) -> None:
        self._transport = transport
        self._store = RoleStore(store, tables)
        self._follower = Follower(transport, self._store)

    @abstractmethod
    def step(self) -> bool:
        """Do a little; whether there was anything to do."""

    def close(self) -> None:
        self._store.close()
        self._transport.close()


def _digest_behind(before: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(before + data, digest_size=16).digest()
