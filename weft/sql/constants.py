"""Types and constants as they are written: numbers, times, intervals."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from types import NoneType

from sqlglot import exp

from weft.algebra import types
from weft.algebra.expressions import Literal
from weft.algebra.types import BIGINT, DOUBLE, INT, INTERVAL, TIMESTAMP, DataType, decimal
from weft.sql import durations, unsupported
from weft.sql.coercion import fits
from weft.sql.dialect import TYPE_NAMES
from weft.sql.problems import Code
from weft.sql.scope import refuse

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

_TYPES = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INT,
    "BIGINT": types.BIGINT,
    "INT128": types.HUGEINT,
    "FLOAT": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "TEXT": types.STRING,
    "VARCHAR": types.STRING,
    "BINARY": types.BINARY,
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMPTZ": types.TIMESTAMP,
    "TIMESTAMPLTZ": types.TIMESTAMP,
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
_MOST_DIGITS = 38


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
    if len(whole) + len(fraction or "") > _MOST_DIGITS:
        hint = "write it as a DOUBLE, with an exponent: 1.5e40"
        raise refuse(Code.BAD_LITERAL, f"exact numbers have at most {_MOST_DIGITS} digits", node, hint)
    if fraction is not None:
        type_ = decimal(max(len(whole) + len(fraction), 1), len(fraction))
        return Literal(Decimal(f"{match['sign']}{whole or 0}.{fraction or 0}"), type_)
    value = int(f"{match['sign']}{whole or 0}")
    for type_ in (INT, BIGINT):
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
    if to == TIMESTAMP:
        moment = parse_timestamp(text)
        if moment is not None:
            return Literal(moment, TIMESTAMP)
    else:
        try:
            return Literal(datetime.date.fromisoformat(text.strip()), to)
        except ValueError:
            pass
    example = "2024-01-31 12:00:00" if to == TIMESTAMP else "2024-01-31"
    raise refuse(Code.BAD_LITERAL, f"'{text}' is not a {to}", node, f"write it like '{example}'")


def interval(node: exp.Interval) -> Literal:
    """An INTERVAL of a fixed length, in microseconds."""
    unit, this = node.args.get("unit"), node.this
    text = this.name if isinstance(this, exp.Literal) else ""
    if not text or not isinstance(unit, (exp.Var, NoneType)):
        raise refuse(Code.BAD_DURATION, "INTERVAL takes a constant", node, "write INTERVAL 5 MINUTES")
    try:
        ticks = durations.microseconds(text.strip(), unit.name) if unit is not None else durations.parse(text)
    except durations.BadDuration as bad:
        raise refuse(Code.BAD_DURATION, str(bad), node, durations.ADVICE) from None
    return Literal(ticks, INTERVAL)
