"""Set operators over some of the columns that others combine: made of them where that is sound, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import pytest

from tests.optimizer.test_arrange_set_operators import FOREVER, relation, shown
from tests.oracle import Row
from tests.oracle_sets import Memory, SetMemory, combine, distinct, in_order, unique
from weft.algebra import Column, Expression, KeyRef, Relation, Select, SetOperation, WindowBound
from weft.optimizer.sets.arrange_set_operators import arranged, chains_in
from weft.optimizer.sets.share_set_columns import described, why_not
from weft.plan.canonical import with_ordered_operands


def over(columns: str, *bounds: int) -> list[str]:
    return [f"SELECT {columns} FROM s WHERE b > {bound}" for bound in bounds]


def windowed(columns: str, *bounds: int) -> list[str]:
    return [f"SELECT {columns} FROM s [ROWS 10 SLIDE 10] WHERE b > {bound} GROUP BY a, b" for bound in bounds]


def together(*texts: str) -> list[Relation]:
    return arranged([relation(text) for text in texts])


def within(root: Relation) -> set[Relation]:
    """A relation and all those that it reads."""
    below: Iterable[object] = (
        (root.left, root.right) if isinstance(root, SetOperation) else (each.source for each in root.inputs)
    )
    return {root}.union(*(within(each) for each in below if isinstance(each, (Select, SetOperation))))


def shares(narrow: str, wide: str) -> bool:
    """Whether a query is made of what another one gives."""
    one, other = together(narrow, wide)
    return other in within(one)


# -- what is made of what ----------------------------------------------------------------------------------------------


def test_union_all_of_some_columns_is_some_columns_of_union_all() -> None:
    narrow, wide = together(" UNION ALL ".join(over("b", 1, 2)), " UNION ALL ".join(over("a, b", 1, 2)))
    assert isinstance(narrow, Select)
    assert narrow.inputs[0].source == wide
    assert [each.expression for each in narrow.outputs] == [Column("t0", "c1", wide.fields[1].type)]


def test_more_operands_are_added_to_the_columns_of_the_others() -> None:
    wide = " UNION ALL ".join(over("a, b", 1, 2))
    narrow = " UNION ALL ".join([*over("b", 1, 2), *over("a", 3)])
    assert shares(narrow, wide)
    assert not shares(" UNION ALL ".join(over("b", 1, 3)), wide), "an operand of the wide one is none of its own"


def test_columns_have_one_place_in_all_operands() -> None:
    wide = " UNION ALL ".join([*over("a, b", 1), *over("b, a", 2)])
    assert shares(" UNION ALL ".join([*over("b", 1), *over("a", 2)]), wide)
    assert not shares(" UNION ALL ".join(over("b", 1, 2)), wide)


def test_operands_count_as_often_as_they_are_there() -> None:
    wide = " UNION ALL ".join(over("a, b", 1, 1))
    assert shares(" UNION ALL ".join(over("b", 1, 1, 2)), wide)
    assert not shares(" UNION ALL ".join(over("b", 1, 2)), wide)
    assert shares(" UNION ".join(over("b", 1, 2)) + FOREVER, wide), "what UNION leaves out may come often"


def test_union_is_made_distinct_once_more() -> None:
    for wide in (" UNION ALL ".join(over("a, b", 1, 2)), " UNION ".join(over("a, b", 1, 2)) + FOREVER):
        narrow = together(" UNION ".join(over("b", 1, 2)) + FOREVER, wide)[0]
        assert isinstance(narrow, Select)
        assert narrow.distinct
        assert shares(" UNION ".join(over("b", 1, 2)) + FOREVER, wide)


def test_union_all_is_not_made_of_union() -> None:
    narrow, wide = " UNION ALL ".join(over("b", 1, 2)), " UNION ".join(over("a, b", 1, 2)) + FOREVER
    assert not shares(narrow, wide)
    assert "left out" in str(_reason(narrow, wide))


def test_what_is_taken_away_may_be_columns_of_a_union() -> None:
    wide = " UNION ".join(over("a, b", 1, 2)) + FOREVER
    assert shares(" EXCEPT ".join(over("b", 0, 1, 2)) + FOREVER, wide)


@pytest.mark.parametrize("operator", ["EXCEPT", "INTERSECT"])
def test_some_columns_of_except_and_intersect_are_not_those_of_their_operands(operator: str) -> None:
    """A = {(1, 1)} and B = {(1, 2)}: A EXCEPT B has a row with a = 1, their first columns leave none over."""
    narrow, wide = (f" {operator} ".join(over(columns, 1, 2)) + FOREVER for columns in ("a", "a, b"))
    assert not shares(narrow, wide)
    assert operator in str(_reason(narrow, wide))
    narrow, wide = (f" {operator} ".join(windowed(columns, 1, 2)) for columns in ("a", "a, b"))
    assert not shares(narrow, wide)


@pytest.mark.parametrize("operator", ["EXCEPT", "INTERSECT", "UNION"])
def test_all_columns_in_another_order_are_made_of_any_operator(operator: str) -> None:
    one, other = (f" {operator} ".join(over(columns, 1, 2)) + FOREVER for columns in ("a, b", "b, a"))
    assert shares(one, other) or shares(other, one)
    found = together(one, other)
    assert len({each for root in found for each in within(root) if isinstance(each, SetOperation)}) == 1


def test_columns_of_window_instances() -> None:
    for operator in ("UNION ALL", "UNION"):
        wide = f" {operator} ".join(windowed("a, b", 1, 2))
        assert shares(f" {operator} ".join(windowed("b", 1, 2)), wide)
    other = " UNION ".join(f"{each} " for each in windowed("b", 1, 2)).replace("ROWS 10", "ROWS 20")
    assert not shares(other, " UNION ".join(windowed("a, b", 1, 2)))


def test_aggregates_are_columns_too() -> None:
    def sums(columns: str) -> str:
        return " UNION ALL ".join(
            f"SELECT {columns} FROM s [ROWS 10 SLIDE 10] WHERE b > {bound} GROUP BY a HAVING COUNT(*) > 1"
            for bound in (1, 2)
        )

    assert shares(sums("a, SUM(b) AS x"), sums("a, MAX(b) AS y, SUM(b) AS x"))
    assert not shares(sums("a, MIN(b) AS x"), sums("a, MAX(b) AS y, SUM(b) AS x"))


def test_what_distinct_operands_leave_out_depends_on_all_columns() -> None:
    def values(columns: str) -> str:
        return " UNION ALL ".join(f"({each}{FOREVER})" for each in over(f"DISTINCT {columns}", 1, 2))

    assert not shares(values("b"), values("a, b"))


def test_with_a_bound_chains_stay_as_they_are_written() -> None:
    narrow, wide = (" UNION ".join(over(columns, 1, 2)) + " RETAIN 9" for columns in ("b", "a, b"))
    assert not shares(narrow, wide)
    assert "RETAIN" in str(_reason(narrow, wide))


def test_of_several_the_one_with_most_operands_and_fewest_columns_is_taken() -> None:
    two, three = (" UNION ALL ".join(over("a, b", *bounds)) for bounds in ((1, 2), (1, 2, 3)))
    narrow, _, most = together(" UNION ALL ".join(over("b", 1, 2, 3)), two, three)
    assert most in within(narrow)


def _reason(narrow: str, wide: str) -> str | None:
    found = []
    for text in (narrow, wide):
        (chain,) = chains_in(with_ordered_operands(relation(text)))
        found.append(described(chain))
    return why_not(*found)


# -- what they emit ----------------------------------------------------------------------------------------------------

#: What a leaf reads: the rows of its source that it lets through, whatever it shows of them.
Rows = Callable[[Select], list[Row]]


def _value(expression: Expression, row: Row) -> object:
    if isinstance(expression, Column):
        return row.values["ab".index(expression.name)]
    if isinstance(expression, KeyRef):
        return row.values[expression.index]
    assert isinstance(expression, WindowBound)
    return 10 if expression.end else 0


def _shown(select: Select, rows: Iterable[Row]) -> list[Row]:
    return [
        Row(tuple(_value(each.expression, row) for each in select.outputs), row.clock, row.cycle)  # type: ignore[arg-type, misc]
        for row in rows
    ]


def _picked(select: Select, rows: Iterable[Row]) -> list[Row]:
    places = [int(each.expression.name[1:]) for each in select.outputs if isinstance(each.expression, Column)]
    return [Row(tuple(row.values[place] for place in places), row.clock, row.cycle) for row in rows]


class History:
    """A relation over history, cycle by cycle, by the oracle's operators."""

    def __init__(self, root: Relation) -> None:
        self._root = root
        below = (root.left, root.right) if isinstance(root, SetOperation) else (root.inputs[0].source,)
        self._below = [History(each) for each in below if isinstance(each, (Select, SetOperation))]
        self._operator = SetMemory(root.operator, root.retain) if _remembers(root) else None  # type: ignore[union-attr, arg-type]
        self._memory = Memory(root.retain) if isinstance(root, Select) and root.retain is not None else None

    def take(self, rows: Rows) -> list[Row]:
        root = self._root
        if isinstance(root, SetOperation):
            left, right = (each.take(rows) for each in self._below)
            return [*left, *right] if self._operator is None else self._operator.take(left, right)
        if not self._below:
            return _shown(root, rows(root))
        found = _picked(root, self._below[0].take(rows))
        return found if self._memory is None else distinct(in_order(found), self._memory)


def _remembers(root: Relation) -> bool:
    return isinstance(root, SetOperation) and not root.all


def instance(root: Relation, rows: Rows) -> list[Row]:
    """A relation of one window instance."""
    if isinstance(root, SetOperation):
        left, right = ([row.values for row in instance(each, rows)] for each in (root.left, root.right))
        return [Row(values, 0, 0) for values in combine(root.operator, root.all, left, right)]
    source = root.inputs[0].source
    if isinstance(source, (Select, SetOperation)):
        return _picked(root, instance(source, rows))
    found = _shown(root, rows(root))
    return [Row(values, 0, 0) for values in unique(row.values for row in found)] if root.distinct else found


def chain(random: Random, operands: Callable[..., list[str]], *, retained: bool) -> str:
    operator = random.choice(["UNION ALL", "UNION ALL", "UNION", "UNION", "EXCEPT", "INTERSECT"])
    if not retained and operator != "UNION ALL" and random.random() < 0.3:
        operator += " ALL"
    bounds = [random.randint(0, 3) for _ in range(random.randint(2, 4))]
    if random.random() < 0.5:
        bounds = sorted(set(bounds) | {1, 2})
    columns = random.choice([["a, b"], ["b, a"], ["a"], ["b"], ["a, b", "b, a"], ["a", "b"], ["b, b AS a"]])
    listed = [text for bound in bounds for text in operands(random.choice(columns), bound)]
    return f" {operator} ".join(listed) + (FOREVER if retained and operator != "UNION ALL" else "")


def _source(leaf: Select) -> str:
    """What a leaf reads, whatever it shows of it."""
    return repr((leaf.inputs, leaf.where))


@pytest.mark.parametrize("seed", range(120))
def test_over_history_they_emit_what_they_emit_as_they_are_written(seed: int) -> None:
    random = Random(seed)
    written = [relation(chain(random, over, retained=True)) for _ in range(random.randint(4, 8))]
    pairs = [(History(one), History(other)) for one, other in zip(written, arranged(written), strict=True)]
    for cycle in range(6):
        drawn: dict[str, list[Row]] = {}

        def rows(leaf: Select, cycle: int = cycle, drawn: dict[str, list[Row]] = drawn) -> list[Row]:
            if _source(leaf) not in drawn:
                drawn[_source(leaf)] = [
                    Row(
                        (random.randint(0, 2), random.randint(0, 2)),
                        random.randint(3 * cycle - 2, 3 * cycle + 3),
                        cycle,
                    )
                    for _ in range(random.randint(0, 4))
                ]
            return drawn[_source(leaf)]

        for one, other in pairs:
            assert shown(one.take(rows)) == shown(other.take(rows))


@pytest.mark.parametrize("seed", range(80))
def test_between_instances_they_give_what_they_give_as_they_are_written(seed: int) -> None:
    random = Random(seed)
    written = [relation(chain(random, windowed, retained=False)) for _ in range(random.randint(4, 8))]
    drawn: dict[str, list[Row]] = {}

    def rows(leaf: Select) -> list[Row]:
        if _source(leaf) not in drawn:
            pairs = {(random.randint(0, 2), random.randint(0, 2)) for _ in range(random.randint(0, 5))}
            drawn[_source(leaf)] = [Row(pair, 0, 0) for pair in sorted(pairs)]
        return drawn[_source(leaf)]

    for one, other in zip(written, arranged(written), strict=True):
        assert shown(instance(one, rows)) == shown(instance(other, rows))


def test_the_random_chains_are_often_made_of_others() -> None:
    """Otherwise the two tests above would show nothing."""
    found = 0
    for seed in range(120):
        random = Random(seed)
        written = [relation(chain(random, over, retained=True)) for _ in range(random.randint(4, 8))]
        found += any(
            isinstance(each, Select) and isinstance(each.inputs[0].source, SetOperation)
            for root in arranged(written)
            for each in within(root)
        )
    assert found > 40
