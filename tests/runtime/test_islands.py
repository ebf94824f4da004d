"""Queries that fail are evaluated apart, later, and give the oracle's answers all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.oracle import Values
from tests.runtime.workload_run import Crash, Run, values_of
from tests.support.peers import difference
from weft.runtime.cycle import Answered, CycleRunner
from weft.runtime.stages.joins.lookups import JoinIndex
from weft.runtime.stages.windows import running_aggregates as totals
from weft.runtime.state.commits import Commit, errors_of
from weft.runtime.state.continuity import CycleSpec

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM s (n BIGINT, k STRING, v BIGINT) WATERMARK FOR n AS n - 2 USING memory;"
SMALL = f"""{STREAM}
CREATE STREAM r (n BIGINT, k STRING) WATERMARK FOR n AS n USING memory;
CREATE CONTINUOUS QUERY sums AS SELECT k, SUM(v) AS t FROM s [ROWS 20 SLIDE 10] GROUP BY k;
CREATE CONTINUOUS QUERY tops AS SELECT MAX(t) AS m FROM sums [ROWS 20 SLIDE 20];
"""
WORKLOAD = f"""{SMALL}
CREATE CONTINUOUS QUERY counts AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;
CREATE CONTINUOUS QUERY pairs AS SELECT s.n, s.v FROM s [ROWS 10], r [ROWS 10] WHERE s.k = r.k AND s.v > 0;
CREATE CONTINUOUS QUERY more AS SELECT s.n, s.v FROM s [ROWS 10], r [ROWS 10] WHERE s.k = r.k AND s.v > 1;
CREATE CONTINUOUS QUERY news AS SELECT DISTINCT k FROM s RETAIN 4;
CREATE CONTINUOUS QUERY middle SHARING OFF AS SELECT COUNT(DISTINCT k) AS c FROM s [ROWS 20 SLIDE 10];
"""


@dataclass
class Faults:
    """The queries whose evaluation fails, in whatever runner."""

    broken: set[str] = field(default_factory=set)
    evaluations: int = 0


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    found = Faults()
    run = CycleRunner.run

    def failing(self: CycleRunner, batch: DataFrame | None, spec: CycleSpec, last: Commit, **options: Any) -> Answered:
        found.evaluations += 1
        # What a real failure leaves behind is there: files, views, and what is in memory.
        answered = run(self, batch, spec, last, **options)
        broken = sorted(found.broken & {each.name for each in spec.plan.queries})
        if broken:
            raise ArithmeticError(f"{broken[0]} cannot be computed")
        return answered

    monkeypatch.setattr(CycleRunner, "run", failing)
    return found


class Sinks:
    """What every query has delivered, by cycle; a cycle that comes again replaces what came before."""

    def __init__(self) -> None:
        self.taken: dict[str, dict[int, Any]] = {}

    def attach(self, run: Run) -> None:
        for query in run.loom.catalog.queries():
            run.engine.outbox.add_callable(query.name, self._sink(query.name))

    def _sink(self, name: str) -> Callable[[Any, int], None]:
        def take(answers: Any, cycle: int) -> None:
            self.taken.setdefault(name, {})[cycle] = answers

        return take


class Beside:
    """An engine whose queries fail, and an oracle whose queries do not; answers are compared when all have come."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.sinks = Sinks()
        self.sinks.attach(run)
        # Also after a crash in the middle of a cycle, of which the second attempt delivers.
        self._restart, run.restart = run.restart, self.restart  # type: ignore[method-assign]
        self.expected: list[Mapping[str, list[Values]]] = []

    def take(self, **rows: Any) -> None:
        oracle = self.run.oracle.oracle
        kept: list[Mapping[str, list[Values]]] = []
        cycle = oracle.cycle

        def noting(*arguments: Any) -> Any:
            kept.append(cycle(*arguments))
            return kept[-1]

        oracle.cycle = noting  # type: ignore[method-assign]
        try:
            self.run.take(**rows)
        finally:
            oracle.cycle = cycle  # type: ignore[method-assign]
        self.expected.append(kept[0])

    def restart(self) -> None:
        self._restart()
        self.sinks.attach(self.run)

    def resume(self) -> None:
        """Try all queries again that are in error, as a start does, through crashes."""
        try:
            self.run.engine.in_error.try_again(set(errors_of(self.run.engine.last)))
        except Crash:
            self.run.crash_at = None
            self.restart()
            self.resume()

    @property
    def errors(self) -> dict[str, str]:
        return {name: each.sentence for name, each in errors_of(self.run.engine.last).items()}

    def differences(self) -> list[str]:
        """Where what was delivered differs from the oracle's answers, query by query and cycle by cycle."""
        found = []
        for query in self.run.loom.catalog.queries():
            taken = self.sinks.taken.get(query.name, {})
            for cycle, answers in enumerate(self.expected):
                relation = self.run.oracle.query(query.name).relation
                differs = difference(relation, answers.get(query.name, []), values_of(taken.get(cycle), relation))
                if differs:
                    found.append(f"{query.name}, cycle {cycle}: {differs}")
        return found


def rows(first: int) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of a cycle: every query has answers in most of them."""
    s = [(first + i, "abc"[(first + i) % 3], (first + i) % 4) for i in range(0, 12, 2)]
    return {"s": s, "r": [(first + i, "ab"[i % 2]) for i in range(0, 12, 5)]}


def test_the_rows_give_every_query_answers_in_most_cycles(beside_oracle: Callable[[str], Run]) -> None:
    """So that a lost or doubled cycle would show. The oracle alone is asked."""
    run = beside_oracle(WORKLOAD)
    cycles = [
        run.oracle.oracle.cycle({name: _named(run, name, some) for name, some in rows(first).items()}, {})
        for first in range(0, 84, 12)
    ]
    for query in run.loom.catalog.queries():
        assert sum(bool(answers.get(query.name)) for answers in cycles) >= 3, query.name


def _named(run: Run, stream: str, values: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    names = [each.name for each in run.oracle.oracle.streams[stream].fields]
    return [dict(zip(names, each, strict=True)) for each in values]


def check_failing_for_a_while(beside: Beside, faults: Faults, broken: str, failed: set[str]) -> None:
    """A query fails in cycles 2 to 4, the engine is restarted twice, and all answers are there in the end."""
    beside.take(**rows(0))
    beside.take(**rows(12))
    faults.broken = {broken}
    beside.take(**rows(24))
    assert beside.errors.keys() == failed
    assert beside.errors[broken] == f"its evaluation fails: ArithmeticError: {broken} cannot be computed"
    beside.take(**rows(36))
    beside.restart()
    beside.resume()
    beside.take(**rows(48))
    assert beside.errors.keys() == failed
    faults.broken = set()
    beside.resume()
    assert beside.errors == {}
    beside.take(**rows(60))
    beside.restart()
    beside.take(**rows(72))
    assert beside.differences() == []


def test_a_query_that_fails_for_a_while_and_its_reader_give_the_same_answers_later(
    beside_oracle: Callable[[str], Run], faults: Faults
) -> None:
    check_failing_for_a_while(Beside(beside_oracle(SMALL)), faults, "sums", {"sums", "tops"})


@pytest.mark.prove
@pytest.mark.parametrize("name", ["sums", "counts", "pairs", "news", "tops", "middle"])
def test_every_kind_of_query_may_fail_for_a_while(
    beside_oracle: Callable[[str], Run], faults: Faults, name: str
) -> None:
    check_failing_for_a_while(
        Beside(beside_oracle(WORKLOAD)), faults, name, {name, "tops"} if name == "sums" else {name}
    )


@pytest.mark.prove
@pytest.mark.parametrize(
    "step",
    ["evict", "after evict", "hold", "deliver", "commit", "rename", "after commit"],
)
def test_a_crash_while_a_query_is_evicted_loses_and_repeats_nothing(
    beside_oracle: Callable[[str], Run], faults: Faults, step: str
) -> None:
    beside = Beside(beside_oracle(WORKLOAD))
    beside.take(**rows(0))
    faults.broken = {"pairs"}
    beside.run.crash_at = step
    beside.take(**rows(12))
    assert beside.run.crash_at is None, "the step was not reached"
    beside.take(**rows(24))
    faults.broken = set()
    beside.resume()
    beside.take(**rows(36))
    assert beside.errors == {}
    assert beside.differences() == []


@pytest.mark.prove
@pytest.mark.parametrize("step", ["catch up", "island", "rename anew", "after anew"])
def test_a_crash_while_an_island_catches_up_loses_and_repeats_nothing(
    beside_oracle: Callable[[str], Run], faults: Faults, step: str
) -> None:
    beside = Beside(beside_oracle(WORKLOAD))
    beside.take(**rows(0))
    faults.broken = {"sums"}
    for first in (12, 24, 36):
        beside.take(**rows(first))
    faults.broken = set()
    beside.run.crash_at = step
    beside.resume()
    assert beside.run.crash_at is None, "the step was not reached"
    beside.take(**rows(48))
    assert beside.errors == {}
    assert beside.differences() == []


# What is created, dropped and changed meanwhile


def test_queries_come_and_go_while_one_they_read_is_in_error(
    beside_oracle: Callable[[str], Run], faults: Faults
) -> None:
    beside = Beside(
        beside_oracle(
            f"""{STREAM}
            CREATE CONTINUOUS QUERY big AS SELECT n, k, v FROM s WHERE v > 0;
            CREATE CONTINUOUS QUERY other AS SELECT k, COUNT(*) AS c FROM s [ROWS 20 SLIDE 10] GROUP BY k;"""
        )
    )
    s = {first: {"s": rows(first)["s"]} for first in range(0, 96, 12)}
    beside.take(**s[0])
    faults.broken = {"big"}
    beside.take(**s[12])
    for name in ("reader", "leaver"):
        beside.run.execute(f"CREATE CONTINUOUS QUERY {name} AS SELECT SUM(v) AS t FROM big [ROWS 10 SLIDE 10]")
    # It begins now; but in the island, nothing is known of `other` before now, and its open windows would be wrong.
    beside.run.execute("CREATE CONTINUOUS QUERY mixed AS SELECT k FROM big UNION ALL SELECT k FROM other")
    beside.sinks.attach(beside.run)
    beside.take(**s[24])
    assert beside.errors.keys() == {"big", "reader", "leaver", "mixed"}
    beside.run.execute("DROP CONTINUOUS QUERY leaver")
    beside.take(**s[36])
    assert beside.errors.keys() == {"big", "reader", "mixed"}
    faults.broken = set()
    beside.resume()
    beside.take(**s[48])
    assert beside.errors.keys() == {"mixed"}
    assert (
        "it reads 'big', which is evaluated apart since it failed, and queries that are not" in beside.errors["mixed"]
    )
    assert "mixed" not in beside.sinks.taken
    beside.run.execute("DROP CONTINUOUS QUERY mixed")
    assert beside.differences() == []
    beside.run.execute(
        "DROP CONTINUOUS QUERY reader; DROP CONTINUOUS QUERY big;"
        "CREATE CONTINUOUS QUERY big AS SELECT n, k, v FROM s WHERE v > 0"
    )
    beside.take(**s[60])
    assert beside.run.engine.last.islands == {}
    assert beside.sinks.taken["other"].keys() == {1, 2, 3, 4, 5}


def test_rows_beyond_the_retention_are_dropped_and_the_query_begins_anew(
    beside_oracle: Callable[[str], Run], faults: Faults
) -> None:
    counted = "CREATE CONTINUOUS QUERY {} AS SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10]"
    beside = Beside(beside_oracle(f"{STREAM} {counted.format('kept')}; {counted.format('lossy')}"))
    s = {first: {"s": rows(first)["s"]} for first in range(0, 96, 12)}
    beside.take(**s[0])
    faults.broken = {"lossy"}
    beside.run.loom.execute("SET error_retention = 0")
    beside.take(**s[12])
    beside.take(**s[24])
    beside.run.loom.execute("SET error_retention = 100")
    beside.take(**s[36])
    faults.broken = set()
    beside.resume()
    beside.take(**s[48])
    beside.take(**s[60])
    (island,) = beside.run.engine.last.islands.values()
    assert island.lost is not None
    assert (island.lost.first, island.lost.last) == (1, 2)
    # It answers what a query does that was created before cycle 3, when rows up to 34 had come: no window is in part.
    kept, lossy = (
        {
            start: answers["c"][at].as_py()
            for answers in beside.sinks.taken[name].values()
            for at, start in _starts(answers)
        }
        for name in ("kept", "lossy")
    )
    assert lossy == {start: count for start, count in kept.items() if start < 0 or start > 34}


def _starts(answers: Any) -> Iterator[tuple[int, int]]:
    yield from enumerate(answers["window_start"].to_pylist())


# Tables

WITH_TABLE = f"""{STREAM}
CREATE TABLE t (k STRING, w BIGINT) USING memory;
CREATE CONTINUOUS QUERY weighed AS SELECT s.n, s.v * t.w AS x FROM s, t WHERE s.k = t.k;
CREATE CONTINUOUS QUERY heaviest AS SELECT MAX(x) AS m FROM weighed [ROWS 10 SLIDE 10];
CREATE CONTINUOUS QUERY plain AS SELECT n, v FROM s WHERE v > 1;
"""


def test_a_table_that_cannot_be_read_stops_its_readers_until_it_can(beside_oracle: Callable[[str], Run]) -> None:
    beside = Beside(beside_oracle(WITH_TABLE))
    run, s = beside.run, {first: {"s": rows(first)["s"]} for first in range(0, 96, 12)}
    # The oracle has the rows from the beginning; the engine cannot read them before cycle 2.
    run.oracle.load_named({"t": [{"k": "a", "w": 2}, {"k": "b", "w": 3}]})
    beside.take(**s[0])
    assert beside.errors.keys() == {"weighed", "heaviest"}
    assert beside.errors["weighed"].startswith("table 't' cannot be read from memory: ")
    assert beside.errors["heaviest"].startswith("it reads 'weighed': table 't' cannot be read")
    beside.take(**s[12])
    run.load(t=[("a", 2), ("b", 3)])
    beside.resume()
    assert beside.errors == {}
    beside.take(**s[24])
    # From now on, the oracle has other rows, which the engine cannot read before cycle 5.
    run.oracle.load_named({"t": [{"k": "c", "w": 5}]})
    del run.tables["t"]
    beside.restart()
    beside.take(**s[36])
    assert beside.errors.keys() == {"weighed", "heaviest"}
    beside.take(**s[48])
    run.load(t=[("c", 5)])
    beside.resume()
    beside.take(**s[60])
    assert beside.errors == {}
    assert beside.differences() == []


# Memory


def test_a_query_that_needs_too_much_memory_is_evicted_and_goes_on_when_it_may_have_more(
    beside_oracle: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals._CohortGroups, "bytes_for", lambda groups, keys: 10_000 * keys)
    beside = Beside(
        beside_oracle(
            f"""{STREAM}
            CREATE CONTINUOUS QUERY few AS SELECT v % 2 AS b, COUNT(*) AS c FROM s GROUP BY v % 2;
            CREATE CONTINUOUS QUERY many AS SELECT v, COUNT(*) AS c FROM s GROUP BY v;"""
        )
    )
    beside.run.loom.execute("SET max_state_mb = 1")
    beside.restart()
    beside.take(s=[(1, "a", 1)])
    beside.take(s=[(2, "a", v) for v in range(200)])
    assert beside.errors.keys() == {"many"}
    assert "MB in the driver, and max_state_mb allows 1.0; " in beside.errors["many"]
    beside.take(s=[(3, "a", v) for v in range(0, 100, 3)])
    beside.resume()
    assert beside.errors.keys() == {"many"}
    beside.run.loom.execute("SET max_state_mb = 100")
    beside.resume()
    beside.take(s=[(4, "a", 7)])
    assert beside.errors == {}
    assert beside.differences() == []


def test_rows_and_indexes_of_joins_count_and_the_query_that_reads_them_is_evicted(
    beside_oracle: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of = JoinIndex.bytes_held.fget
    assert rows_of is not None
    monkeypatch.setattr(JoinIndex, "bytes_held", property(lambda index: 1_000 * rows_of(index)))
    beside = Beside(
        beside_oracle(
            f"""{STREAM}
            CREATE CONTINUOUS QUERY few AS SELECT v % 2 AS b, COUNT(*) AS c FROM s GROUP BY v % 2;
            CREATE CONTINUOUS QUERY pairs AS SELECT COUNT(*) AS c FROM s [ROWS 1000] a, s [ROWS 1000] b
            WHERE a.v = b.v AND a.n < b.n GROUP BY a.k;"""
        )
    )
    beside.run.loom.execute("SET max_state_mb = 1; SET kernels = driver")
    beside.restart()
    beside.take(s=[(1, "a", v) for v in range(200)])
    beside.take(s=[(2, "a", 1)])
    beside.take(s=[(3, "a", 1)])
    assert beside.errors.keys() == {"pairs"}
    assert beside.errors["pairs"].startswith("the rows that joins look for need about ")
    beside.run.loom.execute("SET max_state_mb = 100")
    beside.resume()
    assert beside.errors == {}
    assert beside.differences() == []


# Failures of the moment, and of all


def test_a_failure_of_the_moment_evicts_no_query(
    beside_oracle: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = beside_oracle(f"{STREAM} CREATE CONTINUOUS QUERY q AS SELECT n FROM s WHERE v > 0;")
    failures, evaluate = [ArithmeticError("once")], CycleRunner.run

    def failing(self: CycleRunner, *arguments: Any, **options: Any) -> Answered:
        answered = evaluate(self, *arguments, **options)
        if failures:
            raise failures.pop()
        return answered

    monkeypatch.setattr(CycleRunner, "run", failing)
    assert run.take(s=[(1, "a", 2)]) == ""
    assert run.engine.last.islands == {}
    assert run.engine.last.held == ()
