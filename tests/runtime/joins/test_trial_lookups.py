"""Joins that do not run are tried on some rows: what is known of them is not what the ones that run let through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.joins.test_redeciding import AB, CHAIN, STREAMS, joined_first, watching
from tests.runtime.workload_run import Run
from weft.optimizer.network.sizes import SizeKey, SizeKind
from weft.runtime.stages.joins import join_statistics as observing
from weft.runtime.stages.joins.network_records import recorded_sizes

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compacting_early")]

OF_LAST = SizeKey(SizeKind.SHARE, ("stream b", "stream c"), "T1.p - T2.p = 0")


def rows_that_meet_on_one_side(cycle: int, count: int) -> dict[str, list[tuple[int, int, int]]]:
    """Half of b's rows meet all of a's, and the other half all of c's; one of them meets both."""
    rows = {name: list[tuple[int, int, int]]() for name in "abc"}
    for number in range(count):
        clock, rare = 6 * cycle + number % 6, 1_000 + count * cycle + number
        rows["a"].append((clock, 7, 0))
        rows["b"].append((clock, 7 if number % 2 or not number else rare, rare if number % 2 else 7))
        rows["c"].append((clock, 0, 7))
    return rows


def ran(spark: SparkSession, directory: Path, count: int) -> tuple[list[set[str]], float]:
    """Which streams were joined first in each cycle, and the share of rows of b and c that are known to meet."""
    run = Run(spark, directory, network=watching)
    run.execute(STREAMS + CHAIN.format(name="q", shown="a.p", more=""))
    try:
        first = []
        for cycle in range(8):
            assert run.take(None, **rows_that_meet_on_one_side(cycle, count)) == ""
            first.append(joined_first(run))
        return first, recorded_sizes(run.loom.catalog).known[OF_LAST]
    finally:
        run.close()


def test_an_order_is_not_left_for_one_that_is_no_better(spark: SparkSession, tmp_path: Path) -> None:
    first, share = ran(spark, tmp_path, 12)
    assert first == [AB] * 8
    assert share == pytest.approx(0.4, abs=0.1), "half of them, but for those that are kept and too old"


@pytest.mark.prove
def test_without_trying_it_the_other_order_looks_better_than_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "trial_lookups", lambda *_: _nothing())
    _, share = ran(spark, tmp_path, 20)
    assert share < 0.2, "of the rows of b that meet one of a, one in eleven meets one of c"


def _nothing() -> Iterator[None]:
    return iter(())
