"""A group that publishes numbers, and users who read them: what small tests of delivery are made of."""

from __future__ import annotations

import pyarrow as pa

from weft.delivery import Dropped, Itinerary, Message, Publisher, Subscriber

PATIENCE = 180.0


def publish(publisher: Publisher, cycle: int, numbers: list[int], *control: Itinerary) -> None:
    """A cycle in which the group g publishes numbers in its column n."""
    publisher.write(cycle, [Message("g", 0, pa.table({"n": numbers}), cycle)], control)
    publisher.committed(cycle)


def next_numbers(subscriber: Subscriber, count: int) -> list[int | Dropped]:
    """The next answers, at least so many; notices as they are."""
    found: list[int | Dropped] = []
    while len(found) < count:
        item = subscriber.next(PATIENCE)
        assert item is not None, f"only {found} came"
        found += [item] if isinstance(item, Dropped) else item.table["n"].to_pylist()
    return found
