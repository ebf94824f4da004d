"""Numbers are computed as Spark types them, exactly, and the same whether a query is shared or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle_script import Script
from tests.oracle_values import order_key, same
from tests.runtime.workload_run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: The largest number of 38 digits.
MOST = 10**38 - 1


def both(name: str, select: str) -> str:
    """A query as it is, and without sharing."""
    return f"CREATE CONTINUOUS QUERY {name} AS {select}; CREATE CONTINUOUS QUERY {name}_off SHARING OFF AS {select};"


def test_sums_of_38_digits_do_not_depend_on_the_order_of_rows(beside_oracle: Callable[[str], Run]) -> None:
    """With Spark's own sum, 10³⁸ − 1 plus 1 would be lost, and stay lost when 10³⁸ − 1 is taken away again."""
    aggregates = "SUM(e) AS a, AVG(f) AS b"
    run = beside_oracle(
        "CREATE STREAM s (n BIGINT, g INT, b BIGINT, e DECIMAL(38, 0), f DECIMAL(38, 10)) "
        "WATERMARK FOR n AS n USING memory;"
        + both("closing", f"SELECT g, {aggregates} FROM s [ROWS 100 SLIDE 100] GROUP BY g")
        + both("running", f"SELECT g, {aggregates} FROM s GROUP BY g")
        # A sum of sums: (2⁶³ − 1)² is just below 10³⁸.
        + "CREATE CONTINUOUS QUERY products AS"
        " SELECT g, SUM(b) * MIN(b) AS p, SUM(b) * MAX(-b) AS m FROM s [ROWS 1 SLIDE 1] GROUP BY g;"
        + both("sums", "SELECT g, SUM(p) AS a, SUM(m) AS b, AVG(p) AS c FROM products [ROWS 100 SLIDE 100] GROUP BY g")
    )
    orders = [*permutations((MOST, -MOST, 1, 0)), (MOST, 1), (-MOST, -MOST, 5), (MOST, MOST, -MOST), (None, None)]

    def rows(at: int, clock: int) -> list[tuple[Any, ...]]:
        numbers = [(group, order[at]) for group, order in enumerate(orders) if at < len(order)]
        return [
            (clock + at, group, None if u is None else max(-(2**63), min(u, 2**63 - 1)), *_scaled(u, 0, 10))
            for group, u in numbers
        ]

    for clock in (0, 10):
        assert run.take(s=[row for at in range(4) for row in rows(at, clock)]) == ""
    assert run.take({"s": 1000}) == ""


def _scaled(unscaled: int | None, *scales: int) -> list[Decimal | None]:
    return [None if unscaled is None else Decimal(f"{unscaled}E-{scale}") for scale in scales]


#: Columns, and their values in rows that are taken together.
COLUMNS = {
    "t": ("TINYINT", (7, -3, 0, None, 100)),
    "i": ("INT", (2000000000, -7, 3, 0, None)),
    "l": ("BIGINT", (5, 2_000_000_000, -1, 3, 0)),
    "d": ("DECIMAL(10, 2)", ("12.35", "-0.05", "99999999.99", "0", None)),
    "e": ("DECIMAL(38, 10)", ("2.5", "-12345678901234567890.0123456789", None, "0.0000000001", "7")),
    "w": ("DECIMAL(38, 0)", ("3", "-99999999999999999999999999999999999999", "17", None, "0")),
    "x": ("DOUBLE", (0.5, -2.25, 1e10, None, 0.0)),
}
LITERALS = ("3", "-2", "100.0", "0.001", "9223372036854775808", "1e1")
AGGREGATES = ("SUM(t)", "SUM(l)", "SUM(d)", "AVG(d)", "AVG(i)", "SUM(x)", "COUNT(*)")

_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def expressions(atoms: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Expressions in our SQL, each beside one of Spark's that is NULL where it cannot be computed."""
    for left, right in product(atoms, others):
        for op, function in _TRY.items():
            yield f"{left} {op} {right}", f"{function}({left}, {right})"
        yield f"{left} * 100.0 / {right}", f"try_divide(try_multiply({left}, 100.0), {right})"
        for text in (
            f"COALESCE({left}, {right})",
            f"GREATEST({left}, {right})",
            f"CASE WHEN {left} IS NULL THEN {right} ELSE {left} END",
            f"{left} = {right}",
            f"{left} IN ({right}, 1)",
        ):
            yield text, text
    for atom in atoms:
        yield f"ROUND({atom}, 1)", f"round({atom}, 1)"
        yield f"- ({atom} - 1.5)", f"- try_subtract({atom}, 1.5)"


def quotients(atoms: Sequence[str]) -> Iterator[tuple[str, str]]:
    for left, right in product(atoms, atoms):
        if "x" not in left + right and "AVG(i)" not in (left, right):
            # Where the quotient is no BIGINT, Spark's own wraps around.
            fits = f"abs(try_divide({left}, {right})) < 9e18"
            yield f"{left} DIV {right}", f"CASE WHEN {fits} THEN {left} DIV {right} END"


def listed(texts: Sequence[str]) -> str:
    return ", ".join(f"{text} AS v{number}" for number, text in enumerate(texts))


@pytest.mark.parametrize(
    ("columns", "sums", "literals"),
    [
        (("d", "w"), ("SUM(l)", "AVG(d)"), ("100.0",)),
        pytest.param(tuple(COLUMNS), AGGREGATES, LITERALS, marks=pytest.mark.prove),
    ],
    ids=["some", "all"],
)
def test_arithmetic_gives_the_values_of_spark(
    spark: SparkSession,
    beside_oracle: Callable[[str], Run],
    columns: Sequence[str],
    sums: Sequence[str],
    literals: Sequence[str],
) -> None:
    of_rows = [*expressions(columns, (*columns, *literals)), *expressions(literals, columns), *quotients(columns)]
    of_groups = [*expressions(sums, (*sums, *literals)), *expressions(literals, sums), *quotients(sums)]
    rows = [
        tuple(Decimal(value) if isinstance(value, str) else value for value in row)
        for row in zip(*(values for _, values in COLUMNS.values()), strict=True)
    ]
    schema = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    stream = f"CREATE STREAM s (n BIGINT, {schema}) WATERMARK FOR n AS n USING memory;"
    queries = {
        "by_row": (of_rows, f"SELECT n, {listed([ours for ours, _ in of_rows])} FROM s"),
        "by_group": (of_groups, f"SELECT {listed([ours for ours, _ in of_groups])} FROM s [ROWS 10 SLIDE 10]"),
    }
    run, script = beside_oracle(stream), Script(stream)
    for name, (_, select) in queries.items():
        run.execute(both(name, select))
        script.run(f"CREATE CONTINUOUS QUERY {name} AS {select}")
    arrived = [(number, *row) for number, row in enumerate(rows)]
    assert run.take(s=arrived) == ""
    assert run.take({"s": 10}) == ""

    answers = {**script.cycle(s=arrived), "by_group": script.cycle({"s": 10})["by_group"]}
    spark.createDataFrame(arrived, f"n BIGINT, {schema}").createOrReplaceTempView("numbers")  # type: ignore[type-var]
    for name, (texts, _) in queries.items():
        asked = f"SELECT {listed([theirs for _, theirs in texts])} FROM numbers{' ORDER BY n' * (name == 'by_row')}"
        expected = [tuple(row) for row in spark.sql(asked).collect()]
        extra = len(answers[name][0]) - len(texts)  # the clock, or the bounds of the window
        for mine, theirs in zip(sorted(answers[name], key=order_row), expected, strict=True):
            found = zip(texts, mine[extra:], theirs, strict=True)
            assert [(ours, a, b) for (ours, _), a, b in found if not _agree(a, b)] == []


def order_row(row: tuple[Any, ...]) -> Any:
    return order_key(row[0])


def _agree(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return abs(ours - theirs) <= 1e-9 * max(abs(ours), abs(theirs))
    return same(ours, theirs)


def test_floor_and_ceil_of_doubles_reach_to_the_ends_of_bigint(beside_oracle: Callable[[str], Run]) -> None:
    long = "SQRT(FLOOR(SQRT(FLOOR(SQRT(FLOOR(ABS(x)))))))"
    select = f"SELECT n, FLOOR(x) AS a, CEIL(x) AS b, FLOOR({long}) AS c, CEIL({long}) AS d FROM s WHERE FLOOR(x) <> 3"
    run = beside_oracle("CREATE STREAM s (n BIGINT, x DOUBLE) WATERMARK FOR n AS n USING memory;" + both("q", select))
    ends = (9.22e18, -(2.0**63), 2.0**63, float(2**63 - 1025))
    values = (*ends, 2.5, -2.5, 3.5, 0.0, float("nan"), float("inf"), -float("inf"), None)
    assert run.take(s=list(enumerate(values))) == ""
