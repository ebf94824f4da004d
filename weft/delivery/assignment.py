"""Who takes answers from where, as members come and go: decided between two cycles, and kept in the catalog.

    members, in groups            `weft/optimizer/group_results` decides which queries share a representative
    representatives, in epochs    what is evaluated for a group; a new epoch begins when it no longer serves a member
    itineraries, in spans         which rows of which epoch are a member's

All of it changes in one transaction, together with what is registered. What a cycle is decided by is in the catalog
before it, so a cycle that is run again finds it as it was.

A representative begins with a cycle, like every query, and lacks what came before it. A member that is older than it
must not miss that, and one that is younger must not get it. What decides is the *place* of a row:

    selections     the cycle that publishes the row: rows pass at once
    aggregates     the start of the window instance: a query answers the instances that start after all rows so far
    joins          the newest clock in the row, once no row that it joins can have been there before

    largest clock so far ─┐     ┌─ T = largest + reach + 1: whatever joins a row with this clock has come later
    ──────────────────────┴─────┴──────────────────▶ clock
      from the old one           from the new one

Until then both run side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

import msgspec

from weft.algebra import Query, Relation, Stream
from weft.algebra.properties import leaves
from weft.algebra.relations import WINDOW_START
from weft.catalog import Catalog, MemberItinerary, Representative, decode, encode
from weft.delivery.itinerary import Itinerary, Span, as_json, from_json
from weft.optimizer.group_results import (
    GroupChange,
    GroupRepresentative,
    Groups,
    QueryKind,
    TrafficStatistics,
)
from weft.plan.event_time import Clock, EventTime, QueryStart
from weft.plan.subscription import Subscription
from weft.runtime.sinks.publishing import publishing_sink
from weft.sql.names import OWN
from weft.windows.slicing import ResidueClass

#: Under which it is kept how groups are numbered: no number is used twice.
_NUMBERS = ""

#: Spans that an itinerary keeps: as far back late joiners can go.
_MOST_SPANS = 32


class Assignment:
    """The members of a project and where their answers are found.

    `told` says that links carry what edges tell each other, and not what a broker does (`group_results/pricing.py`).
    What is decided is decided at a `moment`: the event time between two cycles, with the number of the next.
    """

    def __init__(self, catalog: Catalog, statistics: TrafficStatistics, most_delay: int, told: bool = True) -> None:
        self._catalog = catalog
        self._most_delay = most_delay
        self._groups = _kept_groups(catalog, statistics, most_delay, told)
        placed = {int(member) for group in self._groups.names() for member in self._groups.members(group)}
        #: What is evaluated for groups, by stream and epoch.
        self.epochs = running_epochs(catalog)
        self._itineraries = {each.number: from_json(each.document) for each in catalog.deliveries.itineraries()}

        #: Members whose groups could not be taken up, since others in them went while nothing ran.
        self._unplaced = self._itineraries.keys() - placed
        self._broken = catalog.deliveries.groups().keys() - {_NUMBERS, *self._groups.names()}

    def settle(self, moment: EventTime, statistics: TrafficStatistics | None = None) -> None:
        """Bring everything in line with the present members; with statistics, regroup what does not pay."""
        numbers = frozenset(self._catalog.members().values())
        with self._catalog.transaction():
            if statistics is not None or self._unplaced or numbers != self._itineraries.keys():
                self._change(numbers, moment, statistics)
            self._retire(moment)

    # -- changes ------------------------------------------------------------------------------------------------------

    def _change(self, numbers: frozenset[int], moment: EventTime, statistics: TrafficStatistics | None) -> None:
        gone = sorted(self._itineraries.keys() - numbers)
        changes = [self._groups.terminate(str(number)) for number in gone if number not in self._unplaced]
        for number in gone:
            self._end(number, moment)
        queries = _by_number(self._catalog)
        new = sorted(numbers - self._itineraries.keys() | self._unplaced & numbers)
        self._unplaced = set()
        changes += [self._groups.insert(str(number), queries[str(number)], _hop(queries, number)) for number in new]
        if statistics is not None:
            changes.append(self._groups.reoptimise(statistics))
        begun = self._begin_epochs(changes, regrouping=statistics is not None)
        moved = {int(member) for change in changes for member, (_, to) in change.moved.items() if to is not None}
        stayed = {int(member) for group in begun for member in self._groups.members(group)}
        for number in sorted(moved | stayed | set(new)):
            self._route(number, queries[str(number)], begun, moment)
        for group in _touched(changes) | self._broken:
            exists = group in self._groups.names()
            self._catalog.deliveries.put_group(group, self._groups.group_as_data(group, encode) if exists else None)
        self._broken = set()
        self._catalog.deliveries.put_group(_NUMBERS, {"next": self._groups.next_number})

    def _begin_epochs(self, changes: Iterable[GroupChange], *, regrouping: bool) -> set[str]:
        """Let the groups that need it begin a new epoch; those that could do with less wait until all are regrouped."""
        changed = {group for change in changes for group in change.changed}
        needed = {group for change in changes for group in change.changed if group not in change.narrowed}
        begun = set()
        for group in self._groups.names() if regrouping else changed:
            if group not in self._groups.names():
                continue
            running, wanted = self._current(group), self._groups.representative(group)
            if running is not None and (running.epoch == wanted.epoch or not (regrouping or group in needed)):
                continue
            running = begin_epoch(self._catalog, wanted, group, wanted.epoch)
            self.epochs[group, wanted.epoch] = running
            begun.add(group)
        return begun

    def _current(self, group: str) -> RunningEpoch | None:
        epochs = [epoch for stream, epoch in self.epochs if stream == group]
        return self.epochs[group, max(epochs)] if epochs else None

    def _route(self, number: int, query: Query, begun: set[str], moment: EventTime) -> None:
        """Say where a member's answers are found from now on."""
        group = self._groups.group_of(str(number))
        running = self._current(group)
        assert running is not None
        known = self._itineraries.get(number)
        subscriptions = {group: self._groups.subscription(str(number))}
        whole = Span(group, running.epoch, running.by, clock=running.clock)
        if known is not None:
            spans = _switched(known.spans, whole, switch_place(running.kind, running.relation, running.reach, moment))
            subscriptions = {each.stream: each for each in known.subscriptions} | subscriptions
        elif group in begun:
            spans = (whole,)
        else:
            at_once, since = joins_at(running.kind, running.relation, moment)
            spans = (replace(whole, since=since),)
            if not at_once:
                bridge, subscription = self._bridge(number, query)
                spans = _switched((bridge,), whole, switch_place(running.kind, running.relation, running.reach, moment))
                subscriptions[bridge.stream] = subscription
        spans, complete_from = self._without_oldest(spans, known, moment)
        needed = {each.stream for each in spans}
        listed = tuple(each for stream, each in subscriptions.items() if stream in needed)
        found = Itinerary(query.name, listed, spans, number=number, complete_from=complete_from)
        if found != known:
            self._itineraries[number] = found
            self._catalog.deliveries.put(MemberItinerary(number, moment.cycle, as_json(found)))

    def _without_oldest(
        self, spans: tuple[Span, ...], known: Itinerary | None, moment: EventTime
    ) -> tuple[tuple[Span, ...], int | None]:
        """Spans without the oldest, if they are many, and the cycle from which on they are all there is.

        A span goes only if its epoch is not evaluated any more: no row of it comes again.
        """
        complete_from = known.complete_from if known is not None else None
        while len(spans) > _MOST_SPANS and (spans[0].stream, spans[0].epoch) not in self.epochs:
            spans, complete_from = spans[1:], moment.cycle
        return spans, complete_from

    def _bridge(self, number: int, query: Query) -> tuple[Span, Subscription]:
        """Evaluate a new member alone until the representative of its group lacks none of its answers."""
        alone = Groups(most_delay=self._most_delay)
        alone.insert(str(number), query)
        (group,) = alone.names()
        stream = f"m{number}"
        running = begin_epoch(self._catalog, alone.representative(group), stream, 1)
        self.epochs[stream, 1] = running
        return Span(stream, 1, running.by, clock=running.clock), replace(alone.subscription(str(number)), stream=stream)

    def _end(self, number: int, moment: EventTime) -> None:
        """A member is gone: of the next cycle it takes nothing any more."""
        ended = replace(self._itineraries.pop(number), ended=moment.cycle)
        self._catalog.deliveries.put(MemberItinerary(number, moment.cycle, as_json(ended), ended=True))

    # -- epochs that are over -----------------------------------------------------------------------------------------

    def _retire(self, moment: EventTime) -> None:
        """End epochs that no member takes rows from any more."""
        current = {group: self._current(group) for group in self._groups.names()}
        in_use = {(group, running.epoch) for group, running in current.items() if running is not None}
        past = {key: each for key, each in self.epochs.items() if key not in in_use}
        if not past:
            return
        ends: dict[tuple[str, int], list[int | None]] = {}
        for itinerary in self._itineraries.values():
            for span in itinerary.spans:
                if (span.stream, span.epoch) in past:
                    ends.setdefault((span.stream, span.epoch), []).append(span.until)
        for key, running in past.items():
            waiting = (
                until is None or not is_past(running.kind, running.relation, until, moment)
                for until in ends.get(key, ())
            )
            if not any(waiting):
                for name in running.names:
                    self._catalog.drop(Representative, name)
                del self.epochs[key]


def forget_all(catalog: Catalog) -> None:
    """Let members be grouped from the start. Groups are not numbered from the start: what they published is known."""
    with catalog.transaction():
        for each in catalog.representatives():
            catalog.drop(Representative, each.name)
        numbers = catalog.deliveries.groups().get(_NUMBERS)
        catalog.deliveries.clear()
        if numbers is not None:
            catalog.deliveries.put_group(_NUMBERS, numbers)


def _switched(spans: tuple[Span, ...], to: Span, place: int | None) -> tuple[Span, ...]:
    """Spans that end where another one begins, which has no end; it takes all if there is no such place."""
    if place is None:
        return (to,)
    *before, last = spans
    assert last.until is None, "the last span has no end"
    if last.since is not None and last.since >= place:
        # It has not begun yet, and takes nothing. What was before it goes on until it would have begun.
        return (*before, replace(to, since=last.since))
    return (*before, replace(last, until=place), replace(to, since=place))


def _kept_groups(catalog: Catalog, statistics: TrafficStatistics, most_delay: int, told: bool) -> Groups:
    """The groups as they were when the last process ended."""
    kept, queries = catalog.deliveries.groups(), _by_number(catalog)
    numbers = kept.pop(_NUMBERS, {"next": 1})
    whole = {name: each for name, each in kept.items() if queries.keys() >= set(each["members"])}
    groups = Groups(statistics, most_delay=most_delay, told=told)
    groups.restore({**numbers, "groups": whole}, queries, decode)
    return groups


def _by_number(catalog: Catalog) -> dict[str, Query]:
    numbers = catalog.members()
    return {str(numbers[each.name]): each for each in catalog.queries() if each.name in numbers}


def _hop(queries: Mapping[str, Query], number: int) -> str:
    """The first link on the way to a query's users; that of one that shares nothing is its own."""
    query = queries[str(number)]
    assert query.sink is not None
    return dict(query.sink.options).get("hop", "") if query.sharing else f"query {number}"


def _touched(changes: Iterable[GroupChange]) -> set[str]:
    """The groups that are made up differently after some changes."""
    listed = ((*change.changed, *change.ended, *chain(*change.moved.values())) for change in changes)
    return {group for groups in listed for group in groups if group is not None}


# -- epochs -----------------------------------------------------------------------------------------------------------


def switch_place(kind: QueryKind, relation: Relation, reach: int, moment: EventTime) -> int | None:
    """The first place of which an older member takes the rows from a representative that begins now.

    None if it can take all: nothing has come yet.
    """
    if kind is QueryKind.SELECTION:
        return moment.cycle
    largest = moment.largest_under(relation, moment.after)
    if largest is None:
        return None
    if kind is QueryKind.JOIN:
        return largest + reach + 1
    lacking = _lacking(relation, moment)
    return 1 + (largest if lacking is None else max(largest, lacking))


def _lacking(relation: Relation, moment: EventTime) -> Clock:
    """The last start of a window instance that an aggregate which begins now does not answer."""
    assert relation.window is not None
    assert relation.window.range is not None
    horizon = moment.horizon(relation, QueryStart(0, moment.cycle, moment.after))
    return None if horizon is None else horizon - relation.window.range


def joins_at(kind: QueryKind, relation: Relation, moment: EventTime) -> tuple[bool, int | None]:
    """Whether a member that begins now can take all its answers from a representative that was there before it.

    If so, with the first place of which it takes rows, or None if that is all of them. A join saw older rows, and these
    cannot be told from its rows; and what history answers at once, the representative has answered before.
    """
    if kind is QueryKind.SELECTION:
        return True, moment.cycle
    if moment.largest_under(relation, moment.after) is None:
        return True, None
    if kind is QueryKind.JOIN or any(isinstance(each, Stream) and each.backfill for each in leaves(relation)):
        return False, None
    lacking = _lacking(relation, moment)
    return True, None if lacking is None else lacking + 1


def is_past(kind: QueryKind, relation: Relation, until: int, moment: EventTime) -> bool:
    """Whether no row with a place before `until` will come any more."""
    if kind is QueryKind.SELECTION:
        return moment.cycle >= until
    watermark = moment.watermark(relation)
    if watermark is None:
        return False
    if kind is QueryKind.JOIN:
        return watermark >= until
    assert relation.window is not None
    assert relation.window.range is not None
    return watermark >= until - 1 + relation.window.range


class _About(msgspec.Struct, frozen=True, kw_only=True):
    """What the catalog keeps of an epoch, with the query of each part. `ends` are those of windows that each publishes.

    `by` are the columns whose largest value is the place of a row; none if that is the cycle. `clock` are those whose
    largest value is its own clock; none if that is not published.
    """

    kind: QueryKind
    reach: int
    by: tuple[str, ...]
    clock: tuple[str, ...]
    ends: tuple[ResidueClass | None, ...]


class RunningEpoch(_About, frozen=True, kw_only=True):
    """An epoch that is evaluated. `names` are those of its parts."""

    stream: str
    epoch: int
    relation: Relation
    names: tuple[str, ...]


def running_epochs(catalog: Catalog) -> dict[tuple[str, int], RunningEpoch]:
    """All epochs that are evaluated, by stream and number."""
    parts: dict[tuple[str, int], list[Representative]] = {}
    for each in catalog.representatives():
        parts.setdefault((each.stream, each.epoch), []).append(each)
    return {key: _running(found) for key, found in parts.items()}


def begin_epoch(catalog: Catalog, found: GroupRepresentative, stream: str, epoch: int) -> RunningEpoch:
    """Have a representative evaluated from the next cycle on."""
    shown = found.parts[0].query.clock
    by: tuple[str, ...] = ()
    clock: tuple[str, ...] = (shown,) if shown is not None and shown in found.columns else ()
    if found.kind is QueryKind.AGGREGATE:
        by = (WINDOW_START,)
    elif found.kind is QueryKind.JOIN:
        by = clock = found.clocks
    ends = tuple(part.ends for part in found.parts)
    about = msgspec.json.encode(_About(kind=found.kind, reach=found.reach, by=by, clock=clock, ends=ends)).decode()
    parts = []
    for number, part in enumerate(found.parts):
        name = f"{OWN}{stream}.{epoch}" + f".{number}" * (number > 0)
        query = replace(part.query, name=name, text="", sink=publishing_sink(stream, epoch, number))
        parts.append(Representative(name, stream, epoch, number, query, about))
        catalog.add(parts[-1])
    return _running(parts)


def _running(parts: Iterable[Representative]) -> RunningEpoch:
    listed = sorted(parts, key=lambda each: each.part)
    first, names = listed[0], tuple(each.name for each in listed)
    about = msgspec.structs.asdict(msgspec.json.decode(first.about, type=_About))
    return RunningEpoch(**about, stream=first.stream, epoch=first.epoch, relation=first.query.relation, names=names)
