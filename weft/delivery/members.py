"""Members: the queries of some users, the answers that each has in a parcel, and what of it goes to a neighbour.

To a neighbour, an edge behind which some members are, a row goes once if any of them takes it, and with the columns
that those who take it need. What that is depends on who tells their rows apart:

    members behind the link:  q1 shows a where b > 5;   q2 shows c where b > 8

    the neighbour does          rows with b in (5, 8]     columns a, b
                                rows with b > 8           columns a, b, c
    the sender does, and says   rows with b in (5, 8]     column a          {q1}
                                rows with b > 8           columns a, c      {q1, q2}

To say whose rows are takes two bytes for each, and the names of the members once for a message: so it is said where
that is less than the columns of conditions are. At the last hop each user is given what it shows, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.arrays.ordinals import Positions
from weft.delivery.itinerary import Itinerary, needed
from weft.delivery.parcel import Batch, Message, Parcel, RowTakers, Taker
from weft.delivery.subscription_index import Index
from weft.plan.subscription import Subscription

#: Among more members than that, those who take a row are not named.
MOST_NAMED: Final = 256

#: Bytes that a number of a set of takers has, and that a name costs in the head of a parcel beside its letters.
_TAG, _NAME = 2, 24
_MOST_SETS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class MemberRows:
    """The positions of a query's rows in a message, and the subscription that says what is shown of them."""

    query: str
    subscription: Subscription
    positions: Positions


class Members:
    """Queries and their itineraries. The index of a group is made when rows of it come, and again after a change."""

    def __init__(self, routes: Iterable[Itinerary] = ()) -> None:
        self.routes: dict[str, Itinerary] = {}
        self._of_group: dict[str, dict[str, Itinerary]] = {}
        self._indexes: dict[str, Index] = {}
        for each in routes:
            self.put(each)

    def put(self, route: Itinerary) -> None:
        """Take a query in, or amend its itinerary."""
        self.remove(route.query)
        self.routes[route.query] = route
        for group in {span.stream for span in route.spans}:
            self._of_group.setdefault(group, {})[route.query] = route
            self._indexes.pop(group, None)

    def remove(self, query: str) -> None:
        """Remove a query, if it is there."""
        known = self.routes.pop(query, None)
        for group in {span.stream for span in known.spans} if known else ():
            del self._of_group[group][query]
            self._indexes.pop(group, None)

    def found(self, message: Message, cycle: int) -> tuple[pa.RecordBatch, list[MemberRows]]:
        """The rows of a message as one batch, and the members that take some of them."""
        batches = message.rows.combine_chunks().to_batches()
        rows = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=message.rows.schema)
        members = self._of_group.get(message.group, {})
        taken: Iterable[tuple[str, Positions]]
        if not members:
            return rows, []
        if message.takers is not None:
            taken = [(query, message.takers.rows_of((query, route.number))) for query, route in members.items()]
        else:
            taken = self._index(message.group).matches(rows, message.epoch, cycle)
        return rows, [
            MemberRows(query, members[query].subscription(message.group), positions)
            for query, positions in taken
            if len(positions) and not members[query].has_ended(cycle)
        ]

    def _index(self, group: str) -> Index:
        if group not in self._indexes:
            routes = self._of_group[group].items()
            legs = [(query, *leg) for query, route in routes for leg in route.legs if leg[1].stream == group]
            self._indexes[group] = Index(legs)
        return self._indexes[group]

    def batches(self, parcel: Parcel) -> Iterator[Batch]:
        """The answers that each member has in a parcel; those that have none are passed over."""
        pieces: dict[str, list[tuple[pa.Table, int | None]]] = {}
        for message in parcel.messages:
            rows, found = self.found(message, parcel.cycle)
            for each, table in zip(found, _cut(rows, found), strict=True):
                pieces.setdefault(each.query, []).append((table, message.watermark))
        for query, parts in pieces.items():
            marks = [mark for _, mark in parts if mark is not None]
            tables = [table for table, _ in parts]
            table = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
            yield Batch(query, parcel.cycle, parcel.at, min(marks, default=None), table)


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


def share(parcel: Parcel, members: Members, tell: bool = False) -> Parcel | None:
    """What of a parcel goes to a neighbour; None if nothing does. With `tell`, takers may go with their rows."""
    routes = tuple(each for each in parcel.routes if each.query in members.routes)
    for each in routes:
        members.put(each)
    shared = [piece for message in parcel.messages for piece in _pieces(message, parcel.cycle, members, tell)]
    if not shared and not routes:
        return None
    return replace(parcel, routes=routes, messages=tuple(shared))


def _pieces(message: Message, cycle: int, members: Members, tell: bool) -> list[Message]:
    """The rows that some member takes, as they cross a link with the fewest bytes."""
    rows, found = members.found(message, cycle)
    if not found:
        return []
    takers = {each.query: (each.query, members.routes[each.query].number) for each in found}
    if message.takers is not None:
        return list(_with_takers(message, rows, found, takers))
    needs: dict[frozenset[str], list[MemberRows]] = {}
    for each in found:
        needs.setdefault(_needed(members.routes[each.query], message), []).append(each)
    plain = [replace(message, rows=table) for table, _, _ in _by_columns(rows, list(needs.values()), list(needs))]
    if not tell or len(found) > MOST_NAMED:
        return plain
    named = list(_with_takers(message, rows, found, takers))
    return named if sum(map(_size, named)) < sum(map(_size, plain)) else plain


def _with_takers(
    message: Message, rows: pa.RecordBatch, found: list[MemberRows], takers: Mapping[str, Taker]
) -> Iterator[Message]:
    """Rows with the columns that their takers show, and with their takers."""
    shown = [frozenset(published for _, published in each.subscription.columns) for each in found]
    for table, sets, of_row in _by_columns(rows, [[each] for each in found], shown):
        named = tuple(frozenset(takers[found[at].query] for at in each) for each in sets)
        yield replace(message, rows=table, takers=RowTakers(named, of_row))


def _by_columns(
    rows: pa.RecordBatch, takers: Sequence[Sequence[MemberRows]], needs: Sequence[frozenset[str]]
) -> Iterator[tuple[pa.Table, list[list[int]], npt.NDArray[np.uint16]]]:
    """The rows that are taken, those with the same columns together; their sets of takers, and which each row has.

    Takers have a number each, with the columns that they need.
    """
    taken = np.zeros((len(takers), rows.num_rows), dtype=bool)
    for number, several in enumerate(takers):
        for each in several:
            taken[number, each.positions] = True
    patterns, found = np.unique(taken, axis=1, return_inverse=True)
    of_row = found.reshape(-1)
    sets = [np.flatnonzero(pattern).tolist() for pattern in patterns.T]
    chosen: dict[frozenset[str], list[int]] = {}
    for at, numbers in enumerate(sets):
        if numbers:
            chosen.setdefault(frozenset().union(*(needs[number] for number in numbers)), []).append(at)
    for wanted in sorted(chosen, key=sorted):
        ordered = [name for name in rows.schema.names if name in wanted]
        # Two bytes can number no more sets.
        for start in range(0, len(chosen[wanted]), _MOST_SETS):
            some = chosen[wanted][start : start + _MOST_SETS]
            places = np.flatnonzero(np.isin(of_row, some))
            table = pa.Table.from_batches([rows.select(ordered).take(pa.array(places))])
            yield table, [sets[at] for at in some], np.searchsorted(some, of_row[places]).astype(np.uint16)


def _size(piece: Message) -> int:
    """About how many bytes a piece has."""
    if piece.takers is None:
        return int(piece.rows.nbytes)
    named: frozenset[Taker] = frozenset().union(*piece.takers.sets)
    names = sum(len(query) + _NAME for query, _ in named)
    return int(piece.rows.nbytes + _TAG * piece.rows.num_rows) + names


def _needed(route: Itinerary, message: Message) -> frozenset[str]:
    """The columns that a query needs of the rows of a message."""
    here = (message.group, message.epoch)
    return frozenset().union(
        *(needed(wanted, span) for wanted, span in route.legs if (span.stream, span.epoch) == here)
    )
