"""Place on real workers: two processes with a Spark each, fragments of unlike weight, and how near to balance they come
within ten cycles."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from bench import report
from lab.figures.workers import two_workers
from lab.figures.workers.two_workers import ROUNDS, Round, Workers

DEFINITIONS = {
    "two_workers_pr_over_balanced": "the largest performance ratio of a fragment (seconds until its rows are answered "
    "over those it takes alone), median of the last four of ten cycles, over the same with the best division",
}

FULL, QUICK = ROUNDS, 0
"""Rounds. A quick run has none: two Sparks take half a minute to start."""


@dataclass(frozen=True, slots=True)
class Found:
    workers: Workers | None = None

    def ratios(self) -> dict[str, float | None]:
        return {"two_workers_pr_over_balanced": None if self.workers is None else self.workers.over_balanced}

    def details(self) -> dict[str, Any]:
        if self.workers is None:
            return {}
        began = {"began_over_balanced": self.workers.began_over_balanced}
        return {**asdict(self.workers), "ratios": self.workers.ratios, **began}


def measure(rounds: int) -> Found:
    if not rounds:
        report.progress("workers: left out, since two Sparks take half a minute to start")
        return Found()
    return Found(two_workers.measure(rounds))


def show(found: Found) -> None:
    if found.workers is None:
        return
    workers = found.workers
    heavy = {name for name, seconds in workers.alone.items() if seconds > fmean(workers.alone.values())}

    def row(name: str, each: Round) -> list[object]:
        left = {fragment for fragment, worker in each.assigned.items() if worker == two_workers.WORKERS[0]}
        ratio = each.ratio(workers.alone)
        return [name, len(left & heavy), len(left - heavy), ratio, ratio / workers.ratio_of_balanced]

    report.table(
        f"Two workers: {len(heavy)} heavy and {len(workers.alone) - len(heavy)} light fragments",
        ["cycle", "heavy on the left", "light on the left", "performance ratio", "over balanced"],
        [
            *(row(str(number), each) for number, each in enumerate(workers.rounds, 1)),
            *(row("balanced", each) for each in workers.balanced),
        ],
        note="alone, a fragment takes " + ", ".join(f"{each:.2f} s" for each in workers.alone.values()),
    )


def draw(found: Found) -> dict[str, Figure]:
    return {}
