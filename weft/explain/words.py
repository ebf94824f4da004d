"""Words that the texts of EXPLAIN have in common: numbers, counts and lists that do not get too long."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

#: So many of a list are shown; the others are counted. JSON has all of them.
SHOWN = 8


def number_text(value: Fraction) -> str:
    return f"{float(value):,.0f}" if abs(value) >= 1_000 else f"{float(value):.4g}"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def other_queries(number: int) -> str:
    return "no other query" if not number else count(number, "other query", "other queries")


def listed(names: Sequence[str]) -> str:
    return f": {some(names)}" if names else ""


def some(texts: Sequence[str]) -> str:
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")
