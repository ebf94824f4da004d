"""Evaluates expressions over arrays: HAVING and select lists of grouped queries, and expressions over driver rows.

Values are physical ones, as in `aggregate_functions`: integers, DATEs, TIMESTAMPs and the unscaled integers of
DECIMALs as 64-bit or Python integers, FLOATs and DOUBLEs as 64-bit floats, text as Python strings. What cannot be
computed is NULL. Patterns and most casts from and to text are left to Spark: a query that applies them to its
aggregates is not woven.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import AggregateRef, Call, Column, DataType, Expression, KeyRef, Kind, Literal, Value, WindowBound
from weft.algebra.types import DOUBLE, HUGEINT
from weft.expressions.exact_arithmetic import (
    EXACT_OPERATORS,
    as_float,
    can_be_cast,
    cast_to,
    exactly,
    is_exact,
    rounded_double,
)
from weft.kernels.statistic import Array, Values

#: What stands at a leaf of an expression: a column before grouping, the others after it.
ValueLeaf: TypeAlias = Callable[[Column | KeyRef | AggregateRef | WindowBound], Values]

#: The values of an operator, from those of its arguments.
Operator: TypeAlias = Callable[[Sequence[Values]], Values]

Instants: TypeAlias = NDArray[np.int64]

_EPOCH = date(1970, 1, 1).toordinal()


def can_be_computed(expression: Expression) -> bool:
    """Whether `computed` knows every operator and type in an expression."""
    if isinstance(expression, KeyRef | AggregateRef | WindowBound):
        return True
    if isinstance(expression, Column | Literal):
        return expression.type.kind is not Kind.BINARY
    return (
        isinstance(expression, Call)
        and _operator(expression) is not None
        and all(map(can_be_computed, expression.args))
    )


def computed(expression: Expression, leaf: ValueLeaf, rows: int) -> Values:
    if isinstance(expression, Literal):
        return _constant(expression.value, expression.type, rows)
    if not isinstance(expression, Call):
        assert isinstance(expression, Column | KeyRef | AggregateRef | WindowBound)
        return leaf(expression)
    operator = _operator(expression)
    assert operator is not None
    return operator([computed(arg, leaf, rows) for arg in expression.args])


def _operator(call: Call) -> Operator | None:
    """How a call is computed; None if that is left to Spark."""
    op, types = call.op, [arg.type for arg in call.args]
    if op == "cast":
        return _cast(types[0], call.type)
    if op in _OF_TEXT:
        return partial(_text_function, call)
    if op in _OF_INSTANTS:
        return lambda args: Values(_OF_INSTANTS[op](args[0].values), args[0].valid)
    if op == "date_trunc":
        return partial(_truncated, call.args[0])
    if any(type_.kind is Kind.BINARY for type_ in types):
        return None
    if op in _LENIENT:
        return _LENIENT[op]
    if op in _COMPARISONS:
        comparable = types[0] == types[1] or all(type_.is_integer for type_ in types)
        return (
            (lambda args: Values(_compared(op, args[0].values, args[1].values), _valid(args))) if comparable else None
        )
    if types[0].is_floating and op in ("floor", "ceil"):
        # A BIGINT, if it fits.
        whole = np.floor if op == "floor" else np.ceil
        return lambda args: cast_to(Values(whole(args[0].values), args[0].valid), DOUBLE, call.type)
    if types[0].is_floating and op == "round":
        return partial(_rounded, types[0])
    if call.type.is_floating and op in _FLOATING and all(type_.is_floating for type_ in types):
        return partial(_floating, call)
    if op in EXACT_OPERATORS and is_exact(call.type) and all(map(is_exact, types)):
        return partial(exactly, call)
    return None


def _valid(args: Sequence[Values]) -> NDArray[np.bool_]:
    """Where no argument is NULL."""
    return np.asarray(np.logical_and.reduce([arg.valid for arg in args]))


def _cast(source: DataType, target: DataType) -> Operator | None:
    if source.kind is Kind.NULL:
        return lambda args: _constant(None, target, len(args[0].valid))
    if can_be_cast(source, target):
        return lambda args: cast_to(args[0], source, target)
    # All but floating numbers, instants and bytes.
    if target.kind is Kind.STRING and (source.is_integer or source.kind in (Kind.DECIMAL, Kind.BOOLEAN, Kind.DATE)):
        return lambda args: _value_by_value(lambda value: _text_of(value, source), args, "")
    return None


# -- constants --------------------------------------------------------------------------------------------------------


def _constant(value: Value, type_: DataType, rows: int) -> Values:
    """A constant for each row. What stands in the place of NULL compares with values of the type."""
    dtype: Any = np.float64 if type_.is_floating else bool if type_.kind is Kind.BOOLEAN else np.int64
    filler: Any = 0 if value is None else value
    if type_.kind is Kind.STRING:
        filler, dtype = value or "", object
    elif isinstance(value, Decimal):
        filler, dtype = int(Fraction(value) * 10**type_.scale), object
    elif isinstance(value, date):
        filler = value.toordinal() - _EPOCH
    elif type_ == HUGEINT and value is not None:
        dtype = object
    return Values(np.full(rows, filler, dtype=dtype), np.full(rows, value is not None))


# -- operators that look at NULLs -------------------------------------------------------------------------------------


def _junction(decisive: bool, args: Sequence[Values]) -> Values:
    """AND or OR, with SQL's three truth values: one value decides, FALSE or TRUE, whatever is NULL."""
    truths = [(arg.valid, arg.values.astype(bool) == decisive) for arg in args]
    decided = np.logical_or.reduce([valid & same for valid, same in truths])
    undisputed = np.logical_and.reduce([valid & ~same for valid, same in truths])
    return Values(decided if decisive else undisputed, decided | undisputed)


def _is_same(args: Sequence[Values]) -> Values:
    left, right = args
    equal = _compared("=", left.values, right.values)
    same = np.where(left.valid & right.valid, equal, left.valid == right.valid)
    return Values(same, np.ones(len(same), dtype=bool))


def _is_in(args: Sequence[Values]) -> Values:
    value, *candidates = args
    equal = [Values(_compared("=", value.values, each.values), value.valid & each.valid) for each in candidates]
    return _junction(True, equal)


def _case(args: Sequence[Values]) -> Values:
    *branches, result = args
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        result = _chosen(condition.valid & condition.values.astype(bool), value, result)
    return result


def _chosen(wanted: NDArray[np.bool_], then: Values, otherwise: Values) -> Values:
    values = np.where(wanted, then.values, otherwise.values)
    return Values(values, np.where(wanted, then.valid, otherwise.valid))


def _extreme(comparison: str, args: Sequence[Values]) -> Values:
    def better(known: Values, other: Values) -> Values:
        displaced = other.valid & (~known.valid | _compared(comparison, other.values, known.values))
        return _chosen(displaced, other, known)

    return reduce(better, args)


def _null_if(args: Sequence[Values]) -> Values:
    value, unwanted = args
    equal = value.valid & unwanted.valid & _compared("=", value.values, unwanted.values)
    return Values(value.values, value.valid & ~equal)


_LENIENT: dict[str, Operator] = {
    "and": partial(_junction, False),
    "or": partial(_junction, True),
    "not": lambda args: Values(~args[0].values.astype(bool), args[0].valid),
    "is_null": lambda args: Values(~args[0].valid, np.ones(len(args[0].valid), dtype=bool)),
    "<=>": _is_same,
    "in": _is_in,
    "case": _case,
    "coalesce": lambda args: reduce(lambda known, other: _chosen(known.valid, known, other), args),
    "greatest": lambda args: _extreme(">", args),
    "least": lambda args: _extreme("<", args),
    "nullif": _null_if,
}

# -- comparisons ------------------------------------------------------------------------------------------------------

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def _compared(op: str, left: Array, right: Array) -> NDArray[np.bool_]:
    """NaN equals itself and is greater than every number, as in Spark."""
    if left.dtype.kind == "f" and right.dtype.kind == "f":
        left_nan, right_nan = np.isnan(left), np.isnan(right)
        equal = (left == right) | (left_nan & right_nan)
        less = (left < right) | (~left_nan & right_nan)
    else:
        equal, less = np.asarray(left == right, dtype=bool), np.asarray(left < right, dtype=bool)
    either = less | equal
    truth = {"=": equal, "!=": ~equal, "<": less, "<=": either, ">": ~either, ">=": ~less}[op]
    return np.asarray(truth)


# -- floating point ---------------------------------------------------------------------------------------------------


def _floating(call: Call, args: Sequence[Values]) -> Values:
    columns, valid = [arg.values for arg in args], _valid(args)
    if call.op in ("/", "%"):
        valid = valid & (columns[1] != 0)
        columns[1] = np.where(columns[1] == 0, 1.0, columns[1])
    if call.op in ("ln", "log10"):
        valid = valid & ~(columns[0] <= 0)
    with np.errstate(all="ignore"):
        return Values(as_float(_FLOATING[call.op](*columns), call.type), valid)


def _rounded(type_: DataType, args: Sequence[Values]) -> Values:
    places = args[1].values.tolist() if len(args) > 1 else [0] * len(args[0].values)
    pairs = zip(args[0].values.tolist(), places, strict=True)
    rounded = np.array([rounded_double(value, place, type_) for value, place in pairs], dtype=np.float64)
    return Values(as_float(rounded, type_), _valid(args))


def _power(base: Array, exponent: Array) -> Array:
    """As in Java, which knows no answer where C says 1: at 1 to the NaN and ±1 to the infinity."""
    unknown = np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent))
    return np.where(unknown, np.nan, np.power(base, exponent))


_FLOATING: dict[str, Callable[..., Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "ln": np.log,
    "log10": np.log10,
    "power": _power,
}


# -- text -------------------------------------------------------------------------------------------------------------


def _substring(text: str, position: int, length: int | None = None) -> str:
    """Positions count from 1 on, and from the end if they are negative; a length counts from there, text or no text."""
    first = max(position - 1, 0) if position >= 0 else len(text) + position
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


_OF_TEXT: dict[str, Callable[..., object]] = {
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "reverse": lambda text: text[::-1],
    "substring": _substring,
    "replace": lambda text, old, new="": text.replace(old, new) if old else text,
    "concat": lambda *texts: "".join(texts),
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
}


def _text_of(value: int, type_: DataType) -> str:
    """A value as CAST(… AS STRING) writes it."""
    if type_.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if type_.kind is Kind.DATE:
        return date.fromordinal(value + _EPOCH).isoformat()
    if not type_.scale:
        return str(value)
    whole, rest = divmod(abs(value), 10**type_.scale)
    return f"{'-' * (value < 0)}{whole}.{rest:0{type_.scale}}"


def _text_function(call: Call, args: Sequence[Values]) -> Values:
    if call.type.kind is Kind.STRING:
        return _value_by_value(_OF_TEXT[call.op], args, "")
    counted = _value_by_value(_OF_TEXT[call.op], args, 0)
    return Values(counted.values.astype(bool if call.type.kind is Kind.BOOLEAN else np.int64), counted.valid)


def _value_by_value(function: Callable[..., object], args: Sequence[Values], otherwise: object) -> Values:
    """Text is computed by Python, value by value: answers are few."""
    valid = _valid(args)
    results = np.empty(len(valid), dtype=object)
    rows = zip(*(arg.values.tolist() for arg in args), strict=True)
    for number, (row, is_valid) in enumerate(zip(rows, valid.tolist(), strict=True)):
        results[number] = function(*row) if is_valid else otherwise
    return Values(results, valid)


# -- the calendar -----------------------------------------------------------------------------------------------------

#: The units that time is truncated to, as NumPy writes them.
_UNITS = {"year": "Y", "quarter": "3M", "month": "M", "week": "7D", "day": "D"}
_UNITS |= {"hour": "h", "minute": "m", "second": "s", "millisecond": "ms"}

#: The epoch is a Thursday, and weeks begin with Monday.
_TO_MONDAY = 4 * 86_400_000_000


def _in_units(instants: Instants, unit: str) -> Instants:
    """How many whole units have passed since the epoch."""
    return instants.astype("datetime64[us]").astype(f"datetime64[{_UNITS[unit]}]").astype(np.int64)


def _floor(instants: Instants, unit: str) -> Instants:
    units = instants.astype("datetime64[us]").astype(f"datetime64[{_UNITS[unit]}]")
    return units.astype("datetime64[us]").astype(np.int64)


#: DAYOFWEEK counts from Sunday, as 1.
_OF_INSTANTS: dict[str, Callable[[Instants], Instants]] = {
    "year": lambda instants: _in_units(instants, "year") + 1970,
    "quarter": lambda instants: _in_units(instants, "quarter") % 4 + 1,
    "month": lambda instants: _in_units(instants, "month") % 12 + 1,
    "day": lambda instants: _in_units(instants, "day") - _in_units(_floor(instants, "month"), "day") + 1,
    "dayofweek": lambda instants: (_in_units(instants, "day") + 4) % 7 + 1,
    "hour": lambda instants: _in_units(instants, "hour") % 24,
    "minute": lambda instants: _in_units(instants, "minute") % 60,
    "second": lambda instants: _in_units(instants, "second") % 60,
    "unix_micros": lambda instants: instants,
}


def _truncated(unit: Expression, args: Sequence[Values]) -> Values:
    assert isinstance(unit, Literal)
    shift = _TO_MONDAY if unit.value == "week" else 0
    return Values(_floor(args[1].values - shift, str(unit.value)) + shift, _valid(args))
