"""HAVING and select lists over arrays give what the oracle gives, value by value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.oracle_expressions import Scope, evaluate
from tests.oracle_values import same, to_float
from tests.runtime.workload_run import values_of
from tests.support.generator_expressions import INEXACT, ColumnText, choose, expression, fill
from tests.support.peers import arrow_table
from weft.algebra import Call, Expression, KeyRef, Output, Select, Stream, Value
from weft.algebra.types import BIGINT
from weft.expressions.array_expressions import can_be_computed, computed
from weft.expressions.physical_values import arrow, physical
from weft.kernels.statistic import Values
from weft.sql import NamesInMemory, SqlError, read, statements
from weft.sql.functions import TRUNCATION_UNITS

COLUMNS: dict[str, tuple[str, str, tuple[Value, ...]]] = {
    "t": ("TINYINT", "integer", (0, 1, -128, 127, None)),
    "i": ("INT", "integer", (0, 7, -3, 2**31 - 1, -(2**31), None)),
    "l": ("BIGINT", "integer", (0, 5, -15, 2**63 - 1, -(2**63), None)),
    "d": ("DECIMAL(6, 2)", "decimal", (Decimal("0.00"), Decimal("12.35"), Decimal("-9999.99"), Decimal("0.05"), None)),
    "e": (
        "DECIMAL(38, 4)",
        "decimal",
        (Decimal("0.0000"), Decimal(10**33), Decimal("-2.5000"), Decimal("7.1250"), None),
    ),
    "x": ("DOUBLE", "double", (0.0, -0.0, 2.5, -1.5, 1e300, 0.125, math.nan, math.inf, -math.inf, None)),
    "f": ("FLOAT", "double", (0.0, 1.5, to_float(0.1), -2.0, math.inf, None)),
    "k": ("STRING", "string", ("", "a", "B", "zoë", None)),
    "b": ("BOOLEAN", "boolean", (True, False, None)),
    "y": ("DATE", "date", (date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31), None)),
    "ts": ("TIMESTAMP", "timestamp", (0, 1_709_214_306_789_012, -1, -86_400_000_001, 4_102_444_799_999_999, None)),
}
TEXTS = [ColumnText(name, family) for name, (_, family, _) in COLUMNS.items()]
FAMILIES = ("boolean", "integer", "decimal", "double", "string", "date", "timestamp", "interval")


@cache
def names() -> NamesInMemory:
    listed = ", ".join(f"{name} {type_}" for name, (type_, _, _) in COLUMNS.items())
    created = read(f"CREATE STREAM s (n BIGINT, {listed}) WATERMARK FOR n AS n USING memory", NamesInMemory())
    assert isinstance(created, statements.Create)
    known = NamesInMemory()
    known.add(created.definition)
    return known


def bound(text: str) -> Expression | None:
    """An expression over grouping keys, one for each column; None if it is refused."""
    keys = ", ".join(COLUMNS)
    try:
        statement = read(
            f"CREATE CONTINUOUS QUERY q AS SELECT {text} AS v FROM s [ROWS 5 SLIDE 5] GROUP BY {keys}", names()
        )
    except SqlError:
        return None
    assert isinstance(statement, statements.Create)
    select = statement.definition.relation
    assert isinstance(select, Select)
    return select.outputs[-1].expression


def over_arrays(found: Expression, rows: Sequence[tuple[Value, ...]]) -> list[Value]:
    """The expression for some rows of keys, as the engine computes it."""
    stream = names().find("s")
    fields = stream.fields[1:]
    table = arrow_table(
        Stream("s", fields, "n", 0, "memory"),
        [dict(zip(COLUMNS, row, strict=True)) for row in rows],
        "UTC",
    )

    def leaf(key: object) -> Values:
        assert isinstance(key, KeyRef)
        column = table.column(key.index)
        plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return physical(plain, key.type)

    column = arrow(computed(found, leaf, len(rows)), found.type)
    shown = Select((), None, (Output("v", found),), BIGINT)
    return [value for (value,) in values_of(pa.table({"v": column}), shown)]


@st.composite
def expressions(draw: DrawFn) -> Expression | None:
    if draw(st.integers(1, 8)) == 1:
        return bound(fill(draw, choose(draw, INEXACT), TEXTS, 1))
    return bound(expression(draw, choose(draw, FAMILIES), TEXTS, draw(st.integers(1, 3))))


ROWS = st.lists(st.tuples(*(st.sampled_from(values) for _, _, values in COLUMNS.values())), min_size=1, max_size=12)


def agree(left: Value, right: Value) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isfinite(left) and math.isfinite(right):
        return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-300)
    return same(left, right)


def check(found: Expression | None, rows: Sequence[tuple[Value, ...]]) -> bool:
    """Whether the expression is one that is computed over arrays; it then has the oracle's values."""
    if found is None or not can_be_computed(found):
        return False
    expected = [evaluate(found, Scope(keys=row)) for row in rows]
    actual = over_arrays(found, rows)
    for row, left, right in zip(rows, expected, actual, strict=True):
        assert agree(left, right), f"{found} over {row}: {right!r}, and not {left!r}"
    return True


def budget(count: int) -> settings:
    return settings(
        max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )


@given(found=expressions(), rows=ROWS)
@budget(400)
def test_expressions_over_arrays_have_the_oracles_values(
    found: Expression | None, rows: list[tuple[Value, ...]]
) -> None:
    check(found, rows)


@pytest.mark.prove
@pytest.mark.timeout(60 * 60)
@given(found=expressions(), rows=ROWS)
@budget(10_000)
def test_ten_thousand_expressions_have_the_oracles_values(
    found: Expression | None, rows: list[tuple[Value, ...]]
) -> None:
    check(found, rows)


#: What dashboards write, and each of the functions once.
ON_DASHBOARDS = (
    "ROUND(x, 2)",
    "ROUND(f, 1)",
    "ROUND(d, 1)",
    "ROUND(e)",
    "ROUND(l, -1)",
    "ROUND(t, -2)",
    "COALESCE(x, 0)",
    "COALESCE(d, 0)",
    "NULLIF(l, 0)",
    "x / NULLIF(l, 0)",
    "l / i",
    "100.0 * l / i",
    "d / e",
    "e * d",
    "e + 1.5",
    "d % 0.7",
    "l DIV i",
    "l % i",
    "-e",
    "-t",
    "ABS(l)",
    "ABS(d)",
    "ABS(x)",
    "GREATEST(x, f, l)",
    "LEAST(k, 'm')",
    "GREATEST(d, e, 3)",
    "FLOOR(x)",
    "CEIL(d)",
    "FLOOR(e)",
    "SIGN(x)",
    "SQRT(x)",
    "EXP(f)",
    "LN(x)",
    "LOG10(x)",
    "POWER(x, f)",
    "CASE WHEN l > 5 THEN 'high' WHEN l < 0 THEN 'low' END",
    "CASE WHEN b THEN d ELSE 1.005 END",
    "IF(x > 1, l, NULL)",
    "k IN ('a', 'B', NULL)",
    "d BETWEEN 0.05 AND 12.35",
    "d <=> 0.05",
    "CAST(x AS BIGINT)",
    "CAST(x AS DECIMAL(10, 3))",
    "CAST(f AS DECIMAL(5, 1))",
    "CAST(e AS INT)",
    "CAST(l AS SMALLINT)",
    "CAST(d AS DOUBLE)",
    "CAST(e AS FLOAT)",
    "CAST(b AS INT)",
    "CAST(x AS BOOLEAN)",
    "CAST(ts AS DATE)",
    "CAST(y AS TIMESTAMP)",
    "ts - INTERVAL 2 SECONDS",
    "ts > TIMESTAMP '2024-01-01 00:00:00'",
    "y = DATE '2024-02-29'",
    "x > 1.5 AND NOT b OR k IS NULL",
    "UPPER(k) || '!' || CAST(d AS STRING)",
    "CONCAT(LOWER(k), CAST(l AS STRING), CAST(b AS STRING), CAST(y AS STRING))",
    "LENGTH(TRIM(k))",
    "SUBSTRING(k, 2, 1)",
    "SUBSTRING(k, -2)",
    "REPLACE(REVERSE(k), 'a', 'x')",
    "STARTSWITH(k, 'z') OR ENDSWITH(k, 'a') OR CONTAINS(k, 'o')",
    "CASE WHEN HOUR(ts) < 12 THEN MINUTE(ts) ELSE SECOND(ts) END",
    "YEAR(ts) * 10000 + MONTH(ts) * 100 + DAY(y)",
    "QUARTER(ts) + DAYOFWEEK(ts)",
    "UNIX_MICROS(ts)",
    *(f"DATE_TRUNC('{unit}', ts)" for unit in TRUNCATION_UNITS),
)


@pytest.mark.parametrize("text", ON_DASHBOARDS)
def test_what_dashboards_write_is_computed_over_arrays(text: str) -> None:
    chance = np.random.default_rng(7)
    rows = [tuple(values[int(chance.integers(len(values)))] for _, _, values in COLUMNS.values()) for _ in range(200)]
    assert check(bound(text), rows), f"{text} is left to Spark"


def test_what_only_spark_evaluates_is_left_to_it() -> None:
    for text in ("CAST(x AS STRING)", "CAST(ts AS STRING)", "CAST(k AS INT)", "k LIKE 'a%'"):
        found = bound(text)
        assert isinstance(found, Call)
        assert not can_be_computed(found)


def test_nothing_is_computed_of_no_rows() -> None:
    for text in ON_DASHBOARDS:
        found = bound(text)
        assert found is not None
        assert over_arrays(found, []) == []
