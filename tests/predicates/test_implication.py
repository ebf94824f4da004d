"""What follows from what: every answer against all rows of small worlds, and how many true implications are found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from tests.predicates.given import condition, dense, entails, whole
from tests.predicates.small_worlds import (
    DENSE,
    DENSE_3,
    OPERATORS,
    WHOLE,
    Known,
    World,
    conjunction_of_disjunctions,
    predicates,
)
from weft.predicates.clauses import (
    FALSE_SET,
    PredicateSet,
    disjunction_implies,
    follows_from_one,
    literal_implies,
    set_implies,
)
from weft.predicates.closest import ClosestIndex
from weft.predicates.domains import is_subset
from weft.predicates.normal_forms import box_contained, conjunctive_form, disjunctive_form


@pytest.mark.parametrize(
    ("column", "constants"),
    [
        ("d1", ("9", "10", "11", "13")),
        ("i1", ("9", "10", "11", "13")),
        ("x1", ("CAST('-Infinity' AS DOUBLE)", "0e0", "CAST('Infinity' AS DOUBLE)", "CAST('NaN' AS DOUBLE)")),
        ("s1", ("''", "'a'", "'b'")),
        ("c1", ("DATE '2024-01-01'", "DATE '2024-01-02'", "DATE '2024-01-04'")),
    ],
)
def test_literals_of_one_column_imply_each_other_as_their_values_do(column: str, constants: tuple[str, ...]) -> None:
    written = [f"{column} {op} {constant}" for op, constant in product(OPERATORS, constants)]
    found = [conjunctive_form(condition(each)) for each in (*written, f"{column} IS NOT NULL")]
    literals = [each.disjunctions[0].literals[0] for each in found if not each.is_false]
    assert len(literals) > len(written) // 2
    for left, right in product(literals, repeat=2):
        assert literal_implies(left, right) == is_subset(left.values, right.values), (left.text, right.text)


def pairs(world: World, is_linear: bool, seed: int, count: int) -> Iterator[tuple[Known, Known]]:
    pick = random.Random(seed)
    for _ in range(count):
        yield (
            conjunction_of_disjunctions(pick, world, is_linear),
            conjunction_of_disjunctions(pick, world, is_linear, most=2),
        )


@pytest.mark.parametrize("world", [DENSE, WHOLE], ids=["dense", "whole"])
@pytest.mark.parametrize("is_linear", [False, True], ids=["columns", "sums"])
def test_implication_is_sound_and_finds_most(world: World, is_linear: bool) -> None:
    """The floors are well below what is found together: all for single columns, 95 to 97 % for sums."""
    _measure(world, is_linear, seed=11, count=220, floors=(0.9, 0.95) if not is_linear else (0.35, 0.88))


@pytest.mark.prove
@pytest.mark.parametrize("world", [DENSE, WHOLE, DENSE_3], ids=["dense", "whole", "three"])
@pytest.mark.parametrize("is_linear", [False, True], ids=["columns", "sums"])
def test_completeness_measured(world: World, is_linear: bool) -> None:
    _measure(world, is_linear, seed=5, count=1_500, floors=(0.9, 0.99) if not is_linear else (0.35, 0.9))


def _measure(world: World, is_linear: bool, seed: int, count: int, floors: tuple[float, float]) -> None:
    true = by_pairs = by_all = by_boxes = 0
    for p, q in pairs(world, is_linear, seed, count):
        left, right = predicates(p, world), predicates(q, world)
        is_implied = p.rows & ~q.rows == 0
        found = set_implies(left, right), entails(left, right), _boxes_imply(left, right)
        assert is_implied or not any(found), (p.text, q.text)
        assert found[1] or not found[0], "what pairs of disjunctions show, all together must show too"
        assert p.rows == 0 or not entails(left, FALSE_SET), p.text
        if is_implied and p.rows and q.rows != world.everywhere:
            true += 1
            by_pairs, by_all, by_boxes = by_pairs + found[0], by_all + found[1], by_boxes + found[2]
    assert true >= count // 20, "too few true implications to measure anything"
    print(f"{true} true: pairs {by_pairs / true:.3f}, all together {by_all / true:.3f}, boxes {by_boxes / true:.3f}")
    assert by_pairs / true >= floors[0]
    assert by_all / true >= floors[1]


def _boxes_imply(left: PredicateSet, right: PredicateSet) -> bool:
    inner, outer = disjunctive_form(left), disjunctive_form(right)
    if inner is None or outer is None:
        return False
    return all(any(box_contained(box, other) for other in outer) for box in inner)


@pytest.mark.prove
@pytest.mark.parametrize("world", [DENSE, WHOLE], ids=["dense", "whole"])
@pytest.mark.parametrize("is_linear", [False, True], ids=["columns", "sums"])
def test_conditions_that_mean_the_same_mostly_have_one_text(world: World, is_linear: bool) -> None:
    """The number of texts per class of equivalent conditions: 1 would be a complete canonical form."""
    pick = random.Random(3)
    classes: dict[int, set[str]] = {}
    for _ in range(2_500):
        known = conjunction_of_disjunctions(pick, world, is_linear)
        classes.setdefault(known.rows, set()).add(predicates(known, world).text)
    mean = sum(map(len, classes.values())) / len(classes)
    print(f"{len(classes)} classes, {mean:.4f} texts each")
    assert mean <= (1.5 if is_linear else 1.02)


def test_contradictions_are_found() -> None:
    for each in (
        "a > 5 AND a < 3",
        "a > b AND b > c AND c >= a",
        "a = 1 AND a IS NULL",
        "(a > 1 OR b > 1) AND a + b < 0 AND a > 2 AND b > 2",
    ):
        assert entails(dense(each), FALSE_SET), each
    assert not entails(dense("a > b AND b > c AND a > 3"), FALSE_SET)


def test_orders_of_texts_and_doubles_are_followed() -> None:
    def read(text: str) -> PredicateSet:
        return conjunctive_form(condition(text))

    assert entails(read("s1 < s2 AND s2 <= s3"), read("s1 < s3"))
    assert entails(read("s1 < s2 AND s2 <= 'm'"), read("s1 < 'n'"))
    assert not entails(read("s1 < s2 AND s2 <= 'm'"), read("s1 < 'a'"))
    assert entails(read("x1 = x2 AND x2 > 5"), read("x1 >= 4e0"))
    # NaN is above every number, so nothing follows for x1 - x2.
    assert not entails(read("x1 > x2"), read("x1 - x2 > 0"))


def test_null_follows_from_nothing_but_itself() -> None:
    assert set_implies(dense("a - b < 5"), dense("a IS NOT NULL"))
    assert set_implies(dense("a > 5"), dense("a IS NOT NULL"))
    assert not set_implies(dense("a IS NULL"), dense("a < 5"))
    assert not set_implies(dense("a < 5 OR a IS NULL"), dense("a < 5"))
    assert entails(dense("(a < 5 OR a IS NULL) AND a - b < 1"), dense("a < 5"))
    assert not entails(dense("a < 5 OR a >= 5"), dense("a IS NULL"))


def test_effort_is_bounded() -> None:
    hard = " AND ".join(f"(a {'<' if n % 2 else '>'} {n} OR b > {n} OR c < {-n})" for n in range(1, 9))
    assert not entails(dense(hard), dense("d > 1"), effort=3)
    assert entails(dense(hard), dense("a IS NOT NULL OR b IS NOT NULL OR c IS NOT NULL"))


def test_a_key_is_in_the_index_once_and_leaves_nothing_behind() -> None:
    index: ClosestIndex[str] = ClosestIndex()
    index.add("q", whole("a > 1 AND (b = 2 OR c IS NULL) AND a < b"))
    with pytest.raises(ValueError, match="remove it first"):
        index.add("q", whole("a > 1"))
    index.remove("q")
    index.add("other", whole("a > 0"))
    assert index.closest(whole("a > 1 AND a < b")) == {"other"}
    index.remove("other")
    assert not index.closest(whole("a > 1 AND a < b"))


def test_what_follows_from_one_is_what_some_pair_tells() -> None:
    """Whatever the order of the literals, and where values are asked for."""
    pick, found = random.Random(5), 0
    for _ in range(400):
        given, asked = (predicates(conjunction_of_disjunctions(pick, WHOLE, True), WHOLE) for _ in range(2))
        for each in asked.disjunctions:
            told = any(disjunction_implies(other, each) for other in given.disjunctions)
            assert follows_from_one(each, given) == told, (given.text, each.text)
            found += told
    assert found > 40


def test_everything_implies_itself() -> None:
    for clause in whole("a > 5 AND (b = 3 OR c IS NULL) AND a != b AND d IS NOT NULL").disjunctions:
        assert all(literal_implies(each, each) for each in clause.literals)


def test_long_lists_are_one_disjunction() -> None:
    evens = ", ".join(str(2 * n) for n in range(1_000))
    fours = ", ".join(str(4 * n) for n in range(500))
    larger, smaller = whole(f"a IN ({evens})"), whole(f"a IN ({fours})")
    assert len(larger.disjunctions[0].literals) == 1_000
    assert set_implies(smaller, larger)
    assert not set_implies(larger, smaller)
    # Neighbours are a range.
    assert whole(f"a IN ({', '.join(map(str, range(1_000)))})") == whole("a BETWEEN 0 AND 999")


def test_two_ways_to_say_that_the_same_columns_have_values_are_one() -> None:
    always = "(a - b < 5 OR a - b >= 5 OR a + b < 1 OR a + b >= 1 OR c = 1)"
    (clause,) = dense(always).disjunctions
    assert len(clause.literals) == 2
    assert entails(dense("a = 1 AND b = 1"), dense(always))
    assert not entails(dense("a = 1"), dense(always))


def test_the_closest_sets_are_found() -> None:
    """Against all sets that are implied: the closest are among them, and each of the others follows from one."""
    pick = random.Random(8)
    index: ClosestIndex[int] = ClosestIndex()
    stored: dict[int, PredicateSet] = {}
    several = 0
    for step in range(240):
        new = dense(
            f"a > {pick.randint(0, 9)} AND a - b <= {pick.randint(0, 9)} AND c >= {pick.randint(0, 5)}"
            f"{pick.choice(('', ' AND d = 1', ' AND d = 1', ' AND (d = 1 OR e < 2)', ' AND c = 5'))}"
        )
        implied = {key for key, each in stored.items() if set_implies(new, each)}
        found = index.closest(new)
        assert found <= implied
        assert all(any(set_implies(stored[close], stored[key]) for close in found) for key in implied)
        several += 1 < len(found) < len(implied)
        stored[step] = new
        index.add(step, new)
        if pick.random() < 0.3:
            gone = pick.choice(sorted(stored))
            index.remove(gone)
            del stored[gone]
    assert several > 10, "the example should tell the closest from the rest"


def test_among_the_closest_none_lies_behind_another() -> None:
    index: ClosestIndex[int] = ClosestIndex()
    for n in range(200):
        index.add(n, dense(f"a > {n}"))
    assert index.closest(dense("a > 77.5")) == {77}
    assert index.closest(dense("a = 20 OR a = 30")) == {19}
    assert index.closest(dense("b > 300")) == frozenset()
    index.remove(77)
    assert index.closest(dense("a > 77.5 AND b = 1")) == {76}
