"""Expressions as Spark SQL.

What cannot be computed is NULL (docs/semantics.md), so arithmetic and casts are written with Spark's `try_` functions;
the text means the same whether or not the session is in ANSI mode.

A DECIMAL of Spark has 38 digits, and a sum that once needs more is lost. So numbers of more than 64 bits are summed in
two parts: the unscaled integer is `high · 10¹⁹ + low`, where both parts have at most 19 digits and the sign of the
number. The sum of a part has room for 10¹⁹ rows.
"""

from __future__ import annotations

import re
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
    Stream,
    WindowBound,
)
from weft.algebra.types import BIGINT, HUGEINT, TIMESTAMP

#: A column by position, or a string literal, whose text is left alone.
_COLUMN = re.compile(r"'(?:[^'\\]|\\.)*'|\bc(\d+)\b", re.DOTALL)

#: A sum of numbers of this many digits has room for ten more.
_SAFE_DIGITS = 28

#: Digits of the low part.
_LOW_DIGITS = 19
_UNIT = f"{10**_LOW_DIGITS}BD"


def column(position: int) -> str:
    return f"c{position}"


def with_names(text: str, stream: Stream) -> str:
    """A text of Spark SQL over a stream's rows, with its columns by name instead of by position."""

    def named(found: re.Match[str]) -> str:
        if found[1] is None or int(found[1]) >= len(stream.fields):
            return found[0]
        return stream.fields[int(found[1])].name

    return _COLUMN.sub(named, text)


def needs_parts(type_: DataType) -> bool:
    """Whether a sum of numbers of a type may need more digits on the way than a DECIMAL of Spark has."""
    return type_.kind is Kind.HUGEINT or (type_.kind is Kind.DECIMAL and type_.precision > _SAFE_DIGITS)


def sum_parts(argument: str, type_: DataType) -> str:
    """The two parts of the sum of an argument: an aggregate that gives a struct."""
    low = f"({argument}) % {decimal_constant(10**_LOW_DIGITS, type_.scale)}"
    high = f"(({argument}) - {low}) / {decimal_constant(10**_LOW_DIGITS, type_.scale)}"
    return _parts_struct(
        f"sum(CAST({high} AS DECIMAL(19,0)))",
        f"sum(CAST(({low}) / {decimal_constant(1, type_.scale)} AS DECIMAL(19,0)))",
    )


def merged_parts(parts: str) -> str:
    """The parts of a sum of sums: an aggregate of structs that gives a struct."""
    return _parts_struct(f"sum({parts}.high)", f"sum({parts}.low)")


def sum_of_parts(parts: str, source: DataType, type_: str) -> str:
    """The sum as a DECIMAL type with the scale of the argument; NULL if it does not fit."""
    unscaled = f"try_add(try_multiply(s.high, {_UNIT}), s.low)"
    return _value_of_struct(_settled_parts(parts, "1"), _decimal_value(unscaled, source.scale, type_))


def mean_of_parts(parts: str, count: str, source: DataType, result: DataType, type_: str) -> str:
    """The sum divided, part by part, by the number of rows: a DOUBLE, or a DECIMAL rounded half away from zero."""
    settled = _settled_parts(parts, count)
    if result.is_floating:
        return _value_of_struct(
            settled, f"try_divide(CAST(s.high AS DOUBLE) * 1e{_LOW_DIGITS} + CAST(s.low AS DOUBLE), s.n)"
        )
    more = 10 ** (result.scale - source.scale)
    rest = f"try_multiply((s.high % s.n) * {_UNIT} + s.low, {more}BD)"
    divided = _mapped_structs(settled, n="s.n", high=_whole_quotient("s.high", "s.n"), low=_as_decimal(rest))
    rounding = "CASE WHEN 2BD * abs(s.low % s.n) < s.n THEN 0BD WHEN s.low > 0 THEN 1BD ELSE -1BD END"
    low = f"try_add({_whole_quotient('s.low', 's.n')}, {rounding})"
    unscaled = f"try_add(try_multiply(s.high, {10**_LOW_DIGITS * more}BD), {low})"
    return _value_of_struct(divided, _decimal_value(unscaled, result.scale, type_))


def decimal_constant(unscaled: int, scale: int) -> str:
    """A DECIMAL constant of Spark SQL by its unscaled integer."""
    digits = str(unscaled).rjust(scale + 1, "0")
    return f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}BD" if scale else f"{digits}BD"


def _parts_struct(high: str, low: str) -> str:
    return f"named_struct('high', {_as_decimal(high)}, 'low', {_as_decimal(low)})"


def _as_decimal(text: str) -> str:
    return f"CAST({text} AS DECIMAL(38,0))"


def _whole_quotient(dividend: str, divisor: str) -> str:
    """A quotient without its fraction: Spark divides a whole multiple exactly."""
    return _as_decimal(f"({dividend} - {dividend} % {divisor}) / {divisor}")


def _mapped_structs(structs: str, **fields: str) -> str:
    """Structs made of others, which are called `s`."""
    listed = ", ".join(f"'{name}', {text}" for name, text in fields.items())
    return f"transform({structs}, s -> named_struct({listed}))"


def _value_of_struct(structs: str, text: str) -> str:
    """What is computed from the only struct of an array, which is called `s`."""
    return f"transform({structs}, s -> {text})[0]"


def _settled_parts(parts: str, count: str) -> str:
    """The sum with a low part below 10¹⁹ that has the sign of the high part, and the number of rows, NULL for 0."""
    carried = _mapped_structs(
        f"array(named_struct('p', {parts}, 'n', CAST(nullif({count}, 0) AS DECIMAL(19,0))))",
        n="s.n",
        high=_as_decimal(f"s.p.high + {_whole_quotient('s.p.low', _UNIT)}"),
        low=_as_decimal(f"s.p.low % {_UNIT}"),
    )
    borrowed = "CASE WHEN s.high > 0 AND s.low < 0 THEN 1BD WHEN s.high < 0 AND s.low > 0 THEN -1BD ELSE 0BD END"
    return _mapped_structs(
        carried, n="s.n", high=_as_decimal(f"s.high - {borrowed}"), low=_as_decimal(f"s.low + {borrowed} * {_UNIT}")
    )


def _decimal_value(unscaled: str, scale: int, type_: str) -> str:
    """A DECIMAL by its unscaled integer. Arithmetic of Spark could give up decimals; reading a text does not."""
    return f"try_cast(concat(CAST({unscaled} AS STRING), 'E-{scale}') AS {type_})"


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
    return "`" + name.replace("`", "``") + "`"


def spark_sql(expression: Expression, leaf: Leaf) -> str:
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
        text = f"{int(value)}L" if is_long else f"'{value}'"
    else:
        text = f"{value}" if abs(value) < 2**63 else f"'{value}'"
    return f"CAST({text} AS {spark_type(type_)})"


def _arithmetic(call: Call, args: list[str]) -> str:
    left, right = call.args[0].type, call.args[1].type
    if TIMESTAMP in (left, right):
        return _time_arithmetic(call, args)
    if call.type.is_floating and call.op not in ("/", "%"):
        return f"({args[0]} {call.op} {args[1]})"
    name = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}[call.op]
    if call.type.kind in (Kind.TINYINT, Kind.SMALLINT):
        # Spark's try_ functions check the range of INT, not of the narrow types.
        wide = f"{name}(CAST({args[0]} AS INT), CAST({args[1]} AS INT))"
        return f"try_cast({wide} AS {spark_type(call.type)})"
    value = f"{name}({', '.join(args)})"
    return value if call.type.is_floating else f"try_cast({value} AS {spark_type(call.type)})"


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
    high, low = _whole_quotient(dividend, "1000000BD"), f"{dividend} % 1000000BD"
    rest = f"(({high} % {divisor}) * 1000000BD + {low})"
    steps = _as_decimal(f"{_whole_quotient(high, divisor)} * 1000000BD + {_whole_quotient(rest, divisor)}")
    quotient = _whole_quotient(dividend, divisor)
    return f"CASE WHEN {divisor} = 0 THEN NULL WHEN abs({divisor}) >= 1000000 THEN {quotient} ELSE {steps} END"


_RULES: dict[str, Callable[[Call, list[str]], str]] = {
    **dict.fromkeys(
        ("and", "or", "=", "<", "<=", ">", ">=", "<=>"),
        lambda call, args: "(" + f" {call.op.upper()} ".join(args) + ")",
    ),
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
    if function == "avg" and needs_parts(aggregate.args[0].type):
        parts = sum_parts(args[0], aggregate.args[0].type)
        return mean_of_parts(parts, f"count({args[0]})", aggregate.args[0].type, aggregate.type, type_)
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
    if needs_parts(source):
        return sum_of_parts(sum_parts(arg, source), source, type_)
    if source.is_integer:
        return f"CAST(sum({arg}) AS {type_})"
    if source.is_floating:
        return f"sum(CAST({arg} AS DOUBLE))"
    return f"try_cast(try_sum({arg}) AS {type_})"
