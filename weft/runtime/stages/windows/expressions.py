"""Expressions over arrays: HAVING and the select list of grouped queries, and all of them over rows in the driver.

Values are physical ones, as `weft/kernels/functions.py` has them: integers, DATEs, TIMESTAMPs and the unscaled
integers of DECIMALs as 64-bit integers or Python's own, FLOATs and DOUBLEs as 64-bit floats. What cannot be computed is
NULL. What is not in here, patterns and most casts from and to text, is left to Spark: a query that applies it to its
aggregates is not woven. (In a WHERE, a GROUP BY or inside an aggregate over a stream anything goes: that is Spark's
part anyway.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import AggregateRef, Call, Column, DataType, Expression, KeyRef, Kind, Literal, WindowBound
from weft.algebra.types import DOUBLE, HUGEINT
from weft.kernels.statistic import Array, Values
from weft.runtime.stages.windows.exact import (
    EXACT_OPERATORS,
    as_float,
    can_be_cast,
    cast_to,
    exactly,
    is_exact,
    rounded_double,
)
from weft.runtime.stages.windows.text_and_time import as_text, can_be_text, is_text_or_time, text_or_time

#: What stands at a leaf of an expression: a column before grouping, the others after it.
ValueLeaf: TypeAlias = Callable[[Column | KeyRef | AggregateRef | WindowBound], Values]

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_EPOCH = date(1970, 1, 1).toordinal()


def can_be_computed(expression: Expression) -> bool:
    """Whether `computed` knows every operator and type in an expression."""
    if isinstance(expression, KeyRef | AggregateRef | WindowBound):
        return True
    if isinstance(expression, Column):
        return expression.type.kind is not Kind.BINARY
    if isinstance(expression, Literal):
        return expression.type.kind is not Kind.BINARY
    return isinstance(expression, Call) and _is_known(expression) and all(map(can_be_computed, expression.args))


def _is_known(call: Call) -> bool:
    types = [arg.type for arg in call.args]
    if call.op in _LENIENT or call.op == "not":
        return all(type_.kind is not Kind.BINARY for type_ in types)
    if call.op in _COMPARISONS:
        comparable = types[0] == types[1] or all(type_.is_integer for type_ in types)
        return comparable and types[0].kind is not Kind.BINARY
    if call.op == "cast":
        to_text = call.type.kind is Kind.STRING and can_be_text(types[0])
        return can_be_cast(types[0], call.type) or to_text or types[0].kind is Kind.NULL
    if is_text_or_time(call):
        return True
    if call.type.is_floating:
        if call.op == "round":
            return types[0].is_floating
        return call.op in _FLOATING and all(type_.is_floating for type_ in types)
    if call.op in ("floor", "ceil") and types[0].is_floating:
        return True
    return call.op in EXACT_OPERATORS and is_exact(call.type) and all(map(is_exact, types))


def computed(expression: Expression, leaf: ValueLeaf, rows: int) -> Values:
    """The values of an expression for so many rows."""
    if isinstance(expression, Literal):
        return _constant(expression, rows)
    if not isinstance(expression, Call):
        assert isinstance(expression, Column | KeyRef | AggregateRef | WindowBound)
        return leaf(expression)
    args = [computed(arg, leaf, rows) for arg in expression.args]
    if expression.op in _LENIENT:
        return _LENIENT[expression.op](args)
    valid = np.logical_and.reduce([arg.valid for arg in args])
    if expression.op == "not":
        return Values(~args[0].values.astype(bool), valid)
    if expression.op in _COMPARISONS:
        return Values(_compared(expression.op, args[0].values, args[1].values), valid)
    if expression.op == "cast":
        return _cast(expression, args[0], rows)
    if is_text_or_time(expression):
        return text_or_time(expression, args, valid)
    if expression.type.is_floating:
        return _floating(expression, args, valid)
    if expression.args[0].type.is_floating:
        return _whole(expression, args[0])
    return exactly(expression, args)


def _cast(call: Call, arg: Values, rows: int) -> Values:
    source = call.args[0].type
    if source.kind is Kind.NULL:
        return nothing(call.type, rows)
    if call.type.kind is Kind.STRING and source.kind is not Kind.STRING:
        return as_text(arg, source)
    return cast_to(arg, source, call.type)


# -- constants --------------------------------------------------------------------------------------------------------


def _constant(literal: Literal, rows: int) -> Values:
    value, type_ = literal.value, literal.type
    if value is None:
        return nothing(type_, rows)
    if isinstance(value, Decimal):
        return Values(_filled(int(Fraction(value) * 10**type_.scale), rows, object), np.ones(rows, dtype=bool))
    if isinstance(value, date):
        return Values(_filled(value.toordinal() - _EPOCH, rows, np.int64), np.ones(rows, dtype=bool))
    kind = object if isinstance(value, str) or type_ == HUGEINT else np.float64 if type_.is_floating else None
    return Values(_filled(value, rows, kind), np.ones(rows, dtype=bool))


def _filled(value: Any, rows: int, dtype: Any) -> Array:
    return np.full(rows, value, dtype=dtype)


def nothing(type_: DataType, rows: int) -> Values:
    """As many NULLs. What stands in their place compares with values of the type."""
    if type_.kind is Kind.STRING:
        return Values(_filled("", rows, object), np.zeros(rows, dtype=bool))
    dtype = np.float64 if type_.is_floating else bool if type_.kind is Kind.BOOLEAN else np.int64
    return Values(np.zeros(rows, dtype=dtype), np.zeros(rows, dtype=bool))


# -- operators that look at NULLs -------------------------------------------------------------------------------------


def _conjunction(args: Sequence[Values]) -> Values:
    """SQL's three truth values: FALSE AND NULL is FALSE."""
    false = np.logical_or.reduce([arg.valid & ~arg.values.astype(bool) for arg in args])
    true = np.logical_and.reduce([arg.valid & arg.values.astype(bool) for arg in args])
    return Values(true, false | true)


def _disjunction(args: Sequence[Values]) -> Values:
    """TRUE OR NULL is TRUE."""
    true = np.logical_or.reduce([arg.valid & arg.values.astype(bool) for arg in args])
    false = np.logical_and.reduce([arg.valid & ~arg.values.astype(bool) for arg in args])
    return Values(true, false | true)


def _is_null(args: Sequence[Values]) -> Values:
    return Values(~args[0].valid, np.ones(len(args[0].valid), dtype=bool))


def _is_same(args: Sequence[Values]) -> Values:
    left, right = args
    equal = _compared("=", left.values, right.values)
    same = np.where(left.valid & right.valid, equal, left.valid == right.valid)
    return Values(same, np.ones(len(same), dtype=bool))


def _is_in(args: Sequence[Values]) -> Values:
    value, *candidates = args
    equal = [Values(_compared("=", value.values, each.values), value.valid & each.valid) for each in candidates]
    return _disjunction(equal)


def _case(args: Sequence[Values]) -> Values:
    *branches, result = args
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        result = _chosen(condition.valid & condition.values.astype(bool), value, result)
    return result


def _chosen(wanted: NDArray[np.bool_], then: Values, otherwise: Values) -> Values:
    values = np.where(wanted, then.values, otherwise.values)
    return Values(values, np.where(wanted, then.valid, otherwise.valid))


def _coalesced(args: Sequence[Values]) -> Values:
    return reduce(lambda known, other: _chosen(known.valid, known, other), args)


def _extreme(comparison: str, args: Sequence[Values]) -> Values:
    def better(known: Values, other: Values) -> Values:
        displaced = other.valid & (~known.valid | _compared(comparison, other.values, known.values))
        return _chosen(displaced, other, known)

    return reduce(better, args)


def _null_if(args: Sequence[Values]) -> Values:
    value, unwanted = args
    equal = value.valid & unwanted.valid & _compared("=", value.values, unwanted.values)
    return Values(value.values, value.valid & ~equal)


_LENIENT: dict[str, Callable[[Sequence[Values]], Values]] = {
    "and": _conjunction,
    "or": _disjunction,
    "is_null": _is_null,
    "<=>": _is_same,
    "in": _is_in,
    "case": _case,
    "coalesce": _coalesced,
    "greatest": lambda args: _extreme(">", args),
    "least": lambda args: _extreme("<", args),
    "nullif": _null_if,
}

# -- comparisons ------------------------------------------------------------------------------------------------------


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


def _floating(call: Call, args: Sequence[Values], valid: NDArray[np.bool_]) -> Values:
    columns = [arg.values for arg in args]
    if call.op in ("/", "%"):
        valid = valid & (columns[1] != 0)
        columns[1] = np.where(columns[1] == 0, 1.0, columns[1])
    if call.op in ("ln", "log10"):
        valid = valid & ~(columns[0] <= 0)
    if call.op == "round":
        type_ = call.args[0].type
        places = columns[1].tolist() if len(columns) > 1 else [0] * len(columns[0])
        rounded = [
            rounded_double(value, place, type_) for value, place in zip(columns[0].tolist(), places, strict=True)
        ]
        return Values(as_float(np.array(rounded, dtype=np.float64), call.type), valid)
    with np.errstate(all="ignore"):
        return Values(as_float(_FLOATING[call.op](*columns), call.type), valid)


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


def _whole(call: Call, arg: Values) -> Values:
    """FLOOR and CEIL of a floating number: a BIGINT, if it fits."""
    whole = np.floor(arg.values) if call.op == "floor" else np.ceil(arg.values)
    return cast_to(Values(whole, arg.valid), DOUBLE, call.type)
