"""Sharing that is switched off, memory that is bounded, keys that come and go."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.runtime.workload_run import Run, batch_of
from weft.runtime.stages.windows import stream_weave as weave
from weft.runtime.state.commits import errors_of

pytestmark = pytest.mark.spark

TRADES = "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n - 5 USING memory;"
TOTALS = "CREATE CONTINUOUS QUERY totals AS SELECT sym, SUM(qty) AS total FROM trades [ROWS 20 SLIDE 5] GROUP BY sym;"
COUNTS = "CREATE CONTINUOUS QUERY counts AS SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 10] WHERE qty > 1;"


def woven(run: Run) -> dict[str, bool]:
    """Whether each query is an aggregate over a stream that shares partials, by the record of the newest cycle."""
    last, plan = run.engine.last, run.engine._runner._planned.plan
    ids = {name: output.node_id.text for name, output in plan.outputs.items()}
    return {name: state.shared and last.evaluators[ids[name]] == "windows" for name, state in last.queries.items()}


def test_windowed_aggregates_are_woven_unless_sharing_is_off(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {TOTALS}")
    assert run.take(trades=[(1, "a", 2), (9, "b", 1)]) == ""
    run.loom.execute("SET sharing = off")
    run.execute(COUNTS)
    assert run.take(trades=[(14, "a", 2), (23, "b", 5)]) == ""
    # What was decided when a query was created stays.
    assert woven(run) == {"totals": True, "counts": False}
    run.loom.execute("SET sharing = on")
    run.restart()
    assert run.take(trades=[(40, "a", 3)]) == ""
    assert run.take(trades=[(77, "a", 3)]) == ""
    assert woven(run) == {"totals": True, "counts": False}


def test_only_partials_are_stored_of_a_stream_whose_queries_are_all_woven(
    beside_oracle: Callable[[str], Run],
) -> None:
    run = beside_oracle(f"{TRADES} {TOTALS} {COUNTS}")
    assert run.take(trades=[(1, "a", 2), (9, "b", 1)]) == ""
    assert run.take(trades=[(14, "a", 2), (23, "b", 5)]) == ""
    assert list(run.engine.last.logs) == ["partials trades"]
    files = sorted(each.name for each in (run.directory / "state" / "segments").glob("*/*"))
    assert files == ["state", "state"]
    # A row that is late for all windows is written down, and so are the others of its cycle, but not for long.
    assert run.take(trades=[(2, "a", 2), (24, "b", 5)]) == ""
    files = sorted(each.name for each in (run.directory / "state" / "segments").glob("*/*"))
    assert files == ["state"] * 3


def test_a_query_over_woven_answers_reads_them_in_the_same_cycle(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        f"{TRADES} {TOTALS} CREATE CONTINUOUS QUERY most AS SELECT MAX(total) AS m FROM totals [ROWS 10 SLIDE 10];"
        "CREATE CONTINUOUS QUERY large AS SELECT sym, total FROM totals WHERE total > 3"
    )
    for first in range(0, 80, 16):
        assert run.take(trades=[(first + step, "ab"[step % 2], step % 5) for step in range(16)]) == ""
    assert woven(run) == {"totals": True, "most": False, "large": False}


def test_more_memory_than_allowed_stops_the_query_and_loses_nothing(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {TOTALS}")
    assert run.take(trades=[(1, "a", 2)]) == ""
    run.loom.execute("SET max_state_mb = 0; SET kernels = driver")
    run.restart()
    rows = [(14, "a", 2), (23, "b", 5)]
    named = [dict(zip(("n", "sym", "qty"), row, strict=True)) for row in rows]
    batch = batch_of(run.spark, run.loom.catalog.streams(), {"trades": named})
    assert run.engine.cycle(batch, 1) == {}
    sentence = errors_of(run.engine.last)["totals"].sentence
    assert re.search(r"stream 'trades' need about .* MB .* are for totals: SET max_state_mb higher", sentence)
    run.loom.execute("SET max_state_mb = 100")
    run.engine.in_error.try_again({"totals"})
    (expected,) = run.oracle.oracle.cycle({"trades": named}, {}).values()
    assert len(expected) == run.loom.results("totals").num_rows
    run.cycles += 1
    assert run.take(trades=[(60, "a", 1)]) == ""


def test_keys_that_come_and_go_do_not_pile_up(
    beside_oracle: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weave, "_MANY_KEYS", 6)
    run = beside_oracle(f"{TRADES} {TOTALS}")
    for first in range(0, 300, 30):
        assert run.take(trades=[(first + step, f"key {first + step}", 1) for step in range(12)]) == ""
    known = run.engine._runner._windows._weaves["trades"]._numbers[("c1",)]
    assert len(known) <= 48


def test_rows_that_no_query_takes_are_counted_together(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        f"{TRADES} CREATE CONTINUOUS QUERY q AS "
        "SELECT sym, COUNT(*) AS c FROM trades [ROWS 50 SLIDE 50] WHERE qty > 3 GROUP BY sym"
    )
    assert run.take(trades=[(n, f"key {n}", n % 5) for n in range(20)]) == ""
    (segment,) = run.engine.last.logs["partials trades"]
    # Four rows have a quantity of 4 and a key each; the other sixteen are one partial.
    assert segment.rows == 5
    assert run.engine.last.streams["trades"].rows == 20
    assert run.take(trades=[(80, "key 4", 4)]) == ""


def test_conditions_that_contradict_each_other_let_no_row_through(beside_oracle: Callable[[str], Run]) -> None:
    # So many comparisons that they are told by intervals of the quantity.
    many = "".join(
        f"CREATE CONTINUOUS QUERY q{bound} AS SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 10] WHERE qty > {bound};"
        for bound in range(20)
    )
    where = ("qty > 15 AND qty < 3", "qty > 3 AND qty <= 3", "qty = 5 AND qty = 6", "qty >= 4 AND qty <= 4", "qty < 0")
    few = "".join(
        f"CREATE CONTINUOUS QUERY r{number} AS SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 10] WHERE {each};"
        for number, each in enumerate(where)
    )
    run = beside_oracle(f"{TRADES} {many} {few}")
    assert run.take(trades=[(n, "a", n) for n in range(-3, 25)]) == ""
    assert run.take(trades=[(60, "a", None), (61, "a", 4)]) == ""
    assert run.take(trades=[(90, "a", 1)]) == ""


def test_an_aggregate_that_is_asked_for_later_than_what_it_shares_is_of_no_concern_to_earlier_instances(
    beside_oracle: Callable[[str], Run],
) -> None:
    run = beside_oracle(
        f"{TRADES.replace('qty BIGINT', 'qty INT')} CREATE CONTINUOUS QUERY counted AS "
        "SELECT sym, COUNT(qty) AS c FROM trades [ROWS 20 SLIDE 5] GROUP BY sym"
    )
    # A group that has rows from before alone: their number is known, and the greatest of them is not.
    assert run.take(trades=[(n, "x", n) for n in range(12)]) == ""
    run.execute(
        "CREATE CONTINUOUS QUERY most AS SELECT sym, MAX(qty) AS m FROM trades [ROWS 20 SLIDE 5] GROUP BY sym;"
        "CREATE CONTINUOUS QUERY least AS SELECT sym, MIN(qty) AS m FROM trades [ROWS 15 SLIDE 5] GROUP BY sym"
    )
    for first in (14, 26, 40, 60):
        assert run.take(trades=[(first + step, "ab"[step % 2], step) for step in range(8)]) == ""
