"""What an expression is worth for one row: every operator and function of the language, one short definition each.

An operator is **strict** when any NULL among its arguments makes it NULL; those are written for arguments that are
there. They compute the exact result and leave it to `fit` to cut it to the type of the call, or to find that it does
not fit, which is NULL again. The few operators that look at NULLs are written out with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.oracle_values import (
    Uncomputable,
    calendar,
    cast,
    fit,
    half_up,
    micros,
    order_key,
    same,
    shortest,
    year_of,
)
from weft.algebra import AggregateRef, Call, Column, Expression, KeyRef, Literal, Value, WindowBound


@dataclass(frozen=True, slots=True)
class Scope:
    """All that an expression can refer to: columns by (alias, name), and after grouping keys, aggregates and bounds."""

    columns: Mapping[tuple[str, str], Value] = field(default_factory=dict)
    keys: tuple[Value, ...] = ()
    aggregates: tuple[Value, ...] = ()
    window: tuple[int, int] | None = None


def evaluate(expression: Expression, scope: Scope) -> Value:
    """The value of an expression; NULL where it cannot be computed."""
    match expression:
        case Literal(value):
            return value
        case Column(source, name):
            return scope.columns[source, name]
        case KeyRef(index):
            return scope.keys[index]
        case AggregateRef(index):
            return scope.aggregates[index]
        case WindowBound(end):
            assert scope.window is not None
            return scope.window[end]
        case Call(args=args):
            return apply(expression, tuple(evaluate(arg, scope) for arg in args))


def holds(condition: Expression | None, scope: Scope) -> bool:
    """Whether a WHERE or HAVING lets the row through: only TRUE does, NULL does not."""
    return condition is None or evaluate(condition, scope) is True


def apply(call: Call, args: tuple[Value, ...]) -> Value:
    """The value of an operator or function for the values of its arguments."""
    if call.op in _LENIENT:
        return _LENIENT[call.op](*args)
    if any(arg is None for arg in args):
        return None
    try:
        return fit(_STRICT[call.op](call, *args), call.type)
    except Uncomputable:
        return None


# Operators that look at NULLs


def _and(*args: Value) -> Value:
    return False if any(arg is False for arg in args) else None if None in args else True


def _or(*args: Value) -> Value:
    return True if any(arg is True for arg in args) else None if None in args else False


def _in(value: Value, *candidates: Value) -> Value:
    return _or(*(_equal(value, candidate) for candidate in candidates))


def _equal(left: Value, right: Value) -> Value:
    return None if left is None or right is None else same(left, right)


def _case(*branches: Value) -> Value:
    *pairs, default = branches
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if condition is True:
            return value
    return default


def _coalesce(*args: Value) -> Value:
    return next((arg for arg in args if arg is not None), None)


def _greatest(*args: Value) -> Value:
    return max((arg for arg in args if arg is not None), key=order_key, default=None)


def _least(*args: Value) -> Value:
    return min((arg for arg in args if arg is not None), key=order_key, default=None)


def _nullif(value: Value, unwanted: Value) -> Value:
    return None if _equal(value, unwanted) else value


_LENIENT: dict[str, Callable[..., Value]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "case": _case,
    "is_null": lambda value: value is None,
    "<=>": same,
    "coalesce": _coalesce,
    "greatest": _greatest,
    "least": _least,
    "nullif": _nullif,
}


# Arithmetic


def _arithmetic(compute: Callable[..., Any]) -> Callable[..., Any]:
    """An operator in the arithmetic of its result: IEEE for floating point, exact for everything else."""

    def operator(call: Call, *args: Any) -> Any:
        number = float if call.type.is_floating else Fraction
        return compute(*(number(arg) for arg in args))

    return operator


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise Uncomputable
    return left / right


def _whole_quotient(call: Call, left: Any, right: Any) -> int:
    return math.trunc(_divide(Fraction(left), Fraction(right)))


def _remainder(left: Any, right: Any) -> Any:
    """What is left after division towards zero, so that it has the sign of the dividend."""
    if right == 0:
        raise Uncomputable
    if isinstance(left, Fraction):
        return left - right * math.trunc(left / right)
    if math.isnan(left) or math.isnan(right) or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def _round(call: Call, value: Any, places: int = 0) -> Any:
    type_ = call.args[0].type
    if not type_.is_floating:
        return half_up(Fraction(value), places)
    if not math.isfinite(value):
        return value
    return float(half_up(Fraction(Decimal(shortest(value, type_))), places))


def _whole(direction: Callable[[Any], int]) -> Callable[..., Any]:
    def function(call: Call, value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            raise Uncomputable
        return direction(value)

    return function


def _sign(call: Call, value: float) -> float:
    return value if math.isnan(value) or value == 0 else math.copysign(1.0, value)


def _sqrt(call: Call, value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _logarithm(function: Callable[[float], float]) -> Callable[..., float]:
    def logarithm(call: Call, value: float) -> float:
        if value <= 0:
            raise Uncomputable
        return function(value)

    return logarithm


def _exp(call: Call, value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(call: Call, base: float, exponent: float) -> float:
    """As in Java, which knows no answer where C says 1: at 1 to the NaN and ±1 to the infinity."""
    if exponent != 0 and (math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent))):
        return math.nan
    is_odd = math.isfinite(exponent) and math.fmod(exponent, 2) in (1.0, -1.0)
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and is_odd else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if is_odd else math.inf


# Text


def _like(call: Call, text: str, pattern: str) -> bool:
    """`%` is any text, `_` any character, a backslash takes the next character as it is."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return bool(re.fullmatch("".join(wild.get(part) or re.escape(part[-1]) for part in parts), text, re.DOTALL))


def _substring(call: Call, text: str, position: int, length: int | None = None) -> str:
    """Positions count from 1, or from the end when negative; 0 is read as 1. The length counts from that position
    even where it lies before the text."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(start, 0) : max(end, 0)]


def _replace(call: Call, text: str, old: str, new: str = "") -> str:
    return text.replace(old, new) if old else text


# Time


def _date_trunc(call: Call, unit: str, timestamp: int) -> int:
    eras, moment = calendar(timestamp)
    return micros(_truncated(moment, unit), eras)


def _truncated(moment: datetime, unit: str) -> datetime:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "year":
            return midnight.replace(month=1, day=1)
        case "quarter":
            return midnight.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return midnight.replace(day=1)
        case "week":
            return midnight - timedelta(days=moment.weekday())
        case "day":
            return midnight
        case "hour":
            return moment.replace(minute=0, second=0, microsecond=0)
        case "minute":
            return moment.replace(second=0, microsecond=0)
        case "second":
            return moment.replace(microsecond=0)
        case "millisecond":
            return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    raise ValueError(f"no unit {unit!r}")


def _part(part: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda call, timestamp: part(calendar(timestamp)[1])


_STRICT: dict[str, Callable[..., Any]] = {
    "not": lambda call, a: not a,
    "=": lambda call, a, b: order_key(a) == order_key(b),
    "!=": lambda call, a, b: order_key(a) != order_key(b),
    "<": lambda call, a, b: order_key(a) < order_key(b),
    "<=": lambda call, a, b: order_key(a) <= order_key(b),
    ">": lambda call, a, b: order_key(a) > order_key(b),
    ">=": lambda call, a, b: order_key(a) >= order_key(b),
    "like": _like,
    "cast": lambda call, a: cast(a, call.args[0].type, call.type),
    "+": _arithmetic(lambda a, b: a + b),
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _arithmetic(_divide),
    "%": _arithmetic(_remainder),
    "div": _whole_quotient,
    "neg": _arithmetic(lambda a: -a),
    "upper": lambda call, a: a.upper(),
    "lower": lambda call, a: a.lower(),
    "length": lambda call, a: len(a),
    "trim": lambda call, a: a.strip(" "),
    "ltrim": lambda call, a: a.lstrip(" "),
    "rtrim": lambda call, a: a.rstrip(" "),
    "reverse": lambda call, a: a[::-1],
    "substring": _substring,
    "replace": _replace,
    "concat": lambda call, *texts: "".join(texts),
    "startswith": lambda call, a, b: a.startswith(b),
    "endswith": lambda call, a, b: a.endswith(b),
    "contains": lambda call, a, b: b in a,
    "abs": _arithmetic(abs),
    "sign": _sign,
    "round": _round,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "sqrt": _sqrt,
    "power": _power,
    "exp": _exp,
    "ln": _logarithm(math.log),
    "log10": _logarithm(math.log10),
    "year": lambda call, a: year_of(a),
    "quarter": _part(lambda moment: (moment.month + 2) // 3),
    "month": _part(lambda moment: moment.month),
    "day": _part(lambda moment: moment.day),
    "dayofweek": _part(lambda moment: moment.isoweekday() % 7 + 1),
    "hour": _part(lambda moment: moment.hour),
    "minute": _part(lambda moment: moment.minute),
    "second": _part(lambda moment: moment.second),
    "date_trunc": _date_trunc,
    "unix_micros": lambda call, a: a,
    "timestamp_micros": lambda call, a: a,
}
