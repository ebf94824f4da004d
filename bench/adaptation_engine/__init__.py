"""Order on the engine: a join whose selectivities change places.

joins.py       three streams, the engine that decides for itself against both fixed orders and one that knows the future
told.py        statistics that say what they are told, for the fixed orders
shown.py       a table and a picture
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.adaptation_engine import joins, shown
from bench.adaptation_engine.joins import Joins, Scale

DEFINITIONS = {
    "engine_adaptive_over_worse_static": "CPU seconds of all processes, over those of the fixed order that took more; "
    "a three-way join whose selectivities change places half-way, all cycles but the first two",
    "engine_adaptive_over_clairvoyant": "the same over the best of some runs that change the order in a cycle that was "
    "fixed before, soon after the rows have changed",
}

FULL: Scale | None = Scale(rows=8_000, cycles=60, window=3, many=60.0, few=0.01, switches=(1, 2))
QUICK: Scale | None = None
"""A quick run leaves all of it out: Java compiles during the first twenty cycles, and says nothing about orders."""


@dataclass(frozen=True, slots=True)
class Found:
    joins: Joins | None = None

    def ratios(self) -> dict[str, float | None]:
        return {
            "engine_adaptive_over_worse_static": None if self.joins is None else self.joins.over_worse,
            "engine_adaptive_over_clairvoyant": None if self.joins is None else self.joins.over_clairvoyant,
        }

    def details(self) -> dict[str, Any]:
        return {} if self.joins is None else {"joins": asdict(self.joins)}


def measure(scale: Scale | None) -> Found:
    if scale is None:
        report.progress("engine: left out, since Java would compile from the first cycle to the last")
        return Found()
    return Found(joins.measure(scale))


def show(found: Found) -> None:
    if found.joins is not None:
        shown.show(found.joins)


def draw(found: Found) -> dict[str, Figure]:
    return {} if found.joins is None else shown.draw(found.joins)
