"""Where contestants meet: rows are written once, answers are compared with weft's, and what weft took is remembered."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from os import environ
from pathlib import Path
from typing import Any

from bench.aggregate_measurements import answers
from bench.aggregate_measurements.data import write_flights, write_readings
from bench.aggregate_measurements.jobs import CHECKED, Job, run
from bench.contest import COLD, WHOLE, Mark, Spent, warm

#: The interpreter that has apache-flink.
FLINK_PYTHON = "WEFT_BENCH_FLINK_PYTHON"

#: Contestants that have partials and no answers.
_UNANSWERED = frozenset({"spark_floor", "weft_restart"})

_SMALL_FILES, _SMALL_ROWS, _SMALL_KEYS, _SMALL_SEED = 3, 2_000, 10, 2


@dataclass(frozen=True)
class Effort:
    """How much of everything is measured."""

    sizes: tuple[int, ...]
    """Numbers of queries."""
    rounds: int
    """How often weft is compared with itself, at one query and at a thousand."""
    files: int
    rows: int
    """Of each file, where weft is compared with itself."""
    cycle_sizes: tuple[tuple[int, int], ...]
    """Where it is compared with limits: so many files of so many rows."""
    rival_files: int
    rival_rows: int
    """Where it is compared with others."""
    sample: int
    """So many queries stand for a hundred, where a hundred would take an hour."""
    checks: int
    """So many queries are checked where each is a query of its own."""
    model_overlap: int
    model_widths: tuple[int, ...]
    quick: bool


FULL = Effort(
    (1, 10, 100, 1_000, 10_000), 5, 40, 500_000, ((40, 500_000), (24, 2_000_000), (24, 10_000_000)),
    10, 200_000, sample=10, checks=CHECKED, model_overlap=200,
    model_widths=(1, 100), quick=False,
)  # fmt: skip
QUICK = Effort(
    (1, 10, 100), 1, 4, 100_000, (), 4, 100_000, sample=1, checks=1, model_overlap=20, model_widths=(1,), quick=True,
)  # fmt: skip


@dataclass(frozen=True)
class WeftRun:
    """What a run of weft took, and what was seen of its cycles."""

    queries: int
    spent: Spent
    marks: tuple[Mark, ...]
    cycles: tuple[dict[str, Any], ...]
    registering: float
    changes: dict[str, float]

    @cached_property
    def warm_cycles(self) -> tuple[dict[str, Any], ...]:
        return self.cycles[COLD:]

    @cached_property
    def settled(self) -> Spent:
        """What the second half of the cycles took: by then Java has compiled most of what rows go through."""
        return warm(self.marks, self.cold_half)

    def stretches(self, count: int) -> list[Spent]:
        """The second half of the cycles in so many parts of equal length, or in single cycles if there are fewer."""
        length = max(1, (len(self.marks) - self.cold_half) // count)
        ends = range(len(self.marks), self.cold_half + length - 1, -length)
        return [warm(self.marks[:end], end - length) for end in ends]

    @property
    def cold_half(self) -> int:
        return max(COLD, len(self.marks) // 2)

    @property
    def answers(self) -> int:
        return sum(int(cycle["answers"]) for cycle in self.warm_cycles)

    @property
    def jobs_per_cycle(self) -> int:
        return max(int(cycle["jobs"]) for cycle in self.warm_cycles)

    @property
    def python_bytes(self) -> int:
        return max(int(cycle["python_bytes"]) for cycle in self.cycles)

    @property
    def partials(self) -> int:
        return max(int(cycle["partials"]) for cycle in self.cycles)


class Arena:
    """The folder of a benchmark, and everything that is done once in it."""

    def __init__(self, folder: Path, effort: Effort) -> None:
        self.folder = folder
        self.effort = effort
        self.compared: dict[str, int] = {}
        self.whole: list[dict[str, Any]] = []
        self._weft: dict[tuple[Any, ...], WeftRun] = {}

    # --- rows --------------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Path:
        """The readings for comparisons with itself."""
        return self.readings(self.effort.files, self.effort.rows)

    @property
    def rival_rows(self) -> Path:
        """The readings for comparisons with others."""
        return self.readings(self.effort.rival_files, self.effort.rival_rows)

    def readings(self, files: int, rows: int, keys: int = 100) -> Path:
        folder = self.folder / f"readings-{files}-{rows}-{keys}"
        return folder if folder.exists() else write_readings(folder, files, rows, keys=keys)

    def flights(self, files: int, rows: int | None = None) -> Path:
        folder = self.folder / f"flights-{files}-{rows}"
        return folder if folder.exists() else write_flights(folder, files, self.folder / "source", rows=rows)

    def small(self, topic: str) -> Path:
        """The small files that everybody is warmed up and checked with."""
        if topic == "flights":
            return self.flights(_SMALL_FILES, _SMALL_ROWS)
        folder = self.folder / "small"
        if folder.exists():
            return folder
        return write_readings(folder, _SMALL_FILES, _SMALL_ROWS, keys=_SMALL_KEYS, seed=_SMALL_SEED)

    # --- contestants -------------------------------------------------------------------------------------------------

    def job(self, contestant: str, folder: Path, count: int, *, topic: str = "readings", **more: Any) -> Job:
        place = self.folder / f"answers-{contestant}-{topic.replace(' ', '-')}.parquet"
        return Job(str(folder), str(self.small(topic)), str(place), count, topic, **more)

    def contest(self, contestant: str, job: Job, python: str = sys.executable) -> dict[str, Any]:
        """Run a contestant, and compare its answers with weft's over the same small files."""
        if contestant not in _UNANSWERED and contestant != "weft_shared":
            ours = self._weft_answers(job)
        result = run(contestant, job, python)
        self.whole.append({"contestant": contestant, "queries": job.count, "cpu": result.pop(WHOLE)})
        if contestant not in _UNANSWERED and contestant != "weft_shared":
            same = answers.compare(ours, job.answers, answers.closed_until(job), job.checks)
            self.compared[f"{contestant}, {job.topic}"] = same
        return result

    def _weft_answers(self, job: Job) -> str:
        """The file of weft's answers over the same small files; the smallest possible run makes it, if need be."""
        ours = self.job("weft_shared", Path(job.small), 1, topic=job.topic)
        if not Path(ours.answers).exists():
            run("weft_shared", ours)
        return ours.answers

    def weft(self, folder: Path, count: int, **more: Any) -> WeftRun:
        """What weft takes for so many queries; measured once, and asked for by several."""
        return self.wefts(folder, (count,), **more)[0]

    def wefts(self, folder: Path, counts: tuple[int, ...], **more: Any) -> list[WeftRun]:
        """The same for several numbers of queries: each in its own process, but in one if there is little time."""
        name = folder, tuple(sorted((key, str(value)) for key, value in more.items()))
        missing = [count for count in counts if (*name, count) not in self._weft]
        batches = [missing] if self.effort.quick and missing else [[count] for count in missing]
        for sizes in batches:
            options = {**more.get("options", {}), "sizes": sizes}
            job = self.job("weft_shared", folder, max(sizes), **{**more, "options": options})
            result = self.contest("weft_shared", job)
            for place, size in enumerate(sizes):
                self._weft[(*name, size)] = _weft_run(size, result, place)
        return [self._weft[(*name, count)] for count in counts]

    # --- what is installed -------------------------------------------------------------------------------------------

    @property
    def has_polars(self) -> bool:
        return find_spec("polars") is not None

    @property
    def flink_python(self) -> str | None:
        """An interpreter with apache-flink: the named one, or this one."""
        return environ.get(FLINK_PYTHON) or (sys.executable if find_spec("pyflink") is not None else None)


def _weft_run(count: int, result: dict[str, Any], place: int) -> WeftRun:
    marks = tuple(Mark(**each) for each in result["runs"][place])
    cycles = tuple(result["cycles"][place])
    late = sum(cycle["late"] for cycle in cycles)
    if late:
        raise ValueError(f"{late} rows were late for weft: the others have counted them, and the comparison is void")
    return WeftRun(count, warm(marks), marks, cycles, result["registering"][place], result["changes"])
