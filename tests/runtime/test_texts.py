"""The text of an expression for Spark grows with the expression, and not with the power of its depth."""

from __future__ import annotations

import pytest

from weft.algebra import Field
from weft.algebra.types import BIGINT, DOUBLE, HUGEINT, decimal
from weft.expressions.spark_expressions import spark_sql
from weft.sql import parse
from weft.sql.expression_binder import bind
from weft.sql.scope import Scope, columns_of

COLUMNS = (Field("l", BIGINT), Field("h", HUGEINT), Field("d", decimal(30, 4)), Field("x", DOUBLE))


def length(text: str) -> int:
    bound = bind(parse(f"SELECT {text} FROM s").selects[0], Scope(columns_of("s", COLUMNS), "the select list"))
    return len(spark_sql(bound, lambda leaf: "c"))


@pytest.mark.parametrize("column", [field.name for field in COLUMNS])
@pytest.mark.parametrize(
    "outer",
    [
        *("ABS({})", "- ({})", "ROUND({}, 1)", "CEIL({})", "FLOOR(SQRT({}))", "SIGN({})", "({}) + 1", "3 / ({})"),
        *("CAST({} AS BIGINT) DIV 3", "3 DIV CAST({} AS BIGINT)", "CAST({} AS DECIMAL(30, 2)) DIV 1.5", "({}) % 3"),
        *("COALESCE({}, 1)", "GREATEST({}, 1)", "NULLIF({}, 1)", "CAST(CAST({} AS STRING) AS DOUBLE)"),
    ],
)
def test_a_text_grows_with_its_depth(outer: str, column: str) -> None:
    text, lengths = column, []
    for _ in range(13):
        lengths.append(length(text))
        text = outer.format(text)
    assert lengths[12] - lengths[8] <= 2 * (lengths[8] - lengths[4])
