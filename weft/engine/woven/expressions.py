"""HAVING and the select list of grouped queries, over arrays.

Values are physical ones, as `weft/aggregation/functions.py` has them: integers, DATEs, TIMESTAMPs and the unscaled
integers of DECIMALs as 64-bit integers or Python's own, FLOATs and DOUBLEs as 64-bit floats. What cannot be computed is
NULL. What is not in here is left to Spark: a query that uses it is not woven.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.aggregation.statistic import Array, Values
from weft.algebra import AggregateRef, Call, DataType, Expression, KeyRef, Kind, Literal, WindowBound
from weft.algebra.types import BIGINT, DOUBLE, HUGEINT

#: What stands at a leaf of an expression after grouping.
GroupLeaf: TypeAlias = Callable[[KeyRef | AggregateRef | WindowBound], Values]

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_ARITHMETIC = frozenset({"+", "-", "*", "/"})
_LARGEST = {BIGINT: 2**63 - 1, HUGEINT: 10**38 - 1}


def can_be_computed(expression: Expression) -> bool:
    """Whether `computed` knows every operator and type in an expression."""
    if isinstance(expression, KeyRef | AggregateRef | WindowBound):
        return True
    if isinstance(expression, Literal):
        return expression.type.kind not in (Kind.DECIMAL, Kind.DATE, Kind.BINARY)
    return isinstance(expression, Call) and _is_known(expression) and all(map(can_be_computed, expression.args))


def _is_known(call: Call) -> bool:
    types = [arg.type for arg in call.args]
    if call.op in ("and", "or", "not", "is_null"):
        return True
    if call.op in _COMPARISONS:
        return types[0] == types[1] or all(type_.is_integer for type_ in types)
    if call.op in _ARITHMETIC:
        whole = call.type in _LARGEST and call.op != "/" and all(type_.is_integer for type_ in types)
        return whole or (call.type == DOUBLE and types == [DOUBLE, DOUBLE])
    if call.op == "neg":
        return call.type == DOUBLE
    return call.op == "cast" and _widens(types[0], call.type)


def _widens(source: DataType, target: DataType) -> bool:
    """Whether a cast keeps every value, or rounds it to the next DOUBLE."""
    order = [Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.HUGEINT]
    if source.is_integer and target.is_integer:
        return order.index(source.kind) <= order.index(target.kind)
    return source == target or (source.is_numeric and source.kind is not Kind.FLOAT and target == DOUBLE)


def computed(expression: Expression, leaf: GroupLeaf, rows: int) -> Values:
    """The values of an expression for so many rows."""
    if isinstance(expression, Literal):
        return _constant(expression, rows)
    if not isinstance(expression, Call):
        assert isinstance(expression, KeyRef | AggregateRef | WindowBound)
        return leaf(expression)
    args = [computed(arg, leaf, rows) for arg in expression.args]
    if expression.op == "is_null":
        return Values(~args[0].valid, np.ones(rows, dtype=bool))
    if expression.op in ("and", "or", "not"):
        return _logic(expression.op, args)
    valid = np.logical_and.reduce([arg.valid for arg in args])
    if expression.op in _COMPARISONS:
        return Values(_compared(expression.op, args[0].values, args[1].values), valid)
    if expression.op == "neg":
        return Values(-args[0].values, valid)
    if expression.op == "cast":
        return Values(_cast(args[0].values, expression.args[0].type, expression.type), valid)
    return _arithmetic(expression, args, valid)


def _constant(literal: Literal, rows: int) -> Values:
    if literal.value is None:
        return Values(np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=bool))
    dtype = np.dtype(object) if isinstance(literal.value, str) or literal.type == HUGEINT else None
    return Values(np.full(rows, literal.value, dtype=dtype), np.ones(rows, dtype=bool))


def _logic(op: str, args: list[Values]) -> Values:
    """SQL's three truth values: FALSE AND NULL is FALSE, TRUE OR NULL is TRUE."""
    true = [arg.valid & arg.values.astype(bool) for arg in args]
    false = [arg.valid & ~arg.values.astype(bool) for arg in args]
    if op == "not":
        return Values(false[0], args[0].valid)
    if op == "or":
        true, false = false, true
    decided = np.logical_or.reduce(false)
    everywhere = np.logical_and.reduce(true)
    return Values(everywhere if op == "and" else decided, decided | everywhere)


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


def _cast(values: Array, source: DataType, target: DataType) -> Array:
    if target == DOUBLE and source.kind is Kind.DECIMAL:
        return np.array([int(value) / 10**source.scale for value in values.tolist()], dtype=np.float64)
    if target == DOUBLE:
        return values.astype(np.float64)
    return values.astype(object) if target == HUGEINT else values


def _arithmetic(call: Call, args: list[Values], valid: NDArray[np.bool_]) -> Values:
    left, right = (arg.values for arg in args)
    if call.type == DOUBLE:
        with np.errstate(all="ignore"):
            if call.op == "/":
                return Values(np.divide(left, np.where(right == 0, 1.0, right)), valid & (right != 0))
            return Values({"+": np.add, "-": np.subtract, "*": np.multiply}[call.op](left, right), valid)
    left, right = left.astype(object), right.astype(object)
    result = left + right if call.op == "+" else left - right if call.op == "-" else left * right
    limit = _LARGEST[call.type]
    fits = np.array([-limit - (call.type == BIGINT) <= each <= limit for each in result.tolist()], dtype=bool)
    return Values(np.where(fits, result, 0), valid & fits)
