"""From rows in an engine to users behind an edge, over a real NATS server, while everything on the way breaks once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.delivery.delivered_run import DeliveredRun
from tests.runtime.workload_run import values_of
from tests.support.peers import difference
from tests.support.processes import EdgeProcess, NatsServer
from weft.delivery import Batch, Subscriber, subscribe

pytestmark = pytest.mark.spark

_PATIENCE = 60.0

STREAMS = """
CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n - 3 USING memory;
CREATE STREAM quotes (m BIGINT, sym STRING, bid BIGINT) WATERMARK FOR m AS m - 3 USING memory;
"""

QUERIES = {
    "many": "SELECT n, sym, qty FROM trades WHERE qty > 1",
    "more": "SELECT sym, qty FROM trades WHERE qty > 3 AND sym = 'a'",
    "sums": "SELECT sym, SUM(qty) AS total FROM trades [ROWS 12 SLIDE 4] GROUP BY sym",
    "peaks": "SELECT sym, MAX(qty) AS top FROM trades [ROWS 12 SLIDE 6] GROUP BY sym HAVING COUNT(*) > 1",
    "pairs": "SELECT t.n, q.bid FROM trades [ROWS 8] AS t, quotes [ROWS 4] AS q WHERE t.sym = q.sym",
    "near": "SELECT t.n, q.m FROM trades [ROWS 3] AS t, quotes [ROWS 3] AS q WHERE t.sym = q.sym AND t.qty > 0",
}

#: Before which cycle a query comes, if not before the first, and before which one goes.
COMES = {"more": 3, "peaks": 4, "near": 5}
GOES = {"many": 9}
CYCLES = 12


def rows_of(cycle: int) -> dict[str, list[tuple[Any, ...]]]:
    """Rows that overlap the cycles before and after, out of order, some of them late."""
    symbols = "abc"
    trades = [(5 * cycle + (3 * k) % 7 - 2, symbols[(cycle + k) % 3], (cycle * k) % 6) for k in range(6)]
    quotes = [(5 * cycle + (2 * k) % 5 - 1, symbols[(cycle + 2 * k) % 3], k) for k in range(4)]
    return {"trades": trades, "quotes": quotes}


class NotedRun(DeliveredRun):
    """A run that notes what the oracle expects of each cycle."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.expected: dict[tuple[str, int], Any] = {}
        super().__init__(spark, directory)

    def _differing_answers(self, expected: Mapping[str, Any], actual: Mapping[str, Any]):  # type: ignore[no-untyped-def]
        for name, answers in expected.items():
            self.expected[name, self.cycles - 1] = answers
        return super()._differing_answers(expected, actual)


def test_users_behind_an_edge_get_the_oracles_answers_whatever_breaks(
    spark: SparkSession, tmp_path: Path, nats: NatsServer
) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    run = NotedRun(spark, directory)
    edge = EdgeProcess(f"{nats.url}/{run.loom.catalog.project}", tmp_path / "edge")
    users: dict[str, Subscriber] = {}
    try:
        run.loom.execute(f"SET broker = '{nats.url}'")
        run.execute(STREAMS)
        run.restart()
        edge.start()
        for cycle in range(CYCLES):
            for name in [each for each in QUERIES if COMES.get(each, 0) == cycle]:
                run.execute(f"CREATE CONTINUOUS QUERY {name} AS {QUERIES[name]}")
            for name in [each for each in GOES if GOES[each] == cycle]:
                run.execute(f"DROP CONTINUOUS QUERY {name}")
            if cycle == 4:
                nats.stop(kill=True)
            if cycle == 6:
                nats.start()
            if cycle == 7:
                edge.kill()
                edge.start()
            # Between publishing and committing, and between the commit and telling of it.
            run.crash_at = {2: "commit", 5: "rename", 8: "after commit"}.get(cycle)
            assert run.take(**rows_of(cycle)) == ""
            if nats.process is not None:
                users |= {name: _user(edge, name) for name in QUERIES if COMES.get(name, 0) == cycle}
        users |= {name: _user(edge, name) for name in QUERIES if name not in users}
        for name, user in users.items():
            _compare(run, name, user)
    finally:
        for user in users.values():
            user.close()
        edge.stop()
        run.close()


def _user(edge: EdgeProcess, query: str) -> Subscriber:
    return subscribe(edge.address, query, after=-1, wait=True)


def _compare(run: NotedRun, name: str, user: Subscriber) -> None:
    """All that a user has got is what the oracle says, cycle by cycle, and no more."""
    expected = {cycle: answers for (query, cycle), answers in run.expected.items() if query == name and answers}
    got: dict[int, Any] = {}
    end = time.monotonic() + _PATIENCE
    try:
        while user.position < CYCLES - 1 and time.monotonic() < end:
            item = user.next(0.5)
            if item is not None:
                assert isinstance(item, Batch)
                assert item.cycle not in got
                got[item.cycle] = item.table
    except StopIteration:
        assert name in GOES
    assert got.keys() == expected.keys()
    relation = run.relations[name]
    for cycle, answers in expected.items():
        assert difference(relation, answers, values_of(got[cycle], relation)) == ""
    assert expected, f"{name} has no answers: the test shows nothing"
