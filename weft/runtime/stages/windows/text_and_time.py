"""Functions of text and of the calendar over arrays.

Text is Python's, value by value: answers are few. Instants are microseconds since the epoch, in UTC, and NumPy's
calendar goes as far as they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Call, DataType, Kind, Literal
from weft.kernels.statistic import Values

_SECOND = 1_000_000
_LENGTHS = {
    "day": 86_400 * _SECOND,
    "hour": 3_600 * _SECOND,
    "minute": 60 * _SECOND,
    "second": _SECOND,
    "millisecond": 1_000,
}
_EPOCH = date(1970, 1, 1).toordinal()

Instants = NDArray[np.int64]

# -- text -------------------------------------------------------------------------------------------------------------


def _substring(text: str, position: int, length: int | None = None) -> str:
    """Positions count from 1 on, and from the end if they are negative; a length counts from there, text or no text."""
    first = max(position - 1, 0) if position >= 0 else len(text) + position
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


def _replaced(text: str, old: str, new: str = "") -> str:
    return text.replace(old, new) if old else text


_OF_TEXT: dict[str, Callable[..., object]] = {
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "reverse": lambda text: text[::-1],
    "substring": _substring,
    "replace": _replaced,
    "concat": lambda *texts: "".join(texts),
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
}


def can_be_text(type_: DataType) -> bool:
    """Whether values of a type can be written as text: all but floating numbers, instants and bytes."""
    return type_.is_integer or type_.kind in (Kind.DECIMAL, Kind.BOOLEAN, Kind.DATE)


def as_text(column: Values, type_: DataType) -> Values:
    """CAST(… AS STRING)."""
    return _value_by_value(lambda value: _written(value, type_), [column], column.valid, "")


def _written(value: int, type_: DataType) -> str:
    if type_.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if type_.kind is Kind.DATE:
        return date.fromordinal(value + _EPOCH).isoformat()
    if not type_.scale:
        return str(value)
    whole, rest = divmod(abs(value), 10**type_.scale)
    return f"{'-' * (value < 0)}{whole}.{rest:0{type_.scale}}"


def _value_by_value(
    function: Callable[..., object], args: Sequence[Values], valid: NDArray[np.bool_], otherwise: object
) -> Values:
    results = np.empty(len(valid), dtype=object)
    rows = zip(*(arg.values.tolist() for arg in args), strict=True)
    for number, (row, is_valid) in enumerate(zip(rows, valid.tolist(), strict=True)):
        results[number] = function(*row) if is_valid else otherwise
    return Values(results, valid)


# -- the calendar -----------------------------------------------------------------------------------------------------


def _days(instants: Instants) -> Instants:
    return instants // _LENGTHS["day"]


def _in_units(instants: Instants, unit: str) -> Instants:
    """How many whole years, or months, have passed since the epoch."""
    return instants.astype("datetime64[us]").astype(f"datetime64[{unit}]").astype(np.int64)


def _from_units(numbers: Instants, unit: str) -> Instants:
    return numbers.astype(f"datetime64[{unit}]").astype("datetime64[us]").astype(np.int64)


def _day_of_month(instants: Instants) -> Instants:
    return _days(instants) - _days(_from_units(_in_units(instants, "M"), "M")) + 1


#: The epoch is a Thursday. DAYOFWEEK counts from Sunday, as 1; weeks begin with Monday.
_OF_INSTANTS: dict[str, Callable[[Instants], Instants]] = {
    "year": lambda instants: _in_units(instants, "Y") + 1970,
    "quarter": lambda instants: _in_units(instants, "M") % 12 // 3 + 1,
    "month": lambda instants: _in_units(instants, "M") % 12 + 1,
    "day": _day_of_month,
    "dayofweek": lambda instants: (_days(instants) + 4) % 7 + 1,
    "hour": lambda instants: instants // _LENGTHS["hour"] % 24,
    "minute": lambda instants: instants // _LENGTHS["minute"] % 60,
    "second": lambda instants: instants // _SECOND % 60,
    "unix_micros": lambda instants: instants,
}


def _truncated(instants: Instants, unit: str) -> Instants:
    if unit in _LENGTHS:
        return instants // _LENGTHS[unit] * _LENGTHS[unit]
    if unit == "week":
        days = _days(instants)
        return (days - (days + 3) % 7) * _LENGTHS["day"]
    months = {"year": 12, "quarter": 3, "month": 1}[unit]
    return _from_units(_in_units(instants, "M") // months * months, "M")


# -- calls ------------------------------------------------------------------------------------------------------------


def is_text_or_time(call: Call) -> bool:
    """Whether a call is one of the functions here."""
    return call.op in _OF_TEXT or call.op in _OF_INSTANTS or call.op == "date_trunc"


def text_or_time(call: Call, args: Sequence[Values], valid: NDArray[np.bool_]) -> Values:
    """The values of a function of text or of the calendar."""
    if call.op == "date_trunc":
        unit = call.args[0]
        assert isinstance(unit, Literal)
        return Values(_truncated(args[1].values, str(unit.value)), valid)
    if call.op in _OF_INSTANTS:
        return Values(_OF_INSTANTS[call.op](args[0].values), valid)
    if call.type.kind is Kind.STRING:
        return _value_by_value(_OF_TEXT[call.op], args, valid, "")
    counted = _value_by_value(_OF_TEXT[call.op], args, valid, 0)
    return Values(counted.values.astype(bool if call.type.kind is Kind.BOOLEAN else np.int64), valid)
