"""Set operators between window instances, and DISTINCT within each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from tests.oracle import Row
from tests.oracle_sets import combine
from tests.oracle_values import row_key
from tests.runtime.sets.drawn import chunked, operation, random_fields, random_rows, rows_of, table
from tests.runtime.sets.test_history import stored
from weft.algebra import Field, SetOperation, SetOperator, Value, Window
from weft.algebra.types import DOUBLE, STRING
from weft.runtime.spark.rows import CLOCK
from weft.runtime.stages.sets.set_operators import InstanceOperator
from weft.runtime.stages.sets.set_rows import needed_since

WINDOW = Window(10, 10)
X = (Field("x", STRING),)


def multiset(emitted: Sequence[tuple[tuple[Value, ...], int]]) -> Counter[object]:
    return Counter((row_key(values), clock) for values, clock in emitted)


def by_instance(relation: SetOperation, operands: Sequence[Sequence[Row]]) -> list[tuple[tuple[Value, ...], int]]:
    """The operator on each instance of which there are rows."""
    return [
        (values, end)
        for end in sorted({row.clock for rows in operands for row in rows})
        for values in combine(
            relation.operator,
            relation.all,
            *([row.values for row in rows if row.clock == end] for rows in operands),
        )
    ]


@pytest.mark.parametrize("seed", range(250))
def test_instances_that_have_closed_for_both_are_answered_as_sql_does(seed: int) -> None:
    random = Random(seed)
    operator, keep_all = random.choice(list(SetOperator)), random.random() < 0.5
    relation = operation(operator, random_fields(random), keep_all=keep_all, window=WINDOW)
    taking = InstanceOperator(relation)
    arrived: list[list[Row]] = [[], []]
    log: list[pa.Table] = []
    marks: list[int | None] = [random.choice([None, 0])]
    for _ in range(random.randint(1, 10)):
        last = marks[-1]
        marks.append((0 if random.random() < 0.7 else None) if last is None else last + random.choice([0, 5, 10, 35]))
    for after, until in pairwise(marks):
        ends = range((after or 0) // 10 * 10 - 10, (after or 0) + 50, 10)
        tables = []
        for rows in arrived:
            new = random_rows(random, relation.fields, 8, ends, [*arrived[0], *arrived[1]][-20:])
            rows += [row for row in new if after is None or row.clock > after]
            tables.append(chunked(random, table(new, relation.fields)) if new else None)
        closing = [
            [row for row in rows if until is not None and row.clock <= until and (after is None or row.clock > after)]
            for rows in arrived
        ]
        emitted = taking.take(tables, after, until)
        assert emitted is None or emitted.num_rows
        assert multiset(rows_of(emitted, relation.fields)) == multiset(by_instance(relation, closing))
        log.append(taking.changed())
        since = needed_since(relation, until)
        log = [each for each in log if each.num_rows and (since is None or max(each[CLOCK].to_pylist()) >= since)]
        if random.random() < 0.3:
            log = [taking.whole()]
        if random.random() < 0.3:
            taking = InstanceOperator(relation)
            taking.remember(stored(each) for each in log)


def instances(*ends_and_texts: tuple[int, str]) -> pa.Table:
    """Rows of one text, by the end of their instance."""
    return table([Row(tuple(text), end, 0) for end, texts in ends_and_texts for text in texts], X)


def answers(emitted: pa.Table | None) -> list[tuple[int, str]]:
    return sorted((clock, str(x)) for (x,), clock in rows_of(emitted, X))


def test_rows_wait_until_their_instance_has_closed_for_the_other_operand_too() -> None:
    minus = InstanceOperator(operation(SetOperator.EXCEPT, X, window=WINDOW))
    # The left stream is ahead: nothing is answered before the right one has come as far.
    assert minus.take([instances((10, "ab"), (20, "ab")), None], None, None) is None
    assert minus.changed().num_rows == 4
    assert answers(minus.take([None, instances((10, "a"))], None, 10)) == [(10, "b")]
    assert minus.changed().num_rows == 0
    assert minus.whole().num_rows == 2
    assert answers(minus.take([instances((30, "c")), instances((20, "bb"))], 10, 29)) == [(20, "a")]
    assert minus.changed().to_pylist() == [{"c0": "c", "_clock": 30, "_side": 0}]
    assert answers(minus.take([None, None], 29, 30)) == [(30, "c")]
    assert minus.bytes_held == 0


def test_all_counts_as_multisets_do() -> None:
    left, right = instances((10, "aaabbc"), (20, "a")), instances((10, "abbbd"))

    def result(operator: SetOperator) -> list[tuple[int, str]]:
        return answers(
            InstanceOperator(operation(operator, X, keep_all=True, window=WINDOW)).take([left, right], None, 20)
        )

    assert result(SetOperator.INTERSECT) == [(10, "a"), (10, "b"), (10, "b")]
    assert result(SetOperator.EXCEPT) == [(10, "a"), (10, "a"), (10, "c"), (20, "a")]
    assert len(result(SetOperator.UNION)) == 12


def test_union_between_instances_is_of_each_instance_alone() -> None:
    union = InstanceOperator(operation(SetOperator.UNION, X, window=WINDOW))
    emitted = union.take([instances((10, "aab"), (20, "a")), instances((10, "bc"), (20, "ab"))], None, 20)
    assert answers(emitted) == [(10, "a"), (10, "b"), (10, "c"), (20, "a"), (20, "b")]


def test_rows_of_instances_that_lack_rows_or_were_answered_take_no_part() -> None:
    both = InstanceOperator(operation(SetOperator.INTERSECT, X, window=WINDOW))
    rows = instances((10, "a"), (20, "b"), (30, "c"))
    assert answers(both.take([rows, rows], 10, 20)) == [(20, "b")]
    again = instances((20, "d"), (30, "e"))
    assert answers(both.take([again, again], 20, 30)) == [(30, "c"), (30, "e")]


def test_minus_zero_is_shown_as_it_came() -> None:
    """As the oracle has it: the last of equal rows, on the left if there is one."""
    fields = (Field("x", DOUBLE),)
    both = InstanceOperator(operation(SetOperator.INTERSECT, fields, window=WINDOW))
    left, right = table([Row((-0.0,), 10, 0)], fields), table([Row((0.0,), 10, 0)], fields)
    assert repr(rows_of(both.take([left, right], None, 10), fields)) == "[((-0.0,), 10)]"


def test_rows_that_have_left_give_their_memory_back() -> None:
    union = InstanceOperator(operation(SetOperator.UNION, X, window=WINDOW))
    union.take([instances(*((10 * number, "abcdefgh") for number in range(1, 101))), None], None, 0)
    whole = union.bytes_held
    union.take([None, None], 0, 900)
    assert union.bytes_held < whole / 5


def test_an_operator_between_instances_needs_a_window() -> None:
    with pytest.raises(ValueError, match="window"):
        InstanceOperator(operation(SetOperator.UNION, X))
