"""The network in the engine: what it shares, keeps, lets go of, and makes up for."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from tests.runtime.workload_run import Run
from weft.runtime.stages.statistics import measured

pytestmark = pytest.mark.spark

F = (
    "CREATE STREAM f (n BIGINT, src BIGINT, dst BIGINT, amount DECIMAL(10, 2), kind STRING) "
    "WATERMARK FOR n AS n - 5 USING memory;"
)
CHAIN = (
    "SELECT a.n, b.n AS m, c.n AS o, a.amount FROM f [ROWS 10] a, f [ROWS 10] b, f [ROWS 10] c "
    "WHERE a.dst = b.src AND b.dst = c.src AND a.amount > {least}"
)


def rows(first: int, count: int = 9) -> list[tuple[int, int, int, Decimal, str]]:
    return [
        (first + n, (first + n) % 4, (first + 3 * n) % 5, Decimal((first * 7 + n * 13) % 40), "abc"[n % 3])
        for n in range(count)
    ]


def created(**queries: str) -> str:
    return ";".join(f"CREATE CONTINUOUS QUERY {name} AS {select}" for name, select in queries.items())


def test_all_kinds_of_selections_and_joins_are_in_the_network(beside_oracle: Callable[[str], Run]) -> None:
    queries = created(
        over="SELECT n, amount FROM f WHERE amount > 10",
        twice="SELECT n, amount * 2 AS twice FROM f WHERE amount > 20 AND kind = 'a'",
        windows="SELECT a.n, b.n AS m FROM f [ROWS 10] a, f [ROWS 10] b WHERE a.dst = b.src AND a.amount > 10",
        bounds="SELECT a.n, b.n AS m FROM f a, f b WHERE a.dst = b.src AND a.amount > 20 AND b.amount > a.amount / 2 "
        "AND b.n BETWEEN a.n AND a.n + 8",
        chain=CHAIN.format(least=10) + " AND c.kind <> 'b'",
        theta="SELECT a.n, b.n AS m FROM f [ROWS 4] a, f [ROWS 3] b WHERE a.amount < b.amount",
        ever="SELECT a.n, b.n AS m FROM f [RANGE UNBOUNDED] a, f [RANGE UNBOUNDED] b "
        "WHERE a.src = b.dst AND a.amount > 30 AND b.amount > 30",
        slides="SELECT a.n, b.n AS m FROM f [ROWS 6 SLIDE 3] a, f [ROWS 3 SLIDE 3] b WHERE a.src = b.src",
    )
    run = beside_oracle(F + queries)
    for first in (0, 10, 20, 18, 40):
        assert run.take(f=rows(first)) == ""
    assert set(run.engine.last.evaluators.values()) == {"joins"}
    run.restart()
    assert run.take(f=rows(45)) == ""
    assert run.take() == ""


def jobs_of_cycles(start: Callable[[str], Run], count: int) -> list[int | None]:
    queries = {f"s{n}": f"SELECT n, kind FROM f WHERE amount > {n % 37}" for n in range(count)}
    queries |= {f"c{n}": CHAIN.format(least=n % 37) for n in range(count)}
    run = start(F + created(**queries))
    for first in (0, 10, 20):
        assert run.take(f=rows(first)) == ""
    return [each.jobs for each in measured(run.loom.catalog).cycles]


def test_twenty_four_queries_take_as_many_jobs_as_two(
    beside_oracle: Callable[[str], Run], another_beside_oracle: Callable[[str], Run]
) -> None:
    few, many = jobs_of_cycles(beside_oracle, 1), jobs_of_cycles(another_beside_oracle, 12)
    assert few == many
    levels = 2
    assert all(jobs is not None and jobs <= 4 + 3 * levels for jobs in many)


def test_empty_windows_over_joins_are_answered(beside_oracle: Callable[[str], Run]) -> None:
    """From the first pair on, also while nothing meets."""
    pairs = "SELECT a.n FROM f [ROWS 4] a, f [ROWS 4] b WHERE a.dst = b.src AND a.amount > 30"
    run = beside_oracle(F + created(counted=f"SELECT COUNT(*) AS c FROM ({pairs}) j [ROWS 4 SLIDE 2] EMIT EMPTY"))
    for cycle in range(3):
        assert run.take(f=rows(8 * cycle)) == ""
    assert run.take(heartbeats={"f": 40}) == ""
    assert run.engine.last.answered["counted"] > 0


def test_joined_rows_are_kept_for_joins_above_and_expire(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(F + created(chain=CHAIN.format(least=10)))
    assert run.take(f=rows(0)) == ""
    (joined,) = [log for log in run.engine.last.logs if log.startswith("joined")]
    assert run.take(f=rows(10)) == ""
    assert len(run.engine.last.logs[joined]) == 2
    assert run.take(heartbeats={"f": 100}) == ""
    assert joined not in run.engine.last.logs
    run.execute("DROP CONTINUOUS QUERY chain")
    assert run.take(f=rows(101)) == ""
    assert run.engine.last.network == {}


def test_what_a_query_has_not_seen_is_made_up_for_when_the_network_is_another(
    beside_oracle: Callable[[str], Run],
) -> None:
    """The second query shares the first one's join. When that is gone, and all is drawn up anew, it needs its own."""
    run = beside_oracle(F + created(weak=CHAIN.format(least=5), strong=CHAIN.format(least=20)))
    assert run.take(f=rows(0)) == ""
    (labels,) = [state.labels for state in run.engine.last.network.values()]
    assert len(labels) == 1
    assert run.take(f=rows(6)) == ""
    run.execute("DROP CONTINUOUS QUERY weak")
    # As if another weft had kept the network: with what is kept, the join would stay what it is.
    run.loom.catalog.plan_nodes.clear(1)
    run.restart()
    assert run.take(f=rows(12)) == ""
    (anew,) = [state.labels for state in run.engine.last.network.values()]
    assert list(anew.values()) == [(2, 0)]
    assert anew.keys() != labels.keys()
    assert run.take(f=rows(16)) == ""


def test_queries_begin_with_their_first_cycle_whatever_the_network_has_kept(
    beside_oracle: Callable[[str], Run],
) -> None:
    run = beside_oracle(F + created(old=CHAIN.format(least=10)))
    assert run.take(f=rows(0)) == ""
    run.execute(created(new=CHAIN.format(least=10)))
    assert run.take(f=rows(4)) == ""
    run.execute("DROP CONTINUOUS QUERY old")
    assert run.take(f=rows(8)) == ""
    run.execute(created(old=CHAIN.format(least=10)))
    assert run.take(f=rows(12)) == ""


def test_a_query_that_began_by_itself_goes_on_by_itself(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(F)
    run.loom.execute("SET sharing = off")
    run.execute(created(alone=CHAIN.format(least=10)))
    assert run.take(f=rows(0)) == ""
    run.loom.execute("SET sharing = on")
    run.execute(created(shared=CHAIN.format(least=10)))
    run.restart()
    assert run.take(f=rows(4)) == ""
    assert run.take(f=rows(8)) == ""
    states = run.engine.last.queries
    assert {name: state.shared for name, state in states.items()} == {"alone": False, "shared": True}
