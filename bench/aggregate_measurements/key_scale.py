"""Fifty queries over more and more group keys, up to a million.

Windows are of minutes here and reach back fifty of them at most: the live partials of a million keys are what a tree
holds, so a reach of thousands of fragments is not a question of speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.aggregate_measurements import charts
from bench.aggregate_measurements.arena import Arena, WeftRun
from bench.aggregate_measurements.contest import ContestantFailed
from bench.aggregate_measurements.flatness import facts

QUERIES = 50
KEYS = (1_000, 10_000, 100_000, 1_000_000)
FILES, ROWS = 8, 250_000
#: What Python may use before a run counts as failed.
MEMORY = 14 * 10**9


@dataclass(frozen=True)
class KeyScale:
    runs: dict[int, WeftRun]
    failed: dict[int, str]

    def ratios(self) -> dict[str, float | None]:
        return {}

    def details(self) -> dict[str, Any]:
        return {"runs": {str(keys): facts(run) for keys, run in self.runs.items()}, "failed": self.failed}


def measure(arena: Arena) -> KeyScale | None:
    if arena.effort.quick:
        return None
    runs, failed = {}, {}
    for keys in KEYS:
        try:
            runs[keys] = arena.weft(
                arena.readings(FILES, ROWS, keys),
                QUERIES,
                topic="long readings",
                literals=1,
                largest_slide=5,
                most_slides=10,
                options={"memory": MEMORY},
            )
        except ContestantFailed as reason:
            report.progress(f"  {keys:,} keys: {reason}")
            failed[keys] = str(reason).splitlines()[-1]
    return KeyScale(runs, failed)


def show(found: KeyScale | None) -> None:
    if found is None:
        return
    rows: list[list[object]] = [
        [f"{keys:,}", run.spent.cpu / len(run.warm_cycles), run.spent.wall / len(run.warm_cycles), run.answers,
         run.partials, run.python_bytes / 1e6]
        for keys, run in found.runs.items()
    ]  # fmt: skip
    rows += [[f"{keys:,}", None, None, None, None, f"failed: {reason}"] for keys, reason in found.failed.items()]
    report.table(
        f"{QUERIES} queries by the number of group keys, {ROWS:,} rows in each cycle; kernels in the driver",
        ["keys", "CPU s per cycle", "wall s per cycle", "answers", "partials kept", "Python MB"],
        rows,
    )


def draw(found: KeyScale | None) -> dict[str, Figure]:
    return {} if found is None else {"aggregates_keys": charts.keys(found.runs)}
