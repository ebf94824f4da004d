"""Aggregates that never close share partials too: their groups grow, survive, and go."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tests.runtime.workload_run import Run, batch_of
from weft.kernels.monoids import NONFINITE, POSITIVE, ieee_sum, settled, sum_of_integers, whole_sum
from weft.runtime.stages.statistics import measured
from weft.runtime.stages.windows.running_aggregates import CohortSpec, decoded, encoded, records_in
from weft.runtime.state.commits import errors_of

TRADES = "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT, price DOUBLE) WATERMARK FOR n AS n - 5 USING memory;"
EVER = (
    "CREATE CONTINUOUS QUERY ever AS SELECT sym, SUM(qty) AS total, MAX_BY(sym, price) AS m FROM trades GROUP BY sym;"
)
COUNTS = "CREATE CONTINUOUS QUERY counts AS SELECT COUNT(*) AS c, AVG(price) AS mean FROM trades WHERE qty > 1;"

LEAST, MOST = -(2**63), 2**63 - 1


def rows(first: int) -> list[tuple[int, str, int, float]]:
    return [(first + step, "abc"[step % 3], step % 5, step / 4) for step in range(7)]


@pytest.mark.spark
def test_groups_that_never_close_are_stored_as_running_aggregates(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {EVER} {COUNTS}")
    for first in (0, 10, 20):
        assert run.take(trades=rows(first)) == ""
    assert set(run.engine.last.evaluators.values()) == {"windows"}
    assert list(run.engine.last.logs) == ["running stream trades"]
    assert run.engine.last.snapshots == {}
    run.restart()
    assert run.take(trades=[(31, "a", MOST, 1.0), (32, None, MOST, float("nan"))]) == ""
    assert run.take() == ""
    assert run.take(trades=[(33, "a", MOST, float("inf")), (34, None, LEAST, -1.0)]) == ""


@pytest.mark.spark
@pytest.mark.usefixtures("compacting_early")
def test_many_segments_of_groups_become_one_without_those_of_dropped_queries(
    beside_oracle: Callable[[str], Run],
) -> None:
    run = beside_oracle(f"{TRADES} {EVER} {COUNTS}")
    for first in range(0, 50, 10):
        assert run.take(trades=rows(first)) == ""
        assert len(run.engine.last.logs["running stream trades"]) <= 2
    run.execute("DROP CONTINUOUS QUERY ever")
    for first in range(50, 90, 10):
        assert run.take(trades=rows(first)) == ""
    whole = run.engine.last.logs["running stream trades"][0]
    assert whole.rows == 1
    run.restart()
    assert run.take(trades=rows(90)) == ""
    run.execute("DROP CONTINUOUS QUERY counts")
    assert run.take(trades=rows(100)) == ""
    assert "running stream trades" not in run.engine.last.logs


@pytest.mark.spark
def test_queries_that_begin_later_begin_with_nothing(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {EVER}")
    assert run.take(trades=rows(0)) == ""
    run.execute("CREATE CONTINUOUS QUERY again AS SELECT sym, SUM(qty) AS total FROM trades GROUP BY sym")
    run.execute("CREATE CONTINUOUS QUERY w AS SELECT sym, SUM(qty) AS total FROM trades [ROWS 10 SLIDE 5] GROUP BY sym")
    assert run.take(trades=rows(10)) == ""
    run.execute("DROP CONTINUOUS QUERY ever")
    run.restart()
    assert run.take(trades=rows(20)) == ""
    run.execute(EVER)
    assert run.take(trades=rows(30)) == ""


@pytest.mark.spark
def test_no_row_is_late_for_an_aggregate_that_never_closes(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        f"{TRADES} {EVER} CREATE CONTINUOUS QUERY w AS SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 10]"
    )
    assert run.take(trades=rows(100)) == ""
    assert run.take(trades=[(3, "a", 1, 1.0), (107, "b", 2, 2.0)]) == ""
    assert run.engine.last.streams["trades"].late == 0


@pytest.mark.spark
def test_a_selection_passes_on_the_versions_of_an_aggregate_that_never_closes(
    beside_oracle: Callable[[str], Run],
) -> None:
    large = "CREATE CONTINUOUS QUERY large AS SELECT sym, total FROM ever WHERE total > 3;"
    run = beside_oracle(f"{TRADES} {EVER} {large}")
    for first in (0, 30, 12, 60, 90):
        assert run.take(trades=rows(first)) == ""
    assert run.take(heartbeats={"trades": 200}) == ""


@pytest.mark.spark
def test_a_query_that_began_by_itself_goes_on_by_itself(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(TRADES)
    run.loom.execute("SET sharing = off")
    run.execute(EVER)
    assert run.take(trades=rows(0)) == ""
    run.loom.execute("SET sharing = on")
    run.execute(COUNTS)
    run.restart()
    assert run.take(trades=rows(10)) == ""
    assert run.take(trades=rows(20)) == ""
    assert {name: state.shared for name, state in run.engine.last.queries.items()} == {"ever": False, "counts": True}


@pytest.mark.spark
def test_a_stream_that_is_created_again_has_no_running_aggregates(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {EVER}")
    assert run.take(trades=rows(0)) == ""
    run.loom.execute("DROP CONTINUOUS QUERY ever; DROP STREAM trades")
    run.loom.execute(f"{TRADES.replace('sym STRING', 'sym INT')} {EVER}")
    batch = batch_of(run.spark, run.loom.catalog.streams(), {"trades": [{"n": 1, "sym": 7, "qty": 2, "price": 1.0}]})
    answers = run.engine.cycle(batch, 1)
    assert answers["ever"].to_pylist() == [{"sym": 7, "total": 2, "m": 7}]


@pytest.mark.spark
def test_more_groups_than_memory_allows_stop_the_query_and_lose_nothing(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {EVER}")
    assert run.take(trades=rows(0)) == ""
    run.loom.execute("SET max_state_mb = 0")
    run.restart()
    named = [dict(zip(("n", "sym", "qty", "price"), row, strict=True)) for row in rows(10)]
    batch = batch_of(run.spark, run.loom.catalog.streams(), {"trades": named})
    assert run.engine.cycle(batch, 1) == {}
    sentence = errors_of(run.engine.last)["ever"].sentence
    assert re.search(r"stream 'trades' that never close need about .* MB .* are for ever: SET max_state_mb", sentence)
    run.loom.execute("SET max_state_mb = 100")
    run.engine.in_error.try_again({"ever"})
    run.oracle.oracle.cycle({"trades": named}, {})
    run.cycles += 1
    assert run.take(trades=rows(10)) == ""


MIXED = (
    "SELECT sym, SUM(qty) AS v FROM trades WHERE qty > {0} GROUP BY sym",
    "SELECT sym, MAX_BY(sym, price) AS v FROM trades [ROWS 20 SLIDE 5] GROUP BY sym",
    "SELECT COUNT(*) AS v FROM trades [ROWS 10 SLIDE {1}] WHERE price > {0} EMIT EMPTY",
    "SELECT AVG(price) AS v, MIN(sym) AS w FROM trades WHERE qty <> {0}",
)


@pytest.mark.spark
def test_forty_queries_of_all_kinds_take_as_many_jobs_as_one(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} CREATE CONTINUOUS QUERY q0 AS {MIXED[0].format(0, 1)}")
    assert run.take(trades=rows(0)) == ""
    assert run.take(trades=rows(10)) == ""
    for number in range(1, 40):
        text = MIXED[number % 4].format(number % 5, 2 + number % 3)
        run.execute(f"CREATE CONTINUOUS QUERY q{number} AS {text}")
    assert run.take(trades=rows(20)) == ""
    assert run.take(trades=rows(30)) == ""
    jobs = {each.cycle: each.jobs for each in measured(run.loom.catalog).cycles}
    assert jobs[0] is not None
    assert set(jobs.values()) == {jobs[0]}


# -- without Spark ----------------------------------------------------------------------------------------------------


def test_groups_come_back_from_a_segment_as_they_were() -> None:
    by_symbol = CohortSpec(("c1",), ("(c2 > 1)",), 3)
    everything = CohortSpec((), (), 7)
    counts, limbs = np.array([2, 5]), (np.array([1, 4294967295]), np.array([-1, 9]))
    text = np.array(["", "zoë"], dtype=object)
    one = (np.array([1]), np.array([np.nan]))
    cohorts = [
        (by_symbol, [pa.array(["a", None])], {"count": (counts,), "sum": limbs, "least": (text,)}),
        (everything, [], {"count": (np.array([7]),), "moments": one}),
    ]
    back = decoded(encoded(cohorts))
    assert [spec for spec, _ in back] == [by_symbol, everything]
    for (_, keys, records), (_, rows) in zip(cohorts, back, strict=True):
        assert [rows[f"k{place}"].to_pylist() for place in range(len(keys))] == [each.to_pylist() for each in keys]
        for name, columns in records.items():
            for known, read in zip(columns, records_in(rows, name), strict=True):
                np.testing.assert_array_equal(read, known)


def test_sums_that_grow_for_ever_hand_on_their_carries() -> None:
    statistic = sum_of_integers(2)
    total = statistic.empty(1)
    # Partials of two billion rows each, all but full: a few of them would overflow a limb that is never settled.
    part = (np.array([2**62]), np.array([2**40]))
    for _ in range(100):
        total = settled(statistic, statistic.combine(total, part))
    assert whole_sum(total).tolist() == [100 * (2**62 + (2**40 << 32))]


def test_values_that_are_not_finite_are_flagged_and_not_counted() -> None:
    flags = (np.array([1, POSITIVE, 0]),)
    total = NONFINITE.empty(3)
    for _ in range(3):
        total = settled(NONFINITE, NONFINITE.combine(total, flags))
    assert total[0].tolist() == [1, POSITIVE, 0]
    np.testing.assert_array_equal(ieee_sum(np.array([1.0, 2.0, 3.0]), total[0]), [np.nan, np.inf, 3.0])
