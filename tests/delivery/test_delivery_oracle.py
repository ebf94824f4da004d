"""Every user gets exactly its query's answers, cycle by cycle, whatever groups come, change and go behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.delivery.dashboards import dashboards
from tests.delivery.delivered_run import DeliveredRun
from tests.runtime.workload_run import UNCOMMITTED
from tests.support.generator import Workload
from weft.delivery.assignment import running_epochs
from weft.delivery.delivery_log import delivery_directory, read_parcel

pytestmark = [pytest.mark.spark]


def disagreement(
    spark: SparkSession,
    workload: Workload,
    restarts: frozenset[int],
    crashes: Mapping[int, str],
    rounds: frozenset[int],
) -> str:
    """How users' answers differ from the oracle's in the first cycle in which they do, or nothing."""
    with TemporaryDirectory(prefix="weft-delivery-") as directory:
        run = DeliveredRun(spark, Path(directory), workload)
        try:
            for number, arriving in enumerate(workload.cycles):
                if number in restarts:
                    # Queries that go while nothing runs are missed when their groups are taken up.
                    for name in arriving.drop:
                        run.execute(f"DROP CONTINUOUS QUERY {name}")
                    run.restart()
                if number in rounds:
                    run.control._next_round = 0.0
                run.crash_at = crashes.get(number)
                differs = run.cycle(replace(arriving, drop=()) if number in restarts else arriving)
                if differs:
                    return differs
            return ""
        finally:
            run.close()


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        # Shrinking would take hours of Spark's time; the example that fails is printed whole.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


_SOME = st.frozensets(st.integers(1, 8), max_size=2)
_CRASHES = st.dictionaries(st.integers(1, 8), st.sampled_from(UNCOMMITTED), max_size=2)


@given(workload=dashboards(), restarts=_SOME, crashes=_CRASHES, rounds=_SOME)
@examples(4)
def test_users_get_the_oracles_answers(
    spark: SparkSession,
    workload: Workload,
    restarts: frozenset[int],
    crashes: Mapping[int, str],
    rounds: frozenset[int],
) -> None:
    assert disagreement(spark, workload, restarts, crashes, rounds) == ""


@pytest.mark.prove
@pytest.mark.timeout(4 * 60 * 60)
@given(workload=dashboards(most_queries=40), restarts=_SOME, crashes=_CRASHES, rounds=_SOME)
@examples(200)
def test_users_get_the_oracles_answers_200_times(
    spark: SparkSession,
    workload: Workload,
    restarts: frozenset[int],
    crashes: Mapping[int, str],
    rounds: frozenset[int],
) -> None:
    assert disagreement(spark, workload, restarts, crashes, rounds) == ""


TRADES = "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n - 2 USING memory;"


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[DeliveredRun]:
    directory = tmp_path / "project"
    directory.mkdir()
    run = DeliveredRun(spark, directory)
    yield run
    run.close()


def test_windows_of_two_schedules_are_parts_of_one_epoch_and_no_instance_is_published_twice(run: DeliveredRun) -> None:
    """Every 4 and every 6 ticks: the instances that end at multiples of 12 are in both."""
    run.execute(
        f"{TRADES}"
        "CREATE CONTINUOUS QUERY fours AS SELECT sym, SUM(qty) AS s FROM trades [ROWS 12 SLIDE 4] GROUP BY sym;"
        "CREATE CONTINUOUS QUERY sixes AS SELECT sym, SUM(qty) AS s FROM trades [ROWS 12 SLIDE 6] GROUP BY sym;"
    )
    run.restart()
    for cycle in range(6):
        assert run.take(trades=[(7 * cycle + n, "ab"[n % 2], n) for n in range(7)]) == ""
    (parts,) = {each.stream: each.names for each in running_epochs(run.loom.catalog).values()}.values()
    assert len(parts) == 2
    published: list[tuple[int, str]] = []
    for cycle in range(6):
        parcel = read_parcel(delivery_directory(run.directory), cycle)
        for message in parcel.messages if parcel else ():
            rows = message.rows.to_pylist()
            published += [(row["window_end"], row["sym"]) for row in rows]
    assert len(published) == len(set(published))
    assert {end for end, _ in published} == {4, 6, 8, 12, 16, 18, 20, 24, 28, 30, 32, 36}


def test_a_join_that_comes_later_is_evaluated_by_itself_until_its_group_lacks_nothing(run: DeliveredRun) -> None:
    """What the group has kept from before is none of the new query's rows."""
    run.execute(
        f"{TRADES} CREATE STREAM quotes (m BIGINT, sym STRING) WATERMARK FOR m AS m - 2 USING memory;"
        "CREATE CONTINUOUS QUERY wide AS SELECT t.n, q.m FROM trades [ROWS 9] AS t, quotes [ROWS 9] AS q "
        "WHERE t.sym = q.sym"
    )
    run.restart()
    assert run.take(trades=[(1, "a", 1)], quotes=[(2, "a")]) == ""
    run.execute(
        "CREATE CONTINUOUS QUERY near AS SELECT t.n, q.m FROM trades [ROWS 9] AS t, quotes [ROWS 9] AS q "
        "WHERE t.sym = q.sym AND t.qty > 0"
    )
    assert run.take(trades=[(3, "a", 1)], quotes=[(4, "a")]) == ""
    assert {each.stream for each in running_epochs(run.loom.catalog).values()} >= {"g1"}
    assert len(running_epochs(run.loom.catalog)) == 2
    for cycle in range(2, 7):
        assert run.take(trades=[(5 * cycle, "a", cycle % 2)], quotes=[(5 * cycle + 1, "a")]) == ""
    # By now the group has answered all that the new query needs of it, and its own evaluation has ended.
    assert [each.stream for each in running_epochs(run.loom.catalog).values()] == ["g1"]
