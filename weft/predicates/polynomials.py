"""Polynomials over atoms, with exact rational coefficients.

An atom is a term with an exact value: a column of integers, decimals, dates or times, or a call that is not taken
apart. A polynomial without its constant is a **subject** of comparisons once its orientation is fixed:

    0.5*b < a - 3   →   2*a - b > 6

The rule is one for all operators: the coefficients become whole and coprime, and that of the first monomial in
alphabetical order becomes positive. The constant has no say in it, so `2*a > 3` and `a > 1` have one subject, `a`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm, prod
from typing import TypeAlias

from weft.algebra import Expression
from weft.predicates.domains import Domain

Monomial: TypeAlias = tuple["Atom", ...]
Range: TypeAlias = tuple[Fraction, Fraction]

ZERO = Fraction(0)


@dataclass(frozen=True, order=True)
class Atom:
    """A term of an exact type, known by its text. All its values are multiples of `domain.step`."""

    text: str
    expression: Expression = field(compare=False)
    domain: Domain = field(compare=False)

    @property
    def range(self) -> Range:
        low, high = self.domain.low, self.domain.high
        assert isinstance(low, Fraction)
        assert isinstance(high, Fraction)
        return low, high

    @property
    def step(self) -> Fraction:
        assert self.domain.step is not None
        return self.domain.step


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Coefficients, none of them zero, by monomial in the order of their texts. The constant's monomial is ()."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    @property
    def constant(self) -> Fraction:
        return next((coefficient for monomial, coefficient in self.terms if not monomial), ZERO)

    @property
    def varying(self) -> Polynomial:
        """The polynomial without its constant."""
        return Polynomial(tuple((monomial, each) for monomial, each in self.terms if monomial))

    @property
    def single(self) -> Atom | None:
        """The atom that the polynomial is, if it is no more than that."""
        ((monomial, coefficient), *others) = self.terms
        return monomial[0] if not others and coefficient == 1 and len(monomial) == 1 else None

    @property
    def atoms(self) -> frozenset[Atom]:
        return frozenset(atom for monomial, _ in self.terms for atom in monomial)


def _sum(terms: Iterable[tuple[Monomial, Fraction]]) -> Polynomial:
    total: dict[Monomial, Fraction] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, ZERO) + coefficient
    kept = [(monomial, each) for monomial, each in total.items() if each]
    return Polynomial(tuple(sorted(kept, key=lambda term: [atom.text for atom in term[0]])))


def constant(value: Fraction) -> Polynomial:
    return _sum([((), value)])


def variable(atom: Atom) -> Polynomial:
    return Polynomial((((atom,), Fraction(1)),))


def plus(left: Polynomial, right: Polynomial) -> Polynomial:
    return _sum((*left.terms, *right.terms))


def scaled(polynomial: Polynomial, factor: Fraction) -> Polynomial:
    return _sum((monomial, coefficient * factor) for monomial, coefficient in polynomial.terms)


def minus(left: Polynomial, right: Polynomial) -> Polynomial:
    return plus(left, scaled(right, Fraction(-1)))


def times(left: Polynomial, right: Polynomial) -> Polynomial:
    return _sum((tuple(sorted(one + other)), a * b) for one, a in left.terms for other, b in right.terms)


def with_atoms(polynomial: Polynomial, meaning: Mapping[Atom, Atom]) -> Polynomial:
    """The polynomial with atoms replaced by other atoms."""
    return _sum((tuple(sorted(meaning[atom] for atom in monomial)), each) for monomial, each in polynomial.terms)


def oriented(varying: Polynomial) -> tuple[Polynomial, Fraction]:
    """A polynomial without constant as (its unique multiple, the factor that gives it back).

    >>> from weft.algebra import Column
    >>> from weft.algebra.types import INT
    >>> from weft.predicates.domains import domain_of
    >>> a, b = (variable(Atom(n, Column("", n, INT), domain_of(INT))) for n in "ab")
    >>> unique, factor = oriented(minus(scaled(b, Fraction(1, 2)), a))
    >>> text_of_polynomial(unique), factor
    ('2*a - b', Fraction(-1, 2))
    """
    coefficients = [coefficient for _, coefficient in varying.terms]
    factor = common_step(coefficients) * (1 if coefficients[0] > 0 else -1)
    return (varying if factor == 1 else scaled(varying, 1 / factor)), factor


def common_step(steps: Iterable[Fraction]) -> Fraction:
    """The largest number that all are multiples of; zero is a multiple of everything."""
    listed = tuple(steps)
    denominator = lcm(*(each.denominator for each in listed))
    return Fraction(gcd(*(each.numerator * (denominator // each.denominator) for each in listed)), denominator)


def step_of(polynomial: Polynomial) -> Fraction:
    """A number that all values are multiples of: 1 for a sum of whole numbers."""
    return common_step(coefficient * prod(atom.step for atom in monomial) for monomial, coefficient in polynomial.terms)


def range_of(polynomial: Polynomial) -> Range:
    """Bounds of all values, by the atoms' domains. They may be wider than need be, never narrower."""
    low = high = ZERO
    for monomial, coefficient in polynomial.terms:
        bounds = (coefficient, coefficient)
        for atom in monomial:
            bounds = product_range(bounds, atom.range)
        low, high = low + bounds[0], high + bounds[1]
    return low, high


def product_range(left: Range, right: Range) -> Range:
    corners = [a * b for a in left for b in right]
    return min(corners), max(corners)


def text_of_polynomial(polynomial: Polynomial) -> str:
    """A polynomial as SQL: `T1.amount - 2*T2.amount`."""
    text = ""
    for monomial, coefficient in polynomial.terms:
        factors = [*([number_text(abs(coefficient))] if abs(coefficient) != 1 or not monomial else [])]
        factors += [atom.text for atom in monomial]
        sign = (" - " if coefficient < 0 else " + ") if text else ("-" if coefficient < 0 else "")
        text += sign + "*".join(factors)
    return text or "0"


def number_text(value: Fraction) -> str:
    """An exact number: as decimals if they end, as a fraction if not.

    >>> number_text(Fraction(-5, 4)), number_text(Fraction(1, 3))
    ('-1.25', '1/3')
    """
    places = decimal_places(value)
    if not places:
        return str(value)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{'-' * (value < 0)}{digits[:-places]}.{digits[-places:]}"


def decimal_places(value: Fraction) -> int | None:
    """How many decimals a number has, or None if they do not end."""
    rest, places = value.denominator, 0
    while rest % 10 == 0:
        rest, places = rest // 10, places + 1
    for factor in (2, 5):
        while rest % factor == 0:
            rest, places = rest // factor, places + 1
    return places if rest == 1 else None
