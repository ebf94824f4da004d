"""Estimate against reality: what a plan is said to cost, and what its final aggregation takes.

Shein and Chrysanthis' Experiments 6 and 7: a hundred queries whose slides are factors of 1,000, woven for each kernel
under two levels (Weave Share) and three (TriWeave). The prices of a kernel are calibrated on other trees, and at once
plans are woven on them and all trees of a plan are run, before the machine is quicker or slower than it was:
nanoseconds per tick through all of them, against what the prices say. Of both the fastest runs count.
The paper adds up the rates of trees that run one at a time, which rewards plans of many trees and is not the inverse of
a cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import lcm
from time import thread_time_ns
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bench import report
from bench.aggregate_measurements import pictures
from bench.aggregate_measurements.arena import Arena
from lab.kernels.calibration import calibrate, statistic_for
from lab.weaving.costings import by_nanoseconds
from lab.weaving.plans import Levels, weave
from lab.weaving.workloads import draw as draw_windows
from lab.weaving.workloads import factor_slides
from weft.algebra import Window
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.grouped import make_kernel
from weft.kernels.kernel import Kernel
from weft.kernels.kernel_cost import Price
from weft.windows.slicing import most_partials, shared_edges

KERNELS = ("panes", "flatfat", "flatfit", "slickdeque_inv", "slickdeque_noninv", "prefix")
PLANS = {"Weave Share": Levels.TWO, "TriWeave": Levels.THREE}
#: The mean deviation of the paper.
PAPER = 0.22

_QUERIES, _SEED = 100, 7
_FRAGMENTS_AT_ONCE = 2_048
_FEWEST_FRAGMENTS = 8_192
#: A tree is run again and again for so long, and so often at least.
_SECONDS, _REPEATED = 0.1, 3


@dataclass(frozen=True)
class Estimate:
    kernel: str
    plan: str
    keys: int
    trees: int
    predicted: float
    """Nanoseconds per tick."""
    measured: float

    @property
    def error(self) -> float:
        return abs(self.predicted - self.measured) / self.measured


@dataclass(frozen=True)
class Model:
    estimates: list[Estimate]

    def mean_error(self, plan: str | None = None) -> float:
        return float(np.mean([each.error for each in self.estimates if plan in (None, each.plan)]))

    def ratios(self) -> dict[str, float | None]:
        return {"model_error_mean": self.mean_error()}

    def details(self) -> dict[str, Any]:
        return {
            "estimates": [{**asdict(each), "error": each.error} for each in self.estimates],
            "mean_error": {plan: self.mean_error(plan) for plan in PLANS},
            "paper": PAPER,
        }


def measure(arena: Arena) -> Model:
    workload = factor_slides(_QUERIES, most_overlap=arena.effort.model_overlap)
    windows = list(dict.fromkeys(draw_windows(workload, _SEED)))
    seconds = 1.0 if arena.effort.quick else 6.0
    estimates = []
    for kernel in KERNELS:
        report.progress(f"  {kernel}")
        prices = calibrate([kernel], seconds / len(KERNELS))
        for keys in arena.effort.model_widths:
            estimates += [_estimate(windows, kernel, plan, keys, prices, workload.rate) for plan in PLANS]
    return Model(sorted(estimates, key=lambda each: each.keys))


def _estimate(
    windows: list[Window], kernel: str, plan: str, keys: int, prices: Mapping[str, Price], rate: Fraction
) -> Estimate:
    costing = by_nanoseconds(kernel, prices=prices, keys={frozenset(): keys})
    woven = weave(windows, costing).plan(rate, PLANS[plan])
    predicted = sum(float(group.final_cost) for group in woven.groups)
    trees = ([query.window for query in group.members] for group in woven.groups)
    measured = sum(_TreeRun(tree, kernel, keys).nanoseconds() for tree in trees)
    return Estimate(kernel, plan, keys, len(woven.groups), predicted, measured)


class _TreeRun:
    """One tree: a kernel over the fragments that its windows cut time into, which repeat after a period."""

    def __init__(self, windows: list[Window], kernel: str, keys: int) -> None:
        ordered = sorted(windows, key=lambda window: (-(window.range or 0), window.slide))
        self._ranges = np.array([window.range for window in ordered])
        self._slides = np.array([window.slide for window in ordered])
        self._period = lcm(*self._slides.tolist())
        instants = np.arange(1, self._period + 1)
        self._edges = instants[(instants[:, None] % self._slides == 0).any(axis=1)]
        self._statistic = statistic_for(ALGORITHMS[kernel])
        capacity = most_partials(shared_edges(ordered), int(self._ranges[0])) + 1
        self._kernel: Kernel = make_kernel(kernel, self._statistic, capacity, len(ordered), keys)
        values = np.random.default_rng(_SEED).integers(0, 1 << 40, size=(_FRAGMENTS_AT_ONCE, keys))
        self._partials = (values.astype(self._statistic.dtypes[0]),)

    def nanoseconds(self) -> float:
        """CPU time per tick, once the longest window is full; of several runs the shortest."""
        full = int(self._ranges[0]) // self._period * len(self._edges) + len(self._edges)
        while self._kernel.next <= full:
            self._slide()
        slides = -(-max(_FEWEST_FRAGMENTS, len(self._edges)) // _FRAGMENTS_AT_ONCE)
        ticks = slides * _FRAGMENTS_AT_ONCE * self._period / len(self._edges)
        runs: list[int] = []
        while len(runs) < _REPEATED or sum(runs) < _SECONDS * 1e9:
            runs.append(sum(self._slide() for _ in range(slides)))
        return min(runs) / ticks

    def _slide(self) -> int:
        """Take in some fragments; gives the nanoseconds that the kernel took, without the tables it is given."""
        numbers = np.arange(self._kernel.next, self._kernel.next + _FRAGMENTS_AT_ONCE)
        ends = numbers // len(self._edges) * self._period + self._edges[numbers % len(self._edges)]
        starts = np.minimum(self._first_from(ends[:, None] - self._ranges), numbers[:, None])
        due = ends[:, None] % self._slides == 0
        begin = thread_time_ns()
        self._kernel.slide(self._partials, starts, due)
        return thread_time_ns() - begin

    def _first_from(self, instants: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the first fragment that begins at an instant or after it; time begins at 0."""
        before = instants - 1
        ended = before // self._period * len(self._edges)
        ended += np.searchsorted(self._edges, before % self._period, side="right")
        return np.where(instants > 0, ended + 1, 0)


def show(found: Model) -> None:
    report.table(
        f"Plan cost predicted and measured: {_QUERIES} queries, nanoseconds per tick through all trees",
        ["kernel", "plan", "keys", "trees", "predicted", "measured", "deviation"],
        [
            [each.kernel, each.plan, each.keys, each.trees, each.predicted, each.measured, f"{each.error:.0%}"]
            for each in found.estimates
        ],
        f"mean deviation {found.mean_error():.0%}; the paper's is {PAPER:.0%}",
    )


def draw(found: Model) -> dict[str, Figure]:
    return {"aggregates_model": pictures.estimates(found.estimates)}
