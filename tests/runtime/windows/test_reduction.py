"""What Spark computes for every row: its slice, and its signature."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from weft.algebra import Call, Column, Expression, Literal, Window
from weft.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING
from weft.expressions.spark_expressions import spark_sql
from weft.optimizer.aggregates.stream_shapes import conditions_of
from weft.runtime.stages.windows.reduction import packing, slice_sql
from weft.runtime.stages.windows.signatures import satisfying, signatures
from weft.windows.slicing import edges_between, shared_edges

pytestmark = pytest.mark.spark

#: Few classes of edges; many with a short period, which take a table; many with a long one.
WINDOWS = {
    "one": [Window(10, 5)],
    "few": [Window(10, 4, 1), Window(7, 3), Window(12, 12, 5)],
    "table": [Window(1, 60, start) for start in (0, 3, 7, 11, 16, 22, 29, 31, 40, 44, 53)],
    "long": [Window(slide + 1, slide) for slide in (31, 37, 41, 43, 47, 53, 59, 61)],
}


@pytest.mark.parametrize("name", WINDOWS)
def test_no_window_has_an_edge_inside_a_cell(spark: SparkSession, name: str) -> None:
    edges = shared_edges(WINDOWS[name])
    clocks = [-1000, -61, -60, -1, 0, 1, 1_700_000_000_000_123, *range(-5, 300)]
    rows = spark.createDataFrame(pa.table({"t": pa.array(clocks, pa.int64())}))
    found = rows.selectExpr("t", f"{slice_sql(edges, 't')} AS cell").toArrow().to_pydict()
    for clock, start in zip(found["t"], found["cell"], strict=True):
        assert start <= clock
        assert len(edges_between(edges, start, clock)) == 0, (start, clock)
    # And slices are no finer than they need be, where that takes no long table.
    if name != "long":
        firsts = [clock for clock, start in zip(found["t"], found["cell"], strict=True) if clock == start]
        assert all(len(edges_between(edges, first - 1, first)) == 1 for first in firsts)


PRICE, QTY, SYM = Column("s", "price", DOUBLE), Column("s", "qty", BIGINT), Column("s", "sym", STRING)


def leaf(expression: object) -> str:
    assert isinstance(expression, Column)
    return expression.name


def wheres(chance: random.Random, count: int, *, one_way: tuple[str, ...] = ()) -> list[Expression]:
    """Conjunctions of comparisons, most of them of two columns with constants on either side.

    Those that go `one_way` have the column on the left, and tell no value from its bound that others do not.
    """

    def condition() -> Expression:
        op = chance.choice(one_way or ("<", "<=", ">", ">=", "="))
        draw = chance.random()
        if draw < 0.1:
            return Call("=", (SYM, Literal(chance.choice("abc"), STRING)), BOOLEAN)
        column, constant = (
            (PRICE, Literal(chance.choice((chance.uniform(-50, 50), float(chance.randint(-3, 3)))), DOUBLE))
            if draw < 0.6
            else (QTY, Literal(chance.randint(-40, 40), BIGINT))
        )
        sides = (column, constant) if one_way or chance.random() < 0.7 else (constant, column)
        return Call(op, sides, BOOLEAN)

    single = [condition() for _ in range(count)]
    pairs = [Call("and", (chance.choice(single), chance.choice(single)), BOOLEAN) for _ in range(count // 4)]
    return [*single, *pairs]


@pytest.mark.parametrize("one_way", [(), (">", "<="), ("<", ">=")])
@pytest.mark.parametrize("count", [1, 6, 16, 60, 300])
def test_a_signature_tells_which_conditions_hold(spark: SparkSession, count: int, one_way: tuple[str, ...]) -> None:
    chance = random.Random(count)
    asked = wheres(chance, count, one_way=one_way)
    prices = [math.nan, math.inf, -math.inf, 0.0, -0.0, None, *(chance.uniform(-60, 60) for _ in range(200))]
    prices += [float(number) for number in range(-4, 5)]
    rows = pa.table(
        {
            "price": pa.array(prices, pa.float64()),
            "qty": pa.array([None if chance.random() < 0.1 else chance.randint(-45, 45) for _ in prices], pa.int64()),
            "sym": pa.array([chance.choice(("a", "b", "c", None)) for _ in prices]),
        }
    )
    signed = signatures(condition for where in asked for condition in conditions_of(where, leaf))
    truths = [f"coalesce({spark_sql(where, leaf)}, false) AS w{number}" for number, where in enumerate(asked)]
    codes = [f"{text} AS g{number}" for number, text in enumerate(signed.columns)]
    found = spark.createDataFrame(rows).selectExpr(*codes, *truths).toArrow()
    columns = [np.asarray(found[f"g{number}"]).astype(np.int64) for number in range(len(codes))]
    for number, where in enumerate(asked):
        texts = [condition.text for condition in conditions_of(where, leaf)]
        told = satisfying(signed.decoders, columns, texts, found.num_rows)
        assert told.tolist() == found[f"w{number}"].to_pylist(), spark_sql(where, leaf)


def test_a_thousand_comparisons_take_as_many_expressions_as_ten() -> None:
    chance = random.Random(1)

    def columns(count: int) -> int:
        asked = (Call(">", (PRICE, Literal(chance.uniform(0, 100), DOUBLE)), BOOLEAN) for _ in range(count))
        return len(signatures(condition for where in asked for condition in conditions_of(where, leaf)).columns)

    assert columns(1_000) == columns(20) == columns(10) == 1


@pytest.mark.parametrize("bounds", [10, 30])
def test_values_that_no_condition_tells_apart_have_one_code(spark: SparkSession, bounds: int) -> None:
    asked = [Call(">", (QTY, Literal(bound, BIGINT)), BOOLEAN) for bound in range(bounds)]
    (code,) = signatures(condition for where in asked for condition in conditions_of(where, leaf)).columns
    rows = spark.range(-3, bounds + 3).withColumnRenamed("id", "qty")
    assert rows.selectExpr(f"{code} AS code").distinct().count() == bounds + 1


@pytest.mark.parametrize("count", [1, 6, 60])
@pytest.mark.parametrize("origin", [0, 3])
def test_a_signature_comes_back_out_of_the_cell_it_was_packed_into(
    spark: SparkSession, count: int, origin: int
) -> None:
    chance = random.Random(count)
    signed = signatures(condition for where in wheres(chance, count) for condition in conditions_of(where, leaf))
    edges = shared_edges([Window(3 * 10**9, 10**9, origin)])
    packs = packing(edges, signed)
    assert packs is not None
    clocks = [
        None,
        -(10**9),
        -1,
        0,
        2,
        3,
        1_700_000_000_000_123,
        *(chance.randint(-(10**12), 10**12) for _ in range(99)),
    ]
    rows = pa.table(
        {
            "t": pa.array(clocks, pa.int64()),
            "price": pa.array([chance.choice([None, chance.uniform(-60, 60)]) for _ in clocks], pa.float64()),
            "qty": pa.array([chance.randint(-50, 50) for _ in clocks], pa.int64()),
            "sym": [chance.choice("abcd") for _ in clocks],
        }
    )
    names = [f"g{place}" for place in range(len(signed.columns))]
    numbers = spark.createDataFrame(rows).selectExpr(
        f"{slice_sql(edges, 't')} AS apart",
        *(f"{text} AS {name}" for text, name in zip(signed.columns, names, strict=True)),
    )
    packed = numbers.selectExpr(
        *(f"{name} AS plain_{name}" for name in names), "apart", f"{packs.packed('apart', names)} AS cell"
    )
    found = packs.unpacked(packed.toArrow())
    assert found["cell"].to_pylist() == found["apart"].to_pylist()
    usable = found.filter(found["cell"].is_valid())
    for name in names:
        assert usable[name].to_pylist() == usable[f"plain_{name}"].to_pylist()


def test_signatures_that_do_not_fit_between_two_slices_stay_apart() -> None:
    signed = signatures(condition for where in wheres(random.Random(1), 60) for condition in conditions_of(where, leaf))
    assert packing(shared_edges([Window(40, 20)]), signed) is None
    assert packing(shared_edges([]), signed) is None
    assert packing(shared_edges([Window(10**9, 10**9)]), signatures([])) is None
