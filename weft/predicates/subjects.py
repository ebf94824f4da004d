"""Subjects, the left sides of canonical comparisons; and polynomials, which sums among them are.

A subject is its text; everything else follows from it.

    Term     an expression that is not taken apart     upper(s.name)             compared with a constant of its type
    Sum      a polynomial over exact terms             T1.amount - 2*T2.amount   compared with a number
    Order    two terms that are not exact numbers      a.name, b.name            how they compare: −1, 0 or 1, with 0

A polynomial without its constant is a subject once its orientation is fixed:

    0.5*b < a - 3   →   2*a - b > 6

The rule is one for all operators: the coefficients become whole and coprime, and that of the first monomial in
alphabetical order becomes positive. The constant has no say in it, so `2*a > 3` and `a > 1` have one subject, `a`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm, prod
from typing import TypeAlias

from weft.predicates.domains import Domain
from weft.predicates.terms import OverTerms, Range, Term, renamed_term

#: Exact terms that are multiplied, in the order of their texts.
Monomial: TypeAlias = tuple[Term, ...]

ZERO = Fraction(0)


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
    def single(self) -> Term | None:
        """The term that the polynomial is, if it is no more than that."""
        ((monomial, coefficient), *others) = self.terms
        return monomial[0] if not others and coefficient == 1 and len(monomial) == 1 else None

    @property
    def atoms(self) -> frozenset[Term]:
        return frozenset(atom for monomial, _ in self.terms for atom in monomial)

    @property
    def step(self) -> Fraction:
        """A number that all values are multiples of: 1 for a sum of whole numbers."""
        return common_step(coefficient * prod(atom.step for atom in monomial) for monomial, coefficient in self.terms)

    @property
    def range(self) -> Range:
        """Bounds of all values, by the terms' domains. They may be wider than need be, never narrower."""
        low = high = ZERO
        for monomial, coefficient in self.terms:
            bounds = (coefficient, coefficient)
            for atom in monomial:
                bounds = product_range(bounds, atom.range)
            low, high = low + bounds[0], high + bounds[1]
        return low, high

    @property
    def text(self) -> str:
        """The polynomial as SQL: `T1.amount - 2*T2.amount`."""
        text = ""
        for monomial, coefficient in self.terms:
            factors = [*([number_text(abs(coefficient))] if abs(coefficient) != 1 or not monomial else [])]
            factors += [atom.text for atom in monomial]
            sign = (" - " if coefficient < 0 else " + ") if text else ("-" if coefficient < 0 else "")
            text += sign + "*".join(factors)
        return text or "0"

    def scaled(self, factor: Fraction) -> Polynomial:
        return polynomial_of((monomial, coefficient * factor) for monomial, coefficient in self.terms)

    def __add__(self, other: Polynomial) -> Polynomial:
        return polynomial_of((*self.terms, *other.terms))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other.scaled(Fraction(-1))

    def __mul__(self, other: Polynomial) -> Polynomial:
        products = ((tuple(sorted(one + two)), a * b) for one, a in self.terms for two, b in other.terms)
        return polynomial_of(products)


def polynomial_of(terms: Iterable[tuple[Monomial, Fraction]]) -> Polynomial:
    """The sum of some monomials with coefficients."""
    total: dict[Monomial, Fraction] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, ZERO) + coefficient
    kept = [(monomial, each) for monomial, each in total.items() if each]
    return Polynomial(tuple(sorted(kept, key=lambda term: [atom.text for atom in term[0]])))


def variable(term: Term) -> Polynomial:
    return Polynomial((((term,), Fraction(1)),))


def oriented(varying: Polynomial) -> tuple[Polynomial, Fraction]:
    """A polynomial without constant as (its unique multiple, the factor that gives it back).

    >>> from weft.algebra import Column
    >>> from weft.algebra.types import INT
    >>> from weft.predicates.terms import term_of
    >>> a, b = (variable(term_of(Column("", n, INT))) for n in "ab")
    >>> unique, factor = oriented(b.scaled(Fraction(1, 2)) - a)
    >>> unique.text, factor
    ('2*a - b', Fraction(-1, 2))
    """
    coefficients = [coefficient for _, coefficient in varying.terms]
    factor = common_step(coefficients) * (1 if coefficients[0] > 0 else -1)
    return (varying if factor == 1 else varying.scaled(1 / factor)), factor


def common_step(steps: Iterable[Fraction]) -> Fraction:
    """The largest number that all are multiples of; zero is a multiple of everything."""
    listed = tuple(steps)
    denominator = lcm(*(each.denominator for each in listed))
    return Fraction(gcd(*(each.numerator * (denominator // each.denominator) for each in listed)), denominator)


def product_range(left: Range, right: Range) -> Range:
    corners = [a * b for a in left for b in right]
    return min(corners), max(corners)


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


@dataclass(frozen=True)
class Sum(OverTerms):
    """A polynomial without constant, in the one orientation, that is more than one term."""

    text: str
    polynomial: Polynomial = field(compare=False, repr=False)
    domain: Domain = field(compare=False, repr=False)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        return tuple(sorted(self.polynomial.atoms))

    @cached_property
    def halves(self) -> tuple[tuple[Sum | Term, Fraction], ...] | None:
        """What two inputs contribute, as two subjects with their factors; None if it is not a sum of such parts."""
        by_source: dict[tuple[str, ...], list[tuple[Monomial, Fraction]]] = {}
        for monomial, coefficient in self.polynomial.terms:
            sources = sorted({source for term in monomial for source in term.sources})
            by_source.setdefault(tuple(sources), []).append((monomial, coefficient))
        if len(by_source) != 2 or any(len(sources) != 1 for sources in by_source):
            return None
        return tuple(sum_of(Polynomial(tuple(by_source[sources]))) for sources in sorted(by_source))


@dataclass(frozen=True)
class Order(OverTerms):
    """How two terms of one type compare. The one whose text comes first is on the left."""

    text: str
    left: Term = field(compare=False, repr=False)
    right: Term = field(compare=False, repr=False)
    domain: Domain = field(compare=False, repr=False, default=Domain(Fraction(-1), Fraction(1), Fraction(1)))

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.left, self.right


Subject: TypeAlias = Sum | Term | Order


def sum_of(varying: Polynomial) -> tuple[Sum | Term, Fraction]:
    """The subject of a polynomial without constant, and the factor between the two."""
    unique, factor = oriented(varying)
    if unique.single is not None:
        return unique.single, factor
    nullable = any(term.domain.nullable for term in unique.atoms)
    return Sum(unique.text, unique, Domain(*unique.range, unique.step, nullable)), factor


def order_of(left: Term, right: Term) -> tuple[Order, bool]:
    """The order of two terms, and whether they have changed places."""
    first, second = sorted((left, right))
    return Order(f"order({first.text}, {second.text})", first, second), left != first


def renamed_subject(subject: Subject, names: Mapping[str, str]) -> tuple[Subject, Fraction]:
    """The subject with inputs called by other names, each by its own; and the factor between it as it was and is.

    Other names sort otherwise, so the orientation may turn: then the factor is negative.
    """
    new = {term: renamed_term(term, names) for term in subject.terms}
    if isinstance(subject, Sum):
        terms = subject.polynomial.terms
        return sum_of(polynomial_of((tuple(sorted(new[term] for term in monomial)), each) for monomial, each in terms))
    if isinstance(subject, Order):
        order, is_turned = order_of(new[subject.left], new[subject.right])
        return order, Fraction(-1 if is_turned else 1)
    return new[subject], Fraction(1)
