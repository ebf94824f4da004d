"""Joins that are chosen anew while they run: whatever the network becomes, the answers are the oracle's."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.runtime.joins.workloads import workload
from tests.runtime.workload_run import UNCOMMITTED, Run
from tests.support.fixed_statistics import FixedStatistics
from weft.catalog import Catalog
from weft.optimizer.network.redeciding import Patience
from weft.optimizer.network.sizes import MeasuredSizes, SizeKind
from weft.runtime.stages.joins.network_records import observed_before, recorded_sizes
from weft.runtime.stages.joins.stage import JoinStage
from weft.runtime.stages.statistics import measured

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compacting_early")]

STEPS = (*UNCOMMITTED, "network")


class Fickle(MeasuredSizes):
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

    def __call__(self, catalog: Catalog) -> JoinStage:
        self.network = JoinStage(catalog.settings(), Fickle(self._pick), forced=self._forced)
        return self.network

    def _forced(self, cycle: int, places: Sequence[str]) -> Iterable[str]:
        return [place for place in places if self._pick.random() < 0.5]

    def note(self) -> None:
        self.decisions += len(self.network.redecided)
        for each in self.network.redecided:
            self.orders |= {(each.places[0], each.before), (each.places[0], each.after)}


def disagreement(spark: SparkSession, directory: Path, seed: int, kernels: str, shaken: Shaken) -> str:
    """How the engine differs from the oracle in the first cycle in which it does, or nothing."""
    pick, drawn = random.Random(seed), workload(seed)
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


STREAMS = "".join(
    f"CREATE STREAM {name} (n BIGINT, k INT, p INT) WATERMARK FOR n AS n - 2 USING memory;" for name in "abc"
)
CHAIN = """CREATE CONTINUOUS QUERY {name} AS SELECT a.n, b.n AS m, c.n AS o, {shown} FROM a [ROWS 15], b [ROWS 15],
    c [ROWS 15] WHERE a.k = b.k AND b.p = c.p{more};"""
FIRST_TWO, LAST_TWO = "(T1 x T2) x T3", "T1 x (T2 x T3)"
#: What is told after so many cycles in a row is believed, and believed again after two more.
HASTY = Patience(sustained=1, interval=2)


def watching(catalog: Catalog) -> JoinStage:
    return JoinStage(catalog.settings(), observed_before(catalog), HASTY)


def rows_that_meet(cycle: int, pair: str) -> dict[str, list[tuple[int, int, int]]]:
    """Rows of which all of two streams meet, and of the other two hardly any."""
    first = 6 * cycle

    def row(number: int, stream: int) -> tuple[int, int, int]:
        rare = 1_000 * stream + first + number if number else 0
        return (first + number, 7, rare) if pair == "ab" else (first + number, rare, 7)

    return {name: [row(number, stream) for number in range(6)] for stream, name in enumerate("abc")}


def joined_first(run: Run) -> set[str]:
    """The joins of two streams whose rows are kept."""
    return {log.partition(" on ")[0] for log in run.engine.last.network}


AB, BC = {"joined (stream a) (stream b)"}, {"joined (stream b) (stream c)"}


def test_the_order_follows_the_data_while_it_runs_and_the_answers_stay_right(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, network=watching)
    run.execute(STREAMS + CHAIN.format(name="q", shown="a.p", more=""))
    try:
        for cycle in range(14):
            if cycle == 2:
                run.execute(CHAIN.format(name="also", shown="c.k, b.k AS j", more=" AND a.n + c.n > 5"))
            assert run.take(None, **rows_that_meet(cycle, "bc" if cycle < 5 else "ab")) == ""
            assert joined_first(run) == AB or cycle > 5
        assert joined_first(run) == BC
        found = recorded_sizes(run.loom.catalog)
        document = measured(run.loom.catalog).document()["network"]
        told_of = run.loom.explain("q"), json.loads(run.loom.explain("q", format="JSON"))
    finally:
        run.close()
    _check_what_is_explained(*told_of)
    (decided,) = found.history
    assert set(decided.places) == set(run.engine.last.evaluators), "the two share their joins, and move together"
    assert (decided.before, decided.after) == (FIRST_TWO, LAST_TWO)
    assert all([each for each in found.history if place in each.places] == [decided] for place in decided.places)
    told = {known.of: value for known, value in decided.observed if known.kind is SizeKind.SHARE}
    assert told["T1.k - T2.k = 0"] > 8 * told["T1.p - T2.p = 0"]
    assert document["redecided"][0]["to"] == LAST_TWO
    assert document["known"]["rows:stream a"]["rows"] > 0
    (pairs,) = [each for join, each in document["pairs"].items() if join.startswith("joined (stream b) (stream c)")]
    assert pairs["looked at"] >= pairs["kept"]


def _check_what_is_explained(text: str, document: dict[str, Any]) -> None:
    """The order, what was seen that speaks for it, and how it came to be, by the names of the query."""
    ((order,),) = [each["network"]["orders"] for each in document["queries"]]
    assert order["order"] == order["best"] == "a x (b x c)"
    assert order["cost"] == order["best_cost"]
    assert order["seen"]["pairs of a and b with a.k = b.k"] > 8 * order["seen"]["pairs of b and c with b.p = c.p"]
    (change,) = order["history"]
    assert (change["from"], change["to"]) == ("(a x b) x c", "a x (b x c)")
    assert change["cost_before"] > 2 * change["cost_after"]
    assert change["seen"].keys() >= {"pairs of a and b with a.k = b.k", "pairs of b and c with b.p = c.p"}
    assert "  joined in the order a x (b x c): " in text
    assert f"    chosen anew before cycle {change['cycle']}: from (a x b) x c, for " in text
    assert "    seen: rows of a: " in text


@pytest.mark.parametrize(
    ("kernels", "crash_at"), [("auto", "network"), pytest.param("executors", "rename", marks=pytest.mark.prove)]
)
def test_a_crash_while_the_order_changes_leaves_no_trace(
    spark: SparkSession, tmp_path: Path, kernels: str, crash_at: str
) -> None:
    run = Run(spark, tmp_path, network=watching)
    run.execute(STREAMS + CHAIN.format(name="q", shown="a.p", more=" AND a.n <= c.n + 9"))
    run.loom.execute(f"SET kernels = {kernels}")
    run.restart()
    try:
        for cycle in range(12):
            # From some cycle on, the engine that comes after a crash draws up another network than the one before it.
            run.crash_at = crash_at if cycle in (4, 7, 9, 10) else None
            assert run.take(None, **rows_that_meet(cycle, "bc" if cycle < 5 else "ab")) == ""
            assert joined_first(run) == AB or cycle > 4
        assert joined_first(run) == BC
    finally:
        run.close()


def test_an_older_select_finds_its_columns_in_a_node_that_was_kept_for_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    told, chosen = FixedStatistics("T1.k - T2.k = 0"), list[str]()
    run = Run(
        spark,
        tmp_path,
        network=lambda catalog: JoinStage(catalog.settings(), told, forced=lambda cycle, places: chosen),
    )
    run.execute(STREAMS + CHAIN.format(name="first", shown="a.k", more=" AND a.n <= c.n + 3"))
    try:
        assert run.take(None, **rows_that_meet(0, "ab")) == ""
        assert joined_first(run) == AB
        told.rare = "T1.p - T2.p = 0"
        run.execute(CHAIN.format(name="second", shown="a.p AS ap, b.p AS bp", more=""))
        assert run.take(None, **rows_that_meet(1, "ab")) == ""
        assert joined_first(run) == AB | BC
        told.rare = "T1.k - T2.k = 0"
        chosen.append(run.engine._runner._planned.plan.outputs["second"].node_id.text)
        for cycle in (2, 3):
            assert run.take(None, **rows_that_meet(cycle, "ab")) == ""
            assert joined_first(run) == AB, "both read the join that was there"
    finally:
        run.close()


@pytest.mark.parametrize(
    ("seed", "kernels", "turned"), [(23, "auto", 0), pytest.param(30, "executors", 1, marks=pytest.mark.prove)]
)
def test_selects_that_are_chosen_anew_all_the_time_answer_like_the_oracle(
    spark: SparkSession, tmp_path: Path, seed: int, kernels: str, turned: int
) -> None:
    shaken = Shaken(random.Random(seed))
    assert disagreement(spark, tmp_path, seed, kernels, shaken) == ""
    places = {place for place, _ in shaken.orders}
    assert shaken.decisions > 5
    assert len(shaken.orders) >= len(places) + turned, "some select was joined in two orders"


@pytest.mark.prove
@pytest.mark.timeout(4 * 60 * 60)
@pytest.mark.parametrize("seed", range(200, 260))
def test_many_selects_that_are_chosen_anew_answer_like_the_oracle(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    kernels = "executors" if seed % 3 == 0 else "auto"
    assert disagreement(spark, tmp_path, seed, kernels, Shaken(random.Random(seed))) == ""
