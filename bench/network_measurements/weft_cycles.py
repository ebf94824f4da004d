"""Queries by weft: through the loom, as a user would, without sinks.

A task's result: for each cycle its mark, what the engine says of it and the jobs it ran; the rows that cycles kept for
joins, and how long registering took. Options: `without_inference`, which leaves out of the network what follows from a
query's conditions; `count_answers`, which counts those of each query; `time_network`, which also tells of each cycle
the CPU seconds in which the network evaluated its nodes and took their rows into memory, and the pairs that its joins
looked at. To take that time takes some itself, so whole cycles are not timed in the same run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

import pyarrow as pa

from bench import report
from bench.aggregate_measurements.weft_shared import SPARK, jobs_so_far
from bench.contest import Mark, mark, plain
from bench.network_measurements.tasks import Task
from lab.join_sharing import WithoutInference
from weft.loom import Loom
from weft.runtime.recorder import Progress
from weft.runtime.spark.session import session
from weft.runtime.stages.joins.join_statistics import JoinStatistics
from weft.runtime.stages.joins.network_pass import NetworkPass
from weft.runtime.state.commits import last_commit
from weft.runtime.state.continuity import Folders

T = TypeVar("T")


def contestant(task: Task) -> dict[str, Any]:
    session(settings=SPARK)
    with ExitStack() as stack:
        if task.options.get("without_inference"):
            # Users cannot ask for this, and should not be able to.
            stack.enter_context(patch("weft.runtime.stages.joins.network_records.Planner", WithoutInference))
        spent = _NetworkTime()
        if task.options.get("time_network"):
            for step in ("take_straight", "advance", "hold"):
                stack.enter_context(patch.object(NetworkPass, step, spent.counted(getattr(NetworkPass, step))))
            stack.enter_context(patch.object(JoinStatistics, "see", spent.looked(JoinStatistics.see)))
        scratch = stack.enter_context(TemporaryDirectory(prefix="weft-bench-"))
        return _Run(stack.enter_context(Loom.open(Path(scratch))), task, spent).go()


def _seconds_elsewhere() -> float:
    """The CPU seconds of all processes but this one."""
    return report.cpu_seconds() - time.process_time()


class _NetworkTime:
    """CPU seconds in the network, and the pairs that its joins looked at, since they were last taken."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._pairs = 0

    def looked(
        self, see: Callable[[JoinStatistics, NetworkPass], None]
    ) -> Callable[[JoinStatistics, NetworkPass], None]:
        def run(observing: JoinStatistics, network: NetworkPass) -> None:
            see(observing, network)
            self._pairs += sum(looked for looked, _ in observing.pairs.values())

        return run

    def counted(self, step: Callable[..., T]) -> Callable[..., T]:
        def run(*arguments: Any) -> T:
            jobs, elsewhere, began = jobs_so_far(), _seconds_elsewhere(), time.process_time()
            try:
                return step(*arguments)
            finally:
                self._seconds += time.process_time() - began
                if jobs_so_far() != jobs:
                    # Without a job of ours, what Java does meanwhile has nothing to do with the network.
                    self._seconds += _seconds_elsewhere() - elsewhere

        return run

    def taken(self) -> dict[str, float]:
        seconds, pairs = self._seconds, self._pairs
        self._seconds, self._pairs = 0.0, 0
        return {"network_cpu": seconds, "pairs": pairs}


class _Run:
    """One run over all files, and what was seen of it."""

    def __init__(self, loom: Loom, task: Task, network: _NetworkTime) -> None:
        self._loom, self._task, self._network = loom, task, network
        self._jobs = 0
        self._marks: list[Mark] = []
        self._cycles: list[dict[str, Any]] = []
        self._answered: Counter[str] = Counter()

    def go(self) -> dict[str, Any]:
        self._loom.execute(self._task.streams)
        for setting in ("max_results = 0", *self._task.settings):
            self._loom.execute(f"SET {setting}")
        began = time.perf_counter()
        self._register()
        registering = time.perf_counter() - began
        self._jobs = jobs_so_far()
        self._loom.start(until_idle=True, on_progress=self._seen)
        self._loom.wait()
        return {
            "marks": plain(self._marks),
            "cycles": self._cycles,
            "rows_kept": self._rows_kept(),
            "registering": registering,
            "answered": self._answered,
        }

    def _register(self) -> None:
        with self._loom.catalog.transaction():
            for query in self._task.queries:
                self._loom.query(query.name, query.select)
        if self._task.options.get("count_answers"):
            for query in self._task.queries:
                self._loom.sink(query.name, self._counter(query.name))

    def _counter(self, name: str) -> Callable[[pa.Table, int], None]:
        def count(answers: pa.Table, cycle: int) -> None:
            self._answered[name] += answers.num_rows

        return count

    def _seen(self, cycle: Progress) -> None:
        """The end of a cycle; it is committed, and the next one has not begun."""
        jobs, self._jobs = self._jobs, jobs_so_far()
        self._marks.append(mark(cycle.rows))
        self._cycles.append(
            {
                "seconds": cycle.seconds,
                "answers": cycle.answers,
                "jobs": self._jobs - jobs,
                **self._network.taken(),
            }
        )

    def _rows_kept(self) -> list[int]:
        """The rows that each cycle has added to logs, as far as they are still there."""
        commit = last_commit(self._loom.directory)
        assert commit is not None
        segments = [each for segments in commit.logs.values() for each in segments]
        return [
            sum(each.rows for each in segments if each.path.startswith(Folders().of(cycle)))
            for cycle in range(commit.cycle + 1)
        ]
