"""From literals back to expressions that the engine can compile.

What is written is exact for every row: sums are put into a type that holds all their values. Terms with negative
coefficients go to the right side, so that a join sees `a.k = b.k` and `a.ts + INTERVAL '10' DAY >= b.ts`, and not a
difference that it cannot use as a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import lcm, prod
from typing import TypeAlias

from weft.algebra import Call, DataType, Expression, Kind, Literal
from weft.algebra.types import BIGINT, BOOLEAN, DATE, HUGEINT, INTERVAL, TIMESTAMP, decimal
from weft.predicates.domains import DAY, date_of, is_in_calendar
from weft.predicates.literals import IS_NULL, Triple
from weft.predicates.subjects import Monomial, Order, Polynomial, Sum, decimal_places

#: One side of a comparison without its constant: monomials with whole positive factors.
Side: TypeAlias = tuple[tuple[Monomial, int], ...]
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
        tests = [Call("is_null", (term.expression,), BOOLEAN) for term in subject.terms]
        if operator == IS_NULL:
            return disjunction(tests)
        return conjunction([Call("not", (test,), BOOLEAN) for test in tests])
    if isinstance(subject, Order):
        return Call(operator, (subject.left.expression, subject.right.expression), BOOLEAN)
    if isinstance(subject, Sum):
        assert isinstance(bound, Fraction)
        sides = _direct_sides(subject.polynomial, bound) or _numeric_sides(subject.polynomial, bound)
        return None if sides is None else Call(operator, sides, BOOLEAN)
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


def _numeric_sides(polynomial: Polynomial, bound: Fraction) -> Sides | None:
    """Both sides as sums in one numeric type, or None if no type holds them."""
    terms = [(monomial, coefficient / _unit(monomial)) for monomial, coefficient in polynomial.terms]
    whole = lcm(*(coefficient.denominator for _, coefficient in terms))
    positive = tuple((monomial, int(each * whole)) for monomial, each in terms if each > 0)
    negative = tuple((monomial, int(-each * whole)) for monomial, each in terms if each < 0)
    constants = (max(-bound, Fraction(0)) * whole, max(bound, Fraction(0)) * whole)
    if any(atom.expression.type.kind is Kind.DECIMAL for atom in polynomial.atoms):
        types = _Arithmetic(_as_decimal, _decimal_constant, _decimal_type)
        left, right = map(types.side, (positive, negative), constants)
        if left is None or right is None:
            return None
        common = _common_decimal(left.type, right.type, extra=0)
        return None if common is None else (_as_type(left, common), _as_type(right, common))
    largest = max(map(_largest, (positive, negative), constants))
    if largest >= _HUGEINT_LIMIT:
        return None
    type_ = BIGINT if largest < _BIGINT_LIMIT else HUGEINT
    types = _Arithmetic(lambda term: _as_type(term, type_), lambda value: Literal(int(value), type_), lambda *_: type_)
    left, right = map(types.side, (positive, negative), constants)
    return None if left is None or right is None else (left, right)


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


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """How sums of products are written in types that hold all their values; None where no type does."""

    term: Callable[[Expression], Expression]
    constant: Callable[[Fraction], Expression | None]
    type_of: Callable[[str, DataType, DataType], DataType | None]

    def side(self, side: Side, constant: Fraction) -> Expression | None:
        parts: list[Expression | None] = []
        for monomial, factor in side:
            factors: list[Expression | None] = [] if factor == 1 else [self.constant(Fraction(factor))]
            factors += (self.term(_number(atom.expression)) for atom in monomial)
            parts.append(self._folded("*", factors))
        if constant or not parts:
            parts.append(self.constant(constant))
        return self._folded("+", parts)

    def _folded(self, op: str, parts: Sequence[Expression | None]) -> Expression | None:
        result, *others = parts
        for part in others:
            if result is None or part is None:
                return None
            type_ = self.type_of(op, result.type, part.type)
            result = None if type_ is None else Call(op, (result, part), type_)
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


def _decimal_type(op: str, left: DataType, right: DataType) -> DataType | None:
    """The type of a product or a sum, if it need not drop decimals."""
    if op == "+":
        return _common_decimal(left, right, extra=1)
    precision = left.precision + right.precision + 1
    return decimal(precision, left.scale + right.scale) if precision <= _MOST_DIGITS else None


def _common_decimal(left: DataType, right: DataType, extra: int) -> DataType | None:
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale + extra
    return decimal(precision, scale) if precision <= _MOST_DIGITS else None
