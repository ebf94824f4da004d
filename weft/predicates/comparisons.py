"""One comparison as literals."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from functools import lru_cache

from weft.algebra import Column, Expression, Literal
from weft.predicates.arithmetic import Reading, difference, read, read_whole
from weft.predicates.domains import Domain, Facts, days
from weft.predicates.expressions import try_expression
from weft.predicates.intervals import Place, contains, floating, satisfying
from weft.predicates.literals import MIRRORED, Triple, literals_of, null_test
from weft.predicates.polynomials import Atom, Polynomial, variable
from weft.predicates.subjects import Subject, is_exact, order_of, subject_of, sum_of, term_of
from weft.predicates.terms import canonical, columns_of, text_of

#: Queries that are much alike have many comparisons in common, so the literals of so many of them are kept.
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
    columns = columns_of(left) | columns_of(right)
    known = frozenset((column, facts[column]) for column in columns if column in facts)
    # Expressions may be equal that are not the same: 0.0 and -0.0. Their texts differ.
    return _compared_sides(operator, left, right, known, (text_of(left), text_of(right)))


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
    if not _are_computable(result):
        if not is_exact(left.type):
            return _compared_terms(operator, left, right, facts)
        result = _compared_sums(operator, _undivided(left, facts), _undivided(right, facts))
    return result


def _undivided(side: Expression, facts: Facts) -> Reading:
    reading = read(side, facts) if isinstance(side, Literal) else None
    return reading or read_whole(side, facts)


def _are_computable(found: tuple[Triple, ...] | None) -> bool:
    return found is None or all(try_expression(literal) is not None for literal in found)


def _compared_sums(operator: str, left: Reading, right: Reading) -> tuple[Triple, ...] | None:
    polynomial = difference(left, right)
    found: dict[Triple, None] = {}
    for each, op, bound in ((polynomial, operator, Fraction(0)), *left.guards, *right.guards):
        parts = _compared(each, op, bound)
        if parts is None:
            return None
        found |= dict.fromkeys(parts)
    cancelled = (left.atoms | right.atoms) - polynomial.atoms
    found |= dict.fromkeys(_presence(atom) for atom in sorted(cancelled) if atom.domain.nullable)
    return tuple(found)


def _compared(polynomial: Polynomial, operator: str, bound: Fraction) -> tuple[Triple, ...] | None:
    """`polynomial operator bound` as literals: none if it always holds, None if it never does."""
    bound -= polynomial.constant
    varying = polynomial.varying
    if not varying.terms:
        return () if contains(satisfying(operator, bound), Fraction(0)) else None
    subject, factor = sum_of(varying)
    return literals_of(subject, operator if factor > 0 else MIRRORED[operator], bound / factor) or None


def _presence(atom: Atom) -> Triple:
    return null_test(sum_of(variable(atom))[0], is_null=False)


def _compared_terms(operator: str, left: Expression, right: Expression, facts: Facts) -> tuple[Triple, ...] | None:
    """A comparison whose sides are not taken apart."""
    left, right = canonical(left), canonical(right)
    if isinstance(left, Literal) and isinstance(right, Literal):
        return () if contains(satisfying(operator, place_of(right)), place_of(left)) else None
    if isinstance(left, Literal):
        return _compared_terms(MIRRORED[operator], right, left, facts)
    if isinstance(right, Literal):
        return literals_of(term_of(left), operator, place_of(right)) or None
    if text_of(left) == text_of(right):
        return _compared_with_itself(subject_of(left, facts), operator)
    order, is_turned = order_of(left, right)
    return literals_of(order, MIRRORED[operator] if is_turned else operator, Fraction(0))


def _compared_with_itself(subject: Subject, operator: str) -> tuple[Triple, ...] | None:
    """x = x is TRUE wherever x has a value; NaN is equal to itself."""
    return (null_test(subject, is_null=False),) if operator in ("=", "<=", ">=") else None


def place_of(constant: Literal) -> Place:
    """A constant as a place among the values of its type."""
    value = constant.value
    assert value is not None
    if isinstance(value, float):
        return floating(value)
    if isinstance(value, str | bytes):
        return value
    return days(value) if isinstance(value, date) else Fraction(value)
