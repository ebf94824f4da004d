"""Domains: which values a term can have at all.

A domain is read off the type: an INT lies between −2³¹ and 2³¹ − 1 and is whole, a DECIMAL(10, 2) is a multiple of a
hundredth. That makes `a > 5` and `a >= 6` one condition for an INT, `a = 5.5` none at all, and it tells whether an
addition can overflow. Where more is known of a column, as of a stream's clock, `Facts` say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cache, cached_property
from typing import TypeAlias

from weft.algebra import Column, DataType, Kind, Select, Stream
from weft.algebra.types import TIMESTAMP
from weft.predicates.intervals import (
    FIRST,
    INFINITY,
    LAST,
    NAN,
    Cut,
    Place,
    ValueSet,
    above,
    below,
    intersection,
    value_set,
)

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
    """All values of a type."""
    kind = type_.kind
    if kind in _BITS:
        half = 1 << (_BITS[kind] - 1)
        return Domain(Fraction(-half), Fraction(half - 1), Fraction(1))
    if kind is Kind.HUGEINT:
        return _decimal(_MOST_DIGITS, 0)
    if kind is Kind.DECIMAL:
        return _decimal(type_.precision, type_.scale)
    if kind is Kind.DATE:
        # Dates beyond the calendar cannot be written down as values at all.
        return Domain(days(date.min), days(date.max), Fraction(1))
    if kind is Kind.BOOLEAN:
        return Domain(Fraction(0), Fraction(1), Fraction(1))
    if type_.is_floating:
        return Domain((0, -math.inf), NAN)
    return Domain(b"" if kind is Kind.BINARY else "")


def _decimal(precision: int, scale: int) -> Domain:
    step = Fraction(1, 10**scale)
    greatest = (10**precision - 1) * step
    return Domain(-greatest, greatest, step)


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
