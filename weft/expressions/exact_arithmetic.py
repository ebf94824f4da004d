"""Exact arithmetic of integers and DECIMALs, value by value: answers are few, and their sums may have 38 digits.

Results are cut to the scale of their type, halves away from zero; one that has more digits than its type is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Call, DataType, Kind
from weft.kernels.statistic import Values

_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64, Kind.TIMESTAMP: 64, Kind.INTERVAL: 64}
_DIGITS_OF_HUGEINT = 38
#: Enough digits for every DOUBLE written out, and for quotients that are rounded once more.
_WIDE = Context(prec=1100)
_QUOTIENTS = Context(prec=200)

_MICROS_PER_DAY = 86_400_000_000
#: The days of the years 1 to 9999.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


def is_exact(type_: DataType) -> bool:
    """Whether values of a type are whole numbers, perhaps scaled."""
    return type_.kind in _BITS or type_.kind in (Kind.HUGEINT, Kind.DECIMAL)


def exactly(call: Call, args: Sequence[Values]) -> Values:
    """An operator over exact numbers. What divides by zero is NULL."""
    operator, divides = EXACT_OPERATORS[call.op], call.op in ("/", "%", "div")
    rows = zip(*(_numbers(arg, each.type) for arg, each in zip(args, call.args, strict=True)), strict=True)
    return _fitted([None if None in row or (divides and not row[1]) else operator(*row) for row in rows], call.type)


def _numbers(column: Values, type_: DataType) -> list[Decimal | None]:
    """The numbers of a column; None for NULL."""
    pairs, scale = zip(column.values.tolist(), column.valid.tolist(), strict=True), -type_.scale
    wholes = (Decimal(int(value)) if valid else None for value, valid in pairs)
    return [_WIDE.scaleb(each, scale) if scale and each is not None else each for each in wholes]


def _fitted(numbers: Sequence[Decimal | None], type_: DataType, rounding: str = ROUND_HALF_UP) -> Values:
    """Numbers as a column; NULL where one does not fit."""
    scale, bits = type_.scale, _BITS.get(type_.kind)
    digits = type_.precision if type_.kind is Kind.DECIMAL else _DIGITS_OF_HUGEINT
    least, limit = (1 - 10**digits, 10**digits) if bits is None else (-1 << (bits - 1), 1 << (bits - 1))
    scaled = (_WIDE.scaleb(each, scale) if scale and each is not None else each for each in numbers)
    # What is NULL fits no more than what is too large.
    wholes = [limit if each is None else int(each.to_integral_value(rounding, _WIDE)) for each in scaled]
    valid = [least <= each < limit for each in wholes]
    values = [each if fits else 0 for each, fits in zip(wholes, valid, strict=True)]
    return Values(np.array(values, dtype=object if bits is None else np.int64), np.array(valid, dtype=bool))


def _rounded(number: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    """A number rounded to some decimal places, halves away from zero."""
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= places:
        return number
    units = _WIDE.scaleb(number, places).to_integral_value(ROUND_HALF_UP, _WIDE)
    return _WIDE.scaleb(units, -places)


EXACT_OPERATORS: Final[Mapping[str, Callable[..., Decimal]]] = {
    "+": _WIDE.add,
    "-": _WIDE.subtract,
    "*": _WIDE.multiply,
    "/": _QUOTIENTS.divide,
    "%": _WIDE.remainder,
    "div": _WIDE.divide_int,
    "neg": _WIDE.minus,
    "abs": _WIDE.abs,
    "floor": lambda number: number.to_integral_value(ROUND_FLOOR, _WIDE),
    "ceil": lambda number: number.to_integral_value(ROUND_CEILING, _WIDE),
    "round": _rounded,
}


# -- casts ------------------------------------------------------------------------------------------------------------


def can_be_cast(source: DataType, target: DataType) -> bool:
    """Whether `cast_to` knows how to get from one type to another: between numbers, truth values and times."""
    numbers = [type_.is_numeric or type_.kind is Kind.BOOLEAN for type_ in (source, target)]
    times = (Kind.DATE, Kind.TIMESTAMP)
    return source == target or all(numbers) or (source.kind in times and target.kind in times)


def cast_to(column: Values, source: DataType, target: DataType) -> Values:
    if source == target:
        return column
    if target.kind is Kind.BOOLEAN:
        return Values(np.asarray(column.values != 0, dtype=bool), column.valid)
    if target.is_floating:
        unit = 10**source.scale
        scaled = source.kind is Kind.DECIMAL
        doubles = [int(value) / unit for value in column.values.tolist()] if scaled else column.values
        return Values(as_float(np.asarray(doubles).astype(np.float64), target), column.valid)
    if target.kind is Kind.DATE:
        days = column.values // _MICROS_PER_DAY
        return Values(days, column.valid & (days >= _FIRST_DAY) & (days <= _LAST_DAY))
    if target.kind is Kind.TIMESTAMP:
        return Values(column.values * _MICROS_PER_DAY, column.valid)
    to_decimal = target.kind is Kind.DECIMAL
    if source.is_floating:
        finite = column.valid & np.isfinite(column.values)
        pairs = zip(column.values.tolist(), finite.tolist(), strict=True)
        # Whole numbers are cut from the very value, and DECIMALs rounded from its text, as in Spark.
        read = partial(_shortest, type_=source) if to_decimal else Decimal
        numbers = [read(value) if known else None for value, known in pairs]
    else:
        numbers = _numbers(column, source)
    return _fitted(numbers, target, ROUND_HALF_UP if to_decimal else ROUND_DOWN)


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
    return float(_rounded(_shortest(value, type_), Decimal(places))) if np.isfinite(value) else value
