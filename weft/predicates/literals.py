"""Literals: canonical triples of a subject, an operator and a constant; and the way back to expressions.

Two literals are the same condition if their texts are equal, and for one subject they can be compared by their sets of
values. A literal is TRUE exactly for the rows whose subject has a value in its set; for all others, NULLs among them,
it is not TRUE, and a WHERE does not care whether it is FALSE or NULL instead.

Every set that a literal can have is written in one way. Whole numbers have no difference between `a > 5` and `a >= 6`:
the simpler constant is taken, the closed end if none is simpler. At the ends of the domain, `a <= 2147483647` says no
more than `a IS NOT NULL`.

An expression of a literal is exact for every row: sums are put into a type that holds all their values. Terms with
negative coefficients go to the right side, so that a join sees `a.k = b.k` and `a.ts + INTERVAL '10' DAY >= b.ts`, and
not a difference that it cannot use as a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from math import lcm, prod
from typing import TypeAlias

from weft.algebra import Call, DataType, Expression, Kind, Literal
from weft.algebra.types import BIGINT, BOOLEAN, DATE, HUGEINT, INTERVAL, TIMESTAMP, decimal
from weft.predicates import domains
from weft.predicates.domains import DAY, date_of, is_in_calendar
from weft.predicates.subjects import ZERO, Monomial, Order, Polynomial, Subject, Sum, decimal_places, number_text
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


# -- back to expressions -----------------------------------------------------------------------------------------------

#: One side of a comparison without its constant: monomials with whole positive factors.
Side: TypeAlias = tuple[tuple[Monomial, int], ...]
Sides: TypeAlias = tuple[Expression, Expression]

_MOST_DIGITS = 38
_BIGINT_LIMIT = Fraction(1 << 63)
_HUGEINT_LIMIT = Fraction(10**_MOST_DIGITS)


class _TooWideError(Exception):
    """No type holds all values that have to be computed."""


def expression_of(literal: Triple) -> Expression:
    """A literal as an expression: TRUE for the same rows."""
    expression = try_expression(literal)
    if expression is None:
        raise AssertionError(f"a literal was made that cannot be computed: {literal.text}")
    return expression


def try_expression(literal: Triple) -> Expression | None:
    """A literal as an expression, or None if no type is wide enough to compute it exactly."""
    subject, operator, bound = literal.subject, literal.operator, literal.bound
    if bound is None:
        tests = [Call("is_null", (term.expression,), BOOLEAN) for term in subject.terms]
        if operator == IS_NULL:
            return disjunction(tests)
        return conjunction([Call("not", (test,), BOOLEAN) for test in tests])
    if isinstance(subject, Order):
        return Call(operator, (subject.left.expression, subject.right.expression), BOOLEAN)
    if isinstance(subject, Sum):
        assert isinstance(bound, Fraction)
        try:
            sides = _direct_sides(subject.polynomial, bound) or _numeric_sides(subject.polynomial, bound)
        except _TooWideError:
            return None
        return Call(operator, sides, BOOLEAN)
    term = subject.expression
    if term.type == BOOLEAN:
        return term if bool(bound) == (operator == "=") else Call("not", (term,), BOOLEAN)
    if isinstance(bound, Fraction):
        if term.type == TIMESTAMP and not is_in_calendar(bound):
            term = _number(term)  # no text could show such a constant as a time
        return Call(operator, (term, constant_of(bound, term.type)), BOOLEAN)
    value = (float("nan") if bound[0] else bound[1]) if isinstance(bound, tuple) else bound
    return Call(operator, (term, Literal(value, term.type)), BOOLEAN)


def conjunction(conditions: Sequence[Expression]) -> Expression | None:
    """All of some conditions; None, as for a missing WHERE, if there are none."""
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions), BOOLEAN)


def disjunction(conditions: Sequence[Expression]) -> Expression:
    """Some of some conditions; FALSE if there are none."""
    if not conditions:
        return Literal(False, BOOLEAN)
    return conditions[0] if len(conditions) == 1 else Call("or", tuple(conditions), BOOLEAN)


def constant_of(value: Fraction, type_: DataType) -> Literal:
    """An exact number as a constant of a type that holds it."""
    if type_.kind is Kind.DATE:
        return Literal(date_of(value), type_)
    if type_.kind is Kind.DECIMAL:
        unscaled = int(value * 10**type_.scale)
        digits = tuple(int(digit) for digit in str(abs(unscaled)))
        return Literal(Decimal((int(unscaled < 0), digits, -type_.scale)), type_)
    return Literal(int(value), type_)


def _direct_sides(polynomial: Polynomial, bound: Fraction) -> Sides | None:
    """The sides of `a - b op c` where nothing needs to be converted: equal types, c = 0 or times with an interval."""
    if [coefficient for _, coefficient in polynomial.terms] != [1, -1]:
        return None
    atoms = [monomial[0] for monomial, _ in polynomial.terms if len(monomial) == 1]
    if len(atoms) != 2 or atoms[0].expression.type != atoms[1].expression.type:
        return None
    left, right = (atom.expression for atom in atoms)
    if bound == 0:
        return left, right
    if left.type not in (DATE, TIMESTAMP):
        return None
    unit = DAY if left.type == DATE else 1
    if any(abs(limit) * unit + abs(bound) * unit >= _BIGINT_LIMIT for atom in atoms for limit in atom.range):
        return None
    distance = Literal(abs(int(bound * unit)), INTERVAL)
    if bound < 0:
        return Call("+", (_as_timestamp(left), distance), TIMESTAMP), _as_timestamp(right)
    return _as_timestamp(left), Call("+", (_as_timestamp(right), distance), TIMESTAMP)


def _as_timestamp(term: Expression) -> Expression:
    return term if term.type == TIMESTAMP else Call("cast", (term,), TIMESTAMP)


def _numeric_sides(polynomial: Polynomial, bound: Fraction) -> Sides:
    """Both sides as sums in one numeric type."""
    terms = [(monomial, coefficient / _unit(monomial)) for monomial, coefficient in polynomial.terms]
    whole = lcm(*(coefficient.denominator for _, coefficient in terms))
    sides = (
        (tuple((monomial, int(each * whole)) for monomial, each in terms if each > 0), max(-bound, ZERO) * whole),
        (tuple((monomial, int(-each * whole)) for monomial, each in terms if each < 0), max(bound, ZERO) * whole),
    )
    if any(atom.expression.type.kind is Kind.DECIMAL for atom in polynomial.atoms):
        left, right = (_computed(*side, _as_decimal, _decimal_constant, _decimal_type) for side in sides)
        common = _common_decimal(left.type, right.type, extra=0)
        return _as_type(left, common), _as_type(right, common)
    largest = max(_largest(*side) for side in sides)
    if largest >= _HUGEINT_LIMIT:
        raise _TooWideError
    type_ = BIGINT if largest < _BIGINT_LIMIT else HUGEINT
    left, right = (
        _computed(*side, lambda term: _as_type(term, type_), lambda value: constant_of(value, type_), lambda *_: type_)
        for side in sides
    )
    return left, right


def _unit(monomial: Monomial) -> int:
    """What the numbers of a monomial are multiplied by: days are counted in microseconds."""
    return prod(DAY for atom in monomial if atom.expression.type == DATE)


def _largest(side: Side, constant: Fraction) -> Fraction:
    """No result on the way to the sum is larger than this; a column that stands alone needs no more than it is."""
    if not constant and len(side) == 1 and side[0][1] == 1 and len(side[0][0]) == 1:
        return side[0][0][0].range[1]
    total = constant
    for monomial, factor in side:
        magnitudes = (max(map(abs, atom.range)) * _unit((atom,)) for atom in monomial)
        total += factor * prod((max(each, Fraction(1)) for each in magnitudes), start=Fraction(1))
    return total


def _number(term: Expression) -> Expression:
    """A term of an exact type as a number of integer or DECIMAL type."""
    if term.type in (DATE, TIMESTAMP):
        return Call("unix_micros", (_as_timestamp(term),), BIGINT)
    return Call("cast", (term,), BIGINT) if term.type == INTERVAL else term


def _as_type(term: Expression, type_: DataType) -> Expression:
    if isinstance(term, Literal) and isinstance(term.value, Decimal):
        return constant_of(Fraction(term.value), type_)
    return term if term.type == type_ else Call("cast", (term,), type_)


def _computed(
    side: Side,
    constant: Fraction,
    as_type: Callable[[Expression], Expression],
    constant_in: Callable[[Fraction], Expression],
    type_of: Callable[[str, DataType, DataType], DataType],
) -> Expression:
    """A side with its constant, in types that hold all its values."""

    def folded(op: str, parts: Sequence[Expression]) -> Expression:
        return reduce(lambda left, right: Call(op, (left, right), type_of(op, left.type, right.type)), parts)

    products = []
    for monomial, factor in side:
        factors = [as_type(_number(atom.expression)) for atom in monomial]
        products.append(folded("*", factors if factor == 1 else [constant_in(Fraction(factor)), *factors]))
    return folded("+", products if products and not constant else [*products, constant_in(constant)])


def _decimal_constant(value: Fraction) -> Expression:
    scale = decimal_places(value)
    digits = _MOST_DIGITS + 1 if scale is None else max(len(str(abs(int(value * 10**scale)))), scale, 1)
    return constant_of(value, _decimal(digits, scale or 0))


def _decimal(precision: int, scale: int) -> DataType:
    if precision > _MOST_DIGITS:
        raise _TooWideError
    return decimal(precision, scale)


def _as_decimal(term: Expression) -> Expression:
    if term.type.kind is Kind.DECIMAL:
        return term
    digits = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20, Kind.HUGEINT: 38}[term.type.kind]
    return Call("cast", (term,), decimal(digits, 0))


def _decimal_type(op: str, left: DataType, right: DataType) -> DataType:
    """The type of a product or a sum that need not drop decimals."""
    if op == "+":
        return _common_decimal(left, right, extra=1)
    return _decimal(left.precision + right.precision + 1, left.scale + right.scale)


def _common_decimal(left: DataType, right: DataType, extra: int) -> DataType:
    scale = max(left.scale, right.scale)
    return _decimal(max(left.precision - left.scale, right.precision - right.scale) + scale + extra, scale)
