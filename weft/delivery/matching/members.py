"""Members: the queries of some users, and the answers that each of them has in a parcel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.delivery.log.itinerary import Itinerary
from weft.delivery.log.parcel import Batch, Message, Parcel, RowTakers
from weft.delivery.matching.index import Index
from weft.plan.subscription import Subscription

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MemberRows:
    """A query's rows in a message: their positions, and the subscription that says what is shown of them."""

    query: str
    subscription: Subscription
    positions: Positions


class Members:
    """Queries and their itineraries. The index of a group is made when rows of it come, and again after a change."""

    def __init__(self, routes: Iterable[Itinerary] = ()) -> None:
        self._routes: dict[str, Itinerary] = {}
        self._of_group: dict[str, dict[str, Itinerary]] = {}
        self._indexes: dict[str, Index[str]] = {}
        for each in routes:
            self.put(each)

    def __contains__(self, query: str) -> bool:
        return query in self._routes

    def route(self, query: str) -> Itinerary:
        """The itinerary of a member."""
        return self._routes[query]

    def routes(self) -> list[Itinerary]:
        """The itineraries of all members."""
        return list(self._routes.values())

    def put(self, route: Itinerary) -> None:
        """Take a query in, or amend its itinerary."""
        self.remove(route.query)
        self._routes[route.query] = route
        for group in {span.stream for span in route.spans}:
            self._of_group.setdefault(group, {})[route.query] = route
            self._indexes.pop(group, None)

    def remove(self, query: str) -> None:
        """Remove a query, if it is there."""
        known = self._routes.pop(query, None)
        for group in {span.stream for span in known.spans} if known else ():
            del self._of_group[group][query]
            self._indexes.pop(group, None)

    def found(self, message: Message, cycle: int) -> tuple[pa.RecordBatch, list[MemberRows]]:
        """The rows of a message as one batch, and the members that take some of them."""
        rows = one_batch(message.rows)
        members = self._of_group.get(message.group, {})
        if not members:
            return rows, []
        if message.takers is not None:
            return rows, list(_with_takers(message.group, message.takers, members, cycle))
        index = self._indexes.get(message.group)
        if index is None:
            index = self._indexes[message.group] = Index(
                [
                    (query, subscription, span)
                    for query, route in members.items()
                    for subscription, span in route.legs
                    if span.stream == message.group
                ]
            )
        return rows, [
            MemberRows(query, _subscription(members[query], message.group), positions)
            for query, positions in index.matches(rows, message.epoch, cycle)
            if not _has_ended(members[query], cycle)
        ]

    def batches(self, parcel: Parcel) -> Iterator[Batch]:
        """The answers that each member has in a parcel; those that have none are passed over."""
        pieces: dict[str, list[tuple[pa.Table, int | None]]] = {}
        for message in parcel.messages:
            rows, found = self.found(message, parcel.cycle)
            for each, table in zip(found, _cut(rows, found), strict=True):
                pieces.setdefault(each.query, []).append((table, message.watermark))
        for query, parts in pieces.items():
            marks = [mark for _, mark in parts if mark is not None]
            table = pa.concat_tables([table for table, _ in parts], promote_options="permissive")
            yield Batch(query, parcel.cycle, parcel.at, min(marks, default=None), table)


def _with_takers(group: str, takers: RowTakers, members: Mapping[str, Itinerary], cycle: int) -> Iterator[MemberRows]:
    """The members among the takers that came with the rows."""
    for query, route in members.items():
        positions = takers.rows_of((query, route.number))
        if len(positions) and not _has_ended(route, cycle):
            yield MemberRows(query, _subscription(route, group), positions)


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def _cut(rows: pa.RecordBatch, found: list[MemberRows]) -> Iterator[pa.Table]:
    """What each member sees of its rows. All rows are taken out of the batch together, since that costs much less."""
    if not found:
        return
    columns = sorted({published for each in found for _, published in each.subscription.columns})
    taken = rows.select(columns).take(pa.array(np.concatenate([each.positions for each in found])))
    start = 0
    for each in found:
        mine = taken.slice(start, len(each.positions))
        start += len(each.positions)
        shown = [mine.column(published) for _, published in each.subscription.columns]
        # What was left out of streams under overload stands there, for whoever takes the rows.
        metadata = rows.schema.metadata
        yield pa.Table.from_arrays(shown, names=[name for name, _ in each.subscription.columns], metadata=metadata)


def _subscription(route: Itinerary, group: str) -> Subscription:
    return next(each for each in route.subscriptions if each.stream == group)


def _has_ended(route: Itinerary, cycle: int) -> bool:
    return route.ended is not None and cycle >= route.ended
