"""Transitivity inference: the table, ranges, arithmetic, texts; sound on all rows, and the same in every order."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations, product

import pytest

from tests.predicates.given import condition, dense, stream_text
from tests.predicates.small_worlds import OPERATORS
from weft.predicates.clauses import PredicateSet, disjunction_with, set_with
from weft.predicates.domains import contains
from weft.predicates.inference import inferred, with_inferred
from weft.predicates.normal_forms import conjunctive_form


def found(where: str, inputs: str = "s x, s y") -> list[str]:
    return [" OR ".join(literal.text for literal in clause) for clause in inferred(dense(where, inputs))]


#: Of `a = c`, `a > c`, … and `a = f`, `a < f`, …: what follows for f.
TABLE = {
    "=": {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="},
    ">": {"=": ">", "<": ">", "<=": ">", ">": None, ">=": None},
    ">=": {"=": ">=", "<": ">", "<=": ">=", ">": None, ">=": None},
    "<": {"=": "<", "<": None, "<=": None, ">": "<", ">=": "<"},
    "<=": {"=": "<=", "<": None, "<=": None, ">": "<", ">=": "<="},
}


@pytest.mark.parametrize(("first", "second"), list(product(TABLE, TABLE)))
def test_the_table(first: str, second: str) -> None:
    expected = TABLE[first][second]
    assert found(f"x.a {first} 3 AND x.a {second} y.b") == ([] if expected is None else [f"y.b {expected} 3"])
    # And through arithmetic: f = 2*b - 1, so that f op 3 is b op 2; f = 1 - b turns the operator round.
    assert found(f"x.a {first} 3 AND x.a {second} 2*y.b - 1") == ([] if expected is None else [f"y.b {expected} 2"])
    turned = {"<": ">", "<=": ">=", "=": "=", ">=": "<=", ">": "<"}
    opposite = [] if expected is None else [f"y.b {turned[expected]} -2"]
    assert found(f"x.a {first} 3 AND x.a {second} 1 - y.b") == opposite


def test_both_ends_of_a_range_are_handed_on() -> None:
    assert found("x.a > 1 AND x.a < 5 AND x.a = y.b") == ["y.b < 5", "y.b > 1"]
    assert found("x.a > 1 AND x.a < 5 AND x.a < y.b AND x.a > y.b - 1") == ["y.b < 6", "y.b > 1"]


def test_lists_and_gaps_go_through_equalities() -> None:
    assert found("x.a IN (1, 5) AND x.a = y.b") == ["y.b = 1 OR y.b = 5"]
    assert found("x.a <> 3 AND y.b = 2*x.a") == ["y.b != 6"]
    assert found("x.a IN (1, 5) AND x.a < y.b") == ["y.b > 1"]


def test_a_literal_beside_others_is_not_known() -> None:
    assert found("(x.a > 5 OR x.c = 1) AND x.a = y.b") == []
    assert found("(x.a > 5 OR y.c = 1) AND x.a = y.b") == []


def test_nulls_are_not_handed_on() -> None:
    assert found("(x.a > 5 OR x.a IS NULL) AND x.a = y.b") == ["y.b > 5"]
    assert found("x.a IS NOT NULL AND x.a = y.b") == []


def test_chains_reach_the_third_input() -> None:
    assert found("x.a > 8 AND y.a > 0.5*x.a AND z.a = y.a", "s x, s y, s z") == ["y.a > 4", "z.a > 4"]


def test_loops_end() -> None:
    assert found("x.a > 2*y.a AND y.a > 2*x.a AND x.a < 1") == ["x.a < 0.25", "y.a < 0.5"]
    assert found("x.a < y.a + 1 AND y.a < x.a + 1 AND x.a > 5") == ["y.a > 4"]


def test_sides_may_be_sums_of_one_input() -> None:
    assert found("x.a + x.b > 10 AND y.c > x.a + x.b") == ["y.c > 10"]
    assert found("x.a + 2*x.b > 10 AND 2*y.c - y.d > 2*x.a + 4*x.b + 1") == ["2*y.c - y.d > 21"]
    assert found("x.a > 10 AND y.c > x.a + x.b") == []


def test_texts_doubles_and_dates() -> None:
    streams = stream_text("s", {"t": "STRING", "u": "DOUBLE", "v": "DATE", "b": "BOOLEAN"})

    def of(where: str) -> list[str]:
        predicates = conjunctive_form(condition(where, "s x, s y", streams))
        return [" OR ".join(literal.text for literal in clause) for clause in inferred(predicates)]

    assert of("x.t >= '022' AND x.t < '023' AND x.t = y.t") == ["y.t < '023'", "y.t >= '022'"]
    assert of("x.t >= '022' AND y.t > x.t") == ["y.t > '022'"]
    assert of("x.u >= 1e0 AND y.u > x.u") == ["y.u > 1.0"]
    assert of("x.u > CAST('Infinity' AS DOUBLE) AND y.u >= x.u") == ["y.u = NaN"]
    assert of("x.b = y.b AND x.b") == ["y.b = TRUE"]
    assert of("x.v >= DATE '2024-01-11' AND y.v >= x.v - INTERVAL 10 DAYS") == ["y.v >= DATE '2024-01-01'"]


def test_nothing_is_inferred_twice() -> None:
    once = with_inferred(dense("x.a > 1 AND x.a = y.b AND y.b = z.c AND z.c < 9", "s x, s y, s z"))
    assert with_inferred(once) == once
    assert inferred(once) == ()
    assert found("x.a > 1 AND x.a = y.b AND y.b > 3") == ["x.a > 3"]


@pytest.mark.parametrize("seed", range(3))
def test_inference_does_not_depend_on_the_order_of_conditions(seed: int) -> None:
    pick = random.Random(seed)
    columns = [f"{alias}.{name}" for alias in "xyz" for name in "ab"]
    links = [f"{pick.choice(columns[:2])} {pick.choice(['<', '=', '>='])} {pick.choice(columns[2:4])} + 1"]
    links += [f"{pick.choice(columns[2:4])} {pick.choice(['<', '=', '>='])} 2*{pick.choice(columns[4:])}"]
    parts = [*links, f"{columns[0]} > 3", f"{columns[1]} <= 8", f"{columns[4]} = 2"]
    results = {with_inferred(dense(" AND ".join(order), "s x, s y, s z")).text for order in permutations(parts)}
    assert len(results) == 1


def test_inferred_conditions_hold_for_all_rows_that_pass() -> None:
    pick = random.Random(9)
    values = [None, *(Fraction(n, 2) for n in range(-2, 8))]
    for _ in range(40):
        parts = [
            ("x.a", pick.choice(list(OPERATORS)), Fraction(pick.randint(0, 3)), Fraction(0)),
            ("y.b", pick.choice(list(OPERATORS)), Fraction(pick.randint(0, 3)), Fraction(0)),
        ]
        factor, shift, op = pick.choice((1, 2, -1)), pick.randint(-1, 1), pick.choice(["<", "<=", "=", ">=", ">"])
        where = f"x.a {op} {factor}*y.b + {shift} AND " + " AND ".join(f"{c} {o} {v}" for c, o, v, _ in parts[:1])
        predicates = dense(where, "s x, s y")
        new = set_with(disjunction_with(each) for each in inferred(predicates))
        for a, b in product(values, repeat=2):
            if a is None or b is None or not OPERATORS[op](a, factor * b + shift):
                continue
            if OPERATORS[parts[0][1]](a, parts[0][2]):
                assert _hold(new, {"x.a": a, "y.b": b}), (where, new.text)


def _hold(predicates: PredicateSet, row: dict[str, Fraction]) -> bool:
    return all(
        any(contains(literal.values, row[literal.subject.text]) for literal in clause.literals)
        for clause in predicates.disjunctions
    )
