"""Literals: canonical triples of a subject, an operator and a constant.

Two literals are the same condition if their texts are equal, and for one subject they can be compared by their sets of
values. A literal is TRUE exactly for the rows whose subject has a value in its set; for all others, NULLs among them,
it is not TRUE, and a WHERE does not care whether it is FALSE or NULL instead.

Every set that a literal can have is written in one way. Whole numbers have no difference between `a > 5` and `a >= 6`:
the simpler constant is taken, the closed end if none is simpler. At the ends of the domain, `a <= 2147483647` says no
more than `a IS NOT NULL`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeAlias

from weft.algebra import Kind
from weft.predicates import domains
from weft.predicates.subjects import Order, Subject, number_text
from weft.predicates.terms import Term, quoted_text

IS_NULL, IS_NOT_NULL = "IS NULL", "IS NOT NULL"
MIRRORED = {"<": ">", "<=": ">=", "=": "=", ">=": "<=", ">": "<", "!=": "!="}
NEGATED = {"<": ">=", "<=": ">", "=": "!=", ">=": "<", ">": "<=", "!=": "="}

#: The same constants come again and again: how many sets of values are remembered.
MOST_KEPT = 10_000

#: An operator and a constant, which some operators have not.
_Comparison: TypeAlias = tuple[str, domains.Place | None]

_EPOCH = datetime(1970, 1, 1)  # UTC, as all timestamps are


@dataclass(frozen=True)
class Triple:
    """A literal. `bound` is None for IS NULL and IS NOT NULL alone. It is its text; the rest follows from it."""

    text: str
    subject: Subject = field(compare=False, repr=False)
    operator: str = field(compare=False, repr=False)
    bound: domains.Place | None = field(compare=False, repr=False)

    @cached_property
    def values(self) -> domains.ValueSet:
        """The values of the subject for which the literal is TRUE."""
        domain = self.subject.domain
        if self.bound is None:
            return domains.ONLY_NULL if self.operator == IS_NULL else domain.whole
        return _values(self.operator, self.bound, domain)


def excluded(literal: Triple) -> domains.ValueSet:
    """The values of the subject, NULL perhaps included, for which the literal is not TRUE."""
    return domains.intersection(domains.complement(literal.values), literal.subject.domain.everything)


def literals_of(subject: Subject, operator: str, bound: domains.Place) -> tuple[Triple, ...]:
    """The literal `subject operator bound`, or none if no value satisfies it."""
    return alternatives(subject, _values(operator, bound, subject.domain))


@lru_cache(maxsize=MOST_KEPT)
def _values(operator: str, bound: domains.Place, domain: domains.Domain) -> domains.ValueSet:
    return domains.settled(domains.satisfying(operator, bound), domain)


def null_test(subject: Subject, is_null: bool) -> Triple:
    return _triple(subject, IS_NULL if is_null else IS_NOT_NULL, None)


def restated(literal: Triple, subject: Subject, factor: Fraction) -> Triple:
    """The literal over what its subject has become, the factor being that between what it was and what it is."""
    bound, operator = literal.bound, literal.operator
    if bound is None or factor == 1:
        return _triple(subject, operator, bound)
    bound = bound / factor if isinstance(bound, Fraction) else bound
    (result,) = literals_of(subject, operator if factor > 0 else MIRRORED[operator], bound)
    return result


def alternatives(subject: Subject, values: domains.ValueSet) -> tuple[Triple, ...]:
    """The fewest literals of which one must be TRUE for the subject to be in a set, one way for each set.

    The set is one that a disjunction of literals can have: between its first span and its last there are single values.
    """
    return tuple(_triple(subject, *each) for each in _alternatives(values, subject.domain, isinstance(subject, Order)))


@lru_cache(maxsize=MOST_KEPT)
def _alternatives(values: domains.ValueSet, domain: domains.Domain, is_order: bool) -> tuple[_Comparison, ...]:
    result: list[_Comparison] = [(IS_NULL, None)] if values.null else []
    if values.spans == domain.whole.spans:
        return (*result, (IS_NOT_NULL, None))
    if len(values.spans) == 2 and values.spans[0][0] == domain.first and values.spans[1][1] == domain.last:
        hole = only_value(domains.gaps(values)[0], domain)
        if hole is not None:
            return (*result, ("!=", hole))
    for span in values.spans:
        result.extend(_comparisons_of(span, domain, is_order))
    return tuple(result)


def _is_short_as_disjunction(values: domains.ValueSet, domain: domains.Domain) -> bool:
    """Whether one disjunction has fewer literals than the ends and gaps of a set, or it is just one literal."""
    first, last = domain.first, domain.last
    inner = [span for span in values.spans if span[0] != first and span[1] != last]
    listed = len(values.spans) - len(inner)
    for low, high in inner:
        if domain.step is None and only_value((low, high), domain) is None:
            return False  # the values are countless
        listed += 1 if domain.step is None else int((high[1] - low[1]) / domain.step)
    around = 2 * len(domains.gaps(values)) + (values.spans[0][0] != first) + (values.spans[-1][1] != last)
    return listed < around or listed <= 1


def requirements(subject: Subject, values: domains.ValueSet) -> tuple[tuple[Triple, ...], ...]:
    """The fewest disjunctions that must all be TRUE for the subject to be in a set, one way for each set.

    One disjunction if that is shorter, as for `x = 1 OR x = 5`. Otherwise the set's two ends and its gaps:

        '070' ≤ x < '071' or '570' ≤ x < '574'   →   x >= '070',  x < '071' OR x >= '570',  x < '574'
    """
    domain = subject.domain
    if not values.spans or _is_short_as_disjunction(values, domain):
        return (alternatives(subject, values),)
    openings = [(domain.first, values.spans[0][0]), *domains.gaps(values), (values.spans[-1][1], domain.last)]
    around = (
        tuple(span for span in ((domain.first, low), (high, domain.last)) if span[0] < span[1])
        for low, high in openings
        if low < high
    )
    return tuple(alternatives(subject, domains.ValueSet(spans, values.null)) for spans in around)


def _comparisons_of(span: domains.Span, domain: domains.Domain, is_order: bool) -> tuple[_Comparison, ...]:
    low, high = span
    point = only_value(span, domain)
    if point is not None and not (is_order and point):
        return (("=", point),)
    if low == domain.first:
        return (upper_end(high, domain),)
    if high == domain.last:
        return (lower_end(low, domain),)
    assert domain.step is not None, "a disjunction of literals has no span of many values"
    count = int((high[1] - low[1]) / domain.step)
    return tuple(("=", low[1] + n * domain.step) for n in range(count))


def only_value(span: domains.Span, domain: domains.Domain) -> domains.Place | None:
    """The only value in a span, if it has just one."""
    low, high = span
    if low == domains.FIRST or low[2] == 1:
        return None
    place: domains.Place = low[1]
    return place if high == domain.settle(domains.above(place)) else None


def lower_end(cut: domains.Cut, domain: domains.Domain) -> tuple[str, domains.Place]:
    """What lies above a cut, as an operator and a constant: the one way to write it."""
    _, place, side = cut
    if domain.step is not None and _simplicity(place - domain.step) < _simplicity(place):
        return ">", place - domain.step
    return (">" if side else ">="), place


def upper_end(cut: domains.Cut, domain: domains.Domain) -> tuple[str, domains.Place]:
    """What lies below a cut, as an operator and a constant: the one way to write it."""
    _, place, side = cut
    if domain.step is None:
        return ("<=" if side else "<"), place
    previous = place - domain.step
    return ("<=", previous) if _simplicity(previous) <= _simplicity(place) else ("<", place)


def _simplicity(value: Fraction) -> tuple[int, int]:
    """Smaller for numbers that are shorter to write."""
    return value.denominator, len(str(abs(value.numerator)).rstrip("0"))


def _triple(subject: Subject, operator: str, bound: domains.Place | None) -> Triple:
    if bound is None:
        text = f"{subject.text} {operator}"
    elif isinstance(subject, Order):
        text = f"{subject.left.text} {operator} {subject.right.text}"
    else:
        text = f"{subject.text} {operator} {bound_text(subject, bound)}"
    return Triple(text, subject, operator, bound)


def bound_text(subject: Subject, bound: domains.Place) -> str:
    """A constant as SQL writes it beside its subject; differences of times are plain numbers."""
    if isinstance(bound, str):
        return quoted_text(bound)
    if isinstance(bound, bytes):
        return f"X'{bound.hex()}'"
    if isinstance(bound, tuple):
        return "NaN" if bound[0] else repr(bound[1])
    kind = subject.expression.type.kind if isinstance(subject, Term) else None
    if kind is Kind.BOOLEAN:
        return "TRUE" if bound else "FALSE"
    if kind is Kind.DATE:
        return f"DATE '{domains.date_of(bound)}'"
    if kind is Kind.TIMESTAMP:
        if not domains.is_in_calendar(bound):
            return f"timestamp_micros({bound})"
        return f"TIMESTAMP '{(_EPOCH + timedelta(microseconds=int(bound))).isoformat(sep=' ')}'"
    return number_text(bound)
