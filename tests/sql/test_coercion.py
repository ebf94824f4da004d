"""Which types meet, and in which type."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest

from weft.algebra.expressions import Call, Column, Expression, Literal
from weft.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
    decimal,
)
from weft.sql import parse
from weft.sql.coercion import (
    arithmetic_type,
    can_cast,
    cast,
    common_type,
    comparison_type,
)
from weft.sql.expression_binder import bind
from weft.sql.scope import Scope


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (INT, INT, INT),
        (TINYINT, BIGINT, BIGINT),
        (BIGINT, HUGEINT, HUGEINT),
        (INT, DOUBLE, DOUBLE),
        (INT, FLOAT, DOUBLE),
        (FLOAT, DOUBLE, DOUBLE),
        (decimal(10, 2), DOUBLE, DOUBLE),
        (decimal(10, 2), FLOAT, DOUBLE),
        (decimal(10, 2), INT, decimal(12, 2)),
        (decimal(10, 2), BIGINT, decimal(22, 2)),
        (decimal(10, 2), decimal(5, 4), decimal(12, 4)),
        (decimal(38, 0), decimal(38, 20), decimal(38, 0)),
        (decimal(38, 10), decimal(20, 15), decimal(38, 10)),
        (NULL, STRING, STRING),
        (TIMESTAMP, NULL, TIMESTAMP),
        (DATE, TIMESTAMP, TIMESTAMP),
        (STRING, INT, None),
        (STRING, DATE, None),
        (BOOLEAN, INT, None),
        (TIMESTAMP, BIGINT, None),
        (STRING, BINARY, None),
        (INTERVAL, INT, None),
    ],
)
def test_common_types(left: DataType, right: DataType, common: DataType | None) -> None:
    assert common_type(left, right) == common
    assert common_type(right, left) == common


def test_a_sum_is_compared_with_all_its_digits() -> None:
    assert common_type(HUGEINT, decimal(2, 1)) == decimal(21, 1)
    assert comparison_type(HUGEINT, decimal(2, 1)) == decimal(38, 1)
    assert comparison_type(INT, HUGEINT, decimal(2, 1)) == decimal(38, 1)
    assert comparison_type(INT, decimal(2, 1)) == common_type(INT, decimal(2, 1))


def test_the_common_type_of_many() -> None:
    assert common_type(NULL, TINYINT, decimal(5, 2), INT) == decimal(12, 2)
    assert common_type(INT, STRING) is None
    assert common_type() == NULL


#: Spark's rules, from its documentation of DECIMAL: result precision and scale of p1,s1 op p2,s2 before cutting to 38.
_RULES = {
    "+": lambda p1, s1, p2, s2: (max(s1, s2) + max(p1 - s1, p2 - s2) + 1, max(s1, s2)),
    "-": lambda p1, s1, p2, s2: (max(s1, s2) + max(p1 - s1, p2 - s2) + 1, max(s1, s2)),
    "*": lambda p1, s1, p2, s2: (p1 + p2 + 1, s1 + s2),
    "/": lambda p1, s1, p2, s2: (p1 - s1 + s2 + max(6, s1 + p2 + 1), max(6, s1 + p2 + 1)),
    "%": lambda p1, s1, p2, s2: (min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2)),
}


def _adjusted(precision: int, scale: int) -> DataType:
    if precision <= 38:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(38, max(38 - whole, min(scale, 6)))


@pytest.mark.parametrize("op", _RULES)
def test_decimal_arithmetic_follows_the_documented_rules(op: str) -> None:
    sizes = [(p, s) for p in (1, 5, 10, 20, 30, 38) for s in (0, 2, 6, 10, 38) if s <= p]
    for (p1, s1), (p2, s2) in itertools.product(sizes, sizes):
        expected = _adjusted(*_RULES[op](p1, s1, p2, s2))
        assert arithmetic_type(op, decimal(p1, s1), decimal(p2, s2)) == expected, (p1, s1, op, p2, s2)


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("+", INT, INT, INT),
        ("+", TINYINT, SMALLINT, SMALLINT),
        ("*", INT, BIGINT, BIGINT),
        ("/", INT, INT, DOUBLE),
        ("%", INT, BIGINT, BIGINT),
        ("+", FLOAT, FLOAT, FLOAT),
        ("/", FLOAT, FLOAT, DOUBLE),
        ("+", INT, FLOAT, DOUBLE),
        ("+", HUGEINT, INT, HUGEINT),
        ("+", HUGEINT, decimal(10, 2), decimal(23, 2)),  # a HUGEINT is a DECIMAL(20, 0) there, like a BIGINT
        ("/", HUGEINT, decimal(20, 0), decimal(38, 18)),
        ("+", decimal(10, 2), INT, decimal(13, 2)),
        ("*", decimal(10, 2), DOUBLE, DOUBLE),
    ],
)
def test_arithmetic(op: str, left: DataType, right: DataType, result: DataType) -> None:
    assert arithmetic_type(op, left, right) == result


def _bound(text: str) -> Expression:
    tree = parse(f"SELECT {text} FROM s").selects[0]
    return bind(tree, Scope([], "the select list"))


@pytest.mark.parametrize(
    ("text", "value", "type_"),
    [
        ("1", 1, INT),
        ("2147483647", 2147483647, INT),
        ("2147483648", 2147483648, BIGINT),
        ("-2147483648", -2147483648, INT),
        ("-2147483649", -2147483649, BIGINT),
        ("-9223372036854775808", -(2**63), BIGINT),
        ("9223372036854775808", Decimal(2**63), decimal(19, 0)),
        ("9" * 38, Decimal("9" * 38), decimal(38, 0)),
        ("1.50", Decimal("1.50"), decimal(3, 2)),
        ("0.05", Decimal("0.05"), decimal(2, 2)),
        ("00.50", Decimal("0.50"), decimal(2, 2)),
        (".5", Decimal("0.5"), decimal(1, 1)),
        ("1e3", 1000.0, DOUBLE),
        ("1.5e-3", 0.0015, DOUBLE),
        (
            "-0.1234567890123456789012345678901234567",
            Decimal("-0.1234567890123456789012345678901234567"),
            decimal(37, 37),
        ),
        ("- -5", 5, INT),
        ("-(1.5)", Decimal("-1.5"), decimal(2, 1)),
        ("INTERVAL 1 DAY * 2 - INTERVAL 1 DAY", 86_400_000_000, INTERVAL),
    ],
)
def test_constants(text: str, value: object, type_: DataType) -> None:
    bound = _bound(text)
    assert isinstance(bound, Literal)
    assert (bound.value, bound.type) == (value, type_)
    assert type(bound.value) is type(value)


def test_a_constant_that_leaves_its_type_is_computed_later() -> None:
    assert isinstance(_bound("-(-2147483648)"), Call)
    assert isinstance(_bound("INTERVAL 9223372036854775807 MICROSECONDS * 2"), Call)


def test_an_integer_beside_a_decimal_has_just_its_digits() -> None:
    assert _bound("1.50 + 1").type == decimal(4, 2)
    assert _bound("1.50 * 200").type == decimal(7, 2)


def test_exact_constants_are_cast_at_once() -> None:
    cases: list[tuple[Literal, DataType, object]] = [
        (Literal(5, INT), BIGINT, 5),
        (Literal(5, INT), TINYINT, 5),
        (Literal(5, INT), DOUBLE, 5.0),
        (Literal(5, INT), decimal(5, 2), Decimal("5.00")),
        (Literal(Decimal("1.5"), decimal(2, 1)), decimal(10, 4), Decimal("1.5000")),
        (Literal(None, NULL), STRING, None),
    ]
    for literal, to, value in cases:
        folded = cast(literal, to)
        assert isinstance(folded, Literal)
        assert str(folded.value) == str(value)
        assert folded.type == to


def test_casts_that_may_round_or_fail_are_left_to_the_engine() -> None:
    for literal, to in (
        (Literal(300, INT), TINYINT),
        (Literal(Decimal("1.55"), decimal(3, 2)), decimal(3, 1)),
        (Literal(1000, INT), decimal(3, 0)),
        (Literal("5", STRING), INT),
        (Literal(1.5, DOUBLE), INT),
    ):
        assert cast(literal, to) == Call("cast", (literal,), to)


def test_a_value_of_the_type_is_not_cast() -> None:
    column = Column("t", "x", INT)
    assert cast(column, INT) is column


def test_casts_of_the_language() -> None:
    for source, target in ((INT, STRING), (STRING, DATE), (DATE, TIMESTAMP), (BOOLEAN, INT), (NULL, INTERVAL)):
        assert can_cast(source, target)
    for source, target in ((TIMESTAMP, INT), (INTERVAL, STRING), (BOOLEAN, DATE), (INT, BINARY), (DATE, DOUBLE)):
        assert not can_cast(source, target)
