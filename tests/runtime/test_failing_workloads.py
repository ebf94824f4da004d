"""Random workloads in which queries, sinks and the engine fail: in the end, all answers are those of the oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from pyspark.sql import DataFrame, SparkSession

from tests.runtime.test_engine_oracle import examples
from tests.runtime.workload_run import UNCOMMITTED, Crash, Run, values_of
from tests.support.generator import Workload, workloads
from tests.support.peers import difference
from weft.runtime.cycle import Answered, CycleRunner
from weft.runtime.state.commits import Commit, errors_of
from weft.runtime.state.continuity import CycleSpec

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compacting_early")]

STEPS = (*UNCOMMITTED, "evict", "after evict", "hold", "island", "catch up", "rename anew", "after anew")

Numbers = frozenset[int]


@dataclass(frozen=True)
class Trial:
    """A workload, and what fails in it, by the number of the cycle. Queries go by their places in the workload."""

    workload: Workload
    broken: Mapping[int, Numbers]
    broken_sinks: Mapping[int, Numbers]
    resumes: Numbers
    restarts: Numbers
    crashes: Mapping[int, str]


@st.composite
def trials(draw: DrawFn) -> Trial:
    workload = draw(workloads())
    cycles = st.integers(0, len(workload.cycles) - 1)
    queries = st.frozensets(st.integers(0, len(workload.queries) - 1), min_size=1, max_size=2)
    some = st.frozensets(cycles, max_size=2)
    return Trial(
        workload,
        draw(st.dictionaries(cycles, queries, min_size=1, max_size=3)),
        draw(st.dictionaries(cycles, queries, max_size=2)),
        draw(some),
        draw(some),
        draw(st.dictionaries(cycles, st.sampled_from(STEPS), max_size=2)),
    )


class FailingRun(Run):
    """An engine in which queries and sinks are broken for a while, and what the sinks have taken, by cycle."""

    broken: frozenset[str] = frozenset()
    broken_sinks: frozenset[str] = frozenset()

    def __init__(self, spark: SparkSession, directory: Path, workload: Workload) -> None:
        self.taken: dict[str, dict[int, pa.Table]] = {}
        super().__init__(spark, directory, workload)

    def restart(self) -> None:
        super().restart()
        self._attach()

    def execute(self, script: str) -> None:
        super().execute(script)
        if hasattr(self, "engine"):
            self._attach()

    def _attach(self) -> None:
        for query in self.loom.catalog.queries():
            self.engine.outbox.add_callable(query.name, self._sink(query.name))

    def _sink(self, name: str) -> Callable[[pa.Table, int], None]:
        def take(answers: pa.Table, cycle: int) -> None:
            if name in self.broken_sinks:
                raise OSError("the sink is full")
            self.taken.setdefault(name, {})[cycle] = answers

        return take

    def resume(self) -> None:
        try:
            self.engine.in_error.try_again(set(errors_of(self.engine.last)))
        except Crash:
            self.crash_at = None
            self.restart()
            self.resume()


def disagreement(spark: SparkSession, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the answers that were delivered in the end differ from the oracle's, or nothing."""
    with TemporaryDirectory(prefix="weft-failing-") as directory, monkeypatch.context() as patch:
        run = FailingRun(spark, Path(directory), trial.workload)
        patch.setattr(CycleRunner, "run", _failing(run))
        try:
            return _difference_in_the_end(run, trial)
        finally:
            run.close()


def _failing(run: FailingRun) -> Callable[..., Answered]:
    evaluate = CycleRunner.run

    def failing(self: CycleRunner, batch: DataFrame | None, spec: CycleSpec, last: Commit, **options: Any) -> Answered:
        answered = evaluate(self, batch, spec, last, **options)
        broken = sorted(run.broken & {each.name for each in spec.plan.queries})
        if broken:
            raise ArithmeticError(f"{broken[0]} cannot be computed")
        return answered

    return failing


def _difference_in_the_end(run: FailingRun, trial: Trial) -> str:
    names = list(trial.workload.queries)
    expected: list[Mapping[str, Any]] = []
    answer = run.oracle.oracle.cycle

    def noting(*arguments: Any) -> Any:
        expected.append(answer(*arguments))
        return expected[-1]

    run.oracle.oracle.cycle = noting  # type: ignore[method-assign]
    for number, arriving in enumerate(trial.workload.cycles):
        if number in trial.restarts:
            run.restart()
        run.broken = frozenset(names[each] for each in trial.broken.get(number, ()))
        run.broken_sinks = frozenset(names[each] for each in trial.broken_sinks.get(number, ()))
        if number in trial.resumes:
            run.resume()
        run.crash_at = trial.crashes.get(number)
        run.cycle(arriving)
    run.broken, run.broken_sinks = frozenset(), frozenset()
    run.resume()
    run.crash_at = None
    blocked = {name for each in run.engine.last.islands.values() for name in each.blocked}
    left = errors_of(run.engine.last).keys() - blocked
    if left:
        return f"still in error: {left}"
    for query in [each for each in run.loom.catalog.queries() if each.name not in blocked]:
        for cycle, answers in enumerate(expected):
            relation = run.oracle.query(query.name).relation
            taken = run.taken.get(query.name, {}).get(cycle)
            differs = difference(relation, answers.get(query.name, []), values_of(taken, relation))
            if differs:
                return f"{query.name} in cycle {cycle}: {differs}"
    return ""


@pytest.mark.prove
@pytest.mark.timeout(4 * 60 * 60)
@given(trial=trials())
@examples(200)
def test_what_fails_for_a_while_changes_no_answer(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, trial: Trial
) -> None:
    assert disagreement(spark, trial, monkeypatch) == ""
