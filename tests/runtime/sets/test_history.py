"""DISTINCT and the set operators over history emit what the oracle emits, and go on from their logs."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracle import Row
from tests.oracle_sets import Memory, SetMemory, distinct, in_order
from tests.runtime.sets.drawn import chunked, operation, random_fields, random_rows, rows_of, select, shown, table
from weft.algebra import Field, Relation, Retain, Select, SetOperation, SetOperator
from weft.algebra.types import BIGINT, STRING
from weft.runtime.spark.rows import CLOCK
from weft.runtime.stages.sets.set_operators import HistoryOperator
from weft.runtime.stages.sets.set_rows import needed_since, union_all

Model = Callable[[Sequence[list[Row]]], list[Row]]


def model_of(relation: Relation) -> Model:
    """The oracle's operator, which never forgets anything."""
    if isinstance(relation, SetOperation):
        sets = SetMemory(relation.operator, relation.retain)
        return lambda operands: sets.take(*operands)
    memory = Memory(relation.retain)
    return lambda operands: distinct(in_order(operands[0]), memory)


def random_relation(random: Random) -> Relation:
    fields = random_fields(random)
    retain = Retain(random.choice([None, 1, 2, 5, 20, 2**62]))
    operator = random.choice([None, *SetOperator])
    return select(fields, retain=retain) if operator is None else operation(operator, fields, retain=retain)


def watermarks_of(random: Random, cycles: int) -> list[int | None]:
    marks: list[int | None] = [None]
    for _ in range(cycles):
        last = marks[-1]
        starts = random.random() < 0.7
        marks.append(
            (random.randint(-5, 5) if starts else None) if last is None else last + random.choice([0, 1, 4, 30])
        )
    return marks


def is_on_time(relation: Relation, row: Row, before: int | None) -> bool:
    assert relation.retain is not None
    return relation.retain.ticks is None or before is None or row.clock >= before


def stored(log: pa.Table) -> pa.Table:
    """What a log gives back from its file."""
    file = io.BytesIO()
    pq.write_table(log, file)
    return pq.read_table(file)


def rebuilt(relation: Relation, log: Sequence[pa.Table]) -> HistoryOperator:
    operator = HistoryOperator(relation)
    operator.remember(stored(each) for each in log)
    return operator


@pytest.mark.usefixtures("forgetting_early")
@pytest.mark.parametrize("seed", range(250))
def test_an_operator_over_history_emits_what_the_oracle_emits(seed: int) -> None:
    random = Random(seed)
    relation = random_relation(random)
    model, operator = model_of(relation), HistoryOperator(relation)
    log: list[pa.Table] = []
    known: list[Row] = []
    for before, after in pairwise(watermarks_of(random, random.randint(1, 12))):
        around = 0 if before is None else before
        operands = [
            random_rows(random, relation.fields, 8, range(around - 4, around + 12), known[-20:])
            for _ in range(1 if isinstance(relation, Select) else 2)
        ]
        expected = model([[row for row in rows if is_on_time(relation, row, before)] for rows in operands])
        known += [row for rows in operands for row in rows]
        tables = [chunked(random, table(rows, relation.fields)) if rows else None for rows in operands]
        emitted = operator.take(tables, before, after)
        assert emitted is None or emitted.num_rows
        assert shown(rows_of(emitted, relation.fields)) == shown((row.values, row.clock) for row in expected)
        log.append(operator.changed())
        since = needed_since(relation, after)
        log = [each for each in log if each.num_rows and (since is None or max(each[CLOCK].to_pylist()) >= since)]
        if random.random() < 0.3:
            log = [operator.whole()]
        if random.random() < 0.3:
            random.shuffle(log)
            operator = rebuilt(relation, log)


# Set operators over history

X = (Field("x", STRING),)


class Operands:
    """An operator over rows of one text, as (text, clock), cycle by cycle."""

    def __init__(self, relation: Relation) -> None:
        self.relation = relation
        self.operator = HistoryOperator(relation)
        self.watermark: int | None = None

    def take(self, *operands: Sequence[tuple[str | None, int]], until: int | None = None) -> list[tuple[str, int]]:
        tables = [table([Row((x,), clock, 0) for x, clock in rows], X) for rows in operands]
        before, self.watermark = self.watermark, self.watermark if until is None else until
        emitted = self.operator.take(tables, before, self.watermark)
        return [(x, clock) for (x,), clock in rows_of(emitted, X)]


def over_history(operator: SetOperator, ticks: int | None) -> Operands:
    return Operands(operation(operator, X, retain=Retain(ticks)))


def test_union_gives_each_new_row_once_and_none_that_was_there() -> None:
    union = over_history(SetOperator.UNION, None)
    assert union.take([("a", 1), ("b", 1), ("a", 2)], [("a", 1), ("c", 3), ("c", 4)]) == [
        ("a", 1),
        ("b", 1),
        ("c", 3),
    ]
    assert union.take([("c", 5), ("d", 6)], [("d", 6), ("a", 7), ("b", 0)]) == [("d", 6)]


def test_union_all_keeps_duplicates_within_the_new_rows_and_against_history() -> None:
    both = operation(SetOperator.UNION, X, keep_all=True)
    left = table([Row(("a",), 1, 0), Row(("a",), 1, 0)], X)
    right = table([Row(("a",), 1, 0), Row(("b",), 0, 0)], X)
    for _ in range(2):
        assert rows_of(union_all(both, [left, right]), X) == [(("a",), 1), (("a",), 1), (("a",), 1), (("b",), 0)]
    assert rows_of(union_all(both, [None, right]), X) == [(("a",), 1), (("b",), 0)]
    assert union_all(both, [None, None]) is None


def test_except_of_new_rows_is_all_there_is_to_it_under_time_segregation() -> None:
    """If a row and what it is equal to always come in one cycle, the result is that of the cycles one by one."""
    minus = over_history(SetOperator.EXCEPT, 10)
    assert minus.take([("a", 1), ("b", 2), ("b", 3)], [("a", 4)], until=100) == [("b", 2)]
    assert minus.take([("a", 101), ("c", 102)], [("c", 101)], until=200) == [("a", 101)]
    assert minus.take([("b", 201)], [("c", 201)], until=300) == [("b", 201)]


def test_a_late_subtrahend_takes_nothing_back() -> None:
    minus = over_history(SetOperator.EXCEPT, 10)
    assert minus.take([("a", 5)], [], until=5) == [("a", 5)]
    # On time, but after what it would have taken away: the row was told, and stays so.
    assert minus.take([], [("a", 5)], until=6) == []
    assert minus.take([("a", 14)], []) == []
    # Below the watermark: it takes no part, and the next row is kept.
    assert minus.take([], [("b", 5)]) == []
    assert minus.take([("b", 7)], []) == [("b", 7)]


def test_without_a_bound_no_row_is_late() -> None:
    minus = over_history(SetOperator.EXCEPT, None)
    assert minus.take([("a", 100)], [], until=100) == [("a", 100)]
    assert minus.take([], [("b", 1)]) == []
    assert minus.take([("b", 100), ("c", 0)], []) == [("c", 0)]


def test_distinct_emits_a_value_again_when_it_was_not_there_for_as_long_as_is_retained() -> None:
    distinct_rows = Operands(select(X, retain=Retain(10)))
    # The row at 9 is not emitted, and yet it counts for the one at 18.
    assert distinct_rows.take([("a", 0), ("a", 9), ("a", 18), ("a", 28), (None, 1), (None, 2)]) == [
        ("a", 0),
        (None, 1),
        ("a", 28),
    ]
    # An older row on time finds its value, however much older it is.
    assert distinct_rows.take([("a", 1), ("a", 37)]) == []
    assert distinct_rows.take([("a", 47)]) == [("a", 47)]


def test_intersect_emits_a_match_when_the_second_of_two_rows_comes() -> None:
    both = over_history(SetOperator.INTERSECT, 10)
    assert both.take([("a", 1), ("b", 1)], [("a", 1), ("c", 1)]) == [("a", 1)]
    assert both.take([("c", 10)], [("b", 11)]) == [("c", 10)]
    assert both.take([], [("b", 10)]) == [("b", 10)]


def test_at_equal_clocks_the_left_row_comes_first() -> None:
    doubles = (Field("x", STRING), Field("y", BIGINT))
    both = HistoryOperator(operation(SetOperator.INTERSECT, doubles, retain=Retain(1)))
    rows = table([Row(("a", 1), 7, 0)], doubles)
    # The left row finds nothing yet, the right row finds it.
    assert rows_of(both.take([rows, rows], None, None), doubles) == [(("a", 1), 7)]


def test_clocks_may_be_as_far_apart_as_clocks_can_be() -> None:
    least, most = -(2**62), 2**62
    distinct_rows = Operands(select(X, retain=Retain(2**63 - 1)))
    assert distinct_rows.take([("a", least), ("a", most)]) == [("a", least), ("a", most)]
    distinct_rows = Operands(select(X, retain=Retain(2**63 - 1)))
    assert distinct_rows.take([("a", least), ("a", most - 2)]) == [("a", least)]


# Memory and the log


def test_the_log_has_what_changed_with_the_largest_clock() -> None:
    minus = over_history(SetOperator.EXCEPT, 10)
    minus.take([("a", 1), ("b", 2), ("b", 3)], [("a", 4), ("a", 2)])
    assert minus.operator.changed().to_pylist() == [
        {"c0": "a", "_clock": 4, "_side": 1},
        {"c0": "b", "_clock": 3, "_side": 2},
    ]
    minus.take([("b", 1)], [])
    assert minus.operator.changed().num_rows == 0
    assert sorted(row["_clock"] for row in minus.operator.whole().to_pylist()) == [3, 4]


def test_rows_of_the_log_are_needed_for_as_long_as_a_row_on_time_can_find_them() -> None:
    relation = select(X, retain=Retain(10))
    log = [table([Row(("a",), 10, 0)], X).append_column("_side", pa.array([2], pa.int8()))]
    row = [table([Row(("a",), 19, 0)], X)]
    assert rebuilt(relation, log).take(row, 19, 19) is None
    assert needed_since(relation, 19) == 10
    later = [table([Row(("a",), 20, 0)], X)]
    assert rebuilt(relation, log).take(later, 20, 20) == later[0]
    assert needed_since(relation, 20) == 11
    assert needed_since(relation, None) is None
    assert needed_since(select(X, retain=Retain(None)), 20) is None


def test_without_a_bound_the_log_has_each_value_once() -> None:
    distinct_rows = Operands(select(X, retain=Retain(None)))
    distinct_rows.take([("a", 1), ("a", 2)])
    assert distinct_rows.operator.changed().num_rows == 1
    distinct_rows.take([("a", 3)])
    assert distinct_rows.operator.changed().num_rows == 0


@pytest.mark.usefixtures("forgetting_early")
def test_what_nothing_can_find_any_more_is_forgotten() -> None:
    fields = (Field("x", BIGINT),)
    relation = select(fields, retain=Retain(100))
    operator = HistoryOperator(relation)
    most = 0
    for cycle in range(200):
        rows = table([Row((cycle * 50 + number,), cycle * 50 + number, 0) for number in range(50)], fields)
        assert operator.take([rows], cycle * 50, cycle * 50 + 50).num_rows == 50
        most = max(most, operator.bytes_held)
        assert operator.whole().num_rows <= 100
    # A hundred ticks are retained, and a value takes about a hundred bytes.
    assert most < 100_000
    operator.take([None], 10_000, 20_000)
    assert operator.whole().num_rows == 0
    assert operator.bytes_held < 2_000


def test_an_operator_over_history_must_be_told_how_much_of_it() -> None:
    with pytest.raises(ValueError, match="RETAIN"):
        HistoryOperator(operation(SetOperator.UNION, X))
