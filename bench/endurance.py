"""An hour of 106 queries over streams that flow: whether memory and the time of cycles stay what they are.

    python -m bench.endurance [--quick]

A process runs 100 windowed aggregates of up to fifteen minutes, a join, DISTINCT, MEDIAN, COUNT(DISTINCT), a running
aggregate and a selection, with a cycle every two seconds. Files of 3,000 and 400 rows are written as often. The memory
of the process is read every thirty seconds. Windows, groups and caches fill in the first third of the hour. Growth is
the slope of the straight line through the rest. A quick run takes a minute: it only shows that all of it works.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench import report
from bench.endurance_process import picture
from bench.endurance_process.watched import INSIDE
from bench.endurance_process.workload import COUNTED, PAUSE, Feed
from weft.runtime.state.commits import last_commit

MINUTES, QUICK_MINUTES = 60.0, 0.4
#: Seconds between two looks at the memory.
SAMPLE_EVERY, QUICK_SAMPLE_EVERY = 30.0, 4.0
#: How many pauses the last files may take to be read.
_LAST, _QUICK_LAST = 10, 5
#: The part of the run in which windows fill and Java warms up.
SETTLING = 1 / 3

DEFINITIONS = {
    "python_mb_per_minute": "growth of Python's resident memory: the slope of the line through the last two thirds",
    "java_mb_per_minute": "the same of Java, which may use the heap that it is given",
    "python_last_over_settled": "Python's resident memory in the last tenth of the run over that at a third of it",
    "java_last_over_settled": "the same of Java",
    "cycle_last_over_settled": "median seconds of a cycle in the last tenth over the tenth after the first third",
    "answers_of_counted_rows": "answers of a selection over the rows that satisfy it: 1 if none is lost or doubled",
}


@dataclass(frozen=True)
class Sample:
    """The memory of both processes at a minute of the run."""

    minute: float
    python_mb: float
    java_mb: float
    threads: int
    files: int


@dataclass(frozen=True)
class Cycle:
    """A cycle at a minute of the run; and what the process knew of itself, if it looked."""

    minute: float
    seconds: float
    rows: int
    inside: dict[str, float] | None


@dataclass(frozen=True)
class Run:
    samples: Sequence[Sample]
    cycles: Sequence[Cycle]
    answered: int
    expected: int

    def ratios(self) -> dict[str, float | None]:
        return {
            "python_mb_per_minute": self._slope(lambda each: each.python_mb),
            "java_mb_per_minute": self._slope(lambda each: each.java_mb),
            "python_last_over_settled": self._grown(lambda each: each.python_mb),
            "java_last_over_settled": self._grown(lambda each: each.java_mb),
            "cycle_last_over_settled": self._slower(),
            "answers_of_counted_rows": self.answered / self.expected,
        }

    def _settled(self) -> list[Sample]:
        return [each for each in self.samples if each.minute >= self.samples[-1].minute * SETTLING]

    def _slope(self, of: Callable[[Sample], float]) -> float:
        settled = self._settled()
        return float(np.polyfit([each.minute for each in settled], [of(each) for each in settled], 1)[0])

    def _grown(self, of: Callable[[Sample], float]) -> float:
        settled = self._settled()
        part = max(1, len(self.samples) // 10)
        return median(map(of, settled[-part:])) / median(map(of, settled[:part]))

    def _slower(self) -> float | None:
        end = self.cycles[-1].minute
        last = [each.seconds for each in self.cycles if each.minute >= end * 0.9]
        settled = [each.seconds for each in self.cycles if end * SETTLING <= each.minute < end * (SETTLING + 0.1)]
        return median(last) / median(settled) if settled else None


def main() -> None:
    quick = report.quick_from_arguments("An hour of many queries: memory and cycles")
    with TemporaryDirectory(prefix="weft-bench-endurance-") as folder:
        run = measured(Path(folder), quick)
    _show(run)
    report.save_chart(picture.endurance(run.samples, run.cycles), "endurance", quick)
    details: dict[str, Any] = {
        "definitions": DEFINITIONS,
        "samples": [asdict(each) for each in run.samples],
        "inside": [{"minute": each.minute, **each.inside} for each in run.cycles if each.inside],
        "cycles": len(run.cycles),
        "answered": run.answered,
        "expected": run.expected,
    }
    report.finish("endurance", run.ratios(), details, quick)


def measured(folder: Path, quick: bool) -> Run:
    """Run the workload in a process of its own."""
    minutes, pause, last = (QUICK_MINUTES, QUICK_SAMPLE_EVERY, _QUICK_LAST) if quick else (MINUTES, SAMPLE_EVERY, _LAST)
    feed = Feed(folder / "data")
    project = folder / "project"
    command = [sys.executable, "-m", "bench.endurance_process.watched", str(project), f"{PAUSE:g} seconds"]
    cycles: list[Cycle] = []
    samples: list[Sample] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ids = json.loads(process.stdout.readline())
        began = time.monotonic()

        def listen() -> None:
            for line in process.stdout or ():
                cycles.append(_cycle(json.loads(line), (time.monotonic() - began) / 60))

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        next_sample = pause
        while (now := time.monotonic() - began) < minutes * 60 and process.poll() is None:
            feed.write()
            if now >= next_sample:
                next_sample += pause
                samples.append(_sample(now / 60, ids, project))
                report.progress(str(samples[-1]))
            time.sleep(max(0.0, PAUSE - (time.monotonic() - began - now)))
        time.sleep(last * PAUSE)
        process.send_signal(signal.SIGINT)
        process.wait()
        listening.join()
    if process.returncode:
        raise SystemExit(f"the process that was watched ended with {process.returncode}")
    commit = last_commit(project)
    return Run(samples, cycles, 0 if commit is None else commit.answered[COUNTED], feed.cheap)


def _cycle(line: dict[str, float], minute: float) -> Cycle:
    inside = {name: line[name] for name in INSIDE if name in line}
    return Cycle(minute, line["seconds"], int(line["rows"]), inside or None)


def _sample(minute: float, ids: dict[str, int], project: Path) -> Sample:
    python, java = _status(ids["python"]), _status(ids["java"])
    files = sum(1 for _ in (project / "state").rglob("*"))
    return Sample(minute, python["VmRSS"] / 1024, java["VmRSS"] / 1024, python["Threads"] + java["Threads"], files)


def _status(process: int) -> dict[str, int]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) for name in ("VmRSS", "Threads")}


def _show(run: Run) -> None:
    every = max(1, len(run.samples) // 12)
    inside = [each for each in run.cycles if each.inside]
    rows = []
    for each in run.samples[::every]:
        at = min(inside, key=lambda cycle: abs(cycle.minute - each.minute), default=None)
        known = at.inside if at is not None and at.inside is not None else {}
        near = [cycle.seconds for cycle in run.cycles if abs(cycle.minute - each.minute) <= 1]
        rows.append(
            [round(each.minute, 1), round(each.python_mb), round(each.java_mb), each.threads, each.files]
            + [round(known[name]) if name in known else None for name in INSIDE]
            + [median(near) if near else None]
        )
    columns = ["minute", "Python MB", "Java MB", "threads", "files in state", *INSIDE, "cycle s"]
    report.table("Memory and cycles over the run", columns, rows, f"{run.answered:,} of {run.expected:,} answers")


if __name__ == "__main__":
    main()
