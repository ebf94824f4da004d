"""How a query's answers get to its users, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.algebra import Query
from weft.catalog import Catalog, Representative
from weft.delivery.itinerary import Itinerary, as_json, from_json
from weft.explain.query_text import query_text, some
from weft.plan.subscription import ALL_ROWS, Comparison, Subscription


@dataclass(frozen=True)
class Delivered:
    """A query INTO subscribers: where its answers are found, what runs for it, and which other queries it runs for."""

    query: Query
    itinerary: Itinerary
    parts: tuple[Representative, ...]
    others: tuple[str, ...]

    @property
    def subscription(self) -> Subscription:
        return self.itinerary.subscription(self.itinerary.spans[-1].stream)


def delivered(catalog: Catalog, name: str) -> Delivered | None:
    """How a query is delivered; None if it is not, or has not been grouped yet."""
    numbers = catalog.members()
    found = {each.number: from_json(each.document) for each in catalog.deliveries.itineraries()}
    itinerary = found.get(numbers.get(name, -1))
    if itinerary is None:
        return None
    last = itinerary.spans[-1]
    parts = tuple(each for each in catalog.representatives() if (each.stream, each.epoch) == (last.stream, last.epoch))
    others = tuple(each.query for each in found.values() if each.query != name and each.spans[-1].stream == last.stream)
    return Delivered(catalog.query(name), itinerary, parts, others)


def delivered_lines(found: Delivered) -> Iterator[str]:
    """How a query is delivered, for people."""
    yield query_text(found.query)
    yield ""
    last = found.itinerary.spans[-1]
    together = f"together with {some(found.others)}" if found.others else "alone"
    yield f"delivered from group {last.stream}, epoch {last.epoch}, {together}"
    subscription = found.subscription
    yield "  takes " + ", ".join(
        published if name == published else f"{published} as {name}" for name, published in subscription.columns
    )
    if subscription.any_of != ALL_ROWS:
        yield "  where " + " OR ".join(
            " AND ".join(map(_comparison_text, conjunction)) or "TRUE" for conjunction in subscription.any_of
        )
    if subscription.meeting is not None:
        meeting = subscription.meeting
        ranges = ", ".join(f"{range_} ticks of {clock}" for clock, range_ in meeting.ranges)
        yield f"  whose rows meet within {ranges}, every {meeting.slide} from {meeting.origin}"
    if subscription.schedule is not None:
        schedule = subscription.schedule
        yield f"  with {schedule.column} every {schedule.slide} ticks from {schedule.origin}"
    for span in found.itinerary.spans[:-1]:
        if span.until is not None:
            places = " or ".join(span.by) or "cycle"
            yield f"  until then from {span.stream}, epoch {span.epoch}: while {places} is below {span.until}"
    for part in found.parts:
        yield f"evaluated as {part.name}"


def _comparison_text(each: Comparison) -> str:
    if each.other is not None:
        return f"{each.column} {each.op} {each.other}"
    if each.op.startswith("is"):
        return f"{each.column} {each.op.upper()}"
    if isinstance(each.value, tuple):
        return f"{each.column} IN ({', '.join(map(repr, each.value))})"
    return f"{each.column} {each.op} {each.value!r}"


def delivered_document(found: Delivered) -> dict[str, Any]:
    """How a query is delivered, for programs."""
    return {
        "group": found.itinerary.spans[-1].stream,
        "epoch": found.itinerary.spans[-1].epoch,
        "with": list(found.others),
        "evaluated_as": [each.name for each in found.parts],
        "itinerary": as_json(found.itinerary),
    }
