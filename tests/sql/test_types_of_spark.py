"""Expressions over numbers have the types that Spark's analyzer gives them, but for the sums of integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

import pytest

from weft.algebra import Field
from weft.sql import parse
from weft.sql.expression_binder import bind
from weft.sql.scope import Scope, columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "t": "TINYINT",
    "s": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "d5": "DECIMAL(5, 0)",
    "d10": "DECIMAL(10, 2)",
    "d18": "DECIMAL(18, 6)",
    "d20": "DECIMAL(20, 0)",
    "d38": "DECIMAL(38, 0)",
    "e10": "DECIMAL(38, 10)",
    "e18": "DECIMAL(38, 18)",
    "e38": "DECIMAL(38, 38)",
    "f": "FLOAT",
    "x": "DOUBLE",
}
LITERALS = (
    *("0", "1", "100", "-5", "00100", "3000000000", "9223372036854775808", "30000000000000000000"),
    *("0.0", "0.5", "1.5", "-0.001", "100.0", "10000000000.0000000001", "1e2"),
)

#: Expressions in one SELECT for Spark to analyze.
_MOST = 400


def pairs(left: Sequence[str], right: Sequence[str]) -> Iterator[str]:
    for a, b in product(left, right):
        yield from (f"{a} {op} {b}" for op in ("+", "-", "*", "/", "%", "DIV", "<", "="))
        yield from (f"{function}({a}, {b})" for function in ("COALESCE", "GREATEST", "NULLIF"))
        yield from (f"CASE WHEN TRUE THEN {a} ELSE {b} END", f"IF(TRUE, {a}, {b})", f"{a} IN ({b}, 1)")


def single(atoms: Sequence[str]) -> Iterator[str]:
    for a in atoms:
        yield from (f"{function}({a})" for function in ("ABS", "FLOOR", "CEIL", "SIGN", "SQRT", "ROUND"))
        yield from (f"ROUND({a}, {places})" for places in (2, 12, -2, -20))
        yield f"- {a}"


def aggregates(atoms: Sequence[str]) -> list[str]:
    functions = ("SUM", "AVG", "MIN", "MEDIAN", "VAR_SAMP")
    return ["COUNT(*)", *(f"{function}({a})" for a in atoms for function in functions)]


def chains(sums: Sequence[str]) -> Iterator[str]:
    for each in sums:
        yield f"{each} * 100.0 / COUNT(*)"
        yield f"({each} + 1.5) * 2 - COUNT(*) / 3.0"
        yield f"ROUND({each} * 1.0 / COUNT(*), 2)"


def differences(spark: SparkSession, columns: Sequence[str], texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """The expressions whose types are not those of Spark: the text, our type and Spark's."""
    fields = tuple(
        Field(name, bind(parse(f"SELECT CAST(NULL AS {TYPES[name]}) FROM s").selects[0], Scope([], "")).type)
        for name in columns
    )
    found: list[tuple[str, str, str]] = []
    spark.createDataFrame([], ", ".join(f"{name} {TYPES[name]}" for name in columns)).createOrReplaceTempView("s")
    for start in range(0, len(texts), _MOST):
        part = texts[start : start + _MOST]
        schema = spark.sql("SELECT " + ", ".join(f"{text} AS c{n}" for n, text in enumerate(part)) + " FROM s").schema
        for text, field in zip(part, schema, strict=True):
            scope = Scope(columns_of("s", fields), "the select list", aggregates=[])
            ours, theirs = str(bind(parse(f"SELECT {text} FROM s").selects[0], scope).type), field.dataType
            # The sum of integers is a HUGEINT for us and a BIGINT for Spark, and so is what is made of it and integers.
            expected = "bigint" if ours == "HUGEINT" and "SUM(" in text else ours.replace(" ", "").lower()
            if expected != theirs.simpleString():
                found.append((text, ours, theirs.simpleString()))
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "literals"),
    [
        (("t", "l", "d10", "e10", "e38", "f", "x"), ("-5", "9223372036854775808", "1.5")),
        pytest.param(tuple(TYPES), LITERALS, marks=pytest.mark.prove),
    ],
    ids=["some", "all"],
)
def test_types_are_those_of_spark(spark: SparkSession, columns: Sequence[str], literals: Sequence[str]) -> None:
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    atoms = (*columns, *literals)
    sums = ["COUNT(*)", *(f"{function}({name})" for name in columns for function in ("SUM", "AVG"))]
    try:
        of_rows = [*(each for each in pairs(atoms, atoms) if not _divides_doubles(each)), *single(atoms)]
        of_groups = [
            *(
                each
                for each in [*pairs(sums, (*sums, *literals)), *pairs(literals, sums)]
                if not _divides_doubles(each)
            ),
            *single(sums),
            *chains(sums),
            *aggregates(atoms),
        ]
        assert differences(spark, columns, of_rows) == []
        assert differences(spark, columns, of_groups) == []
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(ansi))


def _divides_doubles(text: str) -> bool:
    """Whether it is a quotient by DIV of DOUBLEs, which neither of us takes."""
    doubles = {"f", "x", "1e2", *(f"SUM({name})" for name in "fx"), *(f"AVG({name})" for name in "tsilfx")}
    left, op, right = text.partition(" DIV ")
    return bool(op) and (left in doubles or right in doubles)
