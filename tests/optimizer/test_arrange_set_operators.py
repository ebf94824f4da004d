"""Chains of set operators share what they have in common, and emit what they emit as they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from tests.optimizer.network.given import names
from tests.oracle import Row
from tests.oracle_sets import SetMemory, combine
from tests.oracle_values import row_key
from weft.algebra import Relation, Select, SetOperation
from weft.algebra.codec import dumps
from weft.optimizer.sets.arrange_set_operators import arranged
from weft.plan.canonical import normalised, without_names
from weft.sql import parse
from weft.sql.relation_binder import bind_relation

A, B, C, D, E = (f"SELECT a FROM s WHERE b > {bound}" for bound in range(5))
WINDOWED = [f"SELECT a FROM s [ROWS 10 SLIDE 10] WHERE b > {bound} GROUP BY a" for bound in range(5)]
FOREVER = " RETAIN UNBOUNDED"


def relation(text: str) -> Relation:
    return without_names(normalised(bind_relation(parse(text), names())))


def operators(*texts: str) -> set[SetOperation]:
    """The different set operators of some queries that begin together."""
    return {each for root in arranged([relation(text) for text in texts]) for each in _operators(root)}


def _operators(root: Relation) -> Iterator[SetOperation]:
    if isinstance(root, SetOperation):
        yield root
        yield from _operators(root.left)
        yield from _operators(root.right)
    else:
        for each in root.inputs:
            if isinstance(each.source, (Select, SetOperation)):
                yield from _operators(each.source)


def remembering(found: set[SetOperation]) -> int:
    """How many of them remember values: UNION ALL does not."""
    return sum(not each.all for each in found)


def test_any_part_of_a_chain_is_shared() -> None:
    for part in ((A, B), (B, C), (A, C)):
        for operator in (" UNION ", " INTERSECT ", " UNION ALL "):
            forever = "" if operator == " UNION ALL " else FOREVER
            small, large = (operator.join(each) + forever for each in (part, (A, B, C)))
            assert len(operators(small, large)) == 2
            assert operators(small) < operators(small, large)


def test_a_union_is_made_of_what_union_all_gives() -> None:
    some, whole = f"{A} UNION ALL {B}", f"{A} UNION {B} UNION {C}{FOREVER}"
    assert len(operators(some, whole)) == 2
    assert operators(some) < operators(some, whole)
    some, whole = f"{A} UNION {B}{FOREVER}", f"{A} UNION ALL {B} UNION ALL {C}"
    assert len(operators(some, whole)) == 3, "what UNION has left out is not there for UNION ALL"


def test_what_is_taken_away_is_shared() -> None:
    less = f"{A} EXCEPT {B} EXCEPT {C}{FOREVER}"
    for part in (f"{A} EXCEPT {B}{FOREVER}", f"{A} EXCEPT {C}{FOREVER}", f"{B} UNION {C}{FOREVER}"):
        assert len(operators(part, less)) == 2
    assert len(operators(f"{B} EXCEPT {A}{FOREVER}", less)) == 3


def test_operands_count_as_often_as_they_are_there() -> None:
    twice = f"{A} UNION ALL {A}"
    assert len(operators(twice, f"{A} UNION ALL {B}")) == 2
    assert len(operators(twice, f"{A} UNION ALL {A} UNION ALL {B}")) == 2
    assert len(operators(f"{A} UNION {B}{FOREVER}", f"{A} UNION {B} UNION {A}{FOREVER}")) == 1


def test_one_operand_many_times_is_no_search_through_all_ways_to_choose_them() -> None:
    often, more = (" UNION ALL ".join([A] * times) for times in (40, 41))
    assert len(operators(often)) == 39
    assert len(operators(often, more)) == 40


def test_what_no_query_asks_for_by_itself_is_shared_if_several_have_it() -> None:
    found = operators(f"{A} INTERSECT {B} INTERSECT {C}{FOREVER}", f"{D} INTERSECT {C} INTERSECT {B}{FOREVER}")
    assert len(found) == 3


def test_a_long_union_remembers_values_once() -> None:
    assert remembering(operators(f"{A} UNION {B} UNION {C} UNION {D}{FOREVER}")) == 1
    assert remembering(operators(f"{A} EXCEPT {B} EXCEPT {C} EXCEPT {D}{FOREVER}")) == 1


def test_with_a_bound_chains_stay_as_they_are_written() -> None:
    texts = f"{A} UNION {B} UNION {C} RETAIN 9", f"{B} UNION {C} RETAIN 9"
    assert len(operators(*texts)) == 3
    assert arranged([relation(texts[0])]) == [relation(texts[0])]


def test_the_order_in_which_queries_are_listed_plays_no_part() -> None:
    texts = [f"{A} UNION {B} UNION {C}{FOREVER}", f"{C} UNION {D}{FOREVER}", f"{B} UNION {C}{FOREVER}"]
    both = [arranged([relation(text) for text in listed]) for listed in (texts, texts[::-1])]
    assert both[0] == both[1][::-1]


# -- what they emit ---------------------------------------------------------------------------------------------------


class History:
    """A relation over history, cycle by cycle, by the oracle's operators."""

    def __init__(self, root: Relation) -> None:
        self._root = root
        self._below = [History(each) for each in (root.left, root.right)] if isinstance(root, SetOperation) else []
        remembers = isinstance(root, SetOperation) and not root.all
        self._memory = SetMemory(root.operator, root.retain) if remembers else None  # type: ignore[union-attr, arg-type]

    def take(self, rows: Callable[[Relation], list[Row]]) -> list[Row]:
        if not self._below:
            return rows(self._root)
        left, right = (each.take(rows) for each in self._below)
        return [*left, *right] if self._memory is None else self._memory.take(left, right)


def instance(root: Relation, rows: Callable[[Relation], list[Row]]) -> list[tuple[object, ...]]:
    """A relation of one window instance."""
    if isinstance(root, Select):
        return [row.values for row in rows(root)]
    return combine(root.operator, root.all, instance(root.left, rows), instance(root.right, rows))  # type: ignore[arg-type]


def chain(random: Random, leaves: Sequence[str], *, windowed: bool, deep: bool = True) -> str:
    operator = random.choice(["UNION", "INTERSECT", "EXCEPT", "UNION ALL"])
    if windowed and random.random() < 0.5:
        operator += " ALL" if operator != "UNION ALL" else ""
    operands = [
        f"({chain(random, leaves, windowed=windowed, deep=False)})"
        if deep and random.random() < 0.2
        else random.choice(leaves)
        for _ in range(random.randint(2, 5))
    ]
    bounded = "" if windowed or operator == "UNION ALL" else random.choice([FOREVER, FOREVER, FOREVER, " RETAIN 3"])
    return f" {operator} ".join(operands) + bounded


def shown(rows: Sequence[Row]) -> Counter[object]:
    return Counter((row_key(row.values), row.clock) for row in rows)


@pytest.mark.parametrize("seed", range(100))
def test_chains_over_history_emit_what_they_emit_as_they_are_written(seed: int) -> None:
    random = Random(seed)
    written = [relation(chain(random, (A, B, C, D, E), windowed=False)) for _ in range(random.randint(1, 5))]
    pairs = [(History(one), History(other)) for one, other in zip(written, arranged(written), strict=True)]
    for cycle in range(6):
        drawn: dict[str, list[Row]] = {}

        def rows(leaf: Relation, cycle: int = cycle, drawn: dict[str, list[Row]] = drawn) -> list[Row]:
            if dumps(leaf) not in drawn:
                clocks = [random.randint(3 * cycle - 2, 3 * cycle + 3) for _ in range(random.randint(0, 3))]
                drawn[dumps(leaf)] = [Row((random.randint(0, 4),), clock, cycle) for clock in clocks]
            return drawn[dumps(leaf)]

        for one, other in pairs:
            assert shown(one.take(rows)) == shown(other.take(rows))


@pytest.mark.parametrize("seed", range(60))
def test_chains_between_instances_give_what_they_give_as_they_are_written(seed: int) -> None:
    random = Random(seed)
    written = [relation(chain(random, WINDOWED, windowed=True)) for _ in range(random.randint(1, 5))]
    drawn: dict[str, list[Row]] = {}

    def rows(leaf: Relation) -> list[Row]:
        if dumps(leaf) not in drawn:
            drawn[dumps(leaf)] = [Row((random.randint(0, 3),), 0, 0) for _ in range(random.randint(0, 4))]
        return drawn[dumps(leaf)]

    for one, other in zip(written, arranged(written), strict=True):
        assert Counter(instance(one, rows)) == Counter(instance(other, rows))
