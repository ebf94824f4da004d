"""Routing: what of a parcel goes to a neighbour, behind which some members are.

A row goes there once if any of them takes it, and with the columns that those who take it need. What that is depends on
who tells their rows apart:

    members behind the link:  q1 shows a where b > 5;   q2 shows c where b > 8

    the neighbour does          rows with b in (5, 8]     columns a, b
                                rows with b > 8           columns a, b, c
    the sender does, and says   rows with b in (5, 8]     column a          {q1}
                                rows with b > 8           columns a, c      {q1, q2}

A sender looks rows up in any case. To say whose they are takes two bytes for each row, and the names of the members
once for a message: so it is said where that is less than the columns of conditions are. At the last hop each user is
given what it shows, and nothing else (`Members.batches`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.delivery.log.itinerary import Itinerary, needed
from weft.delivery.log.parcel import Message, Parcel, RowTakers, Taker, renumbered
from weft.delivery.matching.members import MemberRows, Members

#: Among more members than that, those who take a row are not named.
MOST_NAMED: Final = 256

#: Bytes that a number of a set of takers has, and that a name costs in the head of a parcel beside its letters.
_TAG, _NAME = 2, 24
_MOST_SETS: Final = 1 << 16


def share(parcel: Parcel, members: Members, tell: bool = False) -> Parcel | None:
    """What of a parcel goes to a neighbour; None if nothing does. With `tell`, takers may go with their rows."""
    routes = tuple(each for each in parcel.routes if each.query in members)
    for each in routes:
        members.put(each)
    shared = [piece for message in parcel.messages for piece in _pieces(message, parcel.cycle, members, tell)]
    if not shared and not routes:
        return None
    return replace(parcel, routes=routes, messages=renumbered(shared))


def _pieces(message: Message, cycle: int, members: Members, tell: bool) -> list[Message]:
    """The rows that some member takes, as they cross a link with the fewest bytes."""
    rows, found = members.found(message, cycle)
    if not found:
        return []
    takers = {each.query: (each.query, members.route(each.query).number) for each in found}
    if message.takers is not None:
        return list(_with_takers(message, rows, found, takers))
    needs = {each.query: _needed(members.route(each.query), message) for each in found}
    plain = list(_plain(message, rows, found, needs))
    if not tell or len(found) > MOST_NAMED:
        return plain
    named = list(_with_takers(message, rows, found, takers))
    return named if sum(map(_size, named)) < sum(map(_size, plain)) else plain


def _plain(
    message: Message, rows: pa.RecordBatch, found: list[MemberRows], needs: Mapping[str, frozenset[str]]
) -> Iterator[Message]:
    """Rows with the columns that their takers need to find and to show them."""
    takers: dict[frozenset[str], list[MemberRows]] = {}
    for each in found:
        takers.setdefault(needs[each.query], []).append(each)
    patterns, of_row = _patterns(rows.num_rows, takers.values())
    for wanted, places, _ in _by_columns(patterns, of_row, list(takers)):
        yield replace(message, rows=_taken(rows, wanted, places))


def _with_takers(
    message: Message, rows: pa.RecordBatch, found: list[MemberRows], takers: Mapping[str, Taker]
) -> Iterator[Message]:
    """Rows with the columns that their takers show, and with their takers."""
    patterns, of_row = _patterns(rows.num_rows, [[each] for each in found])
    shown = [frozenset(published for _, published in each.subscription.columns) for each in found]
    named = [takers[each.query] for each in found]
    for wanted, places, chosen in _by_columns(patterns, of_row, shown):
        number = np.zeros(patterns.shape[1], dtype=np.uint16)
        number[chosen] = np.arange(len(chosen))
        sets = tuple(frozenset(named[at] for at in np.flatnonzero(patterns[:, each])) for each in chosen)
        yield replace(message, rows=_taken(rows, wanted, places), takers=RowTakers(sets, number[of_row[places]]))


def _patterns(rows: int, takers: Collection[list[MemberRows]]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """The sets of takers, one in a column, and which of them each row has."""
    taken = np.zeros((len(takers), rows), dtype=bool)
    for number, several in enumerate(takers):
        for each in several:
            taken[number, each.positions] = True
    patterns, of_row = np.unique(taken, axis=1, return_inverse=True)
    return patterns, of_row.reshape(-1)


def _by_columns(
    patterns: npt.NDArray[np.bool_], of_row: npt.NDArray[np.intp], needs: Sequence[frozenset[str]]
) -> Iterator[tuple[frozenset[str], npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Rows that are taken, those with the same columns together, and the patterns that these have."""
    columns = [frozenset().union(*(needs[int(at)] for at in np.flatnonzero(pattern))) for pattern in patterns.T]
    taken = [bool(each.any()) for each in patterns.T]
    for wanted in sorted({each for each, is_taken in zip(columns, taken, strict=True) if is_taken}, key=sorted):
        chosen = np.array([at for at, each in enumerate(columns) if each == wanted and taken[at]])
        # Two bytes can number no more sets.
        for start in range(0, len(chosen), _MOST_SETS):
            some = chosen[start : start + _MOST_SETS]
            yield wanted, np.flatnonzero(np.isin(of_row, some)), some


def _taken(rows: pa.RecordBatch, wanted: frozenset[str], places: npt.NDArray[np.intp]) -> pa.Table:
    ordered = [name for name in rows.schema.names if name in wanted]
    return pa.Table.from_batches([rows.select(ordered).take(pa.array(places))])


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
    legs = [needed(subscription, span) for subscription, span in route.legs if (span.stream, span.epoch) == here]
    return frozenset().union(*legs)
