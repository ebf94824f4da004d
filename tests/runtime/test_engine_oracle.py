"""The engine gives the oracle's answers, whatever arrives, in whatever cycles, and however often it starts anew."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from pyspark.sql import SparkSession

from tests.runtime.workload_run import UNCOMMITTED, Run
from tests.support.generator import Workload, workloads

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compacting_early")]

TRADES = "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n - 5 USING memory;"


@dataclass(frozen=True)
class Life:
    """What an engine goes through: a workload, restarts, crashes, and queries that are dropped and created anew.

    All by the number of the cycle before which, or at which step of which, they happen.
    """

    workload: Workload
    restarts: frozenset[int]
    renewals: frozenset[int]
    crashes: Mapping[int, str]


@st.composite
def lives(draw: DrawFn) -> Life:
    workload = draw(workloads())
    later = st.integers(1, 5)
    some = st.frozensets(later, max_size=2)
    return Life(
        workload, draw(some), draw(some), draw(st.dictionaries(later, st.sampled_from(UNCOMMITTED), max_size=2))
    )


def disagreement(spark: SparkSession, life: Life) -> str:
    """How the engine differs from the oracle in the first cycle in which it does, or nothing."""
    with TemporaryDirectory(prefix="weft-oracle-") as directory:
        run = Run(spark, Path(directory), life.workload)
        try:
            return _first_difference(run, life)
        finally:
            run.close()


def _first_difference(run: Run, life: Life) -> str:
    standing: list[str] = []
    for number, arriving in enumerate(life.workload.cycles):
        if number in life.restarts:
            run.restart()
        if number in life.renewals and standing:
            # The newest query is read by no other.
            run.execute(f"DROP CONTINUOUS QUERY {standing[-1]}; {life.workload.queries[standing[-1]]}")
        standing = [name for name in [*standing, *arriving.create] if name not in arriving.drop]
        run.crash_at = life.crashes.get(number)
        differs = run.cycle(arriving)
        if differs:
            return differs
    return ""


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        # Shrinking would take hours of Spark's time; the example that fails is printed whole.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@given(life=lives())
@examples(15)
def test_the_engine_answers_like_the_oracle(spark: SparkSession, life: Life) -> None:
    assert disagreement(spark, life) == ""


@pytest.mark.prove
@pytest.mark.timeout(4 * 60 * 60)
@given(life=lives())
@examples(500)
def test_the_engine_answers_like_the_oracle_500_times(spark: SparkSession, life: Life) -> None:
    assert disagreement(spark, life) == ""


# What random workloads have found


def test_rounding_to_tens_may_leave_the_type(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} CREATE CONTINUOUS QUERY q AS SELECT ROUND(qty, -1) AS tens FROM trades")
    assert run.take(trades=[(1, "a", 9223372036854775807), (2, "a", 15), (3, "a", -15)]) == ""


def test_instances_in_the_history_of_a_window_over_a_window_are_answered(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        "CREATE STREAM quotes (n BIGINT, sym STRING) WATERMARK FOR n AS n USING memory BACKFILL 10;"
        "CREATE VIEW w AS SELECT sym FROM quotes [NOW]"
    )
    assert run.take(quotes=[(-14, "a")]) == ""
    assert run.take(quotes=[(-12, "b")]) == ""
    run.execute("CREATE CONTINUOUS QUERY q AS SELECT sym FROM w [NOW]")
    assert run.take() == ""
    assert run.take(quotes=[(-11, "c")]) == ""


def test_history_reaches_a_window_through_a_selection_but_not_through_union_all(
    beside_oracle: Callable[[str], Run],
) -> None:
    run = beside_oracle(
        "CREATE STREAM quotes (n BIGINT, sym STRING) WATERMARK FOR n AS n USING memory BACKFILL 100;"
        "CREATE VIEW some AS SELECT sym FROM quotes WHERE sym <> 'x';"
        "CREATE VIEW both AS SELECT sym FROM quotes WHERE n < 20 UNION ALL SELECT sym FROM some"
    )
    assert run.take(quotes=[(1, "a"), (2, "x"), (14, "b")]) == ""
    run.execute(
        "CREATE CONTINUOUS QUERY p AS SELECT COUNT(*) AS c FROM some [ROWS 10 SLIDE 10];"
        "CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) AS c FROM both [ROWS 10 SLIDE 10]"
    )
    assert run.take(quotes=[(17, "c")]) == ""
    assert run.take(quotes=[(35, "c")]) == ""


def test_a_query_may_have_a_dot_in_its_name(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        f"{TRADES} CREATE CONTINUOUS QUERY `a.b` AS SELECT sym, COUNT(*) AS c FROM trades GROUP BY sym;"
        "CREATE CONTINUOUS QUERY `a` AS SELECT DISTINCT sym FROM trades RETAIN 10;"
    )
    assert run.take(trades=[(1, "x", 1)]) == ""
    assert run.take(trades=[(2, "x", 1)]) == ""


def test_a_query_that_is_created_again_begins_again(beside_oracle: Callable[[str], Run]) -> None:
    count = "CREATE CONTINUOUS QUERY q AS SELECT sym, COUNT(*) AS c FROM trades GROUP BY sym"
    run = beside_oracle(f"{TRADES} {count}")
    assert run.take(trades=[(1, "x", 1)]) == ""
    run.execute(f"DROP CONTINUOUS QUERY q; {count}")
    assert run.take(trades=[(2, "x", 1)]) == ""


def test_a_query_may_be_created_again_with_other_columns(beside_oracle: Callable[[str], Run]) -> None:
    rest = "SELECT COUNT(*) AS c FROM p [ROWS 10 SLIDE 10]"
    run = beside_oracle(
        f"{TRADES} CREATE CONTINUOUS QUERY p AS SELECT n, qty FROM trades; CREATE CONTINUOUS QUERY q AS {rest}"
    )
    assert run.take(trades=[(1, "x", 1)]) == ""
    run.execute(
        "DROP CONTINUOUS QUERY q; DROP CONTINUOUS QUERY p;"
        f"CREATE CONTINUOUS QUERY p AS SELECT n, sym, 1.5 AS x FROM trades; CREATE CONTINUOUS QUERY q AS {rest}"
    )
    assert run.take(trades=[(12, "x", 1)]) == ""
    assert run.take(trades=[(45, "x", 1)]) == ""


def test_rows_that_no_later_cycle_needs_are_not_kept(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        f"{TRADES} CREATE CONTINUOUS QUERY q AS SELECT sym FROM trades WHERE qty > 1;"
        "CREATE CONTINUOUS QUERY w AS SELECT SUM(qty) AS s FROM trades [ROWS 10 SLIDE 10]"
    )
    for number in range(8):
        assert run.take(trades=[(10 * number, "x", 2), (10 * number + 3, "y", 1)]) == ""
    segments = run.directory / "state" / "segments"
    # Watermark 68: the instance that begins at 60 is open.
    assert sorted(int(each.name) for each in segments.iterdir()) == [6, 7]


def test_the_mean_of_decimals_that_never_closes_has_all_its_places(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        "CREATE STREAM s (n BIGINT, x DECIMAL(12, 5), y DECIMAL(30, 8)) WATERMARK FOR n AS n USING memory;"
        "CREATE CONTINUOUS QUERY q AS SELECT AVG(x) AS a, AVG(y) AS b FROM s GROUP BY n % 2"
    )
    first, second = Decimal("1.00001"), Decimal("1234567890123456789012.00000001")
    assert run.take(s=[(1, first, second), (3, Decimal(2), Decimal(5)), (5, Decimal(-3), Decimal(-7))]) == ""
    assert run.take(s=[(7, Decimal("-0.00004"), Decimal("0.00000001")), (2, Decimal("-0.00001"), -second)]) == ""
    assert run.take(s=[(9, None, None), (4, Decimal("-0.00001"), None), (6, Decimal("0.00001"), Decimal(1))]) == ""


def test_the_mean_of_large_integers_is_exact_whatever_cancels(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        f"{TRADES} CREATE CONTINUOUS QUERY q SHARING OFF AS SELECT AVG(qty) AS a FROM trades [ROWS 10 SLIDE 10];"
        "CREATE CONTINUOUS QUERY r AS SELECT sym, AVG(qty) AS a FROM trades GROUP BY sym"
    )
    most = 9223372036854775807
    assert run.take(trades=[(1, "x", most), (2, "x", -most - 1), (3, "x", 5)]) == ""
    assert run.take(trades=[(4, "x", -most), (5, "x", most), (30, "y", 1)]) == ""


def test_zero_is_found_among_kept_rows_whatever_its_sign(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        "CREATE STREAM s (n BIGINT, x DOUBLE) WATERMARK FOR n AS n USING memory;"
        "CREATE CONTINUOUS QUERY q SHARING OFF AS SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10] WHERE x = 0.0"
    )
    assert run.take(s=[(n, -0.0) for n in range(8)]) == ""
    assert run.take(s=[(30, 1.0)]) == ""


def test_set_operators_of_queries_that_share_nothing_answer_like_the_oracle(
    beside_oracle: Callable[[str], Run],
) -> None:
    run = beside_oracle(TRADES)
    run.loom.execute("SET sharing = off")
    small, large = "SELECT sym FROM trades WHERE qty < 4", "SELECT sym FROM trades WHERE qty > 2"
    windows = [
        f"SELECT sym, COUNT(*) AS c FROM trades [ROWS 4] WHERE qty {each} GROUP BY sym" for each in ("< 4", "> 2")
    ]
    queries = [
        "SELECT DISTINCT sym, qty % 2 AS odd FROM trades RETAIN 5",
        "SELECT DISTINCT sym FROM trades GROUP BY sym RETAIN UNBOUNDED",
        "SELECT DISTINCT sym FROM trades [ROWS 4]",
        *(f"{small} {operator} {large} RETAIN 5" for operator in ("UNION", "INTERSECT", "EXCEPT")),
        f"{small} UNION ALL {large}",
        f"SELECT COUNT(*) AS c FROM ({small} EXCEPT {large} RETAIN UNBOUNDED) AS x",
        *(f"{windows[0]} {operator} {windows[1]}" for operator in ("UNION ALL", "INTERSECT", "EXCEPT ALL")),
    ]
    for number, query in enumerate(queries):
        run.execute(f"CREATE CONTINUOUS QUERY q{number} AS {query};")
    chance = random.Random(5)
    for cycle in range(5):
        if cycle == 3:
            run.restart()
        clocks = [4 * cycle + chance.randint(-3, 5) for _ in range(8)]
        rows = [(clock, chance.choice((None, "a", "b", "c")), chance.randint(0, 6)) for clock in clocks]
        assert run.take(trades=rows) == ""
