"""Lengths of time."""

from __future__ import annotations

import pytest

from weft.sql import durations

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1 microsecond", 1),
        ("5 milliseconds", 5_000),
        ("1 second", 1_000_000),
        ("90s", 90_000_000),
        ("1 minute", MINUTE),
        ("2 HOURS", 120 * MINUTE),
        ("1 day", DAY),
        ("1 week", 7 * DAY),
        ("1 hour 30 minutes", 90 * MINUTE),
        ("1 day -1 hour", DAY - 60 * MINUTE),
        ("0.5 seconds", 500_000),
        ("  5   min  ", 5 * MINUTE),
        ("interval 5 minutes", 5 * MINUTE),
        ("5us", 5),
        ("5 ms", 5_000),
        ("-5 minutes", -5 * MINUTE),
        ("0 seconds", 0),
        ("9223372036854775807 microseconds", 2**63 - 1),
    ],
)
def test_lengths(text: str, microseconds: int) -> None:
    assert durations.parse(text) == microseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "5", "minutes", "five minutes", "5 minutes ago", "5 fortnights", "1 month", "1 year", "1 quarter"),
        *("0.0000001 seconds", "1/2 hour", "1e3 seconds", "² hours", "٣ hours", "9223372036854775808 microseconds"),
        *("9" * 5000 + " days", "0." + "1" * 5000 + " days", "5 minutes, 3 seconds"),
    ],
)
def test_what_is_no_length(text: str) -> None:
    with pytest.raises(durations.BadDuration):
        durations.parse(text)


def test_units_of_varying_length_say_so() -> None:
    with pytest.raises(durations.BadDuration, match="a month has no fixed length"):
        durations.microseconds("1", "MONTHS")


@pytest.mark.parametrize("number", ["1/0", "nan", "inf", "0x10", "", "--1", "1_000"])
def test_numbers_are_plain(number: str) -> None:
    with pytest.raises(durations.BadDuration):
        durations.microseconds(number, "SECONDS")


def test_ordinals() -> None:
    assert durations.ordinals("100") == 100
    for bad in ("-1", "1.5", "", "x", "9" * 30):
        with pytest.raises(durations.BadDuration):
            durations.ordinals(bad)
