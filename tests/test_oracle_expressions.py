"""The oracle's expressions and aggregates against values worked out by hand."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.oracle_script import Script
from tests.oracle_values import order_key, to_float
from weft.algebra import Value

NAN, INF = math.nan, math.inf
#: 2024-02-29 13:45:06.789, a Thursday.
LEAP_DAY = 1_709_214_306_789_000

SCHEMA = """
CREATE STREAM s (n BIGINT, b BOOLEAN, t TINYINT, i INT, l BIGINT, d DECIMAL(6, 2), e DECIMAL(38, 0), f FLOAT, x DOUBLE,
                 k STRING, y DATE, ts TIMESTAMP, nul INT) WATERMARK FOR n AS n USING memory
"""
ROW = (
    1,
    True,
    127,
    7,
    9_223_372_036_854_775_807,
    Decimal("12.34"),
    Decimal(10) ** 37 * 9,
    to_float(0.1),
    2.5,
    "abc",
    date(2024, 2, 29),
    LEAP_DAY,
    None,
)


def value_of(expression: str) -> Value:
    """The expression over the one row above."""
    script = Script(SCHEMA)
    script.run(f"CREATE CONTINUOUS QUERY q AS SELECT {expression} AS v FROM s")
    [(value,)] = script.cycle(s=[ROW])["q"]
    return value


LOGIC = (
    ("nul = 1", None),
    ("nul = nul", None),
    ("nul <=> nul", True),
    ("nul <=> 1", False),
    ("nul IS NULL", True),
    ("b AND nul = 1", None),
    ("NOT b AND nul = 1", False),
    ("b OR nul = 1", True),
    ("NOT b OR nul = 1", None),
    ("NOT (nul = 1)", None),
    ("1 IN (2, nul)", None),
    ("1 IN (1, nul)", True),
    ("1 IN (2, 3)", False),
    ("1 NOT IN (2, nul)", None),
    ("nul IN (1)", None),
    ("i BETWEEN 7 AND 8", True),
    ("i NOT BETWEEN 7 AND nul", None),
    ("(nul = 1) IS TRUE", False),
    ("CASE WHEN nul = 1 THEN 'x' WHEN b THEN 'y' ELSE 'z' END", "y"),
    ("CASE i WHEN 6 THEN 'x' END", None),
    ("IF(nul = 1, 'x', 'z')", "z"),
    ("COALESCE(nul, i, 1)", 7),
    ("NULLIF(i, 7)", None),
    ("NULLIF(i, nul)", 7),
    ("GREATEST(nul, 3, i)", 7),
    ("LEAST(nul, 3, i)", 3),
    ("GREATEST(nul, nul)", None),
)


ORDER = (
    ("CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)", True),
    ("CAST('NaN' AS DOUBLE) > CAST('Infinity' AS DOUBLE)", True),
    ("CAST('-Infinity' AS DOUBLE) < -1e308", True),
    ("-0e0 = 0e0", True),
    ("GREATEST(CAST('NaN' AS DOUBLE), x)", NAN),
    ("LEAST(CAST('NaN' AS DOUBLE), x)", 2.5),
    ("'B' < 'a'", True),
    ("'é' > 'z'", True),
)


ARITHMETIC = (
    ("i + 1", 8),
    ("t + t", None),  # 254 is no TINYINT
    ("i * l", None),
    ("l + 1", None),
    ("- (-9223372036854775807 - 1)", None),
    ("ABS(CAST(-128 AS TINYINT))", None),
    ("i / 2", 3.5),
    ("i / 0", None),
    ("x / 0e0", None),
    ("i % 0", None),
    ("-7 % 3", -1),
    ("7 % -3", 1),
    ("-7 DIV 2", -3),
    ("i DIV 0", None),
    ("(-9223372036854775807 - 1) DIV -1", None),
    ("x % 0e0", None),
    ("-7.5e0 % 2e0", -1.5),
    ("CAST('Infinity' AS DOUBLE) % 2e0", NAN),
    ("x % CAST('Infinity' AS DOUBLE)", 2.5),
    ("1e308 * 1e1", INF),
    ("CAST('Infinity' AS DOUBLE) - CAST('Infinity' AS DOUBLE)", NAN),
    ("f + f", 0.20000000298023224),  # the FLOAT that is nearest to 0.2
    ("nul + 1", None),
)


DECIMALS = (
    ("d + 0.005", Decimal("12.345")),
    ("d - 13", Decimal("-0.66")),
    ("d * 0.5", Decimal("6.170")),
    ("d * d", Decimal("152.2756")),
    ("d / 3", Decimal("4.113333")),  # a constant 3 is a DECIMAL(1, 0), as in Spark: scale max(6, 2 + 1 + 1) = 6
    ("-d / 3.00", Decimal("-4.113333")),  # DECIMAL(3, 2): scale max(6, 2 + 3 + 1) = 6
    ("d / 0.00", None),
    ("d % 5", Decimal("2.34")),
    ("-d % 5", Decimal("-2.34")),
    ("d % 0", None),
    ("- d", Decimal("-12.34")),
    ("ABS(-d)", Decimal("12.34")),
    ("e + e", None),
    ("e - 1", Decimal(9 * 10**37 - 1)),
    ("CAST(2.345 AS DECIMAL(4, 2))", Decimal("2.35")),
    ("CAST(-2.345 AS DECIMAL(4, 2))", Decimal("-2.35")),
    ("CAST(d AS DECIMAL(3, 2))", None),
    ("ROUND(d, 1)", Decimal("12.3")),
    ("ROUND(d)", Decimal("12")),
    ("ROUND(2.5)", Decimal("3")),
    ("ROUND(-2.5)", Decimal("-3")),
    ("FLOOR(-d)", Decimal("-13")),
    ("CEIL(d)", Decimal("13")),
)


NUMBERS = (
    ("ROUND(2.5e0)", 3.0),
    ("ROUND(-2.5e0)", -3.0),
    ("ROUND(2.675e0, 2)", 2.68),  # from the digits that are written, not from the bits
    ("ROUND(CAST('NaN' AS DOUBLE))", NAN),
    ("ROUND(i)", 7),
    ("ROUND(15, -1)", 20),
    ("ROUND(14, -1)", 10),
    ("ROUND(t, -1)", None),  # 130 is no TINYINT
    ("FLOOR(-2.5e0)", -3),
    ("CEIL(-2.5e0)", -2),
    ("FLOOR(CAST('NaN' AS DOUBLE))", None),
    ("FLOOR(1e30)", None),
    ("FLOOR(t)", 127),
    ("SIGN(-3)", -1.0),
    ("SIGN(0)", 0.0),
    ("SQRT(4)", 2.0),
    ("SQRT(-1)", NAN),
    ("LN(0)", None),
    ("LN(-1)", None),
    ("LN(1)", 0.0),
    ("LOG10(1000)", 3.0),
    ("EXP(0)", 1.0),
    ("EXP(1000)", INF),
    ("POWER(2, 10)", 1024.0),
    ("POWER(0, -1)", INF),
    ("POWER(-8, 0.5)", NAN),
    ("POWER(1, CAST('NaN' AS DOUBLE))", NAN),
    ("POWER(-10, 1001)", -INF),
)


TEXT = (
    ("UPPER(k)", "ABC"),
    ("LENGTH('é')", 1),
    ("TRIM('  a b ')", "a b"),
    ("LTRIM('  a ')", "a "),
    ("RTRIM('  a ')", "  a"),
    ("REVERSE(k)", "cba"),
    ("CONCAT(k, 'd', CAST(i AS STRING))", "abcd7"),
    ("CONCAT(k, CAST(nul AS STRING))", None),
    ("k || 'd'", "abcd"),
    ("REPLACE('banana', 'an')", "ba"),
    ("REPLACE('banana', 'an', 'o')", "booa"),
    ("REPLACE(k, '', 'x')", "abc"),
    ("SUBSTRING(k, 2)", "bc"),
    ("SUBSTRING(k, 2, 1)", "b"),
    ("SUBSTRING(k, 0, 2)", "ab"),
    ("SUBSTRING(k, -2)", "bc"),
    ("SUBSTRING(k, -2, 1)", "b"),
    ("SUBSTRING(k, -5, 3)", "a"),  # two of the three characters lie before the text
    ("SUBSTRING(k, 5)", ""),
    ("SUBSTRING(k, 2, -1)", ""),
    ("STARTSWITH(k, 'ab')", True),
    ("ENDSWITH(k, '')", True),
    ("CONTAINS(k, 'ac')", False),
    ("k LIKE 'a%'", True),
    ("k LIKE 'a_'", False),
    ("k LIKE '___'", True),
    ("'a_c' LIKE 'a\\\\_c'", True),
    ("k LIKE 'a\\\\_c'", False),
    ("'50%' LIKE '%\\\\%'", True),
    ("'a.c' LIKE 'a.c'", True),
    ("k LIKE 'a.c'", False),
)


TIME = (
    ("YEAR(ts)", 2024),
    ("QUARTER(ts)", 1),
    ("MONTH(y)", 2),
    ("DAY(ts)", 29),
    ("DAYOFWEEK(ts)", 5),
    ("DAYOFWEEK(TIMESTAMP '2024-03-03')", 1),
    ("HOUR(ts)", 13),
    ("MINUTE(ts)", 45),
    ("EXTRACT(SECOND FROM ts)", 6),
    ("SECOND(TIMESTAMP '1969-12-31 23:59:58.5')", 58),
    ("DATE_TRUNC('week', TIMESTAMP '1970-01-01')", -3 * 86_400_000_000),  # Monday, 29 December
    ("DATE_TRUNC('quarter', TIMESTAMP '1970-06-15')", 90 * 86_400_000_000),  # 1 April
    ("DATE_TRUNC('hour', ts)", LEAP_DAY - (45 * 60 + 6) * 1_000_000 - 789_000),
    ("DATE_TRUNC('millisecond', TIMESTAMP '1970-01-01 00:00:00.001999')", 1_000),
    ("UNIX_MICROS(ts)", LEAP_DAY),
    ("TIMESTAMP_MICROS(5)", 5),
    ("ts + INTERVAL 1 DAY", LEAP_DAY + 86_400_000_000),
    ("ts - INTERVAL '1 second'", LEAP_DAY - 1_000_000),
    ("TIMESTAMP_MICROS(l) + INTERVAL 1 DAY", None),
    ("(ts - TIMESTAMP '2024-02-29') > INTERVAL 13 HOURS", True),
    ("CAST(ts AS DATE) = y", True),
    ("CAST(TIMESTAMP '1969-12-31 23:59:58' AS DATE)", date(1969, 12, 31)),
    ("CAST(y AS TIMESTAMP)", 1_709_164_800_000_000),
    ("YEAR(TIMESTAMP_MICROS(l))", 294_247),
)


CASTS = (
    ("CAST(' 12 ' AS INT)", 12),
    ("CAST('1.5' AS INT)", None),
    ("CAST('x' AS INT)", None),
    ("CAST('300' AS TINYINT)", None),
    ("CAST('1.5' AS DOUBLE)", 1.5),
    ("CAST('-inf' AS DOUBLE)", -INF),
    ("CAST('' AS DOUBLE)", None),
    ("CAST('1.005' AS DECIMAL(4, 2))", Decimal("1.01")),
    ("CAST('yes' AS BOOLEAN)", True),
    ("CAST('2' AS BOOLEAN)", None),
    ("CAST(SUBSTRING('2024-2-9x', 1, 8) AS DATE)", date(2024, 2, 9)),
    ("CAST(CONCAT('2024-02-3', '0') AS DATE)", None),
    ("CAST(CONCAT('1970-01-01 00:00:0', '1.5') AS TIMESTAMP)", 1_500_000),
    ("CAST(2.9e0 AS INT)", 2),
    ("CAST(-2.9e0 AS INT)", -2),
    ("CAST(3e9 AS INT)", None),
    ("CAST(CAST('NaN' AS DOUBLE) AS INT)", None),
    ("CAST(d AS INT)", 12),
    ("CAST(0.125e0 AS DECIMAL(4, 2))", Decimal("0.13")),
    ("CAST(CAST('Infinity' AS DOUBLE) AS DECIMAL(4, 2))", None),
    ("CAST(b AS INT)", 1),
    ("CAST(0.5e0 AS BOOLEAN)", True),
    ("CAST(l AS INT)", None),
    ("CAST(d AS STRING)", "12.34"),
    ("CAST(CAST(1 AS DECIMAL(4, 2)) AS STRING)", "1.00"),
    ("CAST(b AS STRING)", "true"),
    ("CAST(x AS STRING)", "2.5"),
    ("CAST(1e7 AS STRING)", "1.0E7"),
    ("CAST(1.5e-4 AS STRING)", "1.5E-4"),
    ("CAST(100e0 AS STRING)", "100.0"),
    ("CAST(f AS STRING)", "0.1"),
    ("CAST(CAST('NaN' AS DOUBLE) AS STRING)", "NaN"),
    ("CAST(y AS STRING)", "2024-02-29"),
    ("CAST(ts AS STRING)", "2024-02-29 13:45:06.789"),
    ("CAST(TIMESTAMP '1970-01-01' AS STRING)", "1970-01-01 00:00:00"),
)


EXAMPLES = (*LOGIC, *ORDER, *ARITHMETIC, *DECIMALS, *NUMBERS, *TEXT, *TIME, *CASTS)


@pytest.mark.parametrize(("expression", "expected"), EXAMPLES)
def test_expression(expression: str, expected: Any) -> None:
    value = value_of(expression)
    assert type(value) is type(expected)
    assert order_key(value) == order_key(expected)


AGGREGATED = """
CREATE STREAM s (n BIGINT, l BIGINT, d DECIMAL(6, 2), x DOUBLE, k STRING) WATERMARK FOR n AS n USING memory
"""
ROWS = (
    (1, 9_223_372_036_854_775_807, Decimal("1.00"), 1.0, "b"),
    (2, 9_223_372_036_854_775_807, Decimal("1.00"), 4.0, None),
    (3, None, None, None, "a"),
    (4, 2, Decimal("0.01"), 4.0, "a"),
)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("COUNT(*)", 4),
        ("COUNT(l)", 3),
        ("COUNT(DISTINCT l)", 2),
        ("APPROX_COUNT_DISTINCT(k)", 2),
        ("SUM(l)", 18_446_744_073_709_551_616),  # 2 · (2⁶³ − 1) + 2
        ("SUM(d)", Decimal("2.01")),
        ("SUM(x)", 9.0),
        ("AVG(x)", 3.0),
        ("AVG(d)", Decimal("0.670000")),  # DECIMAL(10, 6)
        ("MIN(x)", 1.0),
        ("MAX(k)", "b"),
        ("VAR_POP(x)", 2.0),  # deviations −2, 1, 1: six thirds
        ("VAR_SAMP(x)", 3.0),
        ("STDDEV_POP(x)", math.sqrt(2)),
        ("STDDEV_SAMP(x)", math.sqrt(3)),
        ("MIN_BY(k, x)", "b"),
        ("MAX_BY(k, x)", "a"),  # 4.0 twice, with NULL and with a
        ("MAX_BY(n, k)", 1),
        ("MIN_BY(n, k)", 3),  # a twice: the smaller of 3 and 4
        ("MEDIAN(x)", 4.0),
        ("PERCENTILE(x, 0.25)", 2.5),  # position 0.5 between 1 and 4
        ("SUM(CAST(NULL AS INT))", None),
        ("MIN_BY(n, CAST(NULL AS INT))", None),
    ],
)
def test_aggregates(aggregate: str, expected: Any) -> None:
    script = Script(AGGREGATED)
    script.run(f"CREATE CONTINUOUS QUERY q AS SELECT {aggregate} AS v FROM s [RANGE UNBOUNDED]")
    [(value,)] = script.cycle(s=ROWS)["q"]
    assert type(value) is type(expected)
    assert value == expected


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("SUM(x)", NAN),
        ("MAX(x)", NAN),
        ("MIN(x)", -INF),
        ("AVG(x)", NAN),
        ("VAR_POP(x)", NAN),
        ("COUNT(DISTINCT x)", 3),
    ],
)
def test_aggregates_of_nans_and_infinities(aggregate: str, expected: Any) -> None:
    script = Script(AGGREGATED)
    script.run(f"CREATE CONTINUOUS QUERY q AS SELECT {aggregate} AS v FROM s [RANGE UNBOUNDED]")
    rows = [(n, None, None, x, None) for n, x in enumerate((NAN, INF, -INF, NAN))]
    [(value,)] = script.cycle(s=rows)["q"]
    assert order_key(value) == order_key(expected)


@pytest.mark.parametrize("aggregate", ["VAR_SAMP(x)", "STDDEV_SAMP(x)"])
def test_a_sample_of_one_has_no_variance(aggregate: str) -> None:
    script = Script(AGGREGATED)
    script.run(f"CREATE CONTINUOUS QUERY q AS SELECT {aggregate} AS v FROM s")
    assert script.cycle(s=ROWS[:1])["q"] == [(None,)]


def test_nan_leaves_the_answer_with_its_window() -> None:
    script = Script(AGGREGATED)
    script.run("CREATE CONTINUOUS QUERY q AS SELECT SUM(x) AS v FROM s [ROWS 10 SLIDE 10]")
    script.cycle(s=[(1, None, None, NAN, None), (11, None, None, 2.0, None)])
    assert script.cycle({"s": 20})["q"] == [(10, 20, 2.0)]


def test_zeros_are_one_group_and_so_are_nans_and_nulls() -> None:
    script = Script(AGGREGATED)
    script.run("CREATE CONTINUOUS QUERY q AS SELECT x, COUNT(*) AS c FROM s GROUP BY x")
    values = (-0.0, 0.0, NAN, NAN, None, None, None)
    answers = script.cycle(s=[(n, None, None, x, None) for n, x in enumerate(values)])["q"]
    assert sorted((order_key(x), count) for x, count in answers) == [((0,), 3), ((1, 0.0), 2), ((2,), 2)]
