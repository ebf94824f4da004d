"""One comparison as literals: its sides are read as polynomials, where that keeps every answer.

An INT overflows to NULL, a DECIMAL rounds, a DOUBLE does both and has NaN besides. So an expression is read as a
polynomial only if at every step the exact result is what SQL computes:

    integers, times, intervals   exact, as long as the result fits its type
    DECIMAL                      exact, if the type of the result has all the decimals; and as long as it fits
    FLOAT, DOUBLE                only over whole or dyadic numbers so small that no result can need rounding
    a / c, casts                 by the same rules: a/2 of an INT is exact in DOUBLE, a DECIMAL / 3 is not

"As long as it fits" is a condition on the row. If the ranges of the columns do not prove it, it becomes a **guard**: a
comparison that is TRUE together with the one that was written, or the answer is NULL. For an INT,

    a + 10 > 5   is   a > -5  AND  a <= 2147483637

Everything else stays a term that is not taken apart. A comparison of DOUBLE columns in particular is never rearranged:
`x - y > 0` is not `x > y` when both are infinite, and `-x > 1` is not `x < -1` when x is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import TypeAlias

from weft.algebra import Call, Column, DataType, Expression, Kind, Literal
from weft.predicates import terms
from weft.predicates.domains import DAY, Domain, Facts, Place, contains, days, domain_of, floating, satisfying
from weft.predicates.literals import MIRRORED, Triple, literals_of, null_test, try_expression
from weft.predicates.subjects import Polynomial, order_of, polynomial_of, product_range, sum_of, variable
from weft.predicates.terms import Range, Term, term_of

#: That a polynomial is at most, or at least, a number.
Guard: TypeAlias = tuple[Polynomial, str, Fraction]

_SIGNIFICANT_BITS = {Kind.FLOAT: 24, Kind.DOUBLE: 53}
_GREATEST_EXPONENT = {Kind.FLOAT: 126, Kind.DOUBLE: 1022}
#: No value with more digits can be computed anywhere in Spark, in its widest type.
_TOO_LARGE = 10**38


@dataclass(frozen=True, slots=True)
class Reading:
    """An expression as a polynomial.

    It has a value iff all `atoms` have one and all guards hold; atoms that cancel out (`a - a`) count. Its values lie
    in `range`.
    """

    polynomial: Polynomial
    range: Range
    atoms: frozenset[Term]
    guards: tuple[Guard, ...] = ()


def read(expression: Expression, facts: Facts) -> Reading | None:
    """The expression as a polynomial, or None if it has no exact value. One of an exact type always has a reading."""
    if isinstance(expression, Literal):
        return _read_constant(expression)
    if isinstance(expression, Call):
        reading = _read_call(expression, facts)
        if reading is not None:
            polynomials = [reading.polynomial, *(polynomial for polynomial, _, _ in reading.guards)]
            if all(max(map(abs, each.range)) < _TOO_LARGE for each in polynomials):
                return reading
    return read_whole(expression, facts) if terms.is_exact(expression.type) else None


def read_whole(expression: Expression, facts: Facts) -> Reading:
    """An expression of an exact type as a single atom."""
    atom = term_of(expression, facts)
    return Reading(variable(atom), atom.range, frozenset({atom}))


def _read_constant(literal: Literal) -> Reading | None:
    value = literal.value
    if value is None or isinstance(value, bool | str | bytes) or (isinstance(value, float) and not isfinite(value)):
        return None
    exact = days(value) if isinstance(value, date) else Fraction(value)
    return Reading(polynomial_of([((), exact)]), (exact, exact), frozenset())


def _read_call(call: Call, facts: Facts) -> Reading | None:
    if call.op == "cast":
        return _read_cast(call, facts)
    if call.op == "unix_micros" or (call.op == "timestamp_micros" and call.args[0].type.is_integer):
        return _fitted(read(call.args[0], facts), call.type)
    if call.op not in ("+", "-", "*", "/", "neg"):
        return None
    args = [read(arg, facts) for arg in call.args]
    known = [arg for arg in args if arg is not None]
    return _fitted(_computed(call.op, known), call.type) if known == args else None


def _read_cast(call: Call, facts: Facts) -> Reading | None:
    source, target = call.args[0].type, call.type
    if not (terms.is_exact(source) or source.is_floating) or (source.is_floating and not target.is_floating):
        return None
    inner = read(call.args[0], facts)
    if inner is None or Kind.DATE not in (source.kind, target.kind):
        return _fitted(inner, target) if terms.is_exact(target) or target.is_floating else None
    return _fitted(_multiplied(inner, Fraction(DAY)), target) if target.kind is Kind.TIMESTAMP else None


def _computed(op: str, args: Sequence[Reading]) -> Reading | None:
    """The exact result of an operator."""
    if op == "neg":
        return _multiplied(args[0], Fraction(-1))
    left, right = args
    if op == "/":
        divisor = right.polynomial.constant
        is_constant = not right.polynomial.varying.terms and not right.atoms
        return _multiplied(left, 1 / divisor) if divisor and is_constant else None
    if op == "-":
        return _computed("+", (left, _multiplied(right, Fraction(-1))))
    if op == "*":
        polynomial, range_ = left.polynomial * right.polynomial, product_range(left.range, right.range)
    else:
        polynomial = left.polynomial + right.polynomial
        range_ = left.range[0] + right.range[0], left.range[1] + right.range[1]
    return Reading(polynomial, range_, left.atoms | right.atoms, left.guards + right.guards)


def _multiplied(reading: Reading, factor: Fraction) -> Reading:
    range_ = product_range(reading.range, (factor, factor))
    return replace(reading, polynomial=reading.polynomial.scaled(factor), range=range_)


def _fitted(exact: Reading | None, type_: DataType) -> Reading | None:
    """A result as its type holds it: with guards where it may not fit, or None where it may be rounded."""
    if exact is None:
        return None
    low, high = exact.polynomial.range
    exact = replace(exact, range=(max(low, exact.range[0]), min(high, exact.range[1])))
    if type_.is_floating:
        return exact if _is_representable(exact, type_) else None
    room = domain_of(type_)
    assert isinstance(room.low, Fraction)
    assert isinstance(room.high, Fraction)
    assert room.step is not None
    if (exact.polynomial.step / room.step).denominator != 1:
        return None
    (low, high), guards = exact.range, exact.guards
    if high > room.high:
        guards = (*guards, (exact.polynomial, "<=", room.high))
    if low < room.low:
        guards = (*guards, (exact.polynomial, ">=", room.low))
    return replace(exact, range=(max(low, room.low), min(high, room.high)), guards=guards)


def _is_representable(exact: Reading, type_: DataType) -> bool:
    """Whether every value is a number of the floating-point type, so that nothing is ever rounded."""
    step = exact.polynomial.step
    numerator, denominator = step.numerator or 1, step.denominator
    if denominator & (denominator - 1):
        return False
    unit = Fraction(numerator & -numerator, denominator)
    largest, limit = max(abs(bound) for bound in exact.range), Fraction(2) ** _GREATEST_EXPONENT[type_.kind]
    return largest / unit <= 1 << _SIGNIFICANT_BITS[type_.kind] and largest <= limit and unit * limit >= 1


#: Queries that are much alike have many comparisons in common, so the literals of the latest ones are cached.
_MOST_KEPT = 10_000


def comparison(operator: str, left: Expression, right: Expression, facts: Facts) -> tuple[Triple, ...] | None:
    """The literals that are all TRUE exactly where `left operator right` is; None if it is TRUE nowhere.

    >>> from weft.algebra import Call, Column
    >>> from weft.algebra.types import INT
    >>> more = Call("+", (Column("s", "a", INT), Literal(10, INT)), INT)
    >>> [literal.text for literal in comparison(">", more, Literal(5, INT), {}) or ()]
    ['s.a >= -4', 's.a <= 2147483637']
    """
    if any(isinstance(side, Literal) and side.value is None for side in (left, right)):
        return None
    columns = terms.columns_of(left) | terms.columns_of(right)
    known = frozenset((column, facts[column]) for column in columns if column in facts)
    # Expressions may be equal that are not the same: 0.0 and -0.0. Their texts differ.
    return _compared_sides(operator, left, right, known, (terms.text_of(left), terms.text_of(right)))


@lru_cache(maxsize=_MOST_KEPT)
def _compared_sides(
    operator: str,
    left: Expression,
    right: Expression,
    known: frozenset[tuple[Column, Domain]],
    _texts: tuple[str, str],
) -> tuple[Triple, ...] | None:
    facts = dict(known)
    readings = read(left, facts), read(right, facts)
    if readings[0] is None or readings[1] is None:
        return _compared_terms(operator, left, right, facts)
    result = _compared_sums(operator, readings[0], readings[1])
    if result is None or all(try_expression(literal) is not None for literal in result):
        return result
    if not terms.is_exact(left.type):
        return _compared_terms(operator, left, right, facts)
    undivided = (
        reading if isinstance(side, Literal) and reading is not None else read_whole(side, facts)
        for side, reading in zip((left, right), readings, strict=True)
    )
    return _compared_sums(operator, *undivided)


def _compared_sums(operator: str, left: Reading, right: Reading) -> tuple[Triple, ...] | None:
    polynomial = left.polynomial - right.polynomial
    found: dict[Triple, None] = {}
    for each, op, bound in ((polynomial, operator, Fraction(0)), *left.guards, *right.guards):
        parts = _compared(each, op, bound)
        if parts is None:
            return None
        found |= dict.fromkeys(parts)
    cancelled = (left.atoms | right.atoms) - polynomial.atoms
    found |= {null_test(term, is_null=False): None for term in sorted(cancelled) if term.domain.nullable}
    return tuple(found)


def _compared(polynomial: Polynomial, operator: str, bound: Fraction) -> tuple[Triple, ...] | None:
    """`polynomial operator bound` as literals: none if it always holds, None if it never does."""
    bound -= polynomial.constant
    varying = polynomial.varying
    if not varying.terms:
        return () if contains(satisfying(operator, bound), Fraction(0)) else None
    subject, factor = sum_of(varying)
    return literals_of(subject, operator if factor > 0 else MIRRORED[operator], bound / factor) or None


def _compared_terms(operator: str, left: Expression, right: Expression, facts: Facts) -> tuple[Triple, ...] | None:
    """A comparison whose sides are not taken apart."""
    left, right = terms.canonical(left), terms.canonical(right)
    if isinstance(left, Literal) and isinstance(right, Literal):
        return () if contains(satisfying(operator, place_of(right)), place_of(left)) else None
    if isinstance(left, Literal):
        return _compared_terms(MIRRORED[operator], right, left, facts)
    if isinstance(right, Literal):
        return literals_of(term_of(left), operator, place_of(right)) or None
    if terms.text_of(left) == terms.text_of(right):
        # x = x is TRUE wherever x has a value; NaN is equal to itself.
        return (null_test(term_of(left, facts), is_null=False),) if operator in ("=", "<=", ">=") else None
    order, is_turned = order_of(term_of(left), term_of(right))
    return literals_of(order, MIRRORED[operator] if is_turned else operator, Fraction(0))


def place_of(constant: Literal) -> Place:
    """A constant as a place among the values of its type."""
    value = constant.value
    assert value is not None
    if isinstance(value, float):
        return floating(value)
    if isinstance(value, str | bytes):
        return value
    return days(value) if isinstance(value, date) else Fraction(value)
