"""Union, difference, renaming, explication and what sets have in common, on all rows of a small world."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import permutations

from tests.predicates.given import condition, dense, difference, is_true, texts, union
from tests.predicates.small_worlds import DENSE, WHOLE, Known, World, conjunction_of_disjunctions, predicates
from weft.algebra import Value
from weft.predicates.clauses import FALSE_SET, TRUE_SET, PredicateSet
from weft.predicates.domains import contains
from weft.predicates.inference import entails_disjunction
from weft.predicates.normal_forms import (
    by_sources,
    condition_of,
    conjunctive_form,
    disjunctive_form,
)
from weft.predicates.operations import standard_form, under
from weft.predicates.terms import Term


def examples(count: int, seed: int, is_linear: bool = True) -> Iterator[tuple[World, Known, Known]]:
    pick = random.Random(seed)
    for _ in range(count):
        world = pick.choice((DENSE, WHOLE))
        yield (
            world,
            conjunction_of_disjunctions(pick, world, is_linear),
            conjunction_of_disjunctions(pick, world, is_linear),
        )


def rows(predicates_: PredicateSet, world: World) -> int:
    """The rows for which a predicate set is TRUE, by the oracle."""
    expression = condition_of(predicates_)
    return sum(1 << n for n, row in enumerate(world.rows) if is_true(expression, _decimals(row)))


def _decimals(row: Mapping[str, Fraction | None]) -> dict[str, Value]:
    return {name: None if value is None else Decimal(str(float(value))) for name, value in row.items()}


def test_normal_forms_mean_what_was_written() -> None:
    for world, p, _ in examples(60, seed=1):
        assert rows(predicates(p, world), world) == p.rows, p.text


def test_predicate_sets_have_union_and_difference() -> None:
    for world, p, q in examples(40, seed=2):
        left, right = predicates(p, world), predicates(q, world)
        both = union(left, right)
        assert rows(both, world) == p.rows & q.rows
        assert both == union(right, left)
        residual = difference(both, right)
        assert rows(union(right, residual), world) == p.rows & q.rows, "a node and the residual are the query"
        assert not any(entails_disjunction(right, each) for each in residual.disjunctions)


def test_the_order_of_conditions_does_not_matter() -> None:
    parts = ("a < 4 OR b > 5", "a > b", "c = 1 OR c = 2 OR a IS NULL", "a > 1", "NOT (b < 2 AND c > 3)")
    forms = {conjunctive_form_of(order) for order in permutations(parts)}
    assert len(forms) == 1


def conjunctive_form_of(parts: tuple[str, ...]) -> str:
    return dense(" AND ".join(f"({part})" for part in parts)).text


def test_boxes_hold_the_same_rows() -> None:
    for world, p, _ in examples(50, seed=4, is_linear=False):
        boxes = disjunctive_form(predicates(p, world))
        assert boxes is not None
        held = 0
        for n, row in enumerate(world.rows):
            values = [{s: row[_column(s)] for s in box} for box in boxes]
            if any(all(contains(box[s], v[s]) for s in box) for box, v in zip(boxes, values, strict=True)):
                held |= 1 << n
        assert held == p.rows


def _column(subject: object) -> str:
    assert isinstance(subject, Term)
    return subject.text.removeprefix("s.")


def test_too_many_boxes_are_none() -> None:
    many = " AND ".join(f"(a = {n} OR b = {n} OR c = {n})" for n in range(6))
    assert disjunctive_form(dense(many), most_boxes=5) is None
    assert disjunctive_form(FALSE_SET) == ()
    assert disjunctive_form(TRUE_SET) == ({},)


def test_renaming_turns_what_other_names_turn() -> None:
    here = dense("x.a - y.a > 5 AND x.a < 1", "s x, s y")
    there = under({"x": "z", "y": "y"}, here)
    assert there.text == "y.a - z.a < -5 AND z.a < 1"
    assert under({"z": "x"}, there) == here


def test_renaming_reaches_the_columns_inside_of_calls() -> None:
    assert under({"s": "n"}, conjunctive_form(condition("abs(i1) > 3"))).text == "ABS(n.i1) >= 4"


def test_contradictions_and_no_conditions() -> None:
    assert dense("a > 5 AND a < 3") == FALSE_SET
    assert conjunctive_form(None) == TRUE_SET
    assert condition_of(TRUE_SET) is None
    assert not is_true(condition_of(FALSE_SET), {})
    assert union(FALSE_SET, dense("a > 1")) == FALSE_SET
    assert texts(dense("a > 1 OR a IS NULL")) == ["a > 1 OR a IS NULL"]


def test_what_disjunctions_have_in_common_is_found() -> None:
    assert dense("(a = 0 OR b >= 2) AND (a >= 2 OR b >= 2)") == dense("b >= 2")
    assert dense("(a IS NULL OR b < 1) AND (a IS NOT NULL OR b < 1) AND b <= 2") == dense("b < 1")
    three = "(a < 3 OR b = 1 OR c = 1) AND (a > 2 OR b = 1 OR c = 1) AND ((a <= 2 OR a >= 3) OR b = 1 OR c = 1)"
    assert dense(three) == dense("b = 1 OR c = 1")
    assert dense("(a - b > 1 OR c = 1) AND b IS NULL") == dense("b IS NULL AND c = 1")


def test_the_standard_form_does_not_depend_on_aliases() -> None:
    chain = "{0}.a < {1}.a AND {1}.a < {2}.b AND {2}.c = 1 AND {0}.d > 5"
    forms = set()
    for names in permutations(("x", "y", "z")):
        predicates_ = dense(chain.format(*names), ", ".join(f"s {name}" for name in sorted(names)))
        forms.add(standard_form(predicates_, dict.fromkeys(names, "s"))[0].text)
    assert len(forms) == 1


def test_parts_by_sources_are_the_whole() -> None:
    predicates_ = dense("x.a < y.a AND x.b = 1 AND (y.c = 2 OR x.c = 3) AND y.d IS NULL", "s x, s y")
    parts = by_sources(predicates_)
    assert [sorted(each) for each in parts] == [["x"], ["y"], ["x", "y"]]
    assert union(*parts.values()) == predicates_


def test_inputs_that_nothing_tells_apart_are_tried_in_every_order() -> None:
    def standard(where: str) -> str:
        return standard_form(dense(where, "s x, s y, s z"), dict.fromkeys("xyz", "s"))[0].text

    ring = standard("x.a < y.b AND y.a < z.b AND z.a < x.b")
    assert ring == standard("z.a < y.b AND y.a < x.b AND x.a < z.b")
    assert ring != standard("x.a < y.b AND y.a < z.b AND x.a < z.b")
