"""Sets of values, as spans between cuts; and domains, the values that a term can have at all.

A **cut** is a place between values: just below a value, just above it, before everything or after everything. A span is
what lies between two cuts, so open and closed ends need no cases of their own:

    … ──┤3────────────7├── …        (below 3, below 7)  is  3 ≤ x < 7

NULL is no value: a set says beside its spans whether it holds NULL.

A **domain** is read off the type: an INT lies between −2³¹ and 2³¹ − 1 and is whole, a DECIMAL(10, 2) is a multiple of
a hundredth. That makes `a > 5` and `a >= 6` one condition for an INT, `a = 5.5` none at all, and it tells whether an
addition can overflow. Where more is known of a column, as of a stream's clock, `Facts` say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, TypeAlias

from weft.algebra import Column, DataType, Kind, Select, Stream
from weft.algebra.types import TIMESTAMP

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
    low, high = below(bound), above(bound)
    spans: dict[str, tuple[Span, ...]] = {
        "<": ((FIRST, low),),
        "<=": ((FIRST, high),),
        "=": ((low, high),),
        ">=": ((low, LAST),),
        ">": ((high, LAST),),
        "!=": ((FIRST, low), (high, LAST)),
    }
    return ValueSet(spans[operator])


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
    if len(left.spans) == len(right.spans) == 1:
        ((low, high),), ((lowest, highest),) = left.spans, right.spans
        return lowest <= low and high <= highest and right.null >= left.null
    return intersection(left, right) == left


def contains(values: ValueSet, place: Place | None) -> bool:
    """Whether a value is in a set; None is NULL."""
    if place is None:
        return values.null
    return any(low <= below(place) and above(place) <= high for low, high in values.spans)


def gaps(values: ValueSet) -> tuple[Span, ...]:
    """What lies between the spans of a set, from the first of them to the last."""
    return tuple((a[1], b[0]) for a, b in pairwise(values.spans))


DAY = 86_400_000_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64, Kind.TIMESTAMP: 64, Kind.INTERVAL: 64}
_MOST_DIGITS = 38


@dataclass(frozen=True)
class Domain:
    """From `low` to `high`, both with it (None: no limit). All values are multiples of `step`, if there is one."""

    low: Place | None = None
    high: Place | None = None
    step: Fraction | None = None
    nullable: bool = True

    @cached_property
    def _hash(self) -> int:
        return hash((self.low, self.high, self.step, self.nullable))

    def __hash__(self) -> int:
        # Domains are parts of keys, and it takes a while to hash a Fraction.
        return self._hash

    @cached_property
    def first(self) -> Cut:
        return FIRST if self.low is None else below(self.low)

    @cached_property
    def last(self) -> Cut:
        return LAST if self.high is None else self.settle(above(self.high))

    @cached_property
    def whole(self) -> ValueSet:
        """All values, without NULL."""
        return ValueSet(((self.first, self.last),))

    @cached_property
    def everything(self) -> ValueSet:
        """All values, with NULL if that is possible."""
        return ValueSet(self.whole.spans, self.nullable)

    def settle(self, cut: Cut) -> Cut:
        """The one name of all the cuts that part the values alike: below 6 and above 5, if values are whole."""
        if cut == above(INFINITY):
            return below(NAN)
        if self.step is None or cut in (FIRST, LAST):
            return cut
        _, place, side = cut
        # place / step, in integers: this is where most of the time would go otherwise.
        steps, rest = divmod(place.numerator * self.step.denominator, place.denominator * self.step.numerator)
        if rest == 0 and not side:
            return cut
        return below((steps + 1) * self.step)


#: What is known of columns beyond their types.
Facts: TypeAlias = Mapping[Column, Domain]


def settled(values: ValueSet, domain: Domain) -> ValueSet:
    """The part of a set that the domain has, cut in the one way."""
    spans = [(domain.settle(low), domain.settle(high)) for low, high in values.spans]
    return intersection(value_set(spans, values.null and domain.nullable), ValueSet(domain.whole.spans, null=True))


@cache
def domain_of(type_: DataType) -> Domain:
    kind = type_.kind
    if kind in _BITS:
        half = 1 << (_BITS[kind] - 1)
        return Domain(Fraction(-half), Fraction(half - 1), Fraction(1))
    if kind in (Kind.HUGEINT, Kind.DECIMAL):
        precision, scale = (_MOST_DIGITS, 0) if kind is Kind.HUGEINT else (type_.precision, type_.scale)
        greatest = Fraction(10**precision - 1, 10**scale)
        return Domain(-greatest, greatest, Fraction(1, 10**scale))
    if kind is Kind.DATE:
        # Dates beyond the calendar cannot be written down as values at all.
        return Domain(days(date.min), days(date.max), Fraction(1))
    if kind is Kind.BOOLEAN:
        return Domain(Fraction(0), Fraction(1), Fraction(1))
    if type_.is_floating:
        return Domain((0, -math.inf), NAN)
    return Domain(b"" if kind is Kind.BINARY else "")


def days(value: date) -> Fraction:
    """A date as the number of its day after the epoch."""
    return Fraction(value.toordinal() - _EPOCH_DAY)


def date_of(day: Fraction) -> date:
    """The date of a day's number: the opposite of `days`."""
    return date.fromordinal(int(day) + _EPOCH_DAY)


_CALENDAR = Domain(days(date.min) * DAY, (days(date.max) + 1) * DAY - 1, Fraction(1), nullable=False)
_ORDINALS = Domain(Fraction(-(1 << 62)), Fraction(1 << 62), Fraction(1), nullable=False)


def is_in_calendar(micros: Fraction) -> bool:
    """Whether a time lies in the years 1 to 9999."""
    return _CALENDAR.low <= micros <= _CALENDAR.high  # type: ignore[operator]


def clock_facts(select: Select) -> Facts:
    """What is known of the clocks of a select's streams.

    A row whose clock is NULL, outside the years 1 to 9999 or beyond ±2⁶² goes to the dead letter and never meets a
    condition (docs/semantics.md). So `a.ts + INTERVAL 1 HOUR` cannot overflow.
    """
    facts: dict[Column, Domain] = {}
    for item in select.inputs:
        if isinstance(item.source, Stream):
            type_ = next(each.type for each in item.source.fields if each.name == item.source.clock)
            facts[Column(item.alias, item.source.clock, type_)] = _CALENDAR if type_ == TIMESTAMP else _ORDINALS
    return facts
