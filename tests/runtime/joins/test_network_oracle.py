"""Selections and joins of many queries beside the oracle, while queries come and go and engines crash and restart."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.joins.workloads import workload
from tests.runtime.workload_run import UNCOMMITTED, Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compacting_early")]

STEPS = (*UNCOMMITTED, "network")


def disagreement(spark: SparkSession, directory: Path, seed: int, kernels: str = "auto", **size: int) -> str:
    """How the engine differs from the oracle in the first cycle in which it does, or nothing."""
    pick, drawn = random.Random(seed), workload(seed, **size)
    run = Run(spark, directory, drawn)
    run.loom.execute(f"SET kernels = {kernels}")
    run.restart()
    try:
        for number, arriving in enumerate(drawn.cycles):
            if pick.random() < 0.2:
                run.restart()
            if number and pick.random() < 0.3:
                run.crash_at = pick.choice(STEPS)
            differs = run.cycle(arriving)
            if differs:
                return differs
            run.crash_at = None
    finally:
        run.close()
    return ""


def test_queries_that_share_answer_like_the_oracle(spark: SparkSession, tmp_path: Path) -> None:
    assert disagreement(spark, tmp_path, 30) == ""


def test_whatever_step_a_cycle_fails_at_it_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """Every cycle but the first fails once, each at another step."""
    drawn = workload(7, cycles=1 + len(STEPS), queries=9)
    run = Run(spark, tmp_path, drawn)
    try:
        for arriving, step in zip(drawn.cycles, (None, *STEPS), strict=True):
            run.crash_at = step
            assert run.cycle(arriving) == ""
    finally:
        run.close()


def test_kept_rows_may_stay_with_the_executors(spark: SparkSession, tmp_path: Path) -> None:
    assert disagreement(spark, tmp_path, 9, "executors", cycles=4, queries=4) == ""


@pytest.mark.prove
@pytest.mark.timeout(4 * 60 * 60)
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_workloads_answer_like_the_oracle(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    assert disagreement(spark, tmp_path, seed, "executors" if seed % 3 == 0 else "auto") == ""
