"""Queries as text that a person reads."""

from __future__ import annotations

import pytest

from weft.algebra import UNBOUNDED, Call, Column, Literal, Window
from weft.algebra.types import BIGINT, BOOLEAN, INT, INTERVAL, STRING, TIMESTAMP, DataType
from weft.explain.query_text import clock_text, duration_text, expression_text, window_text
from weft.sql import durations

MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("ticks", "text"),
    [
        (0, "0 SECONDS"),
        (1, "1 MICROSECOND"),
        (1_500, "1500 MICROSECONDS"),
        (5_000, "5 MILLISECONDS"),
        (1_000_000, "1 SECOND"),
        (90 * MINUTE, "90 MINUTES"),
        (60 * MINUTE, "1 HOUR"),
        (7 * 24 * 60 * MINUTE, "7 DAYS"),
        (-5 * MINUTE, "-5 MINUTES"),
    ],
)
def test_durations_are_in_the_largest_unit_that_divides_them(ticks: int, text: str) -> None:
    assert duration_text(ticks, TIMESTAMP) == text
    assert durations.parse(text) == ticks
    assert duration_text(ticks, BIGINT) == str(ticks)


def test_clocks() -> None:
    assert clock_text(0, TIMESTAMP) == "1970-01-01 00:00:00"
    assert clock_text(-1, TIMESTAMP) == "1969-12-31 23:59:59.999999"
    assert clock_text(-62_135_596_800_000_000, TIMESTAMP) == "0001-01-01 00:00:00"
    assert clock_text(17, BIGINT) == "17"


@pytest.mark.parametrize(
    ("window", "clock", "text"),
    [
        (UNBOUNDED, TIMESTAMP, "[RANGE UNBOUNDED]"),
        (Window(60 * MINUTE, 5 * MINUTE), TIMESTAMP, "[RANGE 1 HOUR SLIDE 5 MINUTES]"),
        (Window(60 * MINUTE, 60 * MINUTE, MINUTE), TIMESTAMP, "[RANGE 1 HOUR SLIDE 1 HOUR ORIGIN 1 MINUTE]"),
        (Window(1), TIMESTAMP, "[RANGE 1 MICROSECOND]"),
        (Window(100, 10), BIGINT, "[RANGE 100 SLIDE 10]"),
    ],
)
def test_windows(window: Window, clock: DataType, text: str) -> None:
    assert window_text(window, clock) == text


def test_expressions_are_unambiguous() -> None:
    x, ok = Column("t", "x", INT), Column("t", "ok", BOOLEAN)
    negative = Call("neg", (x,), INT)
    assert expression_text(Call("neg", (negative,), INT)) == "(-(-t.x))"
    assert expression_text(Call("=", (Call("not", (ok,), BOOLEAN), ok), BOOLEAN)) == "((NOT t.ok) = t.ok)"
    assert expression_text(Literal("it's", STRING)) == "'it''s'"
    assert expression_text(Literal(5 * MINUTE, INTERVAL)) == "INTERVAL 5 MINUTES"
    assert expression_text(Literal(None, STRING)) == "NULL"
