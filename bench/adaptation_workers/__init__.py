"""Place on real workers: two processes with a Spark each, skewed load, and how near to balance ten rounds come."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.adaptation_workers import two_workers
from bench.adaptation_workers.two_workers import ROUNDS, Workers

DEFINITIONS = {
    "two_workers_pr_over_balanced": "the performance ratio of the busier of two workers, by the measured loads of its "
    "fragments, over that of the best division of the same fragments, after ten rounds of balancing",
}

FULL, QUICK = ROUNDS, 0
"""Rounds. A quick run has none: two Sparks take half a minute to start."""


@dataclass(frozen=True, slots=True)
class Found:
    workers: Workers | None = None

    def ratios(self) -> dict[str, float | None]:
        return {"two_workers_pr_over_balanced": None if self.workers is None else self.workers.over_balanced}

    def details(self) -> dict[str, Any]:
        return {} if self.workers is None else asdict(self.workers)


def measure(rounds: int) -> Found:
    if not rounds:
        report.progress("workers: left out, since two Sparks take half a minute to start")
        return Found()
    return Found(two_workers.measure(rounds))


def show(found: Found) -> None:
    if found.workers is None:
        return
    report.table(
        f"Two workers, {len(found.workers.loads)} fragments that begin at one of them",
        ["round", "moved", "ratio over that of the best division"],
        [
            [number, ", ".join(each.moved) or "-", ratio]
            for number, (each, ratio) in enumerate(zip(found.workers.rounds, found.workers.ratios, strict=True))
        ],
    )


def draw(found: Found) -> dict[str, Figure]:
    return {}
