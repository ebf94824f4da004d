"""The index of the network in the catalog: engines that stop, crash and start again, and files that others have had."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.runtime.joins.test_stage import CHAIN, F, created, rows
from tests.runtime.workload_run import UNCOMMITTED, Run
from weft.catalog import CATALOG_FILE, Catalog
from weft.plan.network import Network
from weft.runtime.state.stored_plan import StoredPlan

pytestmark = pytest.mark.spark

QUERIES = created(
    over="SELECT n, amount FROM f WHERE amount > 10",
    pairs="SELECT a.n, b.n AS m FROM f [ROWS 10] a, f [ROWS 10] b WHERE a.dst = b.src AND a.amount > 5",
    wide=CHAIN.format(least=10),
    narrow=CHAIN.format(least=20),
)


def kept(run: Run) -> Network:
    """The network as another process sees it while the engine has the project."""
    with Catalog.open(run.directory, write=False) as reader:
        return StoredPlan(reader).load().network


def places(run: Run) -> set[str]:
    """The places of all queries, each of which the network answers."""
    found = set(run.engine.last.evaluators)
    assert len(found) == len(run.loom.catalog.query_numbers())
    return found


def test_a_restart_takes_up_the_network_that_ran(
    beside_oracle: Callable[[str], Run], caplog: pytest.LogCaptureFixture
) -> None:
    run = beside_oracle(F + QUERIES)
    assert run.take(f=rows(0)) == ""
    before = kept(run)
    assert before.results.keys() == places(run)
    run.restart()
    assert run.take(f=rows(10)) == ""
    assert kept(run) == before
    assert "made again" not in caplog.text


def test_queries_come_and_go_while_nothing_runs(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(F + QUERIES)
    assert run.take(f=rows(0)) == ""
    numbers = set(kept(run).nodes)
    run.execute("DROP CONTINUOUS QUERY wide; DROP CONTINUOUS QUERY over;")
    # The same name, and another query.
    run.execute(created(over="SELECT n, amount FROM f WHERE amount > 25", more=CHAIN.format(least=15)))
    run.restart()
    assert run.take(f=rows(10)) == ""
    assert run.take(f=rows(18)) == ""
    assert kept(run).results.keys() == places(run)
    assert numbers & kept(run).nodes.keys()


@pytest.mark.parametrize("step", ["network", *(pytest.param(each, marks=pytest.mark.prove) for each in UNCOMMITTED)])
def test_a_cycle_that_fails_leaves_an_index_that_the_next_attempt_can_use(
    beside_oracle: Callable[[str], Run], step: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = beside_oracle(F + QUERIES)
    assert run.take(f=rows(0)) == ""
    run.execute("DROP CONTINUOUS QUERY narrow;" + created(late=CHAIN.format(least=3)))
    run.crash_at = step
    assert run.take(f=rows(10)) == ""
    assert kept(run).results.keys() == places(run)
    assert run.take(f=rows(14)) == ""
    assert "made again" not in caplog.text


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shared_plan SET made_by = 'another'",
        "UPDATE nodes SET document = '[1'",
        *(
            pytest.param(each, marks=pytest.mark.prove)
            for each in (
                "DELETE FROM nodes WHERE id LIKE 'join %'",
                "DELETE FROM nodes WHERE id LIKE 'scan %'",
                "UPDATE shared_plan SET next_number = 1",
            )
        ),
    ],
)
def test_an_index_that_is_of_no_use_does_not_stop_the_engine(
    beside_oracle: Callable[[str], Run], statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = beside_oracle(F + QUERIES)
    assert run.take(f=rows(0)) == ""
    with closing(sqlite3.connect(run.directory / CATALOG_FILE, isolation_level=None)) as connection:
        connection.execute(statement)
    run.restart()
    assert run.take(f=rows(10)) == ""
    assert run.take(f=rows(16)) == ""
    assert "made again" in caplog.text
    assert kept(run).results.keys() == places(run)
