"""Subscriptions: what cuts one query's answers out of the rows that a group of queries publishes together.

A group has a name that never changes, and publishes rows with named columns. A subscription names the group, the
columns that the query's user wants, and the condition that tells the user's rows from the others':

    {"stream": "g17",
     "columns": {"symbol": "symbol", "mean": "avg(price)"},        what the user sees, and where it is published
     "any": [[["price", ">", 100.0]], [["symbol", "=", "X"]]],     one of these conjunctions holds
     "schedule": {"column": "window_end", "origin": 0, "slide": 300000000}}

It says all that has to hold, whatever the group publishes today, so that it stays right when other queries come and go.
A comparison with NULL does not hold. What is no comparison of columns and constants is published as a BOOLEAN column.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, TypeAlias

from weft.algebra.expressions import Value


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published column compared with constants, or with another column when `other` names one.

    `op` is one of <, <=, =, !=, > and >=, or `in` with a tuple of constants, or `is null` or `is not null` without any.
    Constants have the type of the column: microseconds for a TIMESTAMP or an INTERVAL. DOUBLEs compare as in SQL on
    Spark: NaN equals itself and is above all others, and -0.0 equals 0.0.
    """

    column: str
    op: str
    value: Value | tuple[Value, ...] = None
    other: str | None = None


Conjunction: TypeAlias = tuple[Comparison, ...]

#: The condition that every row satisfies.
ALL_ROWS: Final[tuple[Conjunction, ...]] = ((),)


@dataclass(frozen=True, slots=True)
class Meeting:
    """The windows of a join: its rows must be together inside them at some instant origin + k·slide.

    `ranges` has for each published clock column the ticks that a row stays in its window. With τ the first instant that
    is not before the newest of the clocks, the rows meet if τ − clock < range for each of them: an instant that holds
    them all is τ or later, and what a later one holds τ holds too.
    """

    ranges: tuple[tuple[str, int], ...]
    slide: int = 1
    origin: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The window instances that a query has among those of its group: with ends at origin + k·slide."""

    column: str
    slide: int
    origin: int = 0


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one query's user takes from the rows of a group.

    `columns` are pairs: the name that the user sees, and the published column, in the order of the select list.
    """

    stream: str
    columns: tuple[tuple[str, str], ...]
    any_of: tuple[Conjunction, ...] = ALL_ROWS
    meeting: Meeting | None = None
    schedule: Schedule | None = None

    @property
    def needed(self) -> frozenset[str]:
        """The published columns without which the subscription cannot be applied."""
        compared = {
            name for conjunction in self.any_of for each in conjunction for name in (each.column, each.other) if name
        }
        clocks = {name for name, _ in self.meeting.ranges} if self.meeting else set()
        ends = {self.schedule.column} if self.schedule else set()
        return frozenset({published for _, published in self.columns} | compared | clocks | ends)


def as_json(subscription: Subscription) -> dict[str, Any]:
    document: dict[str, Any] = {"stream": subscription.stream, "columns": dict(subscription.columns)}
    if subscription.any_of != ALL_ROWS:
        document["any"] = [[_comparison(each) for each in conjunction] for conjunction in subscription.any_of]
    if subscription.meeting is not None:
        document["meeting"] = {**asdict(subscription.meeting), "ranges": dict(subscription.meeting.ranges)}
    if subscription.schedule is not None:
        document["schedule"] = asdict(subscription.schedule)
    return document


def from_json(document: dict[str, Any]) -> Subscription:
    meeting, schedule = document.get("meeting"), document.get("schedule")
    return Subscription(
        document["stream"],
        tuple(document["columns"].items()),
        tuple(tuple(map(_compared, conjunction)) for conjunction in document["any"]) if "any" in document else ALL_ROWS,
        Meeting(tuple(meeting["ranges"].items()), meeting["slide"], meeting["origin"]) if meeting else None,
        Schedule(**schedule) if schedule else None,
    )


def _comparison(each: Comparison) -> list[Any]:
    if each.other is not None:
        return [each.column, each.op, {"column": each.other}]
    if each.op in ("is null", "is not null"):
        return [each.column, each.op]
    if isinstance(each.value, tuple):
        return [each.column, each.op, [constant_as_json(one) for one in each.value]]
    return [each.column, each.op, constant_as_json(each.value)]


def _compared(document: list[Any]) -> Comparison:
    column, op, *rest = document
    if not rest:
        return Comparison(column, op)
    (operand,) = rest
    if isinstance(operand, dict) and "column" in operand:
        return Comparison(column, op, other=operand["column"])
    if isinstance(operand, list):
        return Comparison(column, op, tuple(map(constant_from_json, operand)))
    return Comparison(column, op, constant_from_json(operand))


def constant_as_json(value: Value) -> Any:
    """A constant as JSON has it; what JSON has no form for says what it is."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"double": str(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"binary": value.hex()}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    return value


def constant_from_json(plain: Any) -> Value:
    if not isinstance(plain, dict):
        return plain  # type: ignore[no-any-return]
    ((kind, text),) = plain.items()
    if kind == "double":
        return float(text)
    if kind == "decimal":
        return Decimal(text)
    return bytes.fromhex(text) if kind == "binary" else date.fromisoformat(text)
