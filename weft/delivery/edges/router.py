"""Routing: what of a parcel goes to a neighbour, behind which some members are.

A row goes there once if any of them takes it, and with the columns that those who take it need, be it to show them or
to tell their rows. At the last hop each user is given what it shows, and nothing else (`Members.batches`).

    members behind the link:  q1 shows a where b > 5;   q2 shows c where b > 8
    rows with b in (5, 8]     go with columns a, b
    rows with b > 8           go with columns a, b, c
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weft.delivery.itinerary import Itinerary, needed
from weft.delivery.matching.members import Found, Members
from weft.delivery.parcel import Message, Parcel


@dataclass(slots=True)
class LinkCount:
    """What has crossed a link."""

    parcels: int = 0
    messages: int = 0
    rows: int = 0
    bytes: int = 0

    def add(self, parcel: Parcel, size: int) -> None:
        """Count a parcel that crosses."""
        self.parcels += 1
        self.messages += len(parcel.messages)
        self.rows += sum(each.rows.num_rows for each in parcel.messages)
        self.bytes += size


def share(parcel: Parcel, members: Members) -> Parcel | None:
    """What of a parcel goes to a neighbour; None if nothing does."""
    routes = tuple(each for each in parcel.routes if each.query in members)
    for each in routes:
        members.put(each)
    shared = [piece for message in parcel.messages for piece in _pieces(message, parcel.cycle, members)]
    if not shared and not routes:
        return None
    return replace(parcel, routes=routes, messages=tuple(_numbered(shared)))


def _pieces(message: Message, cycle: int, members: Members) -> Iterator[Message]:
    """The rows that somebody takes, those that need the same columns together."""
    rows, found = members.found(message, cycle)
    takers: dict[frozenset[str], list[Found]] = {}
    for each in found:
        takers.setdefault(_needed(members.route(each.query), message), []).append(each)
    if not takers:
        return
    taken = np.zeros((len(takers), rows.num_rows), dtype=bool)
    for number, each_found in enumerate(takers.values()):
        for each in each_found:
            taken[number, each.positions] = True
    patterns, of_row = np.unique(taken, axis=1, return_inverse=True)
    of_row = of_row.reshape(-1)
    needs = list(takers)
    columns = [frozenset().union(*(needs[at] for at in np.flatnonzero(pattern))) for pattern in patterns.T]
    for wanted in sorted(set(columns) - {frozenset()}, key=sorted):
        places = np.flatnonzero(np.isin(of_row, [at for at, each in enumerate(columns) if each == wanted]))
        ordered = [name for name in rows.schema.names if name in wanted]
        piece = rows.select(ordered).take(pa.array(places))
        yield replace(message, rows=pa.Table.from_batches([piece]))


def _needed(route: Itinerary, message: Message) -> frozenset[str]:
    """The columns that a query needs of the rows of a message."""
    here = (message.group, message.epoch)
    legs = [needed(subscription, span) for subscription, span in route.legs if (span.stream, span.epoch) == here]
    return frozenset().union(*legs)


def _numbered(messages: list[Message]) -> Iterator[Message]:
    count: dict[tuple[str, int], int] = {}
    for each in messages:
        ordinal = count.get((each.group, each.epoch), 0)
        count[each.group, each.epoch] = ordinal + 1
        yield replace(each, ordinal=ordinal)
