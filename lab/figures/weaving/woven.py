"""Woven workloads, each woven once: the order of merges does not depend on the rate, so one weaving serves all figures.

Costs are read off the dendrogram, in floating point: with m groups left, m·λ + F(m) under two levels and
λ + m·E + F(m) under three.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import report
from lab.weaving.costings import by_overlap
from lab.weaving.plans import Levels, Weaving, weave
from lab.weaving.workloads import Workload, draw
from weft.algebra import Window


class Cut(NamedTuple):
    """The cheapest place to cut a dendrogram."""

    cost: float
    trees: int


@dataclass(frozen=True, eq=False)
class Woven:
    """One workload of Guirguis' kind, drawn and woven."""

    windows: tuple[Window, ...]
    weaving: Weaving
    seconds: float

    @property
    def finals(self) -> NDArray[np.float64]:
        """Σ E·Ω by the number of groups left: entry 0 is for one group."""
        return np.array([float(final) for final in reversed(self.weaving.finals)])

    @property
    def union_rate(self) -> float:
        return float(self.weaving.union_rate)

    def no_share(self, rate: float) -> float:
        """n·λ + Σ Eᵢ·ωᵢ, every query by itself."""
        return len(self.windows) * rate + self.alone

    @property
    def alone(self) -> float:
        return sum(edges_per_tick(window) * overlap_factor(window) for window in self.windows)

    def shared(self, rate: float) -> float:
        """λ + E·Ω, all queries in one tree."""
        return rate + float(self.weaving.finals[-1])

    def bound(self, rate: float) -> float:
        """No plan of two levels is cheaper: every row once, and every query as if it were alone."""
        return rate + self.alone

    def woven(self, rate: float, levels: Levels = Levels.TWO) -> Cut:
        costs = self._reading(rate, levels) + self.finals
        best = int(np.argmin(costs))
        return Cut(float(costs[best]), best + 1)

    def under(self, trees: int, rate: float, levels: Levels) -> float:
        """What a given number of groups costs."""
        return float(self._reading(rate, levels)[trees - 1] + self.finals[trees - 1])

    def _reading(self, rate: float, levels: Levels) -> NDArray[np.float64]:
        groups = np.arange(1, len(self.weaving.finals) + 1)
        if levels is Levels.TWO:
            return groups * rate
        # The papers' three levels have the third one even for a single group.
        return rate + groups * self.union_rate


def woven(workload: Workload, seed: int) -> Woven:
    return _woven(replace(workload, rate=Fraction(0)), seed)


@cache
def _woven(workload: Workload, seed: int) -> Woven:
    windows = tuple(draw(workload, seed))
    started = perf_counter()
    weaving = weave(windows, by_overlap())
    seconds = perf_counter() - started
    report.progress(
        f"  {workload.queries:,} queries, overlap ≤ {workload.most_overlap:,}, skew {workload.skew}, seed {seed}: "
        f"woven in {seconds:.2f} s"
    )
    return Woven(windows, weaving, seconds)


def edges_per_tick(window: Window) -> float:
    return (2 if (window.range or 0) % window.slide else 1) / window.slide


def overlap_factor(window: Window) -> int:
    return -(-(window.range or 0) // window.slide)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
