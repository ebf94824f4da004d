"""Contestants: each works in a child process, measures itself, and reports a result; and what is computed from marks.

A child reads one request per line from its standard input, as JSON, and writes one line with the result of each. It
takes the time itself, since only the child knows when a batch ends. Children that stay do several requests: starting
Spark for each of them would take most of the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import Any

from bench import report

#: Batches that are not counted.
COLD = 2

#: Against limits the cheapest of several runs counts: of a batch job, and of a stream's cycles.
RUNS = 3

#: The CPU seconds of a child's whole life until a result, in that result.
WHOLE = "whole_cpu"

#: The beginning of a line that holds a result; a library may print other lines.
_RESULT = "result: "

_ROOT = Path(__file__).parents[1]
_LONGEST_SECONDS = 1_800
_LINES_SHOWN = 12


class ContestantFailed(RuntimeError):
    """A contestant has ended without a result. The message is the end of what it wrote."""


class Child:
    """A child process that runs `python -m module` and answers requests until it is closed."""

    def __init__(self, module: str, python: str = sys.executable, java_options: str = "") -> None:
        java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {java_options}".strip()
        self._module = module
        self._errors = TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [python, "-m", module],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **({"JAVA_TOOL_OPTIONS": java} if java else {})},
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def do(self, request: object) -> dict[str, Any]:
        """Send a request and wait for its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = Timer(_LONGEST_SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line.startswith(_RESULT):
                    result: dict[str, Any] = json.loads(line.removeprefix(_RESULT))
                    return result
        except BrokenPipeError:  # it ended before it read the request; below is why
            pass
        finally:
            watchdog.cancel()
        raise ContestantFailed(f"{self._module} ended with code {self._process.wait()}:\n{self._last_lines()}")

    def _last_lines(self) -> str:
        self._errors.seek(0)
        lines = [line for line in self._errors.read().strip().splitlines() if not line.startswith("\tat ")]
        return "\n".join(lines[-_LINES_SHOWN:])

    def close(self) -> None:
        """Close the input, which ends the child, and wait for that."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._process.stdout, self._errors:
            self._process.stdin.close()
            self._process.wait()


def serve(contestant: Callable[[Any], Mapping[str, Any]]) -> None:
    """Do the requests that come by standard input; for the child."""
    for line in sys.stdin:
        result = contestant(json.loads(line))
        print(_RESULT + json.dumps({**result, WHOLE: report.cpu_seconds()}), flush=True)


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


class _Overhead:
    """The time that taking the time has taken: thousands of small files are read for it in a run."""

    seconds = 0.0


def mark(rows: int) -> Mark:
    """The end of a batch, without the time that measuring takes."""
    began = time.thread_time()
    cpu, compiling, python = report.cpu_seconds(), report.compiler_seconds(), time.process_time()
    seen = Mark(cpu - _Overhead.seconds, time.perf_counter(), python - _Overhead.seconds, rows, compiling)
    _Overhead.seconds += time.thread_time() - began
    return seen


def plain(marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """Marks as JSON has them."""
    return [asdict(each) for each in marks]


@dataclass(frozen=True)
class Spent:
    """What some rows took. `scaled` is the factor by which it was extrapolated."""

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
        """The same for more queries, by extrapolation."""
        return Spent(self.cpu * factor, self.wall * factor, self.rows, self.python * factor, self.scaled * factor)


def warm(marks: Sequence[Mark], cold: int = COLD) -> Spent:
    """What the batches after the cold ones took."""
    if cold < 1 or len(marks) <= cold:
        raise ValueError(f"{len(marks)} batches, of which {cold} are cold: there is nothing to measure")
    begin, end = marks[cold - 1], marks[-1]
    return Spent(
        end.cpu - begin.cpu,
        end.wall - begin.wall,
        sum(each.rows for each in marks[cold:]),
        end.python - begin.python,
        compiling=end.compiling - begin.compiling,
    )


def warm_of(result: Mapping[str, Any]) -> Spent:
    """What a contestant with several runs took; the runs, one for each of its queries, add up."""
    runs = [warm([Mark(**each) for each in marks]) for marks in result["runs"]]
    return Spent(
        sum(each.cpu for each in runs),
        sum(each.wall for each in runs),
        runs[0].rows,
        sum(each.python for each in runs),
    )


@dataclass(frozen=True)
class PerCycle:
    """What a cycle takes, by the mean of warm cycles. `scaled` is the factor by which it was extrapolated."""

    cpu: float
    wall: float
    cycles: int
    scaled: float = 1.0

    def times(self, factor: float) -> PerCycle:
        return PerCycle(self.cpu * factor, self.wall * factor, self.cycles, self.scaled * factor)


def per_cycle(marks: Sequence[Mapping[str, Any]], cold: int) -> PerCycle:
    """The mean of the cycles after the cold ones."""
    spent, cycles = warm([Mark(**each) for each in marks], cold), len(marks) - cold
    return PerCycle(spent.cpu / cycles, spent.wall / cycles, cycles)
