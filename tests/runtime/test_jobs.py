"""How many Spark jobs a cycle takes depends on the shape of the plan, never on the number of queries."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.workload_run import Run
from weft.algebra import Value
from weft.runtime.stages.statistics import measured

pytestmark = pytest.mark.spark

F = "CREATE STREAM f (n BIGINT, src INT, dst INT, amount INT) WATERMARK FOR n AS n USING memory;"

#: One query of each kind; thresholds make the difference between one of a kind and the next.
KINDS = (
    "SELECT n, amount FROM f WHERE amount > {0}",
    "SELECT a.n, b.n AS m FROM f [ROWS 9] a, f [ROWS 9] b WHERE a.dst = b.src AND a.amount > {0}",
    "SELECT a.n, c.n AS m FROM f [ROWS 9] a, f [ROWS 9] b, f [ROWS 9] c "
    "WHERE a.dst = b.src AND b.dst = c.src AND a.amount > {0}",
    "SELECT src, SUM(amount) AS total FROM f [ROWS 8 SLIDE 4] WHERE amount > {0} GROUP BY src",
    "SELECT a.src, SUM(b.amount) AS total FROM f [ROWS 9] a, f [ROWS 9] b "
    "WHERE a.dst = b.src AND a.amount > {0} GROUP BY a.src HAVING SUM(b.amount) > {0}",
    "SELECT j.src, COUNT(*) AS c FROM (SELECT a.src FROM f [ROWS 9] a, f [ROWS 9] b "
    "WHERE a.dst = b.src AND a.amount > {0}) j [ROWS 8 SLIDE 4] GROUP BY j.src",
    "WITH x AS (SELECT src, SUM(amount) AS t FROM f [ROWS 4 SLIDE 4] GROUP BY src HAVING SUM(amount) > {0}), "
    "y AS (SELECT dst, SUM(amount) AS t FROM f [ROWS 4 SLIDE 4] GROUP BY dst HAVING SUM(amount) > {0}) "
    "SELECT x.src, x.t, y.t AS other FROM x [NOW] x, y [NOW] y WHERE x.src = y.dst",
    "SELECT DISTINCT src FROM f WHERE amount > {0} RETAIN 9",
    "SELECT src FROM f WHERE amount > {0} EXCEPT SELECT dst FROM f WHERE amount > {0} RETAIN UNBOUNDED",
    "SELECT src FROM f [ROWS 4 SLIDE 4] GROUP BY src HAVING COUNT(*) > {0} - 10 "
    "INTERSECT SELECT dst FROM f [ROWS 4 SLIDE 4] GROUP BY dst",
)

#: Joins above each other in the longest chain of the kinds.
_LEVELS = 2


def script(of_each: int) -> str:
    queries = [
        f"CREATE CONTINUOUS QUERY q{kind}_{number} AS {text.format(10 + number)};"
        for kind, text in enumerate(KINDS)
        for number in range(of_each)
    ]
    return F + "\n".join(queries)


def rows(cycle: int) -> list[tuple[Value, ...]]:
    pick = random.Random(cycle)
    return [(8 * cycle + step, pick.randint(0, 3), pick.randint(0, 3), pick.randint(0, 60)) for step in range(8)]


def jobs(run: Run) -> list[int]:
    for cycle in range(5):
        assert run.take(f=rows(cycle)) == ""
    return [each.jobs or 0 for each in measured(run.loom.catalog).cycles][1:]


def test_a_hundred_and_twenty_queries_of_all_kinds_take_as_many_jobs_as_ten(
    spark: SparkSession, tmp_path: Path, beside_oracle: Callable[[str], Run]
) -> None:
    ten = jobs(beside_oracle(script(1)))
    directory = tmp_path / "many"
    directory.mkdir()
    many = Run(spark, directory)
    try:
        many.execute(script(12))
        assert jobs(many) == ten
    finally:
        many.close()
    assert max(ten) <= 4 + 3 * _LEVELS
