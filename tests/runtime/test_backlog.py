"""What had closed before a query came, on a stream with BACKFILL: who answers it, and whose rows it is none of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.workload_run import Run

pytestmark = pytest.mark.spark

F = "CREATE STREAM f (n BIGINT, k INT, v INT) WATERMARK FOR n AS n USING memory BACKFILL 40;"
SUMS = "SELECT k, SUM(v) AS total FROM f [ROWS 5 SLIDE 5] GROUP BY k"

QUERIES = {
    "looks_back": SUMS,
    "passes_on": f"SELECT s.k, s.total FROM ({SUMS}) s WHERE s.total > 1",
    "both": f"{SUMS} UNION ALL {SUMS}",
    "windows_of_windows": f"SELECT s.k, MAX(s.total) AS most FROM ({SUMS}) s [ROWS 10 SLIDE 10] GROUP BY s.k",
    "empty_windows_of_windows": f"SELECT COUNT(*) AS c FROM ({SUMS}) s [ROWS 5 SLIDE 5] WHERE s.k = 2 EMIT EMPTY",
    "sums_of_a_join": "SELECT j.k, SUM(j.v) AS total FROM (SELECT a.k, b.v FROM f [ROWS 20] a, f [ROWS 20] b "
    "WHERE a.k = b.k) j [ROWS 5 SLIDE 5] GROUP BY j.k",
    "empty_windows_of_a_join": "SELECT COUNT(*) AS c FROM (SELECT a.k FROM f [ROWS 20] a, f [ROWS 20] b "
    "WHERE a.k = b.v) j [ROWS 5 SLIDE 5] EMIT EMPTY",
    "instances": f"{SUMS} EXCEPT SELECT k, SUM(v) AS total FROM f [ROWS 5 SLIDE 5] WHERE v > 2 GROUP BY k",
    "values_once": f"SELECT DISTINCT s.k FROM ({SUMS}) s RETAIN UNBOUNDED",
    "sets": f"SELECT s.k FROM ({SUMS}) s INTERSECT SELECT k FROM f RETAIN UNBOUNDED",
    "ever": f"SELECT s.k, COUNT(*) AS c FROM ({SUMS}) s [RANGE UNBOUNDED] GROUP BY s.k",
    "now_join": f"SELECT a.k, a.total, b.total AS other FROM ({SUMS}) a [NOW], ({SUMS}) b [NOW] WHERE a.k = b.k",
    "far_join": f"SELECT a.k, b.total FROM ({SUMS}) a [RANGE UNBOUNDED], ({SUMS}) b [RANGE UNBOUNDED] WHERE a.k = b.k",
    "distinct_of_windows_of_windows": "SELECT DISTINCT w.most FROM (SELECT s.k, MAX(s.total) AS most FROM "
    f"({SUMS}) s [ROWS 10 SLIDE 10] GROUP BY s.k) w RETAIN UNBOUNDED",
}


@pytest.mark.parametrize("sharing", ["on", pytest.param("off", marks=pytest.mark.prove)])
def test_only_windows_and_what_passes_their_answers_on_look_back(
    beside_oracle: Callable[[str], Run], sharing: str
) -> None:
    run = beside_oracle(F)
    run.loom.execute(f"SET sharing = {sharing}")
    assert run.take(f=[(1, 1, 1), (7, 1, 2), (8, 2, 3), (13, 2, 4)]) == ""
    run.execute("\n".join(f"CREATE CONTINUOUS QUERY {name} AS {text};" for name, text in QUERIES.items()))
    for rows in ([(14, 1, 5), (22, 3, 6)], [(27, 3, 7), (31, 1, 8)], [(44, 2, 9)]):
        assert run.take(f=rows) == ""
    last = run.engine.last
    assert last.answered["looks_back"] > last.answered["values_once"]
    assert sharing == "off" or "sql" not in last.evaluators.values()
