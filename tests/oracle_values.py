"""Values and how they compare, fit into types and change type: the ground that the oracle's expressions stand on.

A TIMESTAMP and an INTERVAL are integers (microseconds), a DATE is a `datetime.date`, a DECIMAL a `decimal.Decimal`, a
HUGEINT an `int`, NULL is None; every other value is what Python calls it. "Cannot be computed" is the exception
`Uncomputable`; whoever evaluates an expression turns it into NULL.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from weft.algebra import DataType, Kind, Value

BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64, Kind.TIMESTAMP: 64, Kind.INTERVAL: 64}
HUGEINT_DIGITS = 38

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
#: The Gregorian calendar repeats every 400 years, and these are a whole number of weeks.
ERA = 146_097 * DAY

EPOCH = datetime(1970, 1, 1)


class Uncomputable(Exception):
    """Division by zero, an overflow, a cast that fails: the expression is NULL."""


# Comparison


def order_key(value: Value) -> tuple[Any, ...]:
    """Sorts and identifies values of one type: NULL first, NaN equal to itself and above every number, -0.0 = 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value)


def same(left: Value, right: Value) -> bool:
    """Whether two values are one, NULLs and NaNs included."""
    return order_key(left) == order_key(right)


def row_key(values: tuple[Value, ...]) -> tuple[Any, ...]:
    """Equal for rows that are equal in all columns."""
    return tuple(order_key(value) for value in values)


def normalised(value: Value) -> Value:
    """A grouping key as the answer shows it: 0.0 for -0.0, since the two are one group."""
    return 0.0 if isinstance(value, float) and value == 0 else value


# Fitting


def fit(value: Any, type_: DataType) -> Value:
    """An exactly computed value as a value of the type; Uncomputable when the type has no room for it."""
    kind = type_.kind
    if kind in BITS:
        return _within(int(value), 1 << (BITS[kind] - 1))
    if kind is Kind.HUGEINT:
        return _within(int(value), 10**HUGEINT_DIGITS)
    if kind is Kind.DECIMAL:
        return _fit_decimal(Fraction(value), type_)
    if kind is Kind.DOUBLE:
        return to_double(value)
    if kind is Kind.FLOAT:
        return to_float(to_double(value))
    return value


def _within(value: int, limit: int) -> int:
    if not -limit <= value < limit:
        raise Uncomputable
    return value


def _fit_decimal(value: Fraction, type_: DataType) -> Decimal:
    unscaled = half_up(value, type_.scale) * 10**type_.scale
    if abs(unscaled) >= 10**type_.precision:
        raise Uncomputable
    sign, digits = int(unscaled < 0), tuple(int(digit) for digit in str(abs(int(unscaled))))
    return Decimal((sign, digits, -type_.scale))


def half_up(value: Fraction, places: int) -> Fraction:
    """The value rounded to so many decimal places, halves away from zero."""
    unit = Fraction(10) ** -places
    rounded = math.floor(abs(value) / unit + Fraction(1, 2)) * unit
    return -rounded if value < 0 else rounded


def to_double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def to_float(value: float) -> float:
    """The nearest number of 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def shortest(value: float, type_: DataType) -> str:
    """The shortest decimal text that reads back as the same FLOAT or DOUBLE."""
    if type_.kind is Kind.DOUBLE:
        return repr(value)
    return next(text for digits in range(1, 18) if to_float(float(text := f"{value:.{digits}g}")) == value)


# The calendar


def calendar(timestamp: int) -> tuple[int, datetime]:
    """A timestamp as a number of whole eras after 1970 and the moment within its era, which Python can hold."""
    eras, rest = divmod(timestamp, ERA)
    return eras, EPOCH + timedelta(microseconds=rest)


def micros(moment: datetime, eras: int = 0) -> int:
    """The timestamp of a moment: the opposite of `calendar`."""
    return (moment - EPOCH) // timedelta(microseconds=1) + eras * ERA


def year_of(timestamp: int) -> int:
    eras, moment = calendar(timestamp)
    return moment.year + 400 * eras


# Casts


def cast(value: Any, source: DataType, target: DataType) -> Value:
    """CAST of a value that is not NULL, as Spark's ANSI rules have it; Uncomputable where those would fail."""
    if source == target or Kind.NULL in (source.kind, target.kind):
        return value  # type: ignore[no-any-return]
    if target.kind is Kind.STRING:
        return _to_text(value, source)
    if source.kind is Kind.STRING:
        return _from_text(value, target)
    if target.kind is Kind.BOOLEAN:
        return bool(value != 0)
    if target.kind is Kind.DATE:
        return _date_of(value)
    if target.kind is Kind.TIMESTAMP:
        return micros(datetime(value.year, value.month, value.day))
    return _to_number(value, source, target)


def _to_number(value: Any, source: DataType, target: DataType) -> Value:
    if not source.is_floating or target.is_floating:
        return fit(value, target)
    if not math.isfinite(value):
        raise Uncomputable
    if target.kind is Kind.DECIMAL:
        return fit(Fraction(Decimal(shortest(value, source))), target)
    return fit(math.trunc(value), target)


def _date_of(timestamp: int) -> date:
    try:
        return (EPOCH + timedelta(microseconds=timestamp)).date()
    except OverflowError:
        raise Uncomputable from None


def _to_text(value: Any, source: DataType) -> str:
    if source.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if source.kind is Kind.BINARY:
        return str(value, "utf-8", "replace")
    if source.kind is Kind.TIMESTAMP:
        return _timestamp_text(value)
    if source.kind is Kind.DECIMAL:
        return f"{value:.{source.scale}f}"
    if source.is_floating:
        return _floating_text(value, source)
    return str(value)


def _timestamp_text(timestamp: int) -> str:
    moment = calendar(timestamp)[1]
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return f"{year_of(timestamp):04}{moment:-%m-%d %H:%M:%S}{fraction}"


def _floating_text(value: float, type_: DataType) -> str:
    """Java's spelling: scientific below a thousandth and from ten million on, always with a decimal point."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    exact = Decimal(shortest(value, type_))
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{exact:f}"
        return text if "." in text else f"{text}.0"
    sign, digits, _ = exact.normalize().as_tuple()
    first, *rest = (str(digit) for digit in digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{exact.adjusted()}"


_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPECIAL = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?")
_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](?:(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?Z?)?)?)?)?"
)
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})


def _from_text(value: str, target: DataType) -> Value:
    if target.kind is Kind.BINARY:
        return value.encode()
    text = value.strip()
    if target.kind is Kind.BOOLEAN:
        return _boolean_from_text(text.lower())
    if target.kind is Kind.DATE:
        return _date_from_text(text)
    if target.kind is Kind.TIMESTAMP:
        return _timestamp_from_text(text)
    if target.is_floating and _SPECIAL.fullmatch(text):
        return float(text)
    if not (_INTEGER if target.is_integer else _NUMBER).fullmatch(text):
        raise Uncomputable
    return fit(float(text) if target.is_floating else Fraction(text), target)


def _boolean_from_text(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise Uncomputable
    return text in _TRUE


def _date_from_text(text: str) -> date:
    match = _DATE.fullmatch(text)
    if not match:
        raise Uncomputable
    try:
        return date(*(int(part or 1) for part in match.groups()))
    except ValueError:
        raise Uncomputable from None


def _timestamp_from_text(text: str) -> int:
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise Uncomputable
    year, month, day, hour, minute, second, fraction = match.groups()
    microsecond = int((fraction or "").ljust(6, "0")[:6])
    try:
        moment = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            microsecond,
            UTC,
        )
    except ValueError:
        raise Uncomputable from None
    return micros(moment.replace(tzinfo=None))
