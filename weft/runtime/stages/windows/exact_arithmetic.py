"""Exact arithmetic of integers and DECIMALs, value by value: answers are few, and their sums may have 38 digits.

A number is an integer and a scale: 1.25 is (125, 2). Results are cut to the scale of their type, halves away from zero;
one that has more digits than its type is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Call, DataType, Kind
from weft.kernels.statistic import Values

_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64, Kind.TIMESTAMP: 64, Kind.INTERVAL: 64}
_DIGITS_OF_HUGEINT = 38
#: Enough digits for every DOUBLE written out.
_WIDE = Context(prec=1100)

_MICROS_PER_DAY = 86_400_000_000
#: The days of the years 1 to 9999.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896

#: A number and its scale.
Scaled = tuple[int, int]


def is_exact(type_: DataType) -> bool:
    """Whether values of a type are whole numbers, perhaps scaled."""
    return type_.kind in _BITS or type_.kind in (Kind.HUGEINT, Kind.DECIMAL)


def exactly(call: Call, args: Sequence[Values]) -> Values:
    """An operator over exact numbers."""
    scales = [arg.type.scale for arg in call.args]

    def of(*numbers: int) -> int | None:
        result = _applied(call.op, [*zip(numbers, scales, strict=True)], call.type)
        return None if result is None else _rescaled(result, call.type.scale)

    return fitted([_integers(arg) for arg in args], of, call.type)


def fitted(columns: Sequence[list[int | None]], compute: Callable[..., int | None], type_: DataType) -> Values:
    """What is computed from each row's numbers; NULL where one of them is, or where it does not fit."""
    results = [None if None in row else compute(*row) for row in zip(*columns, strict=True)]
    if type_.kind in _BITS:
        limit = 1 << (_BITS[type_.kind] - 1)
    else:
        limit = 10 ** (type_.precision if type_.kind is Kind.DECIMAL else _DIGITS_OF_HUGEINT)
    least = -limit if type_.kind in _BITS else 1 - limit
    valid = np.array([each is not None and least <= each < limit for each in results], dtype=bool)
    numbers = [each if fits else 0 for each, fits in zip(results, valid.tolist(), strict=True)]
    return Values(np.array(numbers, dtype=np.int64 if type_.kind in _BITS else object), valid)


def _integers(column: Values) -> list[int | None]:
    pairs = zip(column.values.tolist(), column.valid.tolist(), strict=True)
    return [int(value) if valid else None for value, valid in pairs]


def half_up(dividend: int, divisor: int) -> int:
    """A quotient rounded to the next integer, halves away from zero."""
    magnitude = (2 * abs(dividend) + abs(divisor)) // (2 * abs(divisor))
    return magnitude if (dividend < 0) == (divisor < 0) else -magnitude


def _rescaled(number: Scaled, scale: int) -> int:
    value, own = number
    return value * 10 ** (scale - own) if scale >= own else half_up(value, 10 ** (own - scale))


# -- operators --------------------------------------------------------------------------------------------------------

EXACT_OPERATORS = frozenset({"+", "-", "*", "/", "%", "div", "neg", "abs", "floor", "ceil", "round"})


def _applied(op: str, args: Sequence[Scaled], type_: DataType) -> Scaled | None:
    """The result of an operator over numbers; None where it divides by zero."""
    value, scale = args[0]
    if op in ("neg", "abs"):
        return (-value if op == "neg" else abs(value)), scale
    if op == "floor":
        return value // 10**scale, 0
    if op == "ceil":
        return -(-value // 10**scale), 0
    if op == "round":
        places = args[1][0] if len(args) > 1 else 0
        if places >= scale:
            return args[0]
        return half_up(value, 10 ** (scale - places)) * 10 ** max(0, -places), max(0, places)
    if op == "*":
        return value * args[1][0], scale + args[1][1]
    scale = max(scale, args[1][1])
    left, right = (_rescaled(each, scale) for each in args)
    if op in ("+", "-"):
        return (left + right if op == "+" else left - right), scale
    if not right:
        return None
    if op == "/":
        return half_up(left * 10**type_.scale, right), type_.scale
    quotient = _truncated_quotient(left, right)
    return (quotient, 0) if op == "div" else (left - right * quotient, scale)


def _truncated_quotient(left: int, right: int) -> int:
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


# -- casts ------------------------------------------------------------------------------------------------------------


def can_be_cast(source: DataType, target: DataType) -> bool:
    """Whether `cast_to` knows how to get from one type to another: between numbers, truth values and times."""
    numbers = [type_.is_numeric or type_.kind is Kind.BOOLEAN for type_ in (source, target)]
    times = (Kind.DATE, Kind.TIMESTAMP)
    return source == target or all(numbers) or (source.kind in times and target.kind in times)


def cast_to(column: Values, source: DataType, target: DataType) -> Values:
    """A column in another type."""
    if source == target:
        return column
    if target.kind is Kind.BOOLEAN:
        return Values(np.asarray(column.values != 0, dtype=bool), column.valid)
    if target.is_floating:
        unit = 10**source.scale
        scaled = source.kind is Kind.DECIMAL
        doubles = [int(value) / unit for value in column.values.tolist()] if scaled else column.values
        return Values(as_float(np.asarray(doubles).astype(np.float64), target), column.valid)
    if source.is_floating:
        pairs = zip(column.values.tolist(), column.valid.tolist(), strict=True)
        numbers = [_from_double(value, source, target) if valid else None for value, valid in pairs]
        return fitted([numbers], lambda number: number, target)
    if target.kind is Kind.DATE:
        days = column.values // _MICROS_PER_DAY
        return Values(days, column.valid & (days >= _FIRST_DAY) & (days <= _LAST_DAY))
    if target.kind is Kind.TIMESTAMP:
        return Values(column.values * _MICROS_PER_DAY, column.valid)
    if target.kind is Kind.DECIMAL:
        return fitted([_integers(column)], lambda number: _rescaled((number, source.scale), target.scale), target)
    return fitted([_integers(column)], lambda number: _truncated_quotient(number, 10**source.scale), target)


def _from_double(value: float, source: DataType, target: DataType) -> int | None:
    if not np.isfinite(value):
        return None
    if target.kind is not Kind.DECIMAL:
        return int(value)
    unscaled = _WIDE.multiply(_shortest(value, source), Decimal(10) ** target.scale)
    return int(unscaled.to_integral_value(ROUND_HALF_UP, _WIDE))


def as_float(values: NDArray[np.float64], type_: DataType) -> NDArray[np.float64]:
    """DOUBLEs as values of a floating type: a FLOAT is the nearest one of 32 bits."""
    if type_.kind is not Kind.FLOAT:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _shortest(value: float, type_: DataType) -> Decimal:
    """The shortest decimal number that reads back as the same FLOAT or DOUBLE."""
    return Decimal(str(np.float32(value)) if type_.kind is Kind.FLOAT else repr(value))


def rounded_double(value: float, places: int, type_: DataType) -> float:
    """A floating number rounded to some decimal places of its shortest text, halves away from zero."""
    if not np.isfinite(value):
        return value
    unit = Decimal((0, (1,), -places))
    units = _WIDE.divide(_shortest(value, type_), unit).to_integral_value(ROUND_HALF_UP, _WIDE)
    return float(_WIDE.multiply(units, unit))
