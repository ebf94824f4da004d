"""Exact arithmetic of integers and DECIMALs, value by value: answers are few, and their sums may have 38 digits.

A number is an integer and a scale: 1.25 is (125, 2). Results are cut to the scale of their type, halves away from zero;
one that has more digits than its type is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np

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
    compute = _OPERATORS[call.op]

    def of(*numbers: int) -> int | None:
        result = compute([*zip(numbers, scales, strict=True)], call.type)
        return None if result is None else _rescaled(result, call.type.scale)

    return fitted([_integers(arg) for arg in args], of, call.type)


def fitted(columns: Sequence[list[int | None]], compute: Callable[..., int | None], type_: DataType) -> Values:
    """What is computed from each row's numbers; NULL where one of them is, or where it does not fit."""
    results = [None if None in row else compute(*row) for row in zip(*columns, strict=True)]
    limit = _limit(type_)
    least = -limit if type_.kind in _BITS else 1 - limit
    valid = np.array([each is not None and least <= each < limit for each in results], dtype=bool)
    numbers = [each if fits else 0 for each, fits in zip(results, valid.tolist(), strict=True)]
    return Values(np.array(numbers, dtype=np.int64 if type_.kind in _BITS else object), valid)


def _limit(type_: DataType) -> int:
    if type_.kind in _BITS:
        return 1 << (_BITS[type_.kind] - 1)
    return int(10 ** (type_.precision if type_.kind is Kind.DECIMAL else _DIGITS_OF_HUGEINT))


def _integers(column: Values) -> list[int | None]:
    return [
        int(value) if valid else None
        for value, valid in zip(column.values.tolist(), column.valid.tolist(), strict=True)
    ]


def half_up(dividend: int, divisor: int) -> int:
    """A quotient rounded to the next integer, halves away from zero."""
    magnitude = (2 * abs(dividend) + abs(divisor)) // (2 * abs(divisor))
    return magnitude if (dividend < 0) == (divisor < 0) else -magnitude


def _rescaled(number: Scaled, scale: int) -> int:
    value, own = number
    return value * 10 ** (scale - own) if scale >= own else half_up(value, 10 ** (own - scale))


# -- operators --------------------------------------------------------------------------------------------------------


def _aligned(left: Scaled, right: Scaled) -> tuple[int, int, int]:
    scale = max(left[1], right[1])
    return _rescaled(left, scale), _rescaled(right, scale), scale


def _added(args: list[Scaled], type_: DataType) -> Scaled:
    left, right, scale = _aligned(*args)
    return left + right, scale


def _subtracted(args: list[Scaled], type_: DataType) -> Scaled:
    left, right, scale = _aligned(*args)
    return left - right, scale


def _multiplied(args: list[Scaled], type_: DataType) -> Scaled:
    (left, own), (right, other) = args
    return left * right, own + other


def _divided(args: list[Scaled], type_: DataType) -> Scaled | None:
    left, right, _ = _aligned(*args)
    return (half_up(left * 10**type_.scale, right), type_.scale) if right else None


def _truncated_quotient(left: int, right: int) -> int:
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _whole_quotient(args: list[Scaled], type_: DataType) -> Scaled | None:
    left, right, _ = _aligned(*args)
    return (_truncated_quotient(left, right), 0) if right else None


def _remainder(args: list[Scaled], type_: DataType) -> Scaled | None:
    left, right, scale = _aligned(*args)
    return (left - right * _truncated_quotient(left, right), scale) if right else None


def _negated(args: list[Scaled], type_: DataType) -> Scaled:
    ((value, scale),) = args
    return -value, scale


def _absolute(args: list[Scaled], type_: DataType) -> Scaled:
    ((value, scale),) = args
    return abs(value), scale


def _floor(args: list[Scaled], type_: DataType) -> Scaled:
    ((value, scale),) = args
    return value // 10**scale, 0


def _ceiling(args: list[Scaled], type_: DataType) -> Scaled:
    ((value, scale),) = args
    return -(-value // 10**scale), 0


def _rounded(args: list[Scaled], type_: DataType) -> Scaled:
    value, places = args[0], args[1][0] if len(args) > 1 else 0
    if places >= value[1]:
        return value
    return half_up(value[0], 10 ** (value[1] - places)) * 10 ** max(0, -places), max(0, places)


_OPERATORS: dict[str, Callable[[list[Scaled], DataType], Scaled | None]] = {
    "+": _added,
    "-": _subtracted,
    "*": _multiplied,
    "/": _divided,
    "%": _remainder,
    "div": _whole_quotient,
    "neg": _negated,
    "abs": _absolute,
    "floor": _floor,
    "ceil": _ceiling,
    "round": _rounded,
}

EXACT_OPERATORS = frozenset(_OPERATORS)

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
        return Values(as_float(_to_doubles(column, source), target), column.valid)
    if source.is_floating:
        return fitted([_from_doubles(column, source, target)], lambda number: number, target)
    if target.kind is Kind.DATE:
        days = column.values // _MICROS_PER_DAY
        return Values(days, column.valid & (days >= _FIRST_DAY) & (days <= _LAST_DAY))
    if target.kind is Kind.TIMESTAMP:
        return Values(column.values * _MICROS_PER_DAY, column.valid)
    if target.kind is Kind.DECIMAL:
        return fitted([_integers(column)], lambda number: _rescaled((number, source.scale), target.scale), target)
    return fitted([_integers(column)], lambda number: _truncated_quotient(number, 10**source.scale), target)


def _to_doubles(column: Values, source: DataType) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if source.kind is Kind.DECIMAL:
        unit = 10**source.scale
        return np.array([int(value) / unit for value in column.values.tolist()], dtype=np.float64)
    return np.asarray(column.values).astype(np.float64)


def _from_doubles(column: Values, source: DataType, target: DataType) -> list[int | None]:
    def exact(value: float) -> int | None:
        if not np.isfinite(value):
            return None
        if target.kind is not Kind.DECIMAL:
            return int(value)
        unscaled = _WIDE.multiply(shortest(value, source), Decimal(10) ** target.scale)
        return int(unscaled.to_integral_value(ROUND_HALF_UP, _WIDE))

    pairs = zip(column.values.tolist(), column.valid.tolist(), strict=True)
    return [exact(value) if valid else None for value, valid in pairs]


def as_float(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], type_: DataType
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """DOUBLEs as values of a floating type: a FLOAT is the nearest one of 32 bits."""
    if type_.kind is not Kind.FLOAT:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def shortest(value: float, type_: DataType) -> Decimal:
    """The shortest decimal number that reads back as the same FLOAT or DOUBLE."""
    return Decimal(str(np.float32(value)) if type_.kind is Kind.FLOAT else repr(value))


def rounded_double(value: float, places: int, type_: DataType) -> float:
    """A floating number rounded to so many decimal places of how it is written, halves away from zero."""
    if not np.isfinite(value):
        return value
    unit = Decimal((0, (1,), -places))
    return float(
        _WIDE.multiply(_WIDE.divide(shortest(value, type_), unit).to_integral_value(ROUND_HALF_UP, _WIDE), unit)
    )
