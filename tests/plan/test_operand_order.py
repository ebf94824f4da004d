"""Set operators that mean the same are the same relation, whatever the order of their operands."""

from __future__ import annotations

import pytest

from tests.optimizer.network.given import names
from weft.algebra import Relation
from weft.plan.canonical import normalised, with_ordered_operands, without_names
from weft.sql import parse
from weft.sql.relation_binder import bind_relation

A, B, C = (f"SELECT a FROM s WHERE b > {bound}" for bound in range(3))
W, X, Y = (f"SELECT a, COUNT(*) AS c FROM s [ROWS 4 SLIDE 2] WHERE b > {bound} GROUP BY a" for bound in range(3))


def ordered(text: str) -> Relation:
    return with_ordered_operands(without_names(normalised(bind_relation(parse(text), names()))))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{A} UNION {B} RETAIN UNBOUNDED", f"{B} UNION {A} RETAIN UNBOUNDED"),
        (f"{A} UNION ALL {B} UNION ALL {C}", f"{C} UNION ALL {A} UNION ALL {B}"),
        (f"{A} INTERSECT {B} INTERSECT {C} RETAIN UNBOUNDED", f"{B} INTERSECT {C} INTERSECT {A} RETAIN UNBOUNDED"),
        (f"{A} EXCEPT {B} EXCEPT {C} RETAIN UNBOUNDED", f"{A} EXCEPT {C} EXCEPT {B} RETAIN UNBOUNDED"),
        (f"{W} UNION {X} UNION {Y}", f"{Y} UNION {W} UNION {X}"),
        (f"{W} EXCEPT ALL {X} EXCEPT ALL {Y}", f"{W} EXCEPT ALL {Y} EXCEPT ALL {X}"),
    ],
)
def test_the_order_plays_no_part(one: str, other: str) -> None:
    assert ordered(one) == ordered(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{A} EXCEPT {B} RETAIN UNBOUNDED", f"{B} EXCEPT {A} RETAIN UNBOUNDED"),
        (f"{A} UNION ALL {A}", f"{A} UNION ALL {B}"),
        (f"{A} UNION ALL {A} UNION ALL {B}", f"{A} UNION ALL {B}"),
        # What an inner operator remembers for a while is not what the outer one would.
        (f"{A} UNION {B} UNION {C} RETAIN 9", f"{C} UNION {B} UNION {A} RETAIN 9"),
        (f"{A} UNION {B} RETAIN UNBOUNDED", f"{A} UNION {B} RETAIN 9"),
        (f"{W} UNION {X}", f"{W} UNION ALL {X}"),
    ],
)
def test_other_relations_stay_others(one: str, other: str) -> None:
    assert ordered(one) != ordered(other)
