"""Queries that come late to a stream with BACKFILL find its history, and share partials all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.windows.test_kernel_placement import on_executors, with_setting
from tests.runtime.workload_run import Run

pytestmark = pytest.mark.spark

TRADES = "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n - 3 USING memory BACKFILL 40;"
FIRST = "CREATE CONTINUOUS QUERY first AS SELECT sym, SUM(qty) AS v FROM trades [ROWS 15 SLIDE 5] GROUP BY sym;"
LATER = (
    "CREATE CONTINUOUS QUERY like_the_first AS SELECT sym, SUM(qty) AS v FROM trades [ROWS 15 SLIDE 5] GROUP BY sym",
    "CREATE CONTINUOUS QUERY most AS SELECT MAX_BY(sym, qty) AS v FROM trades [ROWS 10 SLIDE 2] WHERE qty > 1",
    "CREATE CONTINUOUS QUERY longer AS SELECT COUNT(*) AS v FROM trades [ROWS 60 SLIDE 7 ORIGIN 3] WHERE sym <> 'a'",
    "CREATE CONTINUOUS QUERY ever AS SELECT sym, COUNT(*) AS v FROM trades GROUP BY sym",
)


def rows(first: int) -> list[tuple[int, str, int]]:
    return [(first + step, "abc"[step % 3], step % 4) for step in range(6)]


def late(*clocks: int) -> list[tuple[int, str, int]]:
    return [(clock, "b", 3) for clock in clocks]


def test_history_is_answered_at_once_and_without_the_rows_that_were_late(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {FIRST}")
    # Rows that come behind the watermark, but in time for a window that is still open.
    for first, behind in ((0, ()), (10, (4, 1)), (20, (13, 8)), (31, (24, 23, 12)), (44, (38,))):
        assert run.take(trades=[*rows(first), *late(*behind)]) == ""
    run.execute(";".join(LATER))
    assert run.take(trades=[*rows(50), *late(43, 36)]) == ""
    assert set(run.engine.last.evaluators.values()) == {"windows"}
    for first in (60, 70, 90, 130):
        assert run.take(trades=rows(first)) == ""


def test_history_is_answered_on_the_executors_as_well(beside_oracle: Callable[[str], Run]) -> None:
    run = with_setting(beside_oracle(f"{TRADES} {FIRST}"), "kernels = executors")
    for first, behind in ((0, ()), (10, (4, 1)), (20, (13, 8)), (31, (24, 23, 12))):
        assert run.take(trades=[*rows(first), *late(*behind)]) == ""
    run.execute(";".join(LATER))
    assert run.take(trades=[*rows(44), *late(38)]) == ""
    assert on_executors(run) == {("c1",): True, (): False}
    run.crash_at = "weave"
    assert run.take(trades=[*rows(50), *late(43, 36)]) == ""
    run.restart()
    assert run.take(trades=rows(60)) == ""
    # Back to the driver, which has only the log to go by.
    with_setting(run, "kernels = driver")
    assert run.take(trades=rows(75)) == ""
    run.execute("CREATE CONTINUOUS QUERY last AS SELECT sym, MIN(qty) AS v FROM trades [ROWS 30 SLIDE 6] GROUP BY sym")
    with_setting(run, "kernels = executors")
    for first in (90, 130):
        assert run.take(trades=rows(first)) == ""


@pytest.mark.parametrize(
    "step", ["weave", "rename", *(pytest.param(each, marks=pytest.mark.prove) for each in ("ingest", "keep", "commit"))]
)
def test_history_survives_a_crash_in_its_first_cycle(beside_oracle: Callable[[str], Run], step: str) -> None:
    run = beside_oracle(f"{TRADES} {FIRST}")
    for first in (0, 10, 20):
        assert run.take(trades=rows(first)) == ""
    run.execute(";".join(LATER))
    run.crash_at = step
    assert run.take(trades=rows(30)) == ""
    run.restart()
    assert run.take(trades=rows(45)) == ""
    assert run.take(trades=rows(100)) == ""


@pytest.mark.usefixtures("compacting_early")
def test_a_window_longer_than_the_history_keeps_its_rows_until_it_closes(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {FIRST}")
    assert run.take(trades=rows(0)) == ""
    run.execute("CREATE CONTINUOUS QUERY long AS SELECT sym, COUNT(*) AS v FROM trades [ROWS 90 SLIDE 30] GROUP BY sym")
    for first in range(10, 80, 10):
        assert run.take(trades=rows(first)) == ""
    # All are reduced once more, `long` among them, whose window reaches farther back than the history.
    run.execute("CREATE CONTINUOUS QUERY other AS SELECT MIN(sym) AS v FROM trades [ROWS 20 SLIDE 20] WHERE qty = 2")
    assert run.take(trades=rows(80)) == ""
    run.restart()
    for first in (95, 120, 150):
        assert run.take(trades=rows(first)) == ""


@pytest.mark.parametrize("sharing", ["", " SHARING OFF"])
def test_empty_instances_are_answered_from_the_first_row_of_the_history_on(
    beside_oracle: Callable[[str], Run], sharing: str
) -> None:
    run = beside_oracle(f"{TRADES} {FIRST}")
    for clocks in ((1, 2), (9, 4), (31, 30), (45,)):
        assert run.take(trades=late(*clocks)) == ""
    run.execute(
        f"CREATE CONTINUOUS QUERY q{sharing} AS "
        "SELECT COUNT(*) AS c FROM trades [ROWS 4 SLIDE 2] WHERE qty > 5 EMIT EMPTY"
    )
    assert run.take() == ""
    assert run.take(trades=late(52, 53)) == ""
    assert run.take(trades=late(70)) == ""


def test_a_query_without_history_has_none(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(TRADES)
    run.execute(FIRST)
    assert run.take() == ""
    run.execute(LATER[1])
    assert run.take(trades=rows(0)) == ""
    run.execute(LATER[2])
    assert run.take(heartbeats={"trades": 400}) == ""
    run.execute(LATER[0])
    assert run.take(trades=rows(402)) == ""
    assert run.take(trades=rows(500)) == ""


def test_a_row_that_was_late_for_all_queries_then_is_part_of_the_history(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} CREATE CONTINUOUS QUERY short AS SELECT COUNT(*) AS v FROM trades [ROWS 2 SLIDE 2]")
    assert run.take(trades=rows(0)) == ""
    assert run.take(trades=[*rows(20), *late(3)]) == ""
    assert run.take(trades=[*rows(30), *late(12)]) == ""
    run.execute("CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) AS v FROM trades [ROWS 20 SLIDE 10]")
    assert run.take(trades=rows(40)) == ""
    assert run.take(trades=rows(60)) == ""


@pytest.mark.parametrize("sharing", ["", " SHARING OFF"])
def test_what_had_closed_before_there_was_any_row_is_not_answered_when_a_query_looks_back(
    beside_oracle: Callable[[str], Run], sharing: str
) -> None:
    """A random story: the watermark goes on by itself, and then the first rows come late, with a new query."""
    run = beside_oracle(f"{TRADES} {FIRST}")
    assert run.take({"trades": 70}) == ""
    counted = f"CREATE CONTINUOUS QUERY {{}}{sharing} AS SELECT COUNT(*) AS v FROM trades [ROWS 6 SLIDE 2] EMIT EMPTY"
    run.execute(counted.format("with_the_first_rows"))
    assert run.take(trades=late(53, 41)) == ""
    run.execute(counted.format("after_the_first_rows"))
    assert run.take(trades=late(60, 75)) == ""
    assert run.take(trades=late(90)) == ""
