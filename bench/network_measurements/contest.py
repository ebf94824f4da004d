"""How contestants are started, and how their time is taken.

A contestant is a module with a function `contestant(task)`. It works in a child process, `contestants.py`, which gets
tasks by its standard input and gives results as lines of JSON; it takes the time itself, since only it knows when a
cycle ends. The processes stay: starting Spark over and over would take most of the time. Measurements may run beside
each other and ask for the same child: the second one waits until the first has its results.

In a full run weft has a process of its own, and Spark's own ways another. A quick run has one for all of them, and its
Java compiles at once and not well (`_AT_ONCE`): to start Spark twice, and to compile well what runs for seconds, would
take most of its minute. Whoever asks Spark says how plans are to be compiled, so nobody has the settings of another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any

from bench import report
from bench.aggregate_measurements.contest import ContestantFailed, Mark
from bench.network_workloads.query import WorkloadQuery

_ROOT = Path(__file__).parents[2]
_LINES_TOLD = 12
#: For Java: the first of its two compilers alone.
_AT_ONCE = "-XX:TieredStopAtLevel=1"

#: The contestant that is weft.
WEFT_CYCLES = "weft_cycles"
_WEFT, _OTHERS = "weft", "others"

#: What a result begins with, so that nothing else that is printed is taken for one.
RESULT = "result: "


@dataclass(frozen=True)
class Task:
    """Queries over streams. `total` is the number of queries that they stand for, if they are a sample."""

    name: str
    streams: str
    """The statements that create the streams."""
    queries: Sequence[WorkloadQuery]
    total: int = 0
    settings: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scale(self) -> float:
        return (self.total or len(self.queries)) / len(self.queries)


class Contestants:
    """The child processes: one for weft, one for Spark's own ways and all others; or one for all, `together`.

    A child that weft works in does the task `first`, to warm up; its result is for `look`.
    """

    def __init__(self, first: Callable[[], Task], look: Callable[[dict[str, Any]], None], together: bool) -> None:
        self._first, self._look, self._together = first, look, together
        self._children: dict[str, _Child] = {}
        self._rooms = {_WEFT: Lock(), _OTHERS: Lock()}

    def run(self, contestant: str, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Let a contestant do some tasks, one after the other; a result for each."""
        room = _WEFT if self._together or contestant == WEFT_CYCLES else _OTHERS
        with self._rooms[room]:
            child = self._children.pop(room, None) or self._started(room)
            results = []
            for task in tasks:
                report.progress(f"  {contestant}: {task.name}, {len(task.queries):,} queries")
                results.append(child.do(contestant, task))
            self._children[room] = child
            return results

    def _started(self, room: str) -> _Child:
        child = _Child(_AT_ONCE if self._together else "")
        if room == _WEFT:
            self._look(child.do(WEFT_CYCLES, self._first()))
        return child

    def close(self) -> None:
        for child in self._children.values():
            child.close()
        self._children.clear()


class _Child:
    def __init__(self, java_options: str) -> None:
        told = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {java_options}".strip()
        self._errors = TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.network_measurements.contestants"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **({"JAVA_TOOL_OPTIONS": told} if told else {})},
        )

    def do(self, contestant: str, task: Task) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([contestant, asdict(task)]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(RESULT):
                result: dict[str, Any] = json.loads(line.removeprefix(RESULT))
                return result
        raise ContestantFailed(f"{contestant} ended with code {self._process.wait()}:\n{self._last_words()}")

    def _last_words(self) -> str:
        self._errors.seek(0)
        told = [line for line in self._errors.read().strip().splitlines() if not line.startswith("\tat ")]
        return "\n".join(told[-_LINES_TOLD:])

    def close(self) -> None:
        """It ends when it has nothing more to read."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._errors.close()


@dataclass(frozen=True)
class PerCycle:
    """What a cycle takes, by the mean of warm cycles. `scaled`: extrapolated from so many times fewer queries."""

    cpu: float
    wall: float
    cycles: int
    scaled: float = 1.0

    def times(self, factor: float) -> PerCycle:
        return PerCycle(self.cpu * factor, self.wall * factor, self.cycles, self.scaled * factor)


def per_cycle(marks: Sequence[Mapping[str, Any]], cold: int) -> PerCycle:
    """From the end of the last cold cycle to the end of the last one."""
    taken = [Mark(**each) for each in marks]
    warm = len(taken) - cold
    if cold < 1 or warm < 1:
        raise ValueError(f"{len(taken)} cycles, of which {cold} are cold: there is nothing to measure")
    begin, end = taken[cold - 1], taken[-1]
    return PerCycle((end.cpu - begin.cpu) / warm, (end.wall - begin.wall) / warm, warm)
