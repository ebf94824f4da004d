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

#: The most ticks that a length may have: a clock is a 64-bit integer.
LONGEST = 2**63 - 1

#: What to do about a length of time that is none.
ADVICE = f"write for example 5 MINUTES; units are {', '.join(f'{unit.upper()}S' for unit in _MICROSECONDS)}"

_NUMBER = re.compile(r"[+-]?\d{1,25}(?:\.\d{1,25})?", re.ASCII)
_PART = re.compile(rf"\s*(?P<number>{_NUMBER.pattern})\s*(?P<unit>[a-zA-Z]+)\s*", re.ASCII)


class BadDuration(Exception):
    """The text is no length of time. The message says why, in words for the user."""


def microseconds(number: str, unit: str) -> int:
    """`number` units in microseconds; raises BadDuration if that is no whole number, or no unit."""
    if not _NUMBER.fullmatch(number):
        raise BadDuration(f"'{number}' is not a number of {unit.upper()}")
    singular = _SHORT.get(unit.lower(), unit.lower()).removesuffix("s")
    if singular in ("month", "quarter", "year"):
        raise BadDuration(f"a {singular} has no fixed length")
    if singular not in _MICROSECONDS:
        raise BadDuration(f"'{unit}' is no unit of time")
    exact = Fraction(number) * _MICROSECONDS[singular]
    if exact.denominator != 1:
        raise BadDuration(f"{number} {unit} is not a whole number of microseconds")
    return _bounded(int(exact))


def ordinals(number: str) -> int:
    """A length on an ordinal clock; raises BadDuration."""
    if not _NUMBER.fullmatch(number) or not number.isdigit():
        raise BadDuration(f"'{number}' is not a whole number")
    return _bounded(int(number))


def parse(text: str) -> int:
    """A text like '1 hour', '1 hour 30 minutes' or '90s' in microseconds; raises BadDuration."""
    position = total = 0
    text = text.strip().removeprefix("interval ")
    while match := _PART.match(text, position):
        total += microseconds(match["number"], match["unit"])
        position = match.end()
    if position == 0 or position != len(text):
        raise BadDuration(f"'{text}' is no length of time")
    return _bounded(total)


def _bounded(ticks: int) -> int:
    if abs(ticks) > LONGEST:
        raise BadDuration("this is longer than a clock can count")
    return ticks
