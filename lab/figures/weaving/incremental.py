"""Guirguis, Figures 20 to 23: queries that come one by one; and what one more query costs a plan of ten thousand.

A new query is put where it fits best, and all is woven again when the plan is estimated to be dearer than one from
scratch by more than a tolerance. How much dearer it truly is, is seen here by weaving from scratch every few queries.
Two estimates are compared: the paper's, a line through the last two plans from scratch, and weft's, a floor that a plan
from scratch cannot go below, with which the tolerance is kept for certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from time import perf_counter

from bench import charts, report
from lab.figures.weaving.woven import mean
from lab.weaving.plans import weave
from lab.weaving.weave_incremental import Estimate, Weaver
from lab.weaving.workloads import Workload, collapse_table, draw, draw_table, factor_slides
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq

#: Slides are the 120 factors of 55,440: many, and some fit well.
WORKLOAD = factor_slides(400, 10, largest_slide=55_440, most_overlap=50)

_FIRST, _EVERY = 20, 10
_TOLERANCES = ("0.05", "0.1", "0.2", "0.25", "0.3", "0.5", None)
_QUICK_TOLERANCES = ("0.1", "0.25", None)
_QUICK_QUERIES = 120

_MANY = factor_slides(10_000, 100, largest_slide=100_000, most_overlap=10_000)
_ADDED = 200


@dataclass(frozen=True, slots=True)
class Run:
    """Queries added one by one under one tolerance."""

    tolerance: float | None
    """None: never woven again."""
    estimate: str
    sizes: list[int]
    deviations: list[float]
    """Cost over that of a plan from scratch, less 1, at each of the sizes."""
    rebuilds: int
    comparisons: int

    @property
    def mean(self) -> float:
        return mean(self.deviations)

    @property
    def worst(self) -> float:
        return max(self.deviations)


@dataclass(frozen=True, slots=True)
class Incremental:
    runs: list[Run]
    always: int
    """The comparisons of weaving from scratch after every single query."""
    add_one_ms: float
    add_one_slowest_ms: float
    rebuild_ms: float


def measure(quick: bool) -> Incremental:
    queries = draw(WORKLOAD, seed=4)[: _QUICK_QUERIES if quick else None]
    sizes = range(_FIRST, len(queries) + 1, _EVERY)
    scratch = {size: weave(queries[:size]).plan(WORKLOAD.rate).cost for size in sizes}
    tolerances = _QUICK_TOLERANCES if quick else _TOLERANCES
    runs = [_run(queries, tolerance, estimate, scratch) for tolerance in tolerances for estimate in Estimate]
    always = sum(weave(queries[:size]).comparisons for size in sizes) * _EVERY
    return Incremental(runs, always, *_adding_to_many(_MANY))


def _run(queries: list[Window], tolerance: str | None, estimate: Estimate, scratch: dict[int, Fraction]) -> Run:
    report.progress(f"  {len(queries)} queries one by one, tolerance {tolerance}, {estimate.value}")
    allowed = None if tolerance is None else Fraction(tolerance)
    weaver = Weaver(queries[:_FIRST], rate=WORKLOAD.rate, tolerance=allowed, estimate=estimate)
    deviations = []
    for number, window in enumerate(queries[_FIRST:], _FIRST + 1):
        weaver.add(Acq(window))
        if number in scratch:
            deviations.append(float(weaver.cost / scratch[number] - 1))
    sizes = list(scratch)[1:]
    shown = None if allowed is None else float(allowed)
    return Run(shown, estimate.value, sizes, deviations, weaver.rebuilds, weaver.comparisons)


def _adding_to_many(workload: Workload) -> tuple[float, float, float]:
    """Milliseconds to add one query to ten thousand (median and slowest), and to weave all of them again."""
    table = draw_table(workload, seed=1)
    started = perf_counter()
    weaver = Weaver(collapse_table(table.ranges, table.slides), rate=workload.rate)
    rebuild = perf_counter() - started
    spent = []
    for window in draw(workload, seed=2)[:_ADDED]:
        started = perf_counter()
        weaver.add(Acq(window))
        spent.append(perf_counter() - started)
    return 1e3 * median(spent), 1e3 * max(spent), 1e3 * rebuild


def worst_over_tolerance(found: Incremental) -> float:
    """The worst true deviation as a share of the tolerance, with the estimate that weft uses unless told otherwise."""
    return max(
        run.worst / run.tolerance
        for run in found.runs
        if run.tolerance is not None and run.estimate == Estimate.FLOOR.value
    )


def show(found: Incremental, quick: bool) -> None:
    report.table(
        f"Guirguis, Figures 20 to 23: {found.runs[0].sizes[-1]} queries one by one",
        ["tolerance", "estimate", "mean deviation", "worst", "worst/tolerance", "rebuilds", "comparisons", "of always"],
        [
            ("never again" if run.tolerance is None else f"{run.tolerance:.0%}", run.estimate, f"{run.mean:.1%}",
             f"{run.worst:.1%}", None if run.tolerance is None else run.worst / run.tolerance, run.rebuilds,
             run.comparisons, f"{run.comparisons / found.always:.1%}")
            for run in found.runs
        ],
        "paper: the mean deviation is below the tolerance, comparisons fall as it grows (always: woven again for "
        "each). That holds with the floor. A line through two early plans does not see that costs grow more slowly "
        "later, when new queries find their slides there already: it expects too much, and rebuilds too late",
    )  # fmt: skip
    report.table(
        "One more query in a plan of 10,000, milliseconds",
        ["", "ours", "asked"],
        [
            ("adding one, median", found.add_one_ms, "< 10"),
            ("adding one, slowest of 200", found.add_one_slowest_ms, ""),
            ("weaving all from scratch", found.rebuild_ms, "< 1,000"),
        ],
    )
    _draw(found, quick)


def _draw(found: Incremental, quick: bool) -> None:
    figure, axes = charts.canvas(3, width=4.9)
    colours = {Estimate.FLOOR.value: "#00798c", Estimate.SLOPE.value: "#e8963e"}
    for run in found.runs:
        if run.tolerance == 0.25:
            up = [100 * each for each in run.deviations]
            name = f"estimate: {run.estimate}, {run.rebuilds} rebuilds"
            charts.line(axes[0], run.sizes, up, name, color=colours[run.estimate], markersize=2.5)
        elif run.tolerance is None and run.estimate == Estimate.FLOOR.value:
            charts.line(axes[0], run.sizes, [100 * each for each in run.deviations], "never woven again",
                        color="#9a9a9a", marker="", linewidth=6, alpha=0.4)  # fmt: skip
    axes[0].axhline(25, color="black", linewidth=0.9, linestyle=":", label="tolerance")
    charts.label(axes[0], "Figure 20: tolerance 25 %", "queries", "dearer than from scratch, %")
    charts.legend(axes[0], loc="upper left")
    for estimate, colour in colours.items():
        runs = [run for run in found.runs if run.estimate == estimate and run.tolerance is not None]
        across = [100 * (run.tolerance or 0) for run in runs]
        charts.line(axes[1], across, [100 * run.mean for run in runs], f"mean, {estimate}", color=colour)
        charts.line(
            axes[1], across, [100 * run.worst for run in runs], f"worst, {estimate}", color=colour, linestyle="--"
        )
        charts.line(axes[2], across, [run.comparisons for run in runs], estimate, color=colour)
    limit = [0, 100 * max(run.tolerance or 0 for run in found.runs)]
    axes[1].plot(limit, limit, color="black", linewidth=0.9, linestyle=":", label="paper: mean is below this")
    charts.label(axes[1], "Figures 21 and 22: deviation", "tolerance, %", "dearer than from scratch, %")
    charts.legend(axes[1])
    axes[2].axhline(found.always, color="#9a9a9a", linewidth=1.2, label="always from scratch")
    axes[2].set_yscale("log")
    charts.label(axes[2], "Figure 23: overhead", "tolerance, %", "pairs of trees weighed")
    charts.legend(axes[2])
    report.save_chart(figure, "weave_incremental", quick)
