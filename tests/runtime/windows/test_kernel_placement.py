"""Kernels in the driver or on the executors, dense or sparse: who asks does not notice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.runtime.windows.dashboards import disagreement, story
from tests.runtime.workload_run import Run
from weft.kernels import sparse
from weft.optimizer.rules.place_state import placement
from weft.plan.nodes import WindowTreeNode
from weft.runtime.stages.windows.live_partials import slices_and_keys
from weft.runtime.stages.windows.partials import Layout, Partials
from weft.sql.settings import Settings

TRADES = "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n - 5 USING memory;"
TOTALS = "CREATE CONTINUOUS QUERY totals AS SELECT sym, SUM(qty) AS total FROM trades [ROWS 20 SLIDE 5] GROUP BY sym;"
COUNTS = "CREATE CONTINUOUS QUERY counts AS SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 10] WHERE qty > 1;"

spark_test = pytest.mark.spark
early = pytest.mark.usefixtures("compacting_early")


def on_executors(run: Run) -> dict[tuple[str, ...], bool]:
    return {tree.spec.keys: tree.on_executors for tree in window_trees(run)}


def window_trees(run: Run) -> list[WindowTreeNode]:
    return list(run.engine._runner._planned.plan.of(WindowTreeNode))


def with_setting(run: Run, setting: str) -> Run:
    run.loom.execute(f"SET {setting}")
    run.restart()
    return run


def jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


# --- on the executors ------------------------------------------------------------------------------------------------


@spark_test
@early
@pytest.mark.parametrize("seed", [3, 5])
def test_a_dashboard_on_the_executors_answers_like_the_oracle(spark: SparkSession, seed: int) -> None:
    assert disagreement(spark, story(seed, most_queries=12), ["SET kernels = executors"]) == ""


@spark_test
@early
def test_kernels_may_move_between_any_two_cycles(spark: SparkSession) -> None:
    settings = ["SET kernels = driver", "SET kernels = executors"]
    assert disagreement(spark, story(4, most_queries=12, alone=0.0), settings) == ""


@spark_test
def test_key_sets_go_to_the_executors_when_they_have_many_partials_and_come_back(
    beside_oracle: Callable[[str], Run],
) -> None:
    run = with_setting(beside_oracle(f"{TRADES} {TOTALS} {COUNTS}"), "max_driver_partials = 8")
    assert run.take(trades=[(n, f"key {n}", n) for n in range(10)]) == ""
    assert on_executors(run) == {("c1",): False, (): False}
    assert run.take(trades=[(12, "key 1", 2), (22, "key 2", 5)]) == ""
    assert on_executors(run) == {("c1",): True, (): False}
    told = "kernels on the executors: 10 live partials, max_driver_partials = 8"
    assert told in run.loom.explain()
    assert told in run.loom.explain("totals")
    assert told not in run.loom.explain("counts")
    assert run.take(trades=[(18, "key 1", 2), (38, "key 3", 5)]) == ""
    assert run.take(trades=[(60, "key 3", 5)]) == ""
    assert run.take(trades=[(61, "key 3", 5), (62, "key 4", 3)]) == ""
    assert on_executors(run) == {("c1",): False, (): False}
    assert "kernels on the executors" not in run.loom.explain()
    assert run.take(trades=[(90, "key 4", 5)]) == ""


@spark_test
def test_a_cycle_in_which_no_window_closes_runs_no_job_on_the_executors(
    spark: SparkSession, beside_oracle: Callable[[str], Run]
) -> None:
    run = with_setting(beside_oracle(f"{TRADES} {TOTALS}"), "kernels = executors")
    assert run.take(trades=[(21, "a", 2)]) == ""
    ran = jobs(spark)
    assert run.take(trades=[(22, "a", 1), (23, "b", 2)]) == ""
    assert jobs(spark) - ran == 1, "the reduction"
    assert run.take(trades=[(31, "a", 1), (32, "b", 2)]) == ""
    assert jobs(spark) - ran == 3, "the reduction, and the executors"


@spark_test
def test_what_has_no_room_in_the_driver_goes_to_the_executors(beside_oracle: Callable[[str], Run]) -> None:
    run = with_setting(beside_oracle(f"{TRADES} {TOTALS}"), "max_state_mb = 0")
    assert run.take(trades=[(1, "a", 2), (9, "b", 1)]) == ""
    assert run.take(trades=[(14, "a", 2), (33, "b", 5)]) == ""
    assert on_executors(run) == {("c1",): True}
    assert all("max_state_mb" in tree.host.reason for tree in window_trees(run))


@spark_test
def test_streams_and_layouts_of_all_kinds_go_into_one_job(
    spark: SparkSession, beside_oracle: Callable[[str], Run]
) -> None:
    run = beside_oracle(
        f"{TRADES} {TOTALS}"
        "CREATE STREAM rides (n BIGINT, at TIMESTAMP, day DATE, fare DECIMAL(10, 2), far DOUBLE, night BOOLEAN) "
        "WATERMARK FOR n AS n - 0 USING memory;"
        "CREATE CONTINUOUS QUERY fares AS SELECT day, night, SUM(fare) AS f, MAX(at) AS latest, AVG(far) AS far "
        "FROM rides [ROWS 10 SLIDE 5] GROUP BY day, night;"
        "CREATE CONTINUOUS QUERY nights AS SELECT night, at, COUNT(*) AS c FROM rides [ROWS 5 SLIDE 5] "
        "WHERE far > 1.5 GROUP BY night, at"
    )
    with_setting(run, "kernels = executors")
    days = [date(2026, 1, 1 + n) for n in range(3)]
    rides = [(n, 1_000_000 * n, days[n % 3], Decimal(n) / 4 if n % 4 else None, n / 2, n % 2 == 0) for n in range(12)]
    assert run.take(trades=[(n, "ab"[n % 2], n) for n in range(12)], rides=rides[:7]) == ""
    run.execute(
        "CREATE CONTINUOUS QUERY other AS SELECT qty, MIN(n) AS m FROM trades [ROWS 4 SLIDE 4] "
        "WHERE sym = 'a' GROUP BY qty"
    )
    ran = jobs(spark)
    assert run.take(trades=[(n, "ab"[n % 2], n) for n in range(12, 50)], rides=rides[7:]) == ""
    assert jobs(spark) - ran == 3, "two reductions, and the executors"
    assert run.take(trades=[(90, "a", 1)], rides=[(40, None, None, None, None, None)]) == ""


@spark_test
@pytest.mark.prove
@pytest.mark.timeout(2 * 60 * 60)
@pytest.mark.parametrize("first", range(400, 460, 10))
def test_sixty_dashboards_on_either_host_answer_like_the_oracle(spark: SparkSession, first: int) -> None:
    either = ["SET kernels = executors", "SET kernels = driver", "SET kernels = executors"]
    for seed in range(first, first + 10):
        settings = either[:1] if seed % 2 else either
        assert disagreement(spark, story(seed, most_queries=16), settings) == "", f"seed {seed}"


# --- where ------------------------------------------------------------------------------------------------------------


def test_a_key_set_stays_where_it_is_between_half_the_limit_and_the_limit() -> None:
    hosting = Settings({"max_driver_partials": "100"})
    assert [placement(("k",), partials, hosting)[0] for partials in (50, 100, 101)] == [False, False, True]
    there = [placement(("k",), partials, hosting, on_executors_now=True) for partials in (50, 51, 101)]
    assert [away for away, _ in there] == [False, True, True]
    assert there[1][1].reason == "51 live partials, max_driver_partials = 100"


def test_a_setting_decides_for_all_but_those_that_have_no_keys() -> None:
    for kernels in ("driver", "executors"):
        asked = Settings({"kernels": kernels, "max_driver_partials": "100"})
        assert placement(("k",), 50, asked)[0] is (kernels == "executors")
        assert placement(("k",), 500, asked)[0] is (kernels == "executors")
        assert not placement((), 500, asked)[0]


def test_partials_are_counted_by_cell_and_key() -> None:
    table = pa.table({"cell": [0, 0, 0, 5, 5], "k0": ["a", "a", None, "a", None], "k1": [1, 2, 1, 1, 1]})
    partials = Partials(Layout(("c1", "c2"), {}, 0, ()), table)
    assert [slices_and_keys(keys, partials) for keys in [("c1",), ("c1", "c2"), ("c2",), ("c9",), ()]] == [
        4,
        5,
        3,
        0,
        2,
    ]


# --- dense or sparse -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["always sparse", "changing"])
def unusual(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees that are sparse although they are small, or that change whenever they can."""
    monkeypatch.setattr(sparse, "FEW", -1)
    monkeypatch.setattr(sparse, "SMALL", -2)
    above, below = (0, 0) if request.param == "always sparse" else (6, 5)
    monkeypatch.setattr(sparse, "DENSE_ABOVE", above)
    monkeypatch.setattr(sparse, "SPARSE_BELOW", below)


@spark_test
@early
@pytest.mark.usefixtures("unusual")
@pytest.mark.parametrize("seed", [6, 8])
def test_a_dashboard_of_sparse_trees_answers_like_the_oracle(spark: SparkSession, seed: int) -> None:
    assert disagreement(spark, story(seed, most_queries=20, alone=0.0)) == ""


@spark_test
@pytest.mark.prove
@pytest.mark.timeout(2 * 60 * 60)
@pytest.mark.usefixtures("unusual")
@pytest.mark.parametrize("first", range(500, 540, 10))
def test_forty_dashboards_of_sparse_trees_answer_like_the_oracle(spark: SparkSession, first: int) -> None:
    for seed in range(first, first + 10):
        assert disagreement(spark, story(seed, most_queries=24, alone=0.0)) == "", f"seed {seed}"
