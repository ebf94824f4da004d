"""Subscriptions as plain data: what is written is what is read."""

from __future__ import annotations

import json
import math
from datetime import date
from decimal import Decimal

import pytest

from weft.algebra.expressions import Value
from weft.plan.subscription import Comparison, Meeting, Schedule, Subscription, as_json, from_json

WHOLE = Subscription(
    "g17",
    (("symbol", "symbol"), ("mean", "avg(price)")),
    (
        (Comparison("price", ">", 100.5), Comparison("symbol", "in", ("A", "B"))),
        (Comparison("price", "<", other="limit"), Comparison("note", "is not null")),
    ),
    Meeting((("s.ts", 31), ("t.ts", 1)), slide=5, origin=2),
    Schedule("window_end", 300, 7),
)


def test_a_subscription_comes_back_from_json_as_it_was() -> None:
    assert from_json(json.loads(json.dumps(as_json(WHOLE)))) == WHOLE


@pytest.mark.parametrize("value", [True, 3, 0.5, Decimal("1.50"), "text", b"\x00\xff", date(2024, 2, 29), math.inf])
def test_constants_keep_their_type(value: Value) -> None:
    kept = Subscription("g1", (("a", "a"),), ((Comparison("a", "=", value), Comparison("a", "in", (value,))),))
    found = from_json(json.loads(json.dumps(as_json(kept))))
    assert found == kept
    assert type(found.any_of[0][0].value) is type(value)


def test_what_is_needed_is_all_that_a_condition_looks_at() -> None:
    assert WHOLE.needed == {"symbol", "avg(price)", "price", "limit", "note", "s.ts", "t.ts", "window_end"}
