"""Every user gets exactly its query's answers, cycle by cycle, whatever groups come, change and go behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.delivery.dashboards import dashboards
from tests.delivery.delivered_run import DeliveredRun
from tests.engine.workload_run import UNCOMMITTED
from tests.generator import Workload

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
                    run.control.regroup()
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
@examples(12)
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
