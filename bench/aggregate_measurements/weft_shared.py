"""All queries by weft: through the loom, as a user would, without sinks.

Options: `sizes`, several numbers of queries that are run one after the other in this process; `project`, a folder that
the project is left in; `change_after` and `change_back_after`, the cycles after which `changed` more queries come and
go; `memory`, the bytes that Python may use; `settings`, what is SET before the start.
"""

from __future__ import annotations

import resource
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from bench.aggregate_measurements import answers
from bench.aggregate_measurements.jobs import Job, serve
from bench.aggregate_measurements.workload import AggregateQuery, Topic, draw, weft_select, weft_stream
from bench.contest import Mark, mark, plain
from weft.loom import Loom
from weft.runtime.engine import Engine
from weft.runtime.recorder import Progress
from weft.runtime.spark.session import session

#: Spark's memory: the rows of a batch and the partials on their way to Python.
SPARK = {"spark.driver.memory": "3g"}


def contestant(job: Job) -> dict[str, Any]:
    """The result: for each cycle its mark, what the engine says of it, the jobs it ran and the memory in use."""
    session(settings=SPARK)
    with TemporaryDirectory(prefix="weft-bench-") as scratch:
        check(job, Path(scratch) / "small")
        if "memory" in job.options:
            resource.setrlimit(resource.RLIMIT_DATA, (int(job.options["memory"]), resource.RLIM_INFINITY))
        sizes = job.options.get("sizes", [job.count])
        runs = [_Run(Job(**{**asdict(job), "count": size}), Path(scratch) / f"size-{size}") for size in sizes]
        for each in runs:
            each.go()
        return {
            "runs": [plain(each.marks) for each in runs],
            "cycles": [each.cycles for each in runs],
            "registering": [each.registering for each in runs],
            "changes": runs[-1].changes,
        }


def check(job: Job, folder: Path) -> None:
    """Run the checked queries over the small files and write what they answered."""
    tables: list[pa.Table] = []
    with Loom.open(folder) as loom:
        loom.execute(weft_stream(job.about, job.small))
        for query in job.checked():
            loom.query(query.name, weft_select(job.about, query))
            loom.sink(query.name, _Collector(query, job.about, tables))
        loom.start(until_idle=True)
        loom.wait()
    answers.write(tables, job.answers)


class _Collector:
    """A sink that keeps the answers of a query."""

    def __init__(self, query: AggregateQuery, topic: Topic, tables: list[pa.Table]) -> None:
        self._query, self._topic, self._tables = query, topic, tables

    def __call__(self, table: pa.Table, cycle: int) -> None:
        columns = (table[name].combine_chunks() for name in ("window_end", self._topic.key, "x"))
        self._tables.append(answers.as_table(self._query.number, *columns))


class _Run:
    """One run over all files, and what was seen of it."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job = job
        self._folder = Path(job.options.get("project", folder))
        self._loom: Loom | None = None
        self._engine: Engine | None = None
        self._jobs = 0
        self.marks: list[Mark] = []
        self.cycles: list[dict[str, Any]] = []
        self.registering = 0.0
        self.changes: dict[str, float] = {}

    def go(self) -> None:
        job = self._job
        with Loom.open(self._folder) as self._loom:
            self._loom.execute(weft_stream(job.about, job.folder))
            self._loom.execute("SET max_results = 0")
            for setting in job.options.get("settings", ()):
                self._loom.execute(f"SET {setting}")
            began = time.perf_counter()
            self._register(job.queries())
            self.registering = time.perf_counter() - began
            self._jobs = jobs_so_far()
            self._engine = self._loom.start(until_idle=True, on_progress=self._seen)
            self._loom.wait()

    def _register(self, queries: list[AggregateQuery]) -> None:
        assert self._loom is not None
        with self._loom.catalog.transaction():
            for query in queries:
                self._loom.query(query.name, weft_select(self._job.about, query))

    def _seen(self, cycle: Progress) -> None:
        """The end of a cycle; it is committed, and the next one has not begun."""
        jobs, self._jobs = self._jobs, jobs_so_far()
        self.marks.append(mark(cycle.rows))
        seen = {
            "seconds": cycle.seconds,
            "answers": cycle.answers,
            "late": cycle.late,
            "jobs": self._jobs - jobs,
            "python_bytes": _resident_bytes(),
            "partials": self._live_partials(),
        }
        self.cycles.append(seen)
        self._change(len(self.cycles))

    def _live_partials(self) -> int:
        assert self._engine is not None
        return sum(each.rows for segments in self._engine.last.logs.values() for each in segments)

    def _change(self, cycles: int) -> None:
        """Let queries come or go, as the job says, between this cycle and the next."""
        options = self._job.options
        if cycles not in (options.get("change_after"), options.get("change_back_after")):
            return
        first = self._job.count
        more = draw(self._job.about, first + options["changed"], self._job.literals)[first:]
        began = time.perf_counter()
        if cycles == options["change_after"]:
            self._register(more)
            self.changes["adding_seconds"] = time.perf_counter() - began
        else:
            assert self._loom is not None
            with self._loom.catalog.transaction():
                for query in more:
                    self._loom.drop(query.name)
            self.changes["dropping_seconds"] = time.perf_counter() - began


def jobs_so_far() -> int:
    """How many jobs Spark has started since it began, whoever asked for them."""
    return int(_scheduler().numTotalJobs())


@cache
def _scheduler() -> Any:
    # To ask for the session takes longer than to ask for the jobs, and would count as part of a cycle.
    context: Any = session().sparkContext
    return context._jsc.sc().dagScheduler()


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    serve(contestant)
