"""A query at work on sites, wires and processors, tuple by tuple (SwAP, chapter 5 of the COSMOS thesis).

    machines = {"1": Machine(), "2": Machine(speed=0.42), "3": Machine()}
    run = simulate(plan(graph), feeds, machines, seed=1)
    run.seconds, run.answers, run.routed[("2", "1")]

Every random number comes from the seed: the same call gives the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from lab.ordering.assembly import Assembly
from lab.ordering.channels import Channel
from lab.ordering.eddies import Eddy
from lab.ordering.items import Item
from lab.ordering.query import Query
from lab.ordering.setting import Change, Feed, Machine, Settings
from lab.ordering.tickets import Why
from lab.simulate.events import SECOND, Events, seconds
from weft.federation import FederationError


@dataclass(frozen=True, slots=True)
class Run:
    """What happened."""

    seconds: float
    """Until the last site was done."""
    answers: int
    rows: list[tuple[int, ...]]
    """Of each answer the row of every stream, in the order of their names; empty unless answers were to be kept."""
    routed: dict[tuple[str, str], int]
    """Items by the nodes between which they went."""
    by_tick: dict[tuple[str, str], Counter[int]]
    """The same for each tenth of a second, where there was a choice."""
    decided: dict[str, Counter[Why]]
    """What decided, by node, where several modules were allowed."""
    busy: dict[str, float]
    """The share of the time in which each site worked."""
    reports: int
    """How often results were reported to a meta-operator."""
    report_bytes: int
    expired: int
    """Items that windows let go of."""

    def share(self, source: str, target: str) -> float:
        """The part of what a node sends that goes to one of its targets."""
        sent = sum(number for (sender, _), number in self.routed.items() if sender == source)
        return self.routed.get((source, target), 0) / sent if sent else 0.0


def simulate(
    query: Query,
    feeds: Mapping[str, Feed],
    machines: Mapping[str, Machine] | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    changes: Iterable[Change] = (),
    keep_answers: bool = False,
) -> Run:
    """Runs a query until all tuples have been processed."""
    rows: list[tuple[int, ...]] = []
    count = 0

    def answer(item: Item) -> None:
        nonlocal count
        count += 1
        if keep_answers:
            rows.append(item.rows)

    events = Events(seed)
    parts = Assembly(query, feeds, machines or {}, events, settings or Settings(), answer)
    for change in changes:
        if change.site not in parts.sites:
            known = ", ".join(sorted(parts.sites))
            raise FederationError(f"{change.site} is to change, but nothing runs there: name one of {known}")
        events.at(seconds(change.at), partial(_apply, parts, change))
    for site in parts.sites.values():
        if not site.busy:
            site.work()
    expired = _run_with_windows(parts) if any(feed.window is not None for feed in feeds.values()) else _run(parts)
    return _told(parts, count, rows, expired)


def _apply(parts: Assembly, change: Change) -> None:
    site = parts.sites[change.site]
    if change.wire is not None:
        site.wire = seconds(change.wire)
    if change.others is not None:
        site.others = change.others


def _run(parts: Assembly) -> int:
    parts.events.run()
    if not _is_quiet(parts):
        raise AssertionError("items are left that nothing moves")
    return 0


def _run_with_windows(parts: Assembly) -> int:
    """Lets go of expired items again and again meanwhile; returns how many they were."""
    expired, sweep = 0, seconds(parts.settings.sweep)
    last = max((feed.instants[-1] for feed in parts.feeds.values() if feed.instants), default=0)
    while parts.events.now <= last or not _is_quiet(parts):
        parts.events.run_until(parts.events.now + sweep)
        if parts.events.is_over and not _is_quiet(parts):
            raise AssertionError("items are left that nothing moves")
        watermark = min((item.latest for item in _under_way(parts)), default=parts.events.now)
        watermark = min(watermark, parts.events.now)
        for eddy in _eddies(parts):
            for stems in eddy.stems.values():
                expired += sum(stem.expire(watermark) for stem in stems)
    return expired


def _is_quiet(parts: Assembly) -> bool:
    return next(_under_way(parts), None) is None


def _under_way(parts: Assembly) -> Iterator[Item]:
    """All items that wait, travel, or are being worked on."""
    for site in parts.sites.values():
        yield from site.in_hand
        for lane in site.inputs:
            yield from lane.queue
            yield from lane.stuck
    for channel in _channels(parts):
        yield from channel.on_wire
        for queue in channel.waiting.values():
            yield from queue


def _eddies(parts: Assembly) -> Iterator[Eddy]:
    return (eddy for replicas in parts.eddies for eddy in replicas)


def _channels(parts: Assembly) -> Iterator[Channel]:
    return (channel for eddy in _eddies(parts) for output in eddy.outputs for channel in output.channels)


def _told(parts: Assembly, answers: int, rows: list[tuple[int, ...]], expired: int) -> Run:
    names = [node.name for node in parts.nodes]
    routed: Counter[tuple[str, str]] = Counter()
    by_tick: dict[tuple[str, str], Counter[int]] = {}
    decided: dict[str, Counter[Why]] = {}
    for eddy in _eddies(parts):
        decided.setdefault(names[eddy.node], Counter()).update(eddy.decided)
        for output in eddy.outputs:
            ends = names[output.module.source], names[output.module.target]
            routed[ends] += output.routed
            if output.module.chooses:
                by_tick.setdefault(ends, Counter()).update(output.by_tick)
    end = max((site.done for site in parts.sites.values()), default=0)
    return Run(
        seconds=end / SECOND,
        answers=answers,
        rows=rows,
        routed=dict(routed),
        by_tick=by_tick,
        decided={name: found for name, found in decided.items() if found},
        busy={name: site.worked / end if end else 0.0 for name, site in parts.sites.items()},
        reports=sum(channel.reports for channel in _channels(parts)),
        report_bytes=sum(channel.report_bytes for channel in _channels(parts)),
        expired=expired,
    )
