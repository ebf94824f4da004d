"""What is kept stays as long as somebody needs it, and no longer, however often it is rewritten."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.workload_run import Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compacting_early")]

SCRIPT = """
CREATE STREAM f (n BIGINT, k INT) WATERMARK FOR n AS n USING memory;
CREATE CONTINUOUS QUERY sums AS SELECT k, COUNT(*) AS c FROM f [ROWS 12 SLIDE 4] GROUP BY k;
CREATE CONTINUOUS QUERY chain AS SELECT a.n, c.n AS m FROM f [ROWS 10] a, f [ROWS 10] b, f [ROWS 10] c
WHERE a.k = b.k AND b.k = c.k AND a.n < b.n AND b.n < c.n;
"""


def test_logs_do_not_grow_with_time(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(SCRIPT)
    kept = []
    for cycle in range(10):
        assert run.take(f=[(4 * cycle + step, step % 2) for step in range(4)]) == ""
        kept.append({log: sum(each.rows for each in segments) for log, segments in run.engine.last.logs.items()})
    assert kept[-1].keys() == kept[4].keys()
    assert all(rows <= 2 * kept[4][log] for log, rows in kept[-1].items()), "as much after ten cycles as after five"
