"""Terms: expressions that are not taken apart.

A term's text is a key: two expressions have the same text only if they are the same expression, types included. What
can be said in several ways without any change of value, not even of the last bit, is said in one: `b + a` is `a + b`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from weft.algebra import AggregateRef, Call, Column, DataType, Expression, KeyRef, Kind, Literal, WindowBound
from weft.algebra.types import INT
from weft.predicates.domains import Domain, Facts, domain_of

Range: TypeAlias = tuple[Fraction, Fraction]

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
        return _constant_text(expression)
    if isinstance(expression, KeyRef):
        return f"#{expression.index}"
    if isinstance(expression, AggregateRef):
        return f"@{expression.index}"
    if isinstance(expression, WindowBound):
        return "#window_end" if expression.end else "#window_start"
    args = [text_of(arg) for arg in expression.args]
    if expression.op in _INFIX:
        return "(" + f" {expression.op.upper()} ".join(args) + ")"
    if expression.op == "cast":
        return f"CAST({args[0]} AS {expression.type})"
    return f"{expression.op.upper()}({', '.join(args)})"


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _constant_text(literal: Literal) -> str:
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
    if isinstance(expression, Column):
        return frozenset({expression})
    if isinstance(expression, Call):
        return frozenset().union(*(columns_of(arg) for arg in expression.args))
    return frozenset()


def sources_of(expression: Expression) -> frozenset[str]:
    """The aliases of the inputs that an expression reads."""
    return frozenset(column.source for column in columns_of(expression))


def with_sources(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The expression over inputs that are called by other names."""
    if isinstance(expression, Column):
        return replace(expression, source=names.get(expression.source, expression.source))
    if isinstance(expression, Call):
        return replace(expression, args=tuple(with_sources(arg, names) for arg in expression.args))
    return expression


_EXACT = frozenset({Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL})


def is_exact(type_: DataType) -> bool:
    """Whether values of the type are exact numbers, or are counted in days or microseconds."""
    return type_.is_integer or type_.kind in _EXACT


class OverTerms:
    """What is made of terms. It has a value where all of them have one."""

    @property
    def terms(self) -> tuple[Term, ...]:
        raise NotImplementedError

    @cached_property
    def columns(self) -> frozenset[Column]:
        """The columns that it reads."""
        return frozenset().union(*(columns_of(term.expression) for term in self.terms))

    @cached_property
    def sources(self) -> frozenset[str]:
        """The aliases of the inputs that it reads."""
        return frozenset(column.source for column in self.columns)


@dataclass(frozen=True, order=True)
class Term(OverTerms):
    """An expression that is not taken apart, known by its text."""

    text: str
    expression: Expression = field(compare=False, repr=False)
    domain: Domain = field(compare=False, repr=False)

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self,)

    @cached_property
    def is_exact(self) -> bool:
        return is_exact(self.expression.type)

    @property
    def range(self) -> Range:
        """The ends of the values of an exact term."""
        low, high = self.domain.low, self.domain.high
        assert isinstance(low, Fraction)
        assert isinstance(high, Fraction)
        return low, high

    @property
    def step(self) -> Fraction:
        """What all values of an exact term are multiples of."""
        assert self.domain.step is not None
        return self.domain.step


def term_of(expression: Expression, facts: Facts | None = None) -> Term:
    term = canonical(expression)
    known = facts.get(term) if facts and isinstance(term, Column) else None
    return Term(text_of(term), term, known or domain_of(term.type))


def renamed_term(term: Term, names: Mapping[str, str]) -> Term:
    """The term with inputs called by other names, each by its own."""
    renamed = canonical(with_sources(term.expression, names))
    return Term(text_of(renamed), renamed, term.domain)
