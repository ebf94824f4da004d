"""Types and constants: how they are written, which types meet, and in which type.

The rules are Spark's, without its silent casts between text and numbers.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from functools import reduce
from types import NoneType

from sqlglot import exp

from weft.algebra import types
from weft.algebra.expressions import Call, Expression, Literal, Value
from weft.algebra.types import DATE, DOUBLE, FLOAT, HUGEINT, INT, NULL, TIMESTAMP, DataType, Kind, decimal
from weft.sql import durations, unsupported
from weft.sql.dialect import TYPE_NAMES
from weft.sql.problems import Code
from weft.sql.scope import refuse

_WIDTHS = (types.TINYINT, types.SMALLINT, INT, types.BIGINT, HUGEINT)

#: Digits of each integer type as a DECIMAL. A HUGEINT is the sum of integers, which Spark takes for a BIGINT.
_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20, Kind.HUGEINT: 20}

#: Their sizes. HUGEINT is limited by its digits before its bits.
_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64, Kind.HUGEINT: 128, Kind.INTERVAL: 64}

_MAX_PRECISION = 38
_MIN_DIVISION_SCALE = 6


_NOTHING_YET: DataType | None = NULL


def common_type(*of: DataType) -> DataType | None:
    """The type of a value that is of any of some types, as in CASE and COALESCE; None when there is none."""
    return reduce(_common_of_two, of, _NOTHING_YET)


def _common_of_two(left: DataType | None, right: DataType) -> DataType | None:
    if left is None or right in (left, NULL):
        return left
    if left == NULL:
        return right
    if left.is_numeric and right.is_numeric:
        return _common_numeric(left, right)
    return TIMESTAMP if {left, right} == {DATE, TIMESTAMP} else None


def comparison_type(*of: DataType) -> DataType | None:
    """The type in which values of some types are compared, or None when they cannot be.

    It is their common type, but for a HUGEINT beside a DECIMAL: a sum keeps all the digits that fit.
    """
    return reduce(_compared_of_two, of, _NOTHING_YET)


def _compared_of_two(left: DataType | None, right: DataType) -> DataType | None:
    common = _common_of_two(left, right)
    if common is None or common.kind is not Kind.DECIMAL or HUGEINT not in (left, right):
        return common
    return decimal(_MAX_PRECISION, common.scale)


def _common_numeric(left: DataType, right: DataType) -> DataType:
    if left.is_floating or right.is_floating:
        return FLOAT if left == right == FLOAT else DOUBLE
    if left.is_integer and right.is_integer:
        return _WIDTHS[max(_WIDTHS.index(left), _WIDTHS.index(right))]
    left, right = as_decimal(left), as_decimal(right)
    whole, scale = max(left.precision - left.scale, right.precision - right.scale), max(left.scale, right.scale)
    # Beyond 38 digits Spark gives up decimals, as many as it takes.
    return decimal(min(whole + scale, _MAX_PRECISION), min(scale, _MAX_PRECISION - whole))


def as_decimal(type_: DataType) -> DataType:
    """The DECIMAL type that an exact numeric type has in the arithmetic of DECIMALs."""
    return type_ if type_.kind is Kind.DECIMAL else decimal(_DIGITS[type_.kind], 0)


def bounded_decimal(precision: int, scale: int) -> DataType:
    """DECIMAL(precision, scale) cut to 38 digits the way Spark does it: whole digits first, at least six decimals."""
    if precision <= _MAX_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    kept = max(_MAX_PRECISION - whole, min(scale, _MIN_DIVISION_SCALE))
    return decimal(_MAX_PRECISION, kept)


def arithmetic_type(op: str, left: DataType, right: DataType) -> DataType:
    """The type of `left op right` for two numeric types."""
    if left.is_floating or right.is_floating:
        return FLOAT if left == right == FLOAT and op != "/" else DOUBLE
    if left.is_integer and right.is_integer:
        return DOUBLE if op == "/" else _common_numeric(left, right)
    left, right = as_decimal(left), as_decimal(right)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    scale = max(left.scale, right.scale)
    if op in ("+", "-"):
        return bounded_decimal(whole + scale + 1, scale)
    if op == "*":
        return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)
    if op == "/":
        scale = max(_MIN_DIVISION_SCALE, left.scale + right.precision + 1)
        return bounded_decimal(left.precision - left.scale + right.scale + scale, scale)
    return bounded_decimal(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def cast(expression: Expression, to: DataType) -> Expression:
    """`expression` as a value of type `to`; the expression itself when it already is one."""
    if expression.type == to:
        return expression
    if isinstance(expression, Literal):
        folded = _fold(expression, to)
        if folded is not None:
            return folded
    return Call("cast", (expression,), to)


def _fold(literal: Literal, to: DataType) -> Literal | None:
    """A literal in another type, where that is no question of rounding or text."""
    if literal.value is None:
        return Literal(None, to)
    exact = literal.type.is_integer or literal.type.kind is Kind.DECIMAL
    if exact and to == DOUBLE:
        return Literal(float(literal.value), to)  # type: ignore[arg-type]
    if exact and to.kind is Kind.DECIMAL:
        return _decimal_literal(Decimal(str(literal.value)), to)
    if literal.type.is_integer and to.is_integer and fits(literal.value, to):
        return Literal(literal.value, to)
    return None


def _decimal_literal(value: Decimal, to: DataType) -> Literal | None:
    """The value written with just the digits of the type, or None if they are too few."""
    sign, digits, exponent = value.as_tuple()
    padding = to.scale + int(exponent)
    if padding < 0 or len(digits) + padding > to.precision:
        return None
    return Literal(Decimal((sign, digits + (0,) * padding, -to.scale)), to)


def fits(value: Value, type_: DataType) -> bool:
    """Whether a number is one that the type can hold; true for everything but integers out of range."""
    if type_.kind not in _BITS or not isinstance(value, int):
        return True
    half: int = 2 ** (_BITS[type_.kind] - 1)
    return -half <= value < half


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether CAST(source AS target) is in the language. The value may still turn out NULL."""
    if source in (target, NULL):
        return True
    pair = {source.kind, target.kind}
    if Kind.INTERVAL in pair:
        return False
    if Kind.BINARY in pair:
        return pair == {Kind.BINARY, Kind.STRING}
    if Kind.STRING in pair or (source.is_numeric and target.is_numeric):
        return True
    if Kind.BOOLEAN in pair:
        return source.is_numeric or target.is_numeric
    return pair == {Kind.DATE, Kind.TIMESTAMP}


# -- as they are written ----------------------------------------------------------------------------------------------

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

#: Types by sqlglot's name of them.
_TYPES = {
    **{each.kind.value: each for each in (types.BOOLEAN, *_WIDTHS[:-1], FLOAT, DOUBLE, types.BINARY, DATE)},
    "INT128": HUGEINT,
    **dict.fromkeys(("TEXT", "VARCHAR"), types.STRING),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"), TIMESTAMP),
}


def bind_type(node: exp.DataType) -> DataType:
    """The type that is written."""
    name = str(node.this.value if hasattr(node.this, "value") else node.this).upper()
    if name == "DECIMAL":
        return _decimal_type(node)
    if name not in _TYPES or (node.expressions and name != "VARCHAR"):
        hint = f"types are {TYPE_NAMES}"
        raise refuse(Code.UNKNOWN_TYPE, f"type {unsupported.TYPES.get(name, name)} is not supported", node, hint)
    return _TYPES[name]


def _decimal_type(node: exp.DataType) -> DataType:
    written = [param.name for param in node.expressions] or ["10"]
    sizes = [int(text) for text in written if re.fullmatch(r"\d{1,3}", text, re.ASCII)]
    precision, scale = (*sizes, 0)[:2] if sizes else (0, 0)
    if len(sizes) != len(written) or len(sizes) > 2 or not 1 <= precision <= 38 or not 0 <= scale <= precision:
        hint = "use 1 ≤ precision ≤ 38 and 0 ≤ scale ≤ precision"
        raise refuse(Code.UNKNOWN_TYPE, f"DECIMAL({', '.join(written)}) is not possible", node, hint)
    return decimal(precision, scale)


_NUMBER = re.compile(r"(?P<sign>-?)0*(?P<whole>\d*)(?:\.(?P<fraction>\d*))?(?P<exponent>[eE][+-]?\d+)?", re.ASCII)


def number(text: str, node: exp.Expr) -> Literal:
    """A number as Spark types it: an integer, a DECIMAL if it has a point or is long, a DOUBLE with an exponent."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise refuse(Code.BAD_LITERAL, f"'{text}' is not a number", node, "write for example 15, 1.5 or 1.5e3")
    if match["exponent"]:
        approximate = float(text)
        if math.isinf(approximate):
            raise refuse(Code.BAD_LITERAL, "this is larger than a DOUBLE can be", node, "DOUBLEs end at 1.8e308")
        return Literal(approximate, DOUBLE)
    whole, fraction = match["whole"], match["fraction"]
    if len(whole) + len(fraction or "") > _MAX_PRECISION:
        hint = "write it as a DOUBLE, with an exponent: 1.5e40"
        raise refuse(Code.BAD_LITERAL, f"exact numbers have at most {_MAX_PRECISION} digits", node, hint)
    if fraction is not None:
        type_ = decimal(max(len(whole) + len(fraction), 1), len(fraction))
        return Literal(Decimal(f"{match['sign']}{whole or 0}.{fraction or 0}"), type_)
    value = int(f"{match['sign']}{whole or 0}")
    for type_ in (INT, types.BIGINT):
        if fits(value, type_):
            return Literal(value, type_)
    return Literal(Decimal(value), decimal(len(whole), 0))


def parse_timestamp(text: str) -> int | None:
    """A text as microseconds since the epoch, in UTC unless it says otherwise; None if it is no timestamp."""
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
        moment = moment.astimezone(datetime.UTC) if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def time_of_text(text: str, to: DataType, node: exp.Expr) -> Literal:
    """A text constant where a time is expected."""
    try:
        value = parse_timestamp(text) if to == TIMESTAMP else datetime.date.fromisoformat(text.strip())
    except ValueError:
        value = None
    if value is not None:
        return Literal(value, to)
    example = "2024-01-31 12:00:00" if to == TIMESTAMP else "2024-01-31"
    raise refuse(Code.BAD_LITERAL, f"'{text}' is not a {to}", node, f"write it like '{example}'")


def interval(node: exp.Interval) -> int:
    """The microseconds of an INTERVAL of a fixed length."""
    unit, this = node.args.get("unit"), node.this
    text = this.name if isinstance(this, exp.Literal) else ""
    if not text or not isinstance(unit, (exp.Var, NoneType)):
        raise refuse(Code.BAD_DURATION, "INTERVAL takes a constant", node, "write INTERVAL 5 MINUTES")
    try:
        return durations.microseconds(text.strip(), unit.name) if unit is not None else durations.parse(text)
    except durations.BadDuration as bad:
        raise refuse(Code.BAD_DURATION, str(bad), node, durations.ADVICE) from None
