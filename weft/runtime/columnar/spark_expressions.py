"""Expressions as Spark SQL.

What cannot be computed is NULL (docs/semantics.md), so arithmetic and casts are written with Spark's `try_` functions;
the text means the same whether or not the session is in ANSI mode.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import TypeAlias

from weft.algebra import (
    Aggregate,
    AggregateRef,
    Call,
    Column,
    DataType,
    Expression,
    KeyRef,
    Kind,
    Literal,
    WindowBound,
)
from weft.algebra.types import BIGINT, HUGEINT, TIMESTAMP
from weft.runtime.columnar import exact_sums

#: A leaf of an expression as Spark SQL: the name of the column that holds it.
Leaf: TypeAlias = Callable[[Column | KeyRef | AggregateRef | WindowBound], str]

#: Whole numbers below this fit into a long with all their digits.
_LONG_DECIMAL = 10**18

#: Operands up to this length may be written several times.
_SHORT_TEXT = 100

_SPARK_TYPES = {Kind.HUGEINT: "DECIMAL(38,0)", Kind.NULL: "VOID", Kind.INTERVAL: "BIGINT"}


def spark_type(type_: DataType) -> str:
    """The Spark type that holds a value. An INTERVAL is held as its number of microseconds."""
    if type_.kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision},{type_.scale})"
    return _SPARK_TYPES.get(type_.kind) or str(type_.kind.value)


def quoted(name: str) -> str:
    """A column name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def spark_sql(expression: Expression, leaf: Leaf) -> str:
    """An expression as Spark SQL text."""
    if isinstance(expression, Literal):
        return _literal(expression)
    if isinstance(expression, Call):
        args = [spark_sql(arg, leaf) for arg in expression.args]
        rule = _RULES.get(expression.op)
        return rule(expression, args) if rule else f"{expression.op}({', '.join(args)})"
    return leaf(expression)


def _literal(literal: Literal) -> str:
    value, type_ = literal.value, literal.type
    if value is None:
        return f"CAST(NULL AS {spark_type(type_)})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if type_ == TIMESTAMP:
        return f"timestamp_micros({value}L)"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS {spark_type(type_)})"
    if isinstance(value, Decimal):
        # Spark compares DECIMALs as two longs if both were made of longs, and otherwise as two `BigDecimal`s.
        is_long = value == value.to_integral_value() and abs(value) < _LONG_DECIMAL
        return f"CAST({int(value)}L AS {spark_type(type_)})" if is_long else f"CAST('{value}' AS {spark_type(type_)})"
    return f"CAST({value} AS {spark_type(type_)})" if abs(value) < 2**63 else f"CAST('{value}' AS {spark_type(type_)})"


def _infix(call: Call, args: list[str]) -> str:
    return "(" + f" {call.op.upper()} ".join(args) + ")"


def _arithmetic(call: Call, args: list[str]) -> str:
    left, right = call.args[0].type, call.args[1].type
    if TIMESTAMP in (left, right):
        return _time_arithmetic(call, args)
    if call.type.is_floating:
        return _floating(call, args)
    name = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}[call.op]
    if call.type.kind in (Kind.TINYINT, Kind.SMALLINT):
        # Spark's try_ functions check the range of INT, not of the narrow types.
        wide = f"{name}(CAST({args[0]} AS INT), CAST({args[1]} AS INT))"
        return f"try_cast({wide} AS {spark_type(call.type)})"
    return f"try_cast({name}({', '.join(args)}) AS {spark_type(call.type)})"


def _floating(call: Call, args: list[str]) -> str:
    if call.op == "/":
        return f"try_divide({', '.join(args)})"
    if call.op == "%":
        return f"try_mod({', '.join(args)})"
    return f"({args[0]} {call.op} {args[1]})"


def _time_arithmetic(call: Call, args: list[str]) -> str:
    micros = [
        f"unix_micros({arg})" if each.type == TIMESTAMP else arg for each, arg in zip(call.args, args, strict=True)
    ]
    name = "try_add" if call.op == "+" else "try_subtract"
    ticks = f"{name}({micros[0]}, {micros[1]})"
    return f"timestamp_micros({ticks})" if call.type == TIMESTAMP else ticks


def _negative(call: Call, args: list[str]) -> str:
    if call.type.is_floating or call.type.kind in (Kind.DECIMAL, Kind.HUGEINT):
        return f"(- {args[0]})"
    return f"try_subtract(CAST(0 AS {spark_type(call.type)}), {args[0]})"


def _cast(call: Call, args: list[str]) -> str:
    source, target = call.args[0].type, call.type
    if source.is_floating and (target.is_integer or target.kind is Kind.BOOLEAN):
        return f"try_cast({args[0]} AS {spark_type(target)})"
    if TIMESTAMP in (source, target) and (source.is_numeric or target.is_numeric):
        raise AssertionError("the binder refuses casts between numbers and timestamps")
    return f"try_cast({args[0]} AS {spark_type(target)})"


def _case(call: Call, args: list[str]) -> str:
    branches = " ".join(f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
    return f"(CASE {branches} ELSE {args[-1]} END)"


def _whole(call: Call, args: list[str]) -> str:
    (value,) = args
    if not call.args[0].type.is_floating:
        return f"CAST({call.op}({value}) AS {spark_type(call.type)})"
    if len(value) <= _SHORT_TEXT:
        return f"({_whole_double(call.op, value)})"
    # The operand is named, because its text would double with every call around it.
    return f"transform(array({value}), d -> {_whole_double(call.op, 'd')})[0]"


def _whole_double(op: str, value: str) -> str:
    """FLOOR or CEIL where it is a BIGINT; Spark's own stops at the ends of BIGINT."""
    fits = f"{value} >= -9.223372036854775808E18D AND {value} < 9.223372036854775808E18D"
    return f"CASE WHEN {fits} THEN {op}({value}) END"


def _round(call: Call, args: list[str]) -> str:
    value, *places = args
    if call.args[0].type.is_integer:
        # Rounding to tens can leave the type: 127 becomes 130.
        value = f"CAST({value} AS DECIMAL(38,0))"
    return f"try_cast(round({', '.join([value, *places])}) AS {spark_type(call.type)})"


def _finite(call: Call, args: list[str]) -> str:
    return f"{call.op}({', '.join(args)})"


def _abs(call: Call, args: list[str]) -> str:
    if call.type.is_floating or call.type.kind in (Kind.DECIMAL, Kind.HUGEINT):
        return f"abs({args[0]})"
    # The least integer has no opposite in its type.
    return f"try_cast(abs(CAST({args[0]} AS DECIMAL(20,0))) AS {spark_type(call.type)})"


def _div(call: Call, args: list[str]) -> str:
    divisor = call.args[1]
    if call.args[0].type == BIGINT and isinstance(divisor, Literal) and divisor.value not in (None, 0, -1):
        return f"({args[0]} div {args[1]})"
    if call.type == HUGEINT:
        quotient = _wide_quotient("d.x", "d.y")
    elif call.args[0].type == BIGINT:
        # The one quotient that does not fit: the least BIGINT divided by −1.
        fails = "d.y = 0 OR (d.y = -1 AND d.x = -9223372036854775808L)"
        quotient = f"CASE WHEN {fails} THEN NULL ELSE d.x div d.y END"
    else:
        # Spark's own wraps around where the quotient does not fit.
        fits = "try_divide(d.x, d.y) > -9223372036854775809BD AND try_divide(d.x, d.y) < 9223372036854775808BD"
        quotient = f"CASE WHEN {fits} THEN d.x div d.y END"
    # Operands are named, because their texts would double with every quotient of quotients.
    return f"transform(array(named_struct('x', {args[0]}, 'y', {args[1]})), d -> {quotient})[0]"


def _wide_quotient(dividend: str, divisor: str) -> str:
    """A quotient of integers of 38 digits. Spark's division gives 32 of them, so small divisors take two steps."""
    high, low = _exact_quotient(dividend, "1000000BD"), f"{dividend} % 1000000BD"
    rest = f"(({high} % {divisor}) * 1000000BD + {low})"
    steps = f"{_exact_quotient(high, divisor)} * 1000000BD + {_exact_quotient(rest, divisor)}"
    return (
        f"CASE WHEN {divisor} = 0 THEN NULL WHEN abs({divisor}) >= 1000000 THEN {_exact_quotient(dividend, divisor)} "
        f"ELSE CAST({steps} AS DECIMAL(38,0)) END"
    )


def _exact_quotient(dividend: str, divisor: str) -> str:
    return f"CAST(({dividend} - {dividend} % {divisor}) / {divisor} AS DECIMAL(38,0))"


_RULES: dict[str, Callable[[Call, list[str]], str]] = {
    **dict.fromkeys(("and", "or", "=", "<", "<=", ">", ">=", "<=>"), _infix),
    **dict.fromkeys(("+", "-", "*", "/", "%"), _arithmetic),
    "!=": lambda call, args: f"({args[0]} <> {args[1]})",
    "not": lambda call, args: f"(NOT {args[0]})",
    "neg": _negative,
    "is_null": lambda call, args: f"({args[0]} IS NULL)",
    "in": lambda call, args: f"({args[0]} IN ({', '.join(args[1:])}))",
    "like": lambda call, args: f"({args[0]} LIKE {args[1]})",
    "cast": _cast,
    "case": _case,
    "div": _div,
    "abs": _abs,
    "floor": _whole,
    "ceil": _whole,
    "round": _round,
    "date_trunc": lambda call, args: f"date_trunc({args[0]}, {args[1]})",
    "timestamp_micros": lambda call, args: f"timestamp_micros(try_cast({args[0]} AS BIGINT))",
}


def aggregate_sql(aggregate: Aggregate, leaf: Leaf) -> str:
    """An aggregate over rows as Spark SQL; every form is deterministic, whatever the order of the rows."""
    args = [spark_sql(arg, leaf) for arg in aggregate.args]
    function, type_ = aggregate.function, spark_type(aggregate.type)
    if function == "count":
        inner = args[0] if args else "1"
        return f"count({'DISTINCT ' * aggregate.distinct}{inner})"
    if function == "sum":
        return _sum(aggregate, args[0], type_)
    if function in ("min_by", "max_by"):
        pair = f"named_struct('y', {args[1]}, 'x', {args[0]})"
        return f"{function[:3]}(CASE WHEN {args[1]} IS NOT NULL THEN {pair} END).x"
    if function == "percentile":
        return f"percentile({args[0]}, {aggregate.args[1].value!r}D)"  # type: ignore[union-attr]
    if function == "avg" and exact_sums.needs_parts(aggregate.args[0].type):
        parts = exact_sums.summed(args[0], aggregate.args[0].type)
        return exact_sums.mean(parts, f"count({args[0]})", aggregate.args[0].type, aggregate.type, type_)
    if function == "avg" and aggregate.type.kind is Kind.DECIMAL:
        return f"try_cast(try_avg({args[0]}) AS {type_})"
    if function == "avg" and aggregate.args[0].type == BIGINT:
        # Spark adds DOUBLEs, and two large numbers of opposite signs would leave nothing of the small ones.
        return f"try_divide(CAST({exact_sum(aggregate.args[0], args[0])} AS DOUBLE), count({args[0]}))"
    return f"{function}({', '.join(args)})"


def exact_sum(argument: Expression, text: str) -> str:
    """The sum of integers, in as many digits as it takes."""
    return _sum(Aggregate("sum", (argument,), HUGEINT), text, spark_type(HUGEINT))


def _sum(aggregate: Aggregate, arg: str, type_: str) -> str:
    source = aggregate.args[0].type
    if source == BIGINT:
        # Two halves that cannot overflow, put together exactly: several times faster than adding DECIMALs.
        high = f"CAST(sum(shiftright({arg}, 32)) AS {type_}) * 4294967296BD"
        return f"CAST({high} + CAST(sum({arg} & 4294967295L) AS DECIMAL(20,0)) AS {type_})"
    if exact_sums.needs_parts(source):
        return exact_sums.total(exact_sums.summed(arg, source), source, type_)
    if source.is_integer:
        return f"CAST(sum({arg}) AS {type_})"
    if source.is_floating:
        return f"sum(CAST({arg} AS DOUBLE))"
    return f"try_cast(try_sum({arg}) AS {type_})"
