"""Order and place on the engine: a join whose selectivities change places, and two workers of which one is too busy.

joins.py       three streams, the engine that decides for itself against both fixed orders and one that knows the future
workers.py     two processes with a Spark each, skewed load, and how far from balance they are after ten rounds
shown.py       tables and a picture
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.adaptation_engine import joins, shown, workers
from bench.adaptation_engine.joins import Joins, Scale
from bench.adaptation_engine.workers import Workers

DEFINITIONS = {
    "engine_adaptive_over_worse_static": "CPU seconds of all processes, over those of the fixed order that took more; "
    "a three-way join whose selectivities change places half-way, all cycles but the first two",
    "engine_adaptive_over_clairvoyant": "the same over the best of some runs that change the order in a cycle that was "
    "fixed before, from the first with other rows on",
    "two_workers_pr_over_balanced": "the performance ratio of the busier of two workers, by the measured loads of its "
    "fragments, over that of the best division of the same fragments, after ten rounds of balancing",
}


FULL: Scale | None = Scale(rows=8_000, cycles=44, window=3, many=60.0, few=0.01, switches=(1, 2))
QUICK: Scale | None = None
"""A quick run leaves all of it out: Java compiles during the first twenty cycles, and says nothing about orders."""


@dataclass(frozen=True, slots=True)
class Found:
    joins: Joins | None = None
    workers: Workers | None = None

    def ratios(self) -> dict[str, float | None]:
        return {
            "engine_adaptive_over_worse_static": None if self.joins is None else self.joins.over_worse,
            "engine_adaptive_over_clairvoyant": None if self.joins is None else self.joins.over_clairvoyant,
            "two_workers_pr_over_balanced": None if self.workers is None else self.workers.over_balanced,
        }

    def details(self) -> dict[str, Any]:
        found = {"joins": self.joins, "workers": self.workers}
        return {name: asdict(each) for name, each in found.items() if each is not None}


def measure(scale: Scale | None) -> Found:
    if scale is None:
        report.progress("engine: left out, since Java would compile from the first cycle to the last")
        return Found()
    report.progress("engine: two workers …")
    divided = workers.measure()
    report.progress("engine: a join whose selectivities change places …")
    return Found(joins.measure(scale), divided)


def show(found: Found) -> None:
    shown.show(found.joins, found.workers)


def draw(found: Found) -> dict[str, Figure]:
    return {} if found.joins is None else shown.draw(found.joins)
