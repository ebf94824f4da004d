"""The nodes of a row, found through intervals, are those whose conditions the row satisfies one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.oracle_expressions import Scope, evaluate
from tests.predicates.given import condition, is_true, select
from tests.predicates.test_meaning import comparisons, conditions, rows
from tests.support.peers import arrow_table
from weft.algebra import Call, Expression, Literal, Stream, Value
from weft.algebra.types import decimal
from weft.arrays.arrow_types import arrow_type
from weft.expressions.spark_expressions import spark_sql
from weft.predicates.clauses import PredicateSet
from weft.predicates.domains import satisfying
from weft.predicates.normal_forms import condition_of, conjunctive_form
from weft.predicates.operations import under
from weft.predicates.row_matching import Check, ParentLabel, PlainColumn, RowMatcher, RowMatches
from weft.runtime.stages.joins import row_checks as network_conditions
from weft.runtime.stages.joins.row_checks import (
    Columns,
    bounding_condition,
    bounding_predicates,
    column_of,
    conjunction_of,
)


def _stream() -> Stream:
    source = select("clock = 0").inputs[0].source
    assert isinstance(source, Stream)
    return source


STREAM = _stream()


def sets_of(wheres: Sequence[Expression]) -> list[PredicateSet]:
    return [under({"s": "T1"}, conjunctive_form(each)) for each in wheres]


def table_of(rows: Sequence[Mapping[str, Value]]) -> pa.Table:
    table = arrow_table(STREAM, rows, "UTC")
    return table.rename_columns([column_of(0, f"c{position}") for position in range(table.num_columns)])


class Computed:
    """What Spark would compute, computed by the oracle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.expressions: dict[str, Expression] = {}
        monkeypatch.setattr(network_conditions, "spark_sql", self._remembering)

    def _remembering(self, expression: Expression, leaf: object) -> str:
        text = spark_sql(expression, leaf)  # type: ignore[arg-type]
        self.expressions[text] = expression
        return text

    def added_to(self, table: pa.Table, columns: Columns, rows: Sequence[Mapping[str, Value]]) -> pa.Table:
        result = table
        for name, each in columns.values.items():
            values = [
                evaluate(self.expressions[each.text], Scope({("T1", column): value for column, value in row.items()}))
                for row in rows
            ]
            result = result.append_column(column_of(0, name), pa.array(values, arrow_type(each.type)))
        return result


def membership(sets: Sequence[PredicateSet], given_rows: Sequence[Mapping[str, Value]]) -> RowMatches:
    with pytest.MonkeyPatch.context() as patched:
        computed = Computed(patched)
        columns = Columns((STREAM.fields,))
        evaluator = RowMatcher({number: conjunction_of(each, columns) for number, each in enumerate(sets)})
        return evaluator.of(computed.added_to(table_of(given_rows), columns, given_rows))


def assert_members(wheres: Sequence[Expression], seed: int) -> None:
    sets, given_rows = sets_of(wheres), rows(seed, count=30)
    found = membership(sets, given_rows)
    for number, each in enumerate(sets):
        expected = [at for at, row in enumerate(given_rows) if is_true(condition_of(each), row, "T1")]
        assert sorted(found.rows(number).tolist()) == expected, each.text
        assert np.flatnonzero(found.in_any([number])).tolist() == expected


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.one_of(conditions(), comparisons()), min_size=1, max_size=6), st.integers(0, 1 << 16))
def test_rows_are_in_the_nodes_whose_conditions_they_satisfy(wheres: list[Expression], seed: int) -> None:
    assert_members(wheres, seed)


@pytest.mark.prove
@settings(max_examples=5_000, deadline=None, derandomize=True)
@given(st.lists(st.one_of(conditions(), comparisons()), min_size=1, max_size=8), st.integers(0, 1 << 16))
def test_rows_are_in_the_nodes_of_many_conditions(wheres: list[Expression], seed: int) -> None:
    assert_members(wheres, seed)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.one_of(conditions(), comparisons()), min_size=1, max_size=4), st.integers(0, 1 << 16))
def test_a_hull_lets_through_all_rows_of_its_nodes(wheres: list[Expression], seed: int) -> None:
    sets = sets_of(wheres)
    whole = bounding_condition(bounding_predicates([each.disjunctions for each in sets]))
    for row in rows(seed):
        if any(is_true(condition_of(each), row, "T1") for each in sets):
            assert is_true(whole, row, "T1")


def hull_texts(*wheres: str) -> list[str]:
    return [
        each.text for each in bounding_predicates([each.disjunctions for each in sets_of(list(map(condition, wheres)))])
    ]


def test_nodes_that_restrict_the_same_have_a_hull_together() -> None:
    both = hull_texts("i1 > 1000 AND i2 = 1", "i1 > 500 AND i2 = 7", "i1 BETWEEN 600 AND 700")
    assert both == ["T1.i1 > 500 AND (T1.i2 = 1 OR T1.i2 = 7)", "T1.i1 <= 700 AND T1.i1 >= 600"]
    (common,) = hull_texts("s1 = 'a' AND l1 > l2", "s1 = 'b' AND l1 > l2")
    assert common == "T1.l1 - T1.l2 > 0 AND (T1.s1 = 'a' OR T1.s1 = 'b')"


def test_what_looks_at_texts_is_checked_last() -> None:
    (like, long) = "s1 LIKE '%a%b%'", "s1 = 'a' OR l1 < l2"
    for wheres in (f"{like} AND i1 > 5", f"i1 > 5 AND ({long}) AND {like}"):
        whole = bounding_condition(bounding_predicates([each.disjunctions for each in sets_of([condition(wheres)])]))
        assert isinstance(whole, Call)
        assert [each.op for each in whole.args if isinstance(each, Call)].index("like") == len(whole.args) - 1


def test_nodes_that_restrict_too_many_different_subjects_have_one_hull() -> None:
    subjects = ["i1", "i2", "l1", "l2", "d1", "d2", "s1", "s2"]
    wheres = [f"i1 > {number} AND {subject} IS NOT NULL" for number, subject in enumerate(subjects)]
    assert len(hull_texts(*wheres)) == len(subjects)
    more = [
        f"i1 > {number} AND {first} < {second}" for number, (first, second) in enumerate((("l1", "l2"), ("d1", "d2")))
    ]
    assert hull_texts(*wheres, *more) == ["T1.i1 > 0"]


@pytest.mark.parametrize(
    ("column", "values", "is_list"),
    [("i1", range(0, 40, 3), True), ("s1", [f"'{n}'" for n in range(9)], True), ("d1", range(0, 40, 3), False)],
)
def test_many_single_values_are_a_list(column: str, values: Sequence[object], is_list: bool) -> None:
    """Not of DOUBLEs: a list would tell -0.0 from 0.0."""
    sets = sets_of([condition(f"{column} = {value} AND l1 > 0") for value in values])
    whole = bounding_condition(bounding_predicates([each.disjunctions for each in sets]))
    assert (" IN (" in spark_sql(whole, lambda leaf: leaf.name)) == is_list  # type: ignore[union-attr]


def test_columns_are_compared_as_they_are_before_anything_is_computed() -> None:
    (each,) = sets_of([condition("substring(s1, 1, 1) = 'a' AND i1 > 7 AND s2 = 'z'")])
    text = spark_sql(bounding_condition(bounding_predicates([each.disjunctions])), lambda leaf: leaf.name)  # type: ignore[arg-type, union-attr]
    assert text.index("substring") > max(text.index("i1 >"), text.index("s2 ="))


def test_whole_decimal_constants_are_longs() -> None:
    """Spark would compare `BigDecimal`s otherwise, for every row."""
    texts = {value: spark_sql(Literal(Decimal(value), decimal(38, 2)), str) for value in ("-7.00", "7.50", f"{10**18}")}
    assert texts == {
        "-7.00": "CAST(-7L AS DECIMAL(38,2))",
        "7.50": "CAST('7.50' AS DECIMAL(38,2))",
        f"{10**18}": f"CAST('{10**18}' AS DECIMAL(38,2))",
    }


def test_of_very_many_single_values_only_the_ends_count() -> None:
    assert hull_texts(*(f"i1 = {3 * value}" for value in range(100))) == ["T1.i1 <= 297 AND T1.i1 >= 0"]


def test_a_thousand_ranges_of_two_columns() -> None:
    generator = np.random.default_rng(7)
    values = pa.table({"t0_c0": generator.integers(-1000, 1000, 500), "t0_c1": generator.normal(size=500)})
    lows, highs = generator.integers(-1000, 1000, 1000).tolist(), generator.normal(size=1000).tolist()
    ranges = [(Fraction(low), high) for low, high in zip(lows, highs, strict=True)]
    nodes = {
        number: (
            (Check(PlainColumn("t0_c0"), satisfying(">=", low)),),
            (Check(PlainColumn("t0_c1"), satisfying("<", (0, high))),),
        )
        for number, (low, high) in enumerate(ranges)
    }
    found = RowMatcher(nodes).of(values)
    first, second = np.asarray(values["t0_c0"]), np.asarray(values["t0_c1"])
    for number, (low, high) in enumerate(ranges):
        assert np.array_equal(np.sort(found.rows(number)), np.flatnonzero((first >= int(low)) & (second < high)))


def test_labels_tell_the_nodes_of_a_row_and_are_read_again() -> None:
    three = Fraction(3)
    found = RowMatcher({7: ((Check(PlainColumn("x"), satisfying(">", three)),),), 12: ()}).of(
        pa.table({"x": [1, 5, None]})
    )
    labels = found.labels({7: "7.0", 12: "12.4"})
    assert labels.to_pylist() == ["12.4", "7.0 12.4", "12.4"]
    above = RowMatcher({1: ((ParentLabel("parents", 7),),), 2: ((ParentLabel("parents", 12),),)})
    again = above.of(pa.table({"parents": labels}), {7: "7.0", 12: "12.3"})
    assert again.rows(1).tolist() == [1]
    assert again.rows(2).tolist() == []


@pytest.mark.spark
def test_membership_is_what_spark_says(spark: SparkSession) -> None:
    wheres = [
        condition(text)
        for text in (
            "x1 > 0 AND NOT x2 = 0",
            "x1 = x2 OR f1 <> 0.5",
            "d1 >= 0.5 AND d1 - d2 < 1.25",
            "w1 > w2",
            "s1 < 'a_b' OR s1 = s2",
            "t1 - t2 > INTERVAL 5 SECONDS",
            "c1 >= DATE '1970-01-02' AND c1 < c2",
            "l1 = l2 AND b1",
            "l1 - l2 > 0 OR i1 + i2 > 2147483648",
            "UPPER(s1) = 'A' OR s2 IS NULL",
            "x1 IS NULL OR x1 > 1e308",
        )
    ]
    sets, given_rows = sets_of(wheres), rows(3, count=400)
    columns = Columns((STREAM.fields,))
    evaluator = RowMatcher({number: conjunction_of(each, columns) for number, each in enumerate(sets)})
    frame = spark.createDataFrame(table_of(given_rows).append_column("at", pa.array(range(400))))
    frame.createOrReplaceTempView("rows_of_s")
    computed = "".join(f", {each.text} AS {column_of(0, name)}" for name, each in columns.values.items())
    said = [spark_sql(each, columns.leaf()) for each in map(condition_of, sets) if each is not None]
    listed = ", ".join(f"{text} AS w{number}" for number, text in enumerate(said))
    table = spark.sql(f"SELECT *{computed}, {listed} FROM rows_of_s ORDER BY at").toArrow()
    found = evaluator.of(table)
    for number, where in enumerate(wheres):
        expected = [at for at, holds in enumerate(table[f"w{number}"].to_pylist()) if holds]
        assert sorted(found.rows(number).tolist()) == expected, where
