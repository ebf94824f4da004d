"""How a contestant is started, and how its time is taken.

The parent starts `python -m bench.aggregate_measurements.<contestant> <job as JSON>` and reads the last line of its
output, which is JSON as well. The child takes the time itself: only it knows when a batch ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import report
from bench.aggregate_measurements.workload import LARGEST_SLIDE, MOST_SLIDES, TOPICS, AggregateQuery, Topic, draw

#: Batches that are not counted.
COLD = 2

#: Against limits the cheapest of so many runs counts: of a batch job, and of a stream's cycles.
RUNS = 3

#: The CPU seconds of a contestant's whole life, in its result.
WHOLE = "whole_cpu"

#: Of the queries, so many are run over the small files, and their answers compared.
CHECKED = 12

_ROOT = Path(__file__).parents[2]
_LONGEST_SECONDS = 1_800
_LINES_TOLD = 12


@dataclass(frozen=True)
class Job:
    """What a contestant is to do; it goes to the child as JSON."""

    folder: str
    """The files to read, and where the small ones are, and where their answers are to go."""
    small: str
    answers: str
    count: int
    topic: str = "readings"
    literals: int = 9
    largest_slide: int = LARGEST_SLIDE
    most_slides: int = MOST_SLIDES
    numbers: Sequence[int] | None = None
    """Which of the queries are run; all if nothing is said."""
    checks: int = CHECKED
    """How many are run over the small files."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def about(self) -> Topic:
        return TOPICS[self.topic]

    def queries(self) -> list[AggregateQuery]:
        drawn = self._drawn(self.count)
        return drawn if self.numbers is None else [drawn[number] for number in self.numbers]

    def checked(self) -> list[AggregateQuery]:
        """The queries whose answers are compared: the same ones for every contestant."""
        return self._drawn(self.checks)

    def _drawn(self, count: int) -> list[AggregateQuery]:
        return draw(self.about, count, self.literals, largest_slide=self.largest_slide, most_slides=self.most_slides)


class ContestantFailed(RuntimeError):
    """A contestant has ended without a result. The message is the end of what it wrote."""


def run(contestant: str, job: Job, python: str = sys.executable) -> dict[str, Any]:
    """Run a contestant in a process of its own and give its result."""
    report.progress(f"  {contestant}: {job.count:,} queries")
    module = f"bench.aggregate_measurements.{contestant}"
    done = subprocess.run(
        [python, "-m", module, json.dumps(asdict(job))],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        told = [line for line in done.stderr.strip().splitlines() if not line.startswith("\tat ")]
        ending = "\n".join(told[-_LINES_TOLD:])
        raise ContestantFailed(f"{contestant} ended with code {done.returncode}:\n{ending}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def serve(contestant: Callable[[Job], Mapping[str, Any]]) -> None:
    """Do the job of the command line; for the child. What the whole process took goes along, start and checks too."""
    result = contestant(Job(**json.loads(sys.argv[1])))
    print(json.dumps({**result, WHOLE: report.cpu_seconds()}), flush=True)


# --- taking the time -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """The end of a batch: the time until then, of all processes, of Python's own and of Java's compilers, and the rows
    of the batch."""

    cpu: float
    wall: float
    python: float
    rows: int
    compiling: float = 0.0


class _Watching:
    """What taking the time has taken so far: thousands of small files are read for it in a run."""

    seconds = 0.0


def mark(rows: int) -> Mark:
    """The end of a batch. What it takes to see that is nobody's."""
    began = time.thread_time()
    cpu, compiling, python = report.cpu_seconds(), report.compiler_seconds(), time.process_time()
    seen = Mark(cpu - _Watching.seconds, time.perf_counter(), python - _Watching.seconds, rows, compiling)
    _Watching.seconds += time.thread_time() - began
    return seen


@dataclass(frozen=True)
class Spent:
    """What some rows took. `scaled` says that it is extrapolated from so much less."""

    cpu: float
    wall: float
    rows: int
    python: float = 0.0
    scaled: float = 1.0
    compiling: float = 0.0
    """The part of the CPU time that Java's compilers took: they are not done after two batches."""

    @property
    def cpu_per_row(self) -> float:
        return self.cpu / self.rows

    @property
    def rows_per_cpu_second(self) -> float:
        return self.rows / self.cpu

    def times(self, factor: float) -> Spent:
        """The same for so many times as many queries, by extrapolation."""
        return Spent(self.cpu * factor, self.wall * factor, self.rows, self.python * factor, self.scaled * factor)


def warm(marks: Sequence[Mark], cold: int = COLD) -> Spent:
    """What the batches after the cold ones took."""
    if len(marks) <= cold:
        raise ValueError(f"{len(marks)} batches, of which {cold} are cold: there is nothing to measure")
    begin, end = marks[cold - 1], marks[-1]
    rows = sum(each.rows for each in marks[cold:])
    return Spent(
        end.cpu - begin.cpu,
        end.wall - begin.wall,
        rows,
        end.python - begin.python,
        compiling=end.compiling - begin.compiling,
    )


def warm_of(result: Mapping[str, Any]) -> Spent:
    """What a contestant that goes by batches took; several runs, one for each of its queries, add up."""
    runs = [warm([Mark(**each) for each in marks]) for marks in result["runs"]]
    return Spent(
        sum(each.cpu for each in runs),
        sum(each.wall for each in runs),
        runs[0].rows,
        sum(each.python for each in runs),
    )


def plain(marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """Marks as JSON has them."""
    return [asdict(each) for each in marks]
