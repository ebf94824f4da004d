"""Random expressions, as text.

A column belongs to a **family** (integer, double, string, …), and so does every expression. The grammar is a table of
templates per family whose holes are families again: "LENGTH({string})" is an integer. To draw an expression is to draw
a template and fill its holes, with columns and constants where the depth is used up.

Most doubles here are exact in every engine: IEEE's operations on small dyadic numbers. Where engines may differ in the
last bit (EXP, a sum in some order), the result is called inexact, and nothing that could tell the bit apart (a
comparison, a grouping key) is built on it.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from weft.algebra import Kind

FAMILIES = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "integer",
    Kind.SMALLINT: "integer",
    Kind.INT: "integer",
    Kind.BIGINT: "integer",
    Kind.HUGEINT: "integer",
    Kind.DECIMAL: "decimal",
    Kind.FLOAT: "double",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "binary",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.INTERVAL: "interval",
}

#: Families that a select list or GROUP BY may have, and a type to CAST to where two operands must agree.
VISIBLE = {
    "boolean": "BOOLEAN",
    "integer": "BIGINT",
    "decimal": "DECIMAL(12, 2)",
    "double": "DOUBLE",
    "string": "STRING",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}

NUMBERS = ("integer", "decimal", "double")


@dataclass(frozen=True)
class ColumnText:
    """A column as it is written, with its family."""

    text: str
    family: str
    exact: bool = True


CONSTANTS = {
    "boolean": ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
    "integer": ("0", "1", "2", "3", "5", "-1", "-2", "7", "100", "2147483647", "9223372036854775807"),
    "decimal": ("0.5", "1.25", "-2.0", "10.00", "0.001"),
    "double": ("0.5e0", "-1.5e0", "2e0", "0e0", "3e0", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)"),
    "string": ("'a'", "'b'", "'B'", "'ab'", "''", "'a_b'", "' a '", "'1'", "'2.5'", "'it\\'s'", "'é'"),
    "binary": ("CAST('a' AS BINARY)",),
    "date": ("DATE '1970-01-01'", "DATE '2024-02-29'"),
    "timestamp": (
        "TIMESTAMP '1970-01-01 00:00:05'",
        "TIMESTAMP '2024-01-01 00:00:07.5'",
        "TIMESTAMP '1969-12-31 23:59:58'",
    ),
    "interval": ("INTERVAL 2 SECONDS", "INTERVAL '1' MINUTE", "INTERVAL '500 milliseconds'", "INTERVAL 1 DAY"),
}

_CHOICES = (
    "CASE WHEN {{boolean}} THEN {{{f}}} ELSE {{{f}}} END",
    "CASE WHEN {{boolean}} THEN {{{f}}} WHEN {{boolean}} THEN {{{f}}} END",
    "IF({{boolean}}, {{{f}}}, {{{f}}})",
    "COALESCE({{{f}}}, {{{f}}})",
    "GREATEST({{{f}}}, {{{f}}})",
    "LEAST({{{f}}}, {{{f}}}, {{{f}}})",
    "NULLIF({{{f}}}, {{{f}}})",
)

_COMPARISONS = (
    "({{{f}}} = {{{f}}})",
    "({{{f}}} <> {{{f}}})",
    "({{{f}}} < {{{f}}})",
    "({{{f}}} <= {{{f}}})",
    "({{{f}}} > {{{f}}})",
    "({{{f}}} >= {{{f}}})",
    "({{{f}}} <=> {{{f}}})",
    "({{{f}}} IS NULL)",
    "({{{f}}} IS NOT NULL)",
    "({{{f}}} IN ({{{f}}}, {{{f}}}))",
    "({{{f}}} NOT IN ({{{f}}}, {{{f}}}))",
    "({{{f}}} BETWEEN {{{f}}} AND {{{f}}})",
    "({{{f}}} NOT BETWEEN {{{f}}} AND {{{f}}})",
)


def _for(family: str, templates: Sequence[str]) -> tuple[str, ...]:
    return tuple(template.format(f=family) for template in templates)


TEMPLATES: dict[str, tuple[str, ...]] = {
    "boolean": (
        "({boolean} AND {boolean})",
        "({boolean} OR {boolean})",
        "(NOT {boolean})",
        "({boolean} AND {boolean} AND {boolean})",
        "({boolean} IS TRUE)",
        "({string} LIKE 'a%')",
        "({string} LIKE '%b')",
        "({string} LIKE '_')",
        "({string} NOT LIKE 'a\\\\_b')",
        "STARTSWITH({string}, {string})",
        "ENDSWITH({string}, {string})",
        "CONTAINS({string}, {string})",
        "CAST({integer} AS BOOLEAN)",
        *(each for family in (*NUMBERS, "string", "timestamp") for each in _for(family, _COMPARISONS)),
        *_for("date", _COMPARISONS[:8]),
        *_for("interval", _COMPARISONS[:6]),
        "({boolean} = {boolean})",
        "({integer} < {double})",
        "({decimal} >= {integer})",
    ),
    "integer": (
        "({integer} + {integer})",
        "({integer} - {integer})",
        "({integer} * {integer})",
        "({integer} % {integer})",
        "({integer} DIV {integer})",
        "(- {integer})",
        "ABS({integer})",
        "ROUND({integer}, -1)",
        "LENGTH({string})",
        "FLOOR({double})",
        "CEIL({double})",
        "CAST({double} AS INT)",
        "CAST({decimal} AS BIGINT)",
        "CAST({string} AS INT)",
        "CAST({boolean} AS INT)",
        "CAST({integer} AS TINYINT)",
        "YEAR({timestamp})",
        "QUARTER({timestamp})",
        "MONTH({date})",
        "DAY({timestamp})",
        "DAYOFWEEK({timestamp})",
        "HOUR({timestamp})",
        "MINUTE({timestamp})",
        "SECOND({timestamp})",
        "EXTRACT(DAY FROM {timestamp})",
        "UNIX_MICROS({timestamp})",
        *_for("integer", _CHOICES),
    ),
    "decimal": (
        "({decimal} + {decimal})",
        "({decimal} - {decimal})",
        "({decimal} * {decimal})",
        "({decimal} / {decimal})",
        "({decimal} % {decimal})",
        "({decimal} + {integer})",
        "({integer} * {decimal})",
        "(- {decimal})",
        "ABS({decimal})",
        "ROUND({decimal}, 1)",
        "ROUND({decimal})",
        "FLOOR({decimal})",
        "CEIL({decimal})",
        "CAST({integer} AS DECIMAL(10, 2))",
        "CAST({decimal} AS DECIMAL(4, 1))",
        *_for("decimal", _CHOICES),
    ),
    "double": (
        "({double} + {double})",
        "({double} - {double})",
        "({double} * {double})",
        "({double} / {double})",
        "({double} % {double})",
        "({double} * {integer})",
        "({integer} / {integer})",
        "(- {double})",
        "ABS({double})",
        "SIGN({double})",
        "SQRT({double})",
        "CAST({integer} AS DOUBLE)",
        "CAST({decimal} AS DOUBLE)",
        "CAST({string} AS DOUBLE)",
        *_for("double", _CHOICES),
    ),
    "string": (
        "UPPER({string})",
        "LOWER({string})",
        "TRIM({string})",
        "LTRIM({string})",
        "RTRIM({string})",
        "REVERSE({string})",
        "CONCAT({string}, {string})",
        "({string} || {string})",
        "SUBSTRING({string}, 1, 1)",
        "SUBSTRING({string}, 2)",
        "SUBSTRING({string}, -2, 1)",
        "SUBSTRING({string}, {integer}, {integer})",
        "REPLACE({string}, 'a', 'x')",
        "REPLACE({string}, {string})",
        "CAST({integer} AS STRING)",
        "CAST({decimal} AS STRING)",
        "CAST({boolean} AS STRING)",
        "CAST({date} AS STRING)",
        *_for("string", _CHOICES),
    ),
    "date": ("CAST({timestamp} AS DATE)", *_for("date", _CHOICES)),
    "timestamp": (
        "({timestamp} + {interval})",
        "({timestamp} - {interval})",
        "DATE_TRUNC('minute', {timestamp})",
        "DATE_TRUNC('week', {timestamp})",
        "DATE_TRUNC('quarter', {timestamp})",
        "CAST({date} AS TIMESTAMP)",
        "TIMESTAMP_MICROS({integer} % 100000000)",
        *_for("timestamp", _CHOICES),
    ),
    "interval": ("({timestamp} - {timestamp})", "({interval} + {interval})", "({interval} * 2)"),
    "binary": (),
}

#: Doubles whose last bit is nobody's promise.
INEXACT = (
    "EXP({double})",
    "LN({double})",
    "LOG10({double})",
    "POWER({double}, {double})",
    "ROUND({double}, 1)",
    "ROUND({double})",
)


T = TypeVar("T")


def choose(draw: DrawFn, options: Sequence[T]) -> T:
    """One of the options. (Unlike `sampled_from`, this builds no strategy anew for each of the thousands of draws.)"""
    return options[draw(st.integers(0, len(options) - 1))]


def one_in(draw: DrawFn, count: int) -> bool:
    """True once in so many draws; False is the simpler case."""
    return draw(st.integers(1, count)) == count


def expression(draw: DrawFn, family: str, columns: Sequence[ColumnText], depth: int) -> str:
    """An expression of a family over some columns."""
    if depth == 0 or not TEMPLATES[family] or one_in(draw, 3):
        return leaf(draw, family, columns)
    return fill(draw, choose(draw, _telling(TEMPLATES[family], columns)), columns, depth - 1)


def condition(draw: DrawFn, columns: Sequence[ColumnText], depth: int) -> str:
    """A condition, one level deeper than `depth`."""
    return fill(draw, choose(draw, _telling(TEMPLATES["boolean"], columns)), columns, depth)


def _telling(templates: Sequence[str], columns: Sequence[ColumnText]) -> Sequence[str]:
    """The templates that have a hole for one of the columns; all of them if none has."""
    present = {column.family for column in columns if column.exact}
    return [each for each in templates if present & set(_holes(each))] or templates


@cache
def _holes(template: str) -> tuple[str, ...]:
    return tuple(family for _, family, _, _ in string.Formatter().parse(template) if family)


def fill(draw: DrawFn, template: str, columns: Sequence[ColumnText], depth: int) -> str:
    """A template with its holes filled."""
    parts = []
    for text, family, _, _ in string.Formatter().parse(template):
        parts.append(text)
        if family:
            parts.append(expression(draw, family, columns, depth))
    return "".join(parts)


def leaf(draw: DrawFn, family: str, columns: Sequence[ColumnText]) -> str:
    """A column of the family, or a constant."""
    fitting = [column.text for column in columns if column.family == family and column.exact]
    if fitting and not one_in(draw, 6):
        return choose(draw, fitting)
    return choose(draw, CONSTANTS[family])


def family_of(draw: DrawFn, columns: Sequence[ColumnText], among: Sequence[str] = tuple(VISIBLE)) -> str:
    """One of the families, mostly one that the columns have."""
    present = sorted({column.family for column in columns if column.family in among and column.exact})
    return choose(draw, [*present * 5, *among])
