"""Joins that are chosen anew while they run: whatever the network becomes, the answers are the oracle's."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.engine.network.workloads import workload
from tests.engine.workload_run import UNCOMMITTED, Run
from weft.catalog import Catalog
from weft.engine.network.current import CurrentNetwork
from weft.engine.woven.hosts import hosting
from weft.optimizer.network import Observed

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compacting_early")]

STEPS = (*UNCOMMITTED, "network")


class Fickle(Observed):
    """Statistics that say something else whenever they are asked, so that every order is the best one some day."""

    def __init__(self, pick: random.Random) -> None:
        super().__init__()
        self._pick = pick

    def rows(self, log: str) -> int | None:
        return 1 << self._pick.randint(0, 16)

    def kept(self, logs: tuple[str, ...], condition: str) -> Fraction | None:
        return Fraction(1, 1 << self._pick.randint(0, 10))


class Shaken:
    """Makes networks in which half of the selects are chosen anew before every cycle, by whatever statistics."""

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        self.orders: set[tuple[str, str]] = set()
        self.decisions = 0

    def __call__(self, catalog: Catalog) -> CurrentNetwork:
        self.network = CurrentNetwork(hosting(catalog), Fickle(self._pick), whim=self._whim)
        return self.network

    def _whim(self, cycle: int, places: Sequence[str]) -> Iterable[str]:
        return [place for place in places if self._pick.random() < 0.5]

    def note(self) -> None:
        self.decisions += len(self.network.redecided)
        self.orders |= {(each.places[0], each.after) for each in self.network.redecided}


def disagreement(spark: SparkSession, directory: Path, seed: int, kernels: str, shaken: Shaken) -> str:
    """How the engine differs from the oracle in the first cycle in which it does, or nothing."""
    pick, drawn = random.Random(seed), workload(seed, cycles=8, queries=10)
    run = Run(spark, directory, drawn, shaken)
    run.loom.execute(f"SET kernels = {kernels}")
    run.restart()
    try:
        for number, arriving in enumerate(drawn.cycles):
            if pick.random() < 0.15:
                run.restart()
            if number and pick.random() < 0.25:
                run.crash_at = pick.choice(STEPS)
            differs = run.cycle(arriving)
            shaken.note()
            if differs:
                return differs
            run.crash_at = None
    finally:
        run.close()
    return ""


@pytest.mark.parametrize(("seed", "kernels"), [(1, "auto"), (2, "executors")])
def test_selects_that_are_chosen_anew_all_the_time_answer_like_the_oracle(
    spark: SparkSession, tmp_path: Path, seed: int, kernels: str
) -> None:
    shaken = Shaken(random.Random(seed))
    assert disagreement(spark, tmp_path, seed, kernels, shaken) == ""
    places = {place for place, _ in shaken.orders}
    assert shaken.decisions > 10
    assert len(shaken.orders) > len(places), "some select was joined in two orders"


@pytest.mark.prove
@pytest.mark.timeout(4 * 60 * 60)
@pytest.mark.parametrize("seed", range(200, 260))
def test_many_selects_that_are_chosen_anew_answer_like_the_oracle(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    kernels = "executors" if seed % 3 == 0 else "auto"
    assert disagreement(spark, tmp_path, seed, kernels, Shaken(random.Random(seed))) == ""
