"""Sets of values of one subject, as spans between cuts.

A **cut** is a place between values: just below a value, just above it, before everything or after everything. A span is
what lies between two cuts, so one pair says "from 3, with it, up to 7, without it", and open and closed ends need no
cases of their own:

    … ──┤3────────────7├── …        (below 3, below 7)  is  3 ≤ x < 7

Nothing here knows what the values are. All it takes is that they can be compared, so exact numbers, texts and DOUBLEs
go through the same few functions. NULL is no value: a set says beside its spans whether it holds NULL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

#: A value as something that compares: exact numbers, dates (days), times (µs) and truth values are Fractions, texts and
#: bytes are themselves, and a floating-point number is (0, x), or (1, 0.0) for NaN, which is above all the others.
Place: TypeAlias = Fraction | str | bytes | tuple[int, float]

#: (-1,) before everything; (0, place, 0) just below a place; (0, place, 1) just above it; (1,) after everything.
Cut: TypeAlias = tuple[Any, ...]
Span: TypeAlias = tuple[Cut, Cut]

FIRST: Cut = (-1,)
LAST: Cut = (1,)

INFINITY: Place = (0, math.inf)
NAN: Place = (1, 0.0)


def floating(value: float) -> Place:
    """The place of a FLOAT or DOUBLE; the two zeros are one."""
    return NAN if math.isnan(value) else (0, value + 0.0)


def below(place: Place) -> Cut:
    return (0, place, 0)


def above(place: Place) -> Cut:
    return (0, place, 1)


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Some values, and perhaps NULL. The spans are sorted, not empty, and do not touch."""

    spans: tuple[Span, ...]
    null: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.spans and not self.null


EVERYTHING = ValueSet(((FIRST, LAST),))
ONLY_NULL = ValueSet((), null=True)


def value_set(spans: Iterable[Span], null: bool = False) -> ValueSet:
    """A set of some spans, in whatever order they come and however they overlap.

    >>> one, two, three, four = (below(Fraction(n)) for n in (1, 2, 3, 4))
    >>> value_set([(two, four), (one, three)]) == value_set([(one, four)])
    True
    """
    merged: list[Span] = []
    for low, high in sorted(span for span in spans if span[0] < span[1]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return ValueSet(tuple(merged), null)


def satisfying(operator: str, bound: Place) -> ValueSet:
    """The values x with `x operator bound`.

    >>> satisfying("<=", Fraction(3)).spans
    (((-1,), (0, Fraction(3, 1), 1)),)
    """
    before, after = (FIRST, below(bound)), (above(bound), LAST)
    point = (below(bound), above(bound))
    spans: dict[str, tuple[Span, ...]] = {
        "<": (before,),
        "<=": (before, point),
        "=": (point,),
        ">=": (point, after),
        ">": (after,),
        "!=": (before, after),
    }
    return value_set(spans[operator])


def union(sets: Iterable[ValueSet]) -> ValueSet:
    listed = tuple(sets)
    return value_set((span for each in listed for span in each.spans), any(each.null for each in listed))


def intersection(left: ValueSet, right: ValueSet) -> ValueSet:
    spans: list[Span] = []
    i = j = 0
    while i < len(left.spans) and j < len(right.spans):
        (a, b), (c, d) = left.spans[i], right.spans[j]
        ends_first = b < d
        low, high = max(a, c), b if ends_first else d
        if low < high:
            spans.append((low, high))
        if ends_first:
            i += 1
        else:
            j += 1
    return ValueSet(tuple(spans), left.null and right.null)


def complement(values: ValueSet) -> ValueSet:
    """Everything else: NULL is in it unless it was in the set."""
    cuts = [FIRST, *(cut for span in values.spans for cut in span), LAST]
    return value_set(zip(cuts[::2], cuts[1::2], strict=True), not values.null)


def is_subset(left: ValueSet, right: ValueSet) -> bool:
    """Whether every value of the left set, and its NULL, is in the right one.

    >>> is_subset(satisfying(">", Fraction(5)), satisfying("!=", Fraction(5)))
    True
    """
    return intersection(left, right) == left


def are_disjoint(left: ValueSet, right: ValueSet) -> bool:
    return intersection(left, right).is_empty


def contains(values: ValueSet, place: Place | None) -> bool:
    """Whether a value is in a set; None is NULL."""
    if place is None:
        return values.null
    return any(low <= below(place) and above(place) <= high for low, high in values.spans)


def gaps(values: ValueSet) -> tuple[Span, ...]:
    """What lies between the spans of a set, from the first of them to the last."""
    return tuple((a[1], b[0]) for a, b in pairwise(values.spans))
