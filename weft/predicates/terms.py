"""Terms: expressions that are not taken apart, and the texts they are known by.

A term's text is a key: two expressions have the same text only if they are the same expression, types included. (The
texts that people read are written by `weft.plan`; they leave types out.) What can be said in several ways without any
change of value, not even of the last bit, is said in one: `b + a` is `a + b`, `y > x` is `x < y`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from weft.algebra import AggregateRef, Call, Column, Expression, KeyRef, Kind, Literal, WindowBound
from weft.algebra.types import INT

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INFIX = frozenset({"=", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or", "like", "div"})
_MIRRORED = {">": "<", ">=": "<="}
#: Their arguments can change places: IEEE's sums and products of two numbers are symmetric, whatever the rounding.
_SYMMETRIC = frozenset({"+", "*", "=", "!=", "<=>"})

#: There is no other way to write these than CAST('NaN' AS DOUBLE).
_SPECIAL = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}


def text_of(expression: Expression) -> str:
    """An expression as a key.

    >>> text_of(Call("+", (Column("s", "a", INT), Literal(1, INT)), INT))
    '(s.a + 1)'
    """
    if isinstance(expression, Column):
        name = _quoted(expression.name)
        return f"{_quoted(expression.source)}.{name}" if expression.source else name
    if isinstance(expression, Literal):
        return _constant(expression)
    if isinstance(expression, KeyRef):
        return f"#{expression.index}"
    if isinstance(expression, AggregateRef):
        return f"@{expression.index}"
    if isinstance(expression, WindowBound):
        return "#window_end" if expression.end else "#window_start"
    return _call(expression)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _constant(literal: Literal) -> str:
    value, type_ = literal.value, literal.type
    if value is None:
        return f"CAST(NULL AS {type_})"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if type_.kind is Kind.STRING:
        return quoted_text(str(value))
    return str(value) if type_ == INT else f"{type_} '{value}'"


def _call(call: Call) -> str:
    args = [text_of(arg) for arg in call.args]
    if call.op in _INFIX:
        return "(" + f" {call.op.upper()} ".join(args) + ")"
    if call.op == "cast":
        return f"CAST({args[0]} AS {call.type})"
    return f"{call.op.upper()}({', '.join(args)})"


def canonical(expression: Expression) -> Expression:
    """The expression with the arguments of symmetric operators in the order of their texts.

    Its value is the same for every row. Arguments of different types keep their places: `timestamp + interval` has one
    spelling already.
    """
    if not isinstance(expression, Call):
        return expression
    args = tuple(canonical(arg) for arg in expression.args)
    op = expression.op
    if op == "cast" and expression.type.is_floating and isinstance(args[0], Literal):
        special = _SPECIAL.get(str(args[0].value).strip().lower())
        return replace(expression, args=args) if special is None else Literal(special, expression.type)
    if op in _MIRRORED:
        op, args = _MIRRORED[op], args[::-1]
    elif op in ("and", "or"):
        args = tuple(sorted(dict.fromkeys(args), key=text_of))
        if len(args) == 1:
            return args[0]
    elif op in _SYMMETRIC and args[0].type.kind is args[1].type.kind:
        args = tuple(sorted(args, key=text_of))
    elif op == "in":
        args = (args[0], *sorted(dict.fromkeys(args[1:]), key=text_of))
    return replace(expression, op=op, args=args)


def columns_of(expression: Expression) -> frozenset[Column]:
    """The columns that an expression reads."""
    if isinstance(expression, Column):
        return frozenset({expression})
    if isinstance(expression, Call):
        return frozenset().union(*(columns_of(arg) for arg in expression.args))
    return frozenset()


def sources_of(expression: Expression) -> frozenset[str]:
    """The aliases of the inputs that an expression reads."""
    return frozenset(column.source for column in columns_of(expression))


def with_columns(expression: Expression, meaning: Mapping[Column, Column]) -> Expression:
    """The expression with columns replaced by other columns."""
    if isinstance(expression, Column):
        return meaning.get(expression, expression)
    if isinstance(expression, Call):
        return replace(expression, args=tuple(with_columns(arg, meaning) for arg in expression.args))
    return expression
