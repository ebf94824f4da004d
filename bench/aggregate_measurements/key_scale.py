"""Fifty queries over more and more group keys, up to a million, with kernels in the driver and on the executors.

Windows are of minutes here and reach back fifty of them at most: the live partials of a million keys are what a tree
holds, so a reach of thousands of fragments is not a question of speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.aggregate_measurements import pictures
from bench.aggregate_measurements.arena import Arena, WeftRun
from bench.aggregate_measurements.flatness import facts
from bench.contest import ContestantFailed

QUERIES = 50
KEYS = (1_000, 10_000, 100_000, 1_000_000)
HOSTS = ("driver", "executors")
FILES, ROWS = 12, 250_000
#: What Python may use in the driver before a run counts as failed.
MEMORY = 14 * 10**9


@dataclass(frozen=True)
class KeyScale:
    runs: dict[str, dict[int, WeftRun]]
    """By host and number of keys."""
    failed: dict[str, str]

    def ratios(self) -> dict[str, float | None]:
        return {}

    def details(self) -> dict[str, Any]:
        runs = {host: {str(keys): facts(run) for keys, run in of.items()} for host, of in self.runs.items()}
        return {"runs": runs, "failed": self.failed}


def measure(arena: Arena) -> KeyScale | None:
    if arena.effort.quick:
        return None
    runs: dict[str, dict[int, WeftRun]] = {host: {} for host in HOSTS}
    failed = {}
    for keys in KEYS:
        for host in HOSTS:
            report.progress(f"  {keys:,} keys, {host}")
            try:
                runs[host][keys] = _run(arena, keys, host)
            except ContestantFailed as reason:
                report.progress(f"  failed: {reason}")
                failed[f"{keys:,} keys, {host}"] = str(reason).splitlines()[-1]
        _check_answers(keys, [of[keys] for of in runs.values() if keys in of])
    return KeyScale(runs, failed)


def _run(arena: Arena, keys: int, host: str) -> WeftRun:
    return arena.weft(
        arena.readings(FILES, ROWS, keys),
        QUERIES,
        topic="long readings",
        literals=1,
        largest_slide=5,
        most_slides=10,
        options={"memory": MEMORY, "settings": [f"kernels = {host}", "max_state_mb = 12000"]},
    )


def _check_answers(keys: int, runs: list[WeftRun]) -> None:
    numbers = {run.answers for run in runs}
    if len(numbers) > 1:
        raise ValueError(f"with {keys:,} keys the hosts have given different numbers of answers: {sorted(numbers)}")


def show(found: KeyScale | None) -> None:
    if found is None:
        return
    rows: list[list[object]] = [
        [f"{keys:,}", host, run.spent.cpu / len(run.warm_cycles), run.spent.wall / len(run.warm_cycles), run.answers,
         run.partials, run.python_bytes / 1e6]
        for keys in KEYS
        for host, of in found.runs.items()
        for run in [of.get(keys)]
        if run is not None
    ]  # fmt: skip
    rows += [[what, None, None, None, None, None, f"failed: {reason}"] for what, reason in found.failed.items()]
    report.table(
        f"{QUERIES} queries by the number of group keys, {ROWS:,} rows in each cycle",
        ["keys", "kernels", "CPU s per cycle", "wall s per cycle", "answers", "partials kept", "driver's Python MB"],
        rows,
    )


def draw(found: KeyScale | None) -> dict[str, Figure]:
    return {} if found is None else {"aggregates_keys": pictures.keys(found.runs)}
