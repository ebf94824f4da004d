"""Set operators that are columns of those of other queries, beside the oracle, while the others go and engines fail."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.workload_run import UNCOMMITTED, Run

pytestmark = pytest.mark.spark

_STREAM = "CREATE STREAM s (n BIGINT, a INT, b INT) WATERMARK FOR n AS n - 2 USING memory"


def _chain(operator: str, columns: str, *bounds: int) -> str:
    return f" {operator} ".join(f"SELECT {columns} FROM s WHERE b > {bound}" for bound in bounds)


def _windows(operator: str, columns: str, *bounds: int) -> str:
    listed = (f"SELECT {columns} FROM s [ROWS 5 SLIDE 5] WHERE b > {bound} GROUP BY a, b" for bound in bounds)
    return f" {operator} ".join(listed)


_QUERIES = {
    "wide_all": _chain("UNION ALL", "a, b", 0, 1),
    "narrow_all": _chain("UNION ALL", "b", 0, 1),
    "longer_all": _chain("UNION ALL", "a", 0, 1, 2),
    "wide": _chain("UNION", "a, b, n", 1, 2) + " RETAIN UNBOUNDED",
    "narrow": _chain("UNION", "b", 1, 2) + " RETAIN UNBOUNDED",
    "less": _chain("EXCEPT", "a", 0, 1, 2) + " RETAIN UNBOUNDED",
    "wide_less": _chain("EXCEPT", "a, b", 0, 1, 2) + " RETAIN UNBOUNDED",
    "turned_less": _chain("EXCEPT", "b, a", 0, 1, 2) + " RETAIN UNBOUNDED",
    "wide_windows": _windows("UNION", "a, b, COUNT(*) AS c", 0, 1),
    "narrow_windows": _windows("UNION", "b", 0, 1),
    "wide_windows_all": _windows("UNION ALL", "a, b, COUNT(*) AS c", 0, 1),
    "narrow_windows_all": _windows("UNION ALL", "COUNT(*) AS c", 0, 1),
}


def test_they_answer_like_the_oracle_also_when_the_wide_ones_go(spark: SparkSession, tmp_path: Path) -> None:
    pick = random.Random(4)
    run = Run(spark, tmp_path)
    try:
        run.execute(_STREAM)
        for name, select in _QUERIES.items():
            run.execute(f"CREATE CONTINUOUS QUERY {name} AS {select}")
        run.restart()
        for cycle in range(6):
            if cycle == 3:
                for name in _QUERIES:
                    if name.startswith("wide"):
                        run.execute(f"DROP CONTINUOUS QUERY {name}")
            if cycle in (2, 4):
                run.crash_at = pick.choice(UNCOMMITTED)
            rows = [
                (4 * cycle + pick.randint(-4, 4), pick.randint(0, 2), pick.choice((0, 1, 2, 3, None))) for _ in range(8)
            ]
            assert run.take(s=rows) == ""
            run.crash_at = None
    finally:
        run.close()
