"""Lengths of time as the user writes them, in ticks of a clock."""

from __future__ import annotations

import re
from fractions import Fraction

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
}

#: What a message says about units.
UNITS = ", ".join(f"{unit.upper()}S" for unit in _MICROSECONDS)

_PART = re.compile(r"\s*(?P<number>[+-]?\d+(?:\.\d+)?)\s*(?P<unit>[a-zA-Z]+)\s*")


class BadDuration(Exception):
    """The text is no length of time. The message says why, in words for the user."""


def microseconds_per(unit: str) -> int:
    """How many microseconds a unit has; raises BadDuration for an unknown unit or one of varying length."""
    name = unit.lower()
    name = _SHORT.get(name, name)
    singular = name.removesuffix("s")
    if singular in _MICROSECONDS:
        return _MICROSECONDS[singular]
    if singular in ("month", "quarter", "year"):
        raise BadDuration(f"a {singular} has no fixed length; use {UNITS}")
    raise BadDuration(f"'{unit}' is no unit of time; use {UNITS}")


def microseconds(number: str, unit: str) -> int:
    """`number` units in microseconds; raises BadDuration if that is no whole number of them."""
    exact = Fraction(number) * microseconds_per(unit)
    if exact.denominator != 1:
        raise BadDuration(f"{number} {unit} is not a whole number of microseconds")
    return int(exact)


def parse(text: str) -> int:
    """A text like '1 hour', '1 hour 30 minutes' or '90s' in microseconds; raises BadDuration."""
    position = total = 0
    text = text.strip().removeprefix("interval ")
    while match := _PART.match(text, position):
        total += microseconds(match["number"], match["unit"])
        position = match.end()
    if position == 0 or position != len(text):
        raise BadDuration(f"'{text}' is no length of time; write for example '5 minutes'")
    return total
