"""Overload: rows are left out only where that is allowed, the same ones again after a crash, and answers say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.runtime.workload_run import Run, batch_of
from weft.algebra import Value
from weft.runtime.sinks.shed_notices import ShedNotice, notices_in
from weft.runtime.sources import shedding
from weft.runtime.sources.batches import Batch
from weft.runtime.sources.shedding import LEAST, ShedRate, after_idle, rate_after, without_shed_rows
from weft.runtime.spark.rows import CORRUPT
from weft.runtime.state.commits import WHOLE

INTERVAL = 10.0


def after(pace: ShedRate, *seconds: float, interval: float | None = INTERVAL) -> ShedRate:
    for each in seconds:
        pace = rate_after(pace, each, interval)
    return pace


def test_cycles_that_keep_falling_behind_lead_to_fewer_rows() -> None:
    assert after(ShedRate(), 20, 20).kept == WHOLE
    assert after(ShedRate(), 20, 20, 20).kept == int(WHOLE * 0.85 / 2)
    assert after(ShedRate(), 20, 20, 5, 20, 20).kept == WHOLE


def test_without_an_interval_nothing_is_late() -> None:
    assert after(ShedRate(), 1e6, 1e6, 1e6, 1e6, interval=None) == ShedRate()


def test_how_far_cycles_are_behind_adds_up_and_is_made_up_for() -> None:
    assert after(ShedRate(), 12, 13).behind == pytest.approx(5)
    assert after(ShedRate(), 12, 13, 7).behind == pytest.approx(2)
    assert after(ShedRate(), 12, 13, 7, 5).behind == 0


def test_a_time_in_which_nothing_waited_makes_up_for_everything() -> None:
    pace = after(ShedRate(), 20, 20, 20)
    assert after_idle(pace, INTERVAL, INTERVAL) == pace, "the next cycle may have waited for its time"
    assert after_idle(pace, 2 * INTERVAL, INTERVAL) == ShedRate(pace.kept, 0.0, pace.in_a_row)
    assert after(after_idle(pace, 2 * INTERVAL, INTERVAL), 6, 6, 6).kept > pace.kept


def test_more_rows_are_kept_when_all_has_been_made_up_for() -> None:
    pace = after(ShedRate(), 20, 20, 20)
    assert after(pace, 6, 6, 6, 6, 6, 6, 6).kept == pace.kept, "there are thirty seconds to make up for"
    recovered = after(pace, *[6.0] * 30)
    assert recovered == ShedRate(WHOLE, 0.0, recovered.in_a_row)


@given(st.lists(st.floats(0, 1e4), max_size=60))
def test_the_rate_stays_within_its_bounds(seconds: list[float]) -> None:
    pace = after(ShedRate(), *seconds)
    assert LEAST <= pace.kept <= WHOLE
    assert pace.behind >= 0


STREAMS = """CREATE STREAM f (n BIGINT, k INT) WATERMARK FOR n AS n - 2 USING memory SHED ALLOWED;
    CREATE STREAM g (n BIGINT, k INT) WATERMARK FOR n AS n - 2 USING memory;"""
QUERIES = """CREATE CONTINUOUS QUERY sums AS SELECT k, COUNT(*) AS c, SUM(n) AS s FROM f [RANGE 20 SLIDE 10] GROUP BY k;
    CREATE CONTINUOUS QUERY some AS SELECT n, k FROM f WHERE k > 2;
    CREATE CONTINUOUS QUERY above AS SELECT k, c FROM sums WHERE c > 1;
    CREATE CONTINUOUS QUERY pairs AS SELECT f.n, g.n AS m FROM f [ROWS 8], g [ROWS 8] WHERE f.k = g.k;
    CREATE CONTINUOUS QUERY whole AS SELECT n, k FROM g"""

Rows = dict[str, list[dict[str, Value]]]


def rows_of(cycle: int) -> Rows:
    return {name: [{"n": 10 * cycle + n // 6, "k": n % 7} for n in range(60)] for name in "fg"}


class Shed:
    """An engine that keeps so many of 1,024 rows from a cycle on, beside an oracle that gets those that were kept."""

    def __init__(self, spark: SparkSession, directory: Path, kept: Sequence[int]) -> None:
        self.run = Run(spark, directory)
        self.run.execute(STREAMS + QUERIES)
        self._kept = kept
        self.told: dict[str, Mapping[str, ShedNotice]] = {}

    def cycle(self, number: int, crash_at: str | None = None) -> str:
        """One cycle on both; how they differ, or nothing."""
        run = self.run
        batch = batch_of(run.spark, run.loom.catalog.streams(), rows_of(number))
        assert batch is not None
        kept = without_shed_rows(batch, self._kept[number], number)
        expected = run.oracle.oracle.cycle(_by_stream(kept), {})
        run.crash_at = crash_at
        actual = run._survived(batch, {})
        run.crash_at = None
        run.cycles += 1
        self.told = {name: notices_in(table) for name, table in actual.items()}
        return "\n".join(run._differing_answers(expected, actual))


def _by_stream(batch: Batch) -> Rows:
    names = {index: [field.name for field in stream.fields] for index, stream in batch.streams.items()}
    found: Rows = {"f": [], "g": []}
    for index, stream in batch.streams.items():
        for row in batch.part_of(index).rows(index).drop(CORRUPT).toArrow().to_pylist():
            found[stream.name].append(dict(zip(names[index], row.values(), strict=True)))
    return found


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each cycle keeps, instead of what follows from how long cycles take."""
    listed = [1_024, 512, 256, 256, 1_024, 1_024]
    cycles = iter(listed[1:])
    monkeypatch.setattr(shedding, "rate_after", lambda pace, seconds, interval: ShedRate(next(cycles, WHOLE)))
    return listed


@pytest.mark.spark
@pytest.mark.usefixtures("compacting_early")
def test_answers_are_those_of_the_rows_that_were_kept_and_say_how_many_these_were(
    spark: SparkSession, tmp_path: Path, rates: list[int]
) -> None:
    shed = Shed(spark, tmp_path, rates)
    try:
        for cycle, kept in enumerate(rates):
            # A second attempt goes by the intent of the first one; a restart by the last commit.
            assert shed.cycle(cycle, crash_at={2: "answer", 3: "rename"}.get(cycle)) == ""
            for name in ("sums", "some", "above", "pairs"):
                if name in shed.told:
                    assert shed.told[name]["f"]["share"] == kept / WHOLE
                    assert (shed.told[name]["f"]["until"] is None) == (cycle == 0)
            assert shed.told["whole"] == {}
            if cycle == 2:
                assert shed.run.engine.last.streams["f"].rows < 60 + 60, "most rows of two cycles were left out"
        state = shed.run.engine.last.streams
        assert state["g"].rows == 60 * len(rates)
        assert state["f"].shed_until == 39
        newest = shed.run.loom.results("some")
        assert notices_in(newest) == {"f": {"share": 1.0, "until": 39, "shed": 60 * len(rates) - state["f"].rows}}
        assert notices_in(shed.run.loom.results("whole")) == {}
    finally:
        shed.run.close()


@pytest.mark.spark
def test_another_cycle_leaves_out_other_rows(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    run.execute(STREAMS)
    try:
        streams = run.loom.catalog.streams()
        batch = batch_of(spark, streams, {"f": [{"n": n, "k": n} for n in range(1_000)]})
        assert batch is not None
        kept = [
            frozenset(row.c0 for row in without_shed_rows(batch, 512, cycle).part_of(0).rows(0).collect())
            for cycle in (1, 1, 2)
        ]
        assert kept[0] == kept[1] != kept[2]
        assert 400 < len(kept[0]) < 600
    finally:
        run.close()
