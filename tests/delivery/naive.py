"""What a subscription means, one row at a time, in plain Python: written to be obviously right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from weft.delivery import Itinerary, Span
from weft.delivery.parcel import Message, Parcel
from weft.plan.subscription import Comparison, Subscription

Row = dict[str, Any]


def plain_rows(table: pa.Table) -> list[Row]:
    """Rows with clocks as integers."""
    columns = {name: [_plain(value) for value in table.column(name).to_pylist()] for name in table.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def takes(subscription: Subscription, row: Row) -> bool:
    """Whether a row is one of the subscription's."""
    if not any(all(_holds(each, row) for each in conjunction) for conjunction in subscription.any_of):
        return False
    if (schedule := subscription.schedule) is not None:
        end = row[schedule.column]
        if end is None or (end - schedule.origin) % schedule.slide:
            return False
    if (meeting := subscription.meeting) is not None:
        clocks = [row[name] for name, _ in meeting.ranges]
        if None in clocks:
            return False
        instant = max(clocks)
        while (instant - meeting.origin) % meeting.slide:
            instant += 1
        return all(instant - row[name] < range_ for name, range_ in meeting.ranges)
    return True


def lies_in(span: Span, message: Message, cycle: int, row: Row) -> bool:
    """Whether a span has a row of a message."""
    if (span.stream, span.epoch) != (message.group, message.epoch):
        return False
    if span.since is None and span.until is None:
        return True
    clocks = [row[name] for name in span.by]
    if None in clocks:
        return False
    place = max(clocks) if clocks else cycle
    return (span.since is None or span.since <= place) and (span.until is None or place < span.until)


def delivered(itinerary: Itinerary, parcels: Iterable[Parcel]) -> Iterator[tuple[int, Row]]:
    """The cycles and rows that a query's user gets, as the user sees them."""
    for parcel in parcels:
        if itinerary.ended is not None and parcel.cycle >= itinerary.ended:
            continue
        for message in parcel.messages:
            for row in plain_rows(message.rows):
                for subscription in itinerary.subscriptions:
                    spans = [each for each in itinerary.spans if each.stream == subscription.stream]
                    inside = any(lies_in(span, message, parcel.cycle, row) for span in spans)
                    if inside and takes(subscription, row):
                        yield parcel.cycle, {shown: row[name] for shown, name in subscription.columns}


def bag(rows: Iterable[tuple[int, Row]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, so that NaN equals NaN and order does not count."""
    return sorted((cycle, *((name, repr(_shown(value))) for name, value in row.items())) for cycle, row in rows)


def _shown(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0 else value


def _holds(each: Comparison, row: Row) -> bool:
    left = row[each.column]
    if each.op == "is null":
        return left is None
    if each.op == "is not null":
        return left is not None
    if each.op == "in":
        return any(_compare(left, "=", one) for one in each.value)  # type: ignore[union-attr]
    return _compare(left, each.op, row[each.other] if each.other is not None else each.value)


def _compare(left: Any, op: str, right: Any) -> bool:
    if left is None or right is None:
        return False
    sign = (_above(left, right)) - (_above(right, left))
    return {"<": sign < 0, "<=": sign <= 0, "=": sign == 0, "!=": sign != 0, ">": sign > 0, ">=": sign >= 0}[op]


def _above(left: Any, right: Any) -> int:
    """Whether left > right, where NaN is above all numbers."""
    left_is_nan, right_is_nan = (isinstance(each, float) and math.isnan(each) for each in (left, right))
    if left_is_nan or right_is_nan:
        return int(left_is_nan and not right_is_nan)
    return int(left > right)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, date):
        return value
    return value
