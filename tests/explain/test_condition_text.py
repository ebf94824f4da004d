"""Conditions as people write them."""

from __future__ import annotations

import pytest

from tests.optimizer.network.given import select
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.explain.condition_text import Leg, disjunction_text, named_legs
from weft.optimizer.network.wanted import wanted

F, S, T = Leg("f", TIMESTAMP), Leg("s", BIGINT), Leg("t", BIGINT)


def told(text: str, *legs: Leg) -> list[str]:
    bound = select(text)
    predicates = wanted(bound, ["log"] * len(legs)).predicates
    return [disjunction_text(each, named_legs(legs)) for each in predicates.disjunctions]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a >= 5", "a >= 5"),
        ("2 * a = 2 * b", "a = b"),
        ("a - b > -3", "b <= a + 2"),
        ("a + 2 * b >= 6", "a + 2*b >= 6"),
        ("a - 3 * b - k <= 20", "a <= 3*b + k + 20"),
        ("s = 'it''s'", "s = 'it''s'"),
        ("UPPER(s) < 'B'", "UPPER(s) < 'B'"),
        ("s IS NULL", "s IS NULL"),
        ("a IN (5, 1)", "a IN (1, 5)"),
        ("a = 10 OR s = 'x'", "a = 10 OR s = 'x'"),
        ("s LIKE 'x%'", "(s LIKE 'x%')"),
        ("NOT s LIKE 'x%'", "NOT (s LIKE 'x%')"),
        ("d > 2.5", "d > 2.5"),
        ("1 = 2", "FALSE"),
    ],
)
def test_conditions_on_one_input(condition: str, expected: str) -> None:
    # Of sums there is more to say: that they do not overflow.
    assert expected in told(f"SELECT a FROM s WHERE {condition}", S)


def test_times_are_times() -> None:
    text = "SELECT tranid FROM f WHERE tran_date >= TIMESTAMP '2024-01-01 10:00:00'"
    assert told(text, F) == ["tran_date >= TIMESTAMP '2024-01-01 10:00:00'"]


def test_differences_of_times_are_intervals() -> None:
    text = """SELECT a.tranid AS x FROM f a, f b WHERE a.tranid = b.type_code AND a.tran_date <= b.tran_date
        AND b.tran_date <= a.tran_date + INTERVAL 90 MINUTES"""
    assert told(text, F, F) == [
        "f1.tran_date <= f2.tran_date",
        "f2.tran_date <= f1.tran_date + INTERVAL 90 MINUTES",
        "f1.tranid = f2.type_code",
    ]


def test_differences_of_ordinals_are_numbers() -> None:
    text = "SELECT p.a AS x FROM s [ROWS 5] p, t [ROWS 3] q WHERE p.k = q.k"
    assert told(text, S, T) == ["s.clock <= t.clock + 2", "t.clock <= s.clock + 4", "s.k = t.k"]


def test_instants_of_sliding_windows_have_a_name() -> None:
    text = "SELECT p.tranid AS x FROM f [RANGE 1 HOUR SLIDE 5 MINUTES] p, f [RANGE 1 HOUR SLIDE 5 MINUTES] q"
    assert told(text, F, F) == [
        "instant(f1.tran_date, every 5 MINUTES) < f2.tran_date + INTERVAL 1 HOUR",
        "instant(f2.tran_date, every 5 MINUTES) < f1.tran_date + INTERVAL 1 HOUR",
        "f1.tran_date < f2.tran_date + INTERVAL 1 HOUR",
        "f2.tran_date < f1.tran_date + INTERVAL 1 HOUR",
    ]


def test_legs_have_names_of_their_own() -> None:
    def names(*logs: str) -> list[str]:
        return [leg.name for leg in named_legs([Leg(log, BIGINT) for log in logs])]

    assert names("f") == [""]
    assert names("f", "g") == ["f", "g"]
    assert names("f", "g", "f") == ["f1", "g", "f2"]
    assert names("f", "f", "f1") == ["f#1", "f2", "f1"]
