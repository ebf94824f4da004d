"""Epochs of representatives: which are evaluated, and from which row on a member takes its answers from another one.

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
from dataclasses import dataclass, replace

import msgspec

from weft.algebra import Relation, Stream
from weft.algebra.properties import leaves
from weft.algebra.relations import WINDOW_START
from weft.catalog import Catalog, Representative
from weft.optimizer import group_results
from weft.optimizer.group_results import QueryKind
from weft.plan.event_time import Clock, EventTime, QueryStart
from weft.runtime.sinks.publishing import publishing_sink
from weft.sql.names import OWN
from weft.windows.slicing import ResidueClass


@dataclass(frozen=True, slots=True)
class Moment:
    """Between two cycles: the cycle to come, and the largest clock that each stream has had so far."""

    cycle: int
    largest: Mapping[str, Clock]

    def largest_under(self, relation: Relation) -> Clock:
        """The largest clock of the streams that a relation reads; None if they have had no rows."""
        clocks = [self.largest.get(each.name) for each in leaves(relation) if isinstance(each, Stream)]
        return max((clock for clock in clocks if clock is not None), default=None)

    def watermark(self, relation: Relation) -> Clock:
        return self._event_time.watermark(relation)

    def lacking(self, relation: Relation) -> Clock:
        """The last start of a window instance that an aggregate which begins now does not answer."""
        assert relation.window is not None
        assert relation.window.range is not None
        horizon = self._event_time.horizon(relation, QueryStart(0, self.cycle, self.largest))
        return None if horizon is None else horizon - relation.window.range

    @property
    def _event_time(self) -> EventTime:
        return EventTime(self.cycle, self.largest, self.largest, {})


def switch_place(kind: QueryKind, relation: Relation, reach: int, moment: Moment) -> int | None:
    """The first place of which an older member takes the rows from a representative that begins now.

    None if it can take all: nothing has come yet.
    """
    if kind is QueryKind.SELECTION:
        return moment.cycle
    largest = moment.largest_under(relation)
    if largest is None:
        return None
    if kind is QueryKind.JOIN:
        return largest + reach + 1
    lacking = moment.lacking(relation)
    return 1 + (largest if lacking is None else max(largest, lacking))


def joins_at(kind: QueryKind, relation: Relation, moment: Moment) -> tuple[bool, int | None]:
    """Whether a member that begins now can take all its answers from a representative that was there before it.

    If so, with the first place of which it takes rows, or None if that is all of them. A join saw older rows, and these
    cannot be told from its rows; and what history answers at once, the representative has answered before.
    """
    if kind is QueryKind.SELECTION:
        return True, moment.cycle
    if moment.largest_under(relation) is None:
        return True, None
    if kind is QueryKind.JOIN or any(isinstance(each, Stream) and each.backfill for each in leaves(relation)):
        return False, None
    lacking = moment.lacking(relation)
    return True, None if lacking is None else lacking + 1


def is_past(kind: QueryKind, relation: Relation, until: int, moment: Moment) -> bool:
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


def begin_epoch(catalog: Catalog, found: group_results.GroupRepresentative, stream: str, epoch: int) -> RunningEpoch:
    """Have a representative evaluated from the next cycle on."""
    shown = found.parts[0].query.clock
    by: tuple[str, ...] = ()
    clock: tuple[str, ...] = (shown,) if shown is not None and shown in found.columns else ()
    if found.kind is QueryKind.AGGREGATE:
        by = (WINDOW_START,)
    elif found.kind is QueryKind.JOIN:
        by = clock = found.clocks
    ends = tuple(part.ends for part in found.parts)
    about = msgspec.to_builtins(_About(kind=found.kind, reach=found.reach, by=by, clock=clock, ends=ends))
    parts = []
    for number, part in enumerate(found.parts):
        name = f"{OWN}{stream}.{epoch}" + f".{number}" * (number > 0)
        query = replace(part.query, name=name, text="", sink=publishing_sink(stream, epoch, number))
        parts.append(Representative(name, stream, epoch, number, query, about))
        catalog.add(parts[-1])
    return _running(parts)


def _running(parts: Iterable[Representative]) -> RunningEpoch:
    first, *others = sorted(parts, key=lambda each: each.part)
    about = msgspec.structs.asdict(msgspec.convert(first.about, _About))
    names = (first.name, *(each.name for each in others))
    return RunningEpoch(**about, stream=first.stream, epoch=first.epoch, relation=first.query.relation, names=names)
