"""From literals back to expressions that the engine can compile.

What is written is exact for every row: sums are put into a type that holds all their values. Terms with negative
coefficients go to the right side, so that a join sees `a.k = b.k` and `a.ts + INTERVAL '10' DAY >= b.ts`, and not a
difference that it cannot use as a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import lcm, prod
from typing import TypeAlias

from weft.algebra import Call, DataType, Expression, Kind, Literal
from weft.algebra.types import BIGINT, BOOLEAN, DATE, HUGEINT, INTERVAL, TIMESTAMP, decimal
from weft.predicates.domains import DAY, Place, date_of, is_in_calendar
from weft.predicates.literals import IS_NOT_NULL, IS_NULL, Triple
from weft.predicates.polynomials import Atom, Polynomial, decimal_places
from weft.predicates.terms import Order, Subject, Sum, Term

#: One side of a comparison without its constant: monomials with whole positive factors.
Side: TypeAlias = tuple[tuple[tuple[Atom, ...], int], ...]
Sides: TypeAlias = tuple[Expression, Expression]

_MOST_DIGITS = 38
_BIGINT_LIMIT = Fraction(1 << 63)
_HUGEINT_LIMIT = Fraction(10**_MOST_DIGITS)


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
        return _null_test(subject, operator)
    if isinstance(subject, Order):
        return Call(operator, (subject.left, subject.right), BOOLEAN)
    if isinstance(subject, Term):
        return _term(subject, operator, bound)
    assert isinstance(bound, Fraction)
    return _sum(subject, operator, bound)


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


def _null_test(subject: Subject, operator: str) -> Expression:
    tests = [Call("is_null", (term,), BOOLEAN) for term in subject.terms]
    if operator == IS_NULL:
        return disjunction(tests)
    assert operator == IS_NOT_NULL
    negated = conjunction([Call("not", (test,), BOOLEAN) for test in tests])
    assert negated is not None
    return negated


def _term(subject: Term, operator: str, bound: Place) -> Expression:
    type_ = subject.expression.type
    if isinstance(bound, Fraction):
        is_wanted = bool(bound) == (operator == "=")
        return subject.expression if is_wanted else Call("not", (subject.expression,), BOOLEAN)
    value = (float("nan") if bound[0] else bound[1]) if isinstance(bound, tuple) else bound
    return Call(operator, (subject.expression, Literal(value, type_)), BOOLEAN)


def _sum(subject: Sum, operator: str, bound: Fraction) -> Expression | None:
    if subject.atom is not None:
        term = subject.atom.expression
        if term.type == TIMESTAMP and not is_in_calendar(bound):
            term = _number(term)  # no text could show such a constant as a time
        return Call(operator, (term, constant_of(bound, term.type)), BOOLEAN)
    sides = _direct_sides(subject.polynomial, bound) or _numeric_sides(subject.polynomial, bound)
    return Call(operator, sides, BOOLEAN) if sides is not None else None


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


def _numeric_sides(polynomial: Polynomial, bound: Fraction) -> Sides | None:
    """Both sides as sums in one numeric type, or None if no type holds them."""
    terms = [(monomial, coefficient / _unit(monomial)) for monomial, coefficient in polynomial.terms]
    whole = lcm(*(coefficient.denominator for _, coefficient in terms))
    positive = tuple((monomial, int(each * whole)) for monomial, each in terms if each > 0)
    negative = tuple((monomial, int(-each * whole)) for monomial, each in terms if each < 0)
    constants = (max(-bound, Fraction(0)) * whole, max(bound, Fraction(0)) * whole)
    if any(atom.expression.type.kind is Kind.DECIMAL for atom in polynomial.atoms):
        return _decimal_sides((positive, negative), constants)
    largest = max(map(_largest, (positive, negative), constants))
    if largest >= _HUGEINT_LIMIT:
        return None
    type_ = BIGINT if largest < _BIGINT_LIMIT else HUGEINT
    return _whole_side(positive, constants[0], type_), _whole_side(negative, constants[1], type_)


def _unit(monomial: tuple[Atom, ...]) -> int:
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


def _whole_side(side: Side, constant: Fraction, type_: DataType) -> Expression:
    parts: list[Expression] = []
    for monomial, factor in side:
        factors = [_as_type(_number(atom.expression), type_) for atom in monomial]
        if factor != 1:
            factors.insert(0, Literal(factor, type_))
        parts.append(_folded("*", factors, type_))
    if constant or not parts:
        parts.append(Literal(int(constant), type_))
    return _folded("+", parts, type_)


def _folded(op: str, parts: Sequence[Expression], type_: DataType) -> Expression:
    result = parts[0]
    for part in parts[1:]:
        result = Call(op, (result, part), type_)
    return result


def _decimal_sides(sides: tuple[Side, Side], constants: tuple[Fraction, Fraction]) -> Sides | None:
    left, right = (_decimal_side(side, constant) for side, constant in zip(sides, constants, strict=True))
    if left is None or right is None:
        return None
    common = _common_decimal(left.type, right.type, extra=0)
    return (_as_type(left, common), _as_type(right, common)) if common is not None else None


def _decimal_side(side: Side, constant: Fraction) -> Expression | None:
    """A sum in Spark's DECIMAL types, or None if one of them would have to drop decimals."""
    parts: list[Expression | None] = []
    for monomial, factor in side:
        product: Expression | None = _decimal_constant(Fraction(factor)) if factor != 1 else None
        for atom in monomial:
            operand = _as_decimal(_number(atom.expression))
            product = operand if product is None else _decimal_product(product, operand)
            if product is None:
                return None
        parts.append(product)
    if constant or not parts:
        parts.append(_decimal_constant(constant))
    result = parts[0]
    for part in parts[1:]:
        result = _decimal_sum(result, part)
    return result


def _decimal_constant(value: Fraction) -> Expression | None:
    scale = decimal_places(value)
    if scale is None:
        return None
    digits = max(len(str(abs(int(value * 10**scale)))), scale, 1)
    return constant_of(value, decimal(digits, scale)) if digits <= _MOST_DIGITS else None


def _as_decimal(term: Expression) -> Expression:
    if term.type.kind is Kind.DECIMAL:
        return term
    digits = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20, Kind.HUGEINT: 38}[term.type.kind]
    return Call("cast", (term,), decimal(digits, 0))


def _decimal_product(left: Expression, right: Expression) -> Expression | None:
    precision, scale = left.type.precision + right.type.precision + 1, left.type.scale + right.type.scale
    return Call("*", (left, right), decimal(precision, scale)) if precision <= _MOST_DIGITS else None


def _decimal_sum(left: Expression | None, right: Expression | None) -> Expression | None:
    if left is None or right is None:
        return None
    type_ = _common_decimal(left.type, right.type, extra=1)
    return Call("+", (left, right), type_) if type_ is not None else None


def _common_decimal(left: DataType, right: DataType, extra: int) -> DataType | None:
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale + extra
    return decimal(precision, scale) if precision <= _MOST_DIGITS else None
