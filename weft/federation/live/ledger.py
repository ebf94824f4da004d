"""The ledger: what follows from the log of a federation, up to a place in it.

Ledgers that have read the same entries are equal. A query is known by the place of the entry that created it, since
its name may be used again after it was dropped.

A query that is handed over is fed again. It is always right to feed it everything from its birth. For most much less
will do: no answer behind the place may rest on a row that came before feeding begins.

    selections          nothing: every row is answered when it comes
    windows             the oldest instance that is still open begins at w. Up to the last batch that left the stream's
                        clock below w no row of w or later had come, and what had come is not needed.
    joins of streams    a row that comes later is not below the watermark, and meets rows at most the longest range (and
                        a slide) older than itself; those came after the last batch that left all clocks below that
    anything else       its birth: aggregates and sets over all history, EMIT EMPTY, queries over answers

A query that is created again in the middle answers the instances that begin after the largest clock it finds (its
horizon, see docs/semantics.md). Feeding begins where that clock is below w, so these are the same ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import networkx as nx

from weft.algebra import Answers, Query, Select, Stream
from weft.algebra.properties import leaves
from weft.federation import FederationError
from weft.federation.distribution.stream_interest import Interest, interests_of
from weft.federation.live import messages
from weft.plan.event_time import first_open_start, is_windowed, passes_rows
from weft.sql import NamesInMemory, read, statements


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
        return {name: clock for name, record in self.streams.items() if (clock := record.clock_at(place)) is not None}

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


def feeding_begins(ledger: FederationLedger, queries: Mapping[int, int]) -> dict[int, int]:
    """By birth where feeding must begin for some queries, each with the place behind which it is to answer.

    Queries that read one another's answers begin as they did.
    """
    standing = [ledger.queries[birth] for birth in queries]
    read = frozenset().union(*(each.parents for each in ledger.running()))
    alone = {each.birth for each in standing if not each.parents and each.name not in read}
    return {
        each.birth: feeding_from(ledger, each, queries[each.birth]) if each.birth in alone else each.birth
        for each in standing
    }


def feeding_from(ledger: FederationLedger, standing: StandingQuery, after: int) -> int:
    """The place behind which a query must be fed all batches to give its answers behind the place `after`."""
    if after <= standing.birth:
        return standing.birth
    relation = standing.query.relation
    streams = [each for each in leaves(relation) if isinstance(each, Stream)]
    if not isinstance(relation, Select) or len(streams) < len(leaves(relation)):
        return standing.birth
    if passes_rows(relation):
        return after
    needed = _oldest_needed(ledger, relation, streams, after)
    if needed is None:
        return standing.birth
    return max(standing.birth, min(after, *(ledger.streams[each.name].last_below(needed) for each in streams)))


def _oldest_needed(ledger: FederationLedger, select: Select, streams: list[Stream], after: int) -> int | None:
    """The oldest clock of a row that an answer behind a place may rest on; None if it may be any."""
    clocks = [ledger.streams[each.name].clock_at(after) for each in streams]
    watermarks = [clock - each.delay for each, clock in zip(streams, clocks, strict=True) if clock is not None]
    if len(watermarks) < len(streams):
        return None
    if len(select.inputs) > 1:
        # A join of streams, each within a range, and nothing more.
        windows = [each.window for each in select.inputs if passes_rows(each.source)]
        bounded = [each for each in windows if each is not None and not each.is_unbounded]
        if len(bounded) < len(select.inputs) or select.is_grouped or select.distinct or select.window is not None:
            return None
        return min(watermarks) - max((each.range or 0) + each.slide for each in bounded)
    # One window over the rows of one stream.
    is_plain = not select.emit_empty and not select.distinct and len(streams) == 1
    if not (is_plain and is_windowed(select) and passes_rows(select.inputs[0].source)):
        return None
    assert select.window is not None
    return first_open_start(select.window, min(watermarks))
