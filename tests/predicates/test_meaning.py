"""Every rewriting keeps the rows that pass: conditions before and after, evaluated by the oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.predicates.given import COLUMNS, VALUES, condition, difference, entails, is_true, select, stream_text
from tests.support.generator_expressions import ColumnText, choose
from tests.support.generator_expressions import condition as random_condition
from weft.algebra import Call, Column, Expression, Literal, Value
from weft.algebra.types import BIGINT, BOOLEAN, DOUBLE
from weft.predicates.clauses import set_implies
from weft.predicates.domains import Domain, clock_facts
from weft.predicates.normal_forms import condition_of, conjunctive_form
from weft.predicates.terms import columns_of
from weft.sql import SqlError

FAMILY = {
    **dict.fromkeys(("TINYINT", "INT", "BIGINT"), "integer"),
    **dict.fromkeys(("DECIMAL(10, 2)", "DECIMAL(38, 10)"), "decimal"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "double"),
    "STRING": "string",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}
COLUMN_TEXTS = [ColumnText(name, FAMILY[type_]) for name, type_ in COLUMNS.items()]


def rows(seed: int, names: Sequence[str] = tuple(COLUMNS), count: int = 20) -> list[Mapping[str, Value]]:
    """Rows of values that matter, a sixth of them NULL."""
    pick = random.Random(seed)
    return [
        {"clock": pick.choice((0, 1, -5, 1 << 62))}
        | {name: pick.choice(VALUES[COLUMNS[name]]) if pick.random() > 1 / 6 else None for name in names}
        for _ in range(count)
    ]


def assert_same_rows_pass(before: Expression, after: Expression | None, seed: int) -> None:
    for row in rows(seed):
        assert is_true(before, row) == is_true(after, row), row


@st.composite
def conditions(draw: DrawFn) -> Expression:
    """Any condition of the language."""
    return _bound(random_condition(draw, COLUMN_TEXTS, draw(st.integers(1, 2))))


#: Comparisons of sums, products and quotients; {n} is a number, {c} a constant, {o} a comparison.
ARITHMETIC = (
    "{n} + {c} {o} {n} - {c}",
    "{c} * {n} {o} {n}",
    "{n} - {n} {o} {c}",
    "{n} / {c} - {c} {o} {n}",
    "{c} * ({n} + {n}) {o} {c}",
    "{n} * ({n} - {c}) {o} {n}",
    "-{n} {o} {c}",
    "{n} + {n} {o} {n} + {c}",
    "{n} {o} {n}",
    "{n} {o} {c}",
)
TIMES = (
    "{t} + {i} {o} {t}",
    "{t} - {t} {o} {i}",
    "{t} {o} {t} - {i}",
    "UNIX_MICROS({t}) + {c} {o} UNIX_MICROS({t}) * 2",
    "{t} {o} {t}",
)
NUMBERS = [name for name, type_ in COLUMNS.items() if FAMILY[type_] in ("integer", "decimal", "double")]
MOMENTS = [name for name, type_ in COLUMNS.items() if FAMILY[type_] in ("date", "timestamp")]
FILLERS = {
    "o": ("<", "<=", "=", ">=", ">", "<>", "<=>"),
    "c": ("0", "1", "2", "3", "-4", "0.5", "0.25", "-1.1", "2147483647", "9223372036854775807", "0.5e0", "1e308"),
    "i": ("INTERVAL 1 DAY", "INTERVAL 20 DAYS", "INTERVAL 3 SECONDS", "INTERVAL 90 MINUTES"),
}


@st.composite
def comparisons(draw: DrawFn) -> Expression:
    """A comparison that arithmetic could rearrange, of columns of one or several types."""
    numbers = NUMBERS if draw(st.booleans()) else [f"{choose(draw, 'yildwx')}{n}" for n in (1, 2, 3)]
    moments = MOMENTS if draw(st.booleans()) else [f"{choose(draw, 'ct')}{n}" for n in (1, 2, 3)]
    holes = {**FILLERS, "n": numbers, "t": moments}
    template = choose(draw, (*ARITHMETIC, *ARITHMETIC, *TIMES))
    text = ""
    for piece in template.split("{"):
        hole, closed, rest = piece.partition("}")
        text += choose(draw, holes[hole]) + rest if closed else piece
    return _bound(f"NOT ({text})" if draw(st.booleans()) else text)


def _bound(text: str) -> Expression:
    try:
        return condition(f"{text} OR clock < 0")
    except SqlError:
        assume(False)
        raise


@settings(max_examples=200, deadline=None, derandomize=True)
@given(conditions(), st.integers(0, 1 << 16))
def test_normal_forms_pass_the_same_rows(before: Expression, seed: int) -> None:
    assert_same_rows_pass(before, condition_of(conjunctive_form(before)), seed)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(comparisons(), st.integers(0, 1 << 16))
def test_rearranged_comparisons_pass_the_same_rows(before: Expression, seed: int) -> None:
    assert_same_rows_pass(before, condition_of(conjunctive_form(before)), seed)


@pytest.mark.prove
@settings(max_examples=20_000, deadline=None, derandomize=True)
@given(st.one_of(conditions(), comparisons()), st.integers(0, 1 << 16))
def test_many_conditions_pass_the_same_rows(before: Expression, seed: int) -> None:
    assert_same_rows_pass(before, condition_of(conjunctive_form(before)), seed)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.one_of(conditions(), comparisons()))
def test_the_normal_form_of_a_normal_form_is_itself(before: Expression) -> None:
    once = conjunctive_form(before)
    again = condition_of(once)
    assert again is None or conjunctive_form(again) == once


@settings(max_examples=100, deadline=None, derandomize=True)
@given(conditions(), st.integers(0, 1 << 16))
def test_a_size_guard_keeps_the_meaning(before: Expression, seed: int) -> None:
    assert_same_rows_pass(before, condition_of(conjunctive_form(before, most_literals=2)), seed)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("i1 + 10 > 5", "s.i1 <= 2147483637 AND s.i1 >= -4"),  # the addition may overflow, to NULL
        ("i1/2 - 1 > 0", "s.i1 >= 3"),  # halves of INTs are exact DOUBLEs
        ("i1 - i1 = 0", "s.i1 IS NOT NULL"),
        ("-x1 > 1", "NEG(s.x1) > 1.0"),  # not x1 < -1: NaN is larger than 1, and so is -NaN
        ("x1 - x2 > 0", "(s.x1 - s.x2) > 0.0"),  # not x1 > x2: both may be infinite
        ("x2 < x1", "s.x1 > s.x2"),
        ("x1 > CAST('Infinity' AS DOUBLE)", "s.x1 = NaN"),  # nothing else is above it
        ("w1 + w2 > 3", "(s.w1 + s.w2) > 3"),  # 38 digits are not enough for the sum's decimals
        ("d1 > 0.5*d2", "2*s.d1 - s.d2 > 0"),
        ("d1/3 > d2", "(s.d1 / DECIMAL(1, 0) '3') - s.d2 > 0"),  # a third is rounded
        ("d1/d2 > 1", "(s.d1 / s.d2) > 1"),  # nothing is divided, or multiplied, by a column
        ("b1", "s.b1 = TRUE"),
        ("NOT b1 OR b1 = FALSE", "s.b1 = FALSE"),
        ("b1 IS TRUE AND (i1 > 5) IS FALSE", "s.b1 = TRUE AND s.i1 <= 5"),
        ("i1 NOT IN (1, CAST(NULL AS INT))", "FALSE"),
        ("i1 IN (1, CAST(NULL AS INT))", "s.i1 = 1"),
        ("i1 <=> 5", "s.i1 = 5"),
        ("NOT i1 <=> 5", "(s.i1 != 5 OR s.i1 IS NULL)"),
        ("i1 > 2147483647", "FALSE"),
        ("i1 <= 2147483647", "s.i1 IS NOT NULL"),
        ("s1 >= ''", "s.s1 IS NOT NULL"),
        ("s1 LIKE 'a%' AND NOT s1 LIKE 'a%'", "FALSE"),
        ("c1 < DATE '2002-11-20'", "s.c1 <= DATE '2002-11-19'"),
        ("t1 >= TIMESTAMP '2024-01-01 00:00:00'", "s.t1 >= TIMESTAMP '2024-01-01 00:00:00'"),
        ("i1 + i2 > i2 + i1", "FALSE"),
        ("upper(s1) = 'A' AND 'A' = upper(s1)", "UPPER(s.s1) = 'A'"),
        ("x1 + x2 > 1 OR x2 + x1 > 1", "(s.x1 + s.x2) > 1.0"),
    ],
)
def test_what_is_rearranged_and_what_is_not(written: str, expected: str) -> None:
    assert conjunctive_form(condition(written)).text == expected


def test_clocks_leave_room_for_arithmetic() -> None:
    """A row with a clock beyond ±2⁶² meets no condition, so adding to a clock cannot overflow."""
    bound = select("clock + 5 > i1")
    assert bound.where is not None
    assert conjunctive_form(bound.where, clock_facts(bound)).text == "s.clock - s.i1 >= -4"
    assert Column("s", "clock", BIGINT) in clock_facts(bound)
    assert "s.clock <= 9223372036854775802" in conjunctive_form(bound.where).text


def test_windows_of_clocks_contain_each_other() -> None:
    """Only because clocks leave room: in general `a + 20` overflows for rows for which `a + 10` does not."""
    inputs = "s a, s b"
    ten, twenty = (select(f"a.clock <= b.clock + {n} AND a.i1 > b.i1", inputs) for n in (10, 20))
    forms = [conjunctive_form(each.where, clock_facts(each)) for each in (ten, twenty)]
    assert set_implies(forms[0], forms[1])
    assert difference(forms[0], forms[1]).text == "a.clock - b.clock <= 10"
    assert not entails(conjunctive_form(ten.where), conjunctive_form(twenty.where))


def test_a_part_that_would_grow_too_large_stays_whole() -> None:
    large = " OR ".join(f"(i1 = {n} AND i2 = {n})" for n in range(0, 40, 2))
    (only,) = conjunctive_form(condition(f"({large})")).disjunctions
    assert len(only.literals) == 1
    assert conjunctive_form(condition(f"({large}) AND d1 > 5")).text.endswith("AND s.d1 > 5")


def test_comparisons_that_were_read_before_are_not_taken_for_others() -> None:
    """Columns of the same name have other types elsewhere, other facts, and 0.0 is equal to -0.0."""
    in_ints = conjunctive_form(condition("a > 5.5", "s", stream_text("s", {"a": "INT"})))
    in_decimals = conjunctive_form(condition("a > 5.5", "s", stream_text("s", {"a": "DECIMAL(4, 1)"})))
    assert (in_ints.text, in_decimals.text) == ("s.a >= 6", "s.a > 5.5")
    x, one = Column("s", "x", DOUBLE), Literal(1.0, DOUBLE)
    quotients = [Call("/", (x, Literal(value, DOUBLE)), DOUBLE) for value in (0.0, -0.0)]
    plus, minus = (conjunctive_form(Call("=", (each, one), BOOLEAN)) for each in quotients)
    assert plus.text != minus.text
    sum_ = condition("a + 1 > 5", "s", stream_text("s", {"a": "INT"}))
    (column,) = columns_of(sum_)
    bounded = conjunctive_form(sum_, {column: Domain(Fraction(0), Fraction(9), Fraction(1), nullable=False)})
    assert bounded.text == "s.a >= 5"
    assert conjunctive_form(sum_).text == "s.a <= 2147483646 AND s.a >= 5"
