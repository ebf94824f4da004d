"""Plans follow what streams show of themselves; answers do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.runtime.workload_run import Run
from tests.support.plans import Trees, planned, trees
from weft.algebra import Query, Value
from weft.loom import Loom
from weft.optimizer.rules.facts import Facts
from weft.plan.facts import StreamFacts
from weft.runtime.stages.statistics import facts

_STREAM = "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n - 20 USING memory;"
#: Slides that have hardly an edge in common.
_QUERIES = """
CREATE CONTINUOUS QUERY sevens AS
SELECT window_end, sym, SUM(qty) AS x FROM trades [RANGE 70 SLIDE 7] GROUP BY sym;
CREATE CONTINUOUS QUERY elevens AS
SELECT window_end, sym, SUM(qty) AS x FROM trades [RANGE 110 SLIDE 11] GROUP BY sym;
CREATE CONTINUOUS QUERY thirteens AS
SELECT window_end, sym, MAX(qty) AS x, COUNT(*) AS y FROM trades [RANGE 130 SLIDE 13] GROUP BY sym;
"""

_SLOW, _FAST = 40_000, 40


def _rows(first: int, ticks: int, rows: int = 40) -> list[Sequence[Value]]:
    """Rows evenly over so many ticks, all of them but one in order."""
    clocks = [first + number * ticks // rows for number in range(rows)]
    return [(clock, f"s{clock % 3}", clock % 17 - 5) for clock in [*clocks[1:], clocks[0]]]


class _Pace:
    """Cycles of a stream that is slow or fast, beside the oracle."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.clock = 1_000

    def go(self, ticks: int, cycles: int) -> None:
        for _ in range(cycles):
            assert self.run.take(trades=_rows(self.clock, ticks)) == ""
            self.clock += ticks

    @property
    def trees(self) -> int:
        """How many trees the engine has now."""
        return len(self.run.engine._runner._windows._weaves["trades"]._trees)


@pytest.fixture
def pace(beside_oracle: Callable[[str], Run]) -> _Pace:
    return _Pace(beside_oracle(_STREAM + _QUERIES))


@pytest.mark.spark
def test_a_stream_that_becomes_a_thousand_times_as_fast_gets_other_trees_and_the_same_answers(pace: _Pace) -> None:
    pace.go(_SLOW, 4)
    slow = pace.trees
    assert slow > 1
    assert "planned for about 0.0009766 rows per tick" in pace.run.loom.explain()
    pace.go(_FAST, 5)
    assert pace.trees == 1
    text = pace.run.loom.explain()
    assert "planned for about 1 rows per tick, cycles of 64 ticks, 4 keys by sym" in text
    assert "1 cohort, 1 tree;" in text
    pace.go(_SLOW, 5)
    assert pace.trees == slow


@pytest.mark.spark
def test_facts_survive_a_restart_and_a_cycle_that_is_tried_again(pace: _Pace) -> None:
    pace.go(_SLOW, 4)
    slow, known = pace.trees, facts(pace.run.loom.catalog)
    assert known["trades"].rows_per_tick is not None
    pace.run.restart()
    assert facts(pace.run.loom.catalog) == known
    pace.go(_SLOW, 1)
    assert pace.trees == slow
    pace.go(_FAST, 3)
    pace.run.crash_at = "deliver"
    pace.go(_FAST, 3)
    assert pace.trees == 1


# -- without Spark ----------------------------------------------------------------------------------------------------


@pytest.fixture
def queries(tmp_path: Path) -> Iterator[list[Query]]:
    with Loom.open(tmp_path / "project") as loom:
        loom.execute(_STREAM + _QUERIES)
        yield list(loom.catalog.queries())


def _chosen(queries: list[Query], facts: StreamFacts) -> Trees:
    return trees(planned(queries, Facts(streams={"trades": facts})))


def test_the_more_partials_the_fewer_trees(queries: list[Query]) -> None:
    numbers = [len(_chosen(queries, StreamFacts(rows=step, ticks=12)).kernels) for step in range(-10, 4)]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] > numbers[-1] == 1


def test_rows_beyond_what_the_finest_cut_holds_change_nothing(queries: list[Query]) -> None:
    known = {"c1": 2}
    one, other = (_chosen(queries, StreamFacts(rows, 12, known)) for rows in (8, 20))
    assert one.tree_of == other.tree_of


def test_short_cycles_are_a_reason_for_fewer_trees(queries: list[Query]) -> None:
    long, short = (_chosen(queries, StreamFacts(-10, ticks)) for ticks in (12, 2))
    assert len(short.kernels) < len(long.kernels)


def test_every_query_has_a_tree_with_its_window_whatever_the_facts(queries: list[Query]) -> None:
    windows = {each.name: each.relation.window for each in queries}
    for rows in range(-12, 6, 3):
        for keys in range(0, 10, 3):
            found = _chosen(queries, StreamFacts(rows, 8, {"c1": keys}))
            assert found.tree_of.keys() == windows.keys()
            assert all(windows[name] in spec.windows for name, spec in found.tree_of.items())
            assert sum(len(spec.windows) for spec in found.kernels) == len(queries)


def test_kernels_are_chosen_for_as_many_keys_as_there_are(queries: list[Query]) -> None:
    for step, told in ((0, "one key,"), (5, "1,024 keys,"), (10, "1,048,576 keys,")):
        found = _chosen(queries, StreamFacts(4, 12, {"c1": step}))
        assert all(told in each.decision.reason for chosen in found.kernels.values() for each in chosen)


def test_trees_are_chosen_again_when_facts_change(queries: list[Query]) -> None:
    slow = planned(queries, Facts(streams={"trades": StreamFacts(-10, 12)}))
    fast = planned(queries, Facts(cycle=1, streams={"trades": StreamFacts(4, 12)}), slow)
    assert trees(fast) == trees(planned(queries, Facts(streams={"trades": StreamFacts(4, 12)})))
    assert len(trees(slow).kernels) > len(trees(fast).kernels)
