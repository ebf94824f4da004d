"""Queries come and go while trees go on: nothing is read again, and every answer is the oracle's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.workload_run import Run
from weft.algebra import Window
from weft.optimizer.aggregates.stream_shapes import Woven
from weft.optimizer.weave.window_trees import reused_trees
from weft.plan.nodes import TreeSpec
from weft.runtime.stages.windows.window_tree import WindowTree

TRADES = "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n - 3 USING memory;"


def create(name: str, function: str, rows: int, slide: int) -> str:
    return (
        f"CREATE CONTINUOUS QUERY {name} AS SELECT sym, {function} AS v FROM trades "
        f"[ROWS {rows} SLIDE {slide}] GROUP BY sym"
    )


def rows(first: int) -> list[tuple[int, str, int]]:
    return [(first + step, "abc"[step % 3], step * 7 % 5) for step in range(-3, 8)]


def trees(run: Run) -> set[WindowTree]:
    return set(run.engine._runner._windows._weaves["trades"]._trees.values())


FOUR = ";".join(create(name, "SUM(qty)", 6 * n, 2 * n) for n, name in enumerate("abcd", start=1))


@pytest.mark.spark
def test_trees_go_on_while_windows_come_and_go(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {FOUR}")
    for first in (3, 10, 21, 30):
        assert run.take(trades=rows(first)) == ""
    before = trees(run)
    run.execute("DROP CONTINUOUS QUERY b")
    assert run.take(trades=rows(41)) == ""
    assert trees(run) == before
    run.execute(f"{create('e', 'SUM(qty)', 9, 5)}; {create('f', 'MAX(qty)', 7, 7)}; {create('b', 'SUM(qty)', 12, 4)}")
    assert run.take(trades=rows(47)) == ""
    assert before < trees(run), "one more, for what is new"
    assert len(trees(run)) == len(before) + 1
    for first in (55, 60):
        assert run.take(trades=rows(first)) == ""
    run.crash_at = "weave"
    assert run.take(trades=rows(70)) == ""
    assert run.take(trades=rows(85)) == ""
    run.restart()
    assert run.take(trades=rows(95)) == ""


@pytest.mark.spark
def test_trees_that_few_queries_still_read_are_built_again(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{TRADES} {FOUR}")
    for first in (3, 14, 25):
        assert run.take(trades=rows(first)) == ""
    before = trees(run)
    run.execute("; ".join(f"DROP CONTINUOUS QUERY {name}" for name in "abc"))
    for first in (30, 41, 60):
        assert run.take(trades=rows(first)) == ""
    assert not before & trees(run)
    assert [len(each.spec.windows) for each in trees(run)] == [1]


@pytest.mark.spark
def test_a_measure_that_was_gone_for_a_while_is_whole_for_who_asks_for_it_again(
    beside_oracle: Callable[[str], Run],
) -> None:
    run = beside_oracle(f"{TRADES} {FOUR}; {create('most', 'MAX(qty)', 8, 4)}; {create('many', 'COUNT(*)', 8, 4)}")
    assert run.take(trades=rows(3)) == ""
    run.execute("DROP CONTINUOUS QUERY most")
    for first in (12, 20):
        assert run.take(trades=rows(first)) == ""
    run.execute(create("again", "MAX(qty)", 8, 4))
    for first in (24, 28, 40, 60):
        assert run.take(trades=rows(first)) == ""


# -- without Spark ----------------------------------------------------------------------------------------------------


def spec(*ranges: int, measures: tuple[str, ...] = ("count(1)",)) -> TreeSpec:
    return TreeSpec(frozenset(), ("k",), tuple(Window(each, 1) for each in ranges), measures)


def queries(**ranges: int) -> dict[str, Woven]:
    """Queries that count rows."""
    return {name: Woven("s", None, Window(each, 1), (), ("k",), ()) for name, each in ranges.items()}  # type: ignore[arg-type]


def test_windows_that_are_there_stay_and_those_that_are_new_get_one_tree() -> None:
    old = spec(9, 6, 3)
    homes = reused_trees([spec(9, 7, 6, 5)], queries(a=9, b=6, c=5, d=7), {"c", "d"}, [old])
    assert homes == {"a": old, "b": old, "c": spec(7, 5), "d": spec(7, 5)}


def test_a_query_that_needs_stored_partials_and_has_no_tree_rebuilds_all_trees() -> None:
    assert reused_trees([spec(9, 5)], queries(a=9, c=5), set(), [spec(9)]) is None


def test_a_measure_that_no_tree_has_is_no_window_that_is_there() -> None:
    assert reused_trees([spec(9)], queries(a=9), set(), [spec(9, measures=("sum(x)",))]) is None


def test_too_many_trees_are_made_one() -> None:
    known = [spec(each) for each in (2, 3, 4, 5)]
    there = queries(a=2, b=3, c=4, d=5)
    assert reused_trees([spec(5, 4, 3, 2)], there, set(), known) is not None
    assert reused_trees([spec(6, 5, 4, 3, 2)], {**there, **queries(e=6)}, {"e"}, known) is None


def test_nothing_to_go_on_with_is_nothing() -> None:
    assert reused_trees([spec(9)], queries(a=9), {"a"}, []) is None
