"""What the engine hands to a publisher: the rows of queries that run for groups of others.

Such a query has a sink of its own kind, which names the group, its epoch and which part of it the query is. Its answers
go to the publisher alone, before the cycle commits; only what belongs to a committed cycle counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from weft.algebra import Query, Sink
from weft.plan.event_time import Clock, EventTime
from weft.plan.query_list import QueryList
from weft.runtime.state.commits import Commit
from weft.runtime.state.continuity import event_time_after

_FORMAT = "published"


@dataclass(frozen=True)
class PublishedRows:
    """What a representative answered in a cycle, perhaps nothing, and its watermark after it."""

    stream: str
    epoch: int
    part: int
    rows: pa.Table | None
    watermark: Clock


class RowPublisher(Protocol):
    def wait_for_room(self) -> None:
        """Come back when there is room for another cycle's rows."""

    def write(self, cycle: int, published: Sequence[PublishedRows]) -> None:
        """Take the rows of a cycle; a second call with the same cycle replaces the first."""

    def committed(self, cycle: int) -> None:
        """The cycle's rows are true now."""


def publishing_sink(stream: str, epoch: int, part: int) -> Sink:
    """The sink of a query that runs for a group."""
    return Sink(_FORMAT, (("stream", stream), ("epoch", str(epoch)), ("part", str(part))))


def is_published(query: Query) -> bool:
    return query.sink is not None and query.sink.format == _FORMAT


def published_rows(plan: QueryList, commit: Commit, answers: Mapping[str, pa.Table]) -> list[PublishedRows]:
    """The rows to publish after a cycle: of the shared plan, and of islands that have caught up."""
    apart = {name: each for each in commit.islands.values() for name in each.members}
    times: dict[int, EventTime] = {}
    found = []
    for each in plan.queries:
        island = apart.get(each.name)
        if each.sink is None or each.sink.format != _FORMAT:
            continue
        if island is not None and (island.trouble is not None or each.name in island.blocked):
            continue
        state = commit if island is None else island.commit
        if id(state) not in times:
            times[id(state)] = event_time_after(state, plan)
        named, watermark = dict(each.sink.options), times[id(state)].watermark(each.relation)
        rows = answers.get(each.name)
        found.append(PublishedRows(named["stream"], int(named["epoch"]), int(named["part"]), rows, watermark))
    return found
