"""Subscriptions applied row by row, and the rows that a representative publishes, both as naively as can be."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle_values import order_key
from weft.algebra import Value
from weft.optimizer.group_results import Representative
from weft.plan.subscription import Comparison, Subscription

Row = Mapping[str, Value]

_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def published(
    representative: Representative, answers: Mapping[str, Sequence[tuple[Value, ...]]]
) -> list[dict[str, Value]]:
    """The rows that a group publishes, of what its parts answer: each instance by the first part that has it."""
    rows = []
    for number, part in enumerate(representative.parts):
        for values in answers[part.query.name]:
            row = dict(zip(representative.columns, values, strict=True))
            if not any(earlier.publishes(row["window_end"]) for earlier in representative.parts[:number]):
                rows.append(row)
    return rows


def delivered(subscription: Subscription, rows: Sequence[Row]) -> list[tuple[Value, ...]]:
    """What a subscription cuts out of published rows."""
    return [tuple(row[name] for _, name in subscription.columns) for row in rows if takes(subscription, row)]


def takes(subscription: Subscription, row: Row) -> bool:
    """Whether a row is one of a subscription's."""
    return (
        any(all(holds(each, row) for each in conjunction) for conjunction in subscription.any_of)
        and _meets(subscription, row)
        and _is_due(subscription, row)
    )


def holds(comparison: Comparison, row: Row) -> bool:
    """Whether a comparison is TRUE."""
    value = row[comparison.column]
    if comparison.op in ("is null", "is not null"):
        return (value is None) == (comparison.op == "is null")
    if comparison.op == "in":
        assert isinstance(comparison.value, tuple)
        return value is not None and any(order_key(value) == order_key(each) for each in comparison.value)
    other = comparison.value if comparison.other is None else row[comparison.other]
    if value is None or other is None:
        return False
    return bool(_COMPARE[comparison.op](order_key(value), order_key(other)))  # type: ignore[arg-type]


def _meets(subscription: Subscription, row: Row) -> bool:
    meeting = subscription.meeting
    if meeting is None:
        return True
    clocks: list[Any] = [row[name] for name, _ in meeting.ranges]
    newest = max(clocks)
    instant = newest
    while (instant - meeting.origin) % meeting.slide:
        instant += 1
    return all(instant - clock < range_ for clock, (_, range_) in zip(clocks, meeting.ranges, strict=True))


def _is_due(subscription: Subscription, row: Row) -> bool:
    schedule = subscription.schedule
    if schedule is None:
        return True
    end: Any = row[schedule.column]
    return bool((end - schedule.origin) % schedule.slide == 0)
