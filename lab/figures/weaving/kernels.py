"""Shein and Chrysanthis, Experiments 1 to 5 and the number of trees: plans that know which kernel will run them.

One parameter varies while the others stay at Q = 100 queries, slides that are factors of S_max = 1,000, overlap factors
up to O_max = 10,000, λ = 1 row per tick and no skew. A plan is woven for each kernel under the Ω that the paper prints,
and Prefix, which the paper does not have, under the Ω it really has. What the paper states is the best ratio of each
experiment, on a grid that it does not print; ours is the best of the means at the grid points below.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bench import charts, report
from lab.figures.weaving.woven import mean
from lab.weaving.costings import Costing, by_operations, by_printed
from lab.weaving.plans import weave
from lab.weaving.workloads import Workload, collapse_table, draw_table, factor_slides

PRINTED_KERNELS = ("panes", "flatfat", "flatfit", "slickdeque_inv", "slickdeque_noninv")
BEST = "prefix"
TITLES = {
    "panes": "Panes",
    "flatfat": "FlatFAT",
    "flatfit": "FlatFIT",
    "slickdeque_inv": "SlickDeque (Inv)",
    "slickdeque_noninv": "SlickDeque (Non-Inv)",
    "prefix": "Prefix, its true Ω",
}

#: What the paper states: the best ratio of Panes to SlickDeque in each experiment, and the mean number of trees.
PAPER_RATIOS = {1: 5_000, 2: 4_300, 3: 270_000, 4: 3_000, 5: 4_200}
PAPER_TREES = {"panes": 16.0, "flatfat": 15.7, "flatfit": 10.3, "slickdeque_noninv": 4.8}


@dataclass(frozen=True, slots=True)
class Experiment:
    number: int
    varies: str
    values: tuple[float, ...]
    workloads: tuple[Workload, ...]


EXPERIMENTS = (
    Experiment(1, "queries", (1, 10, 100, 1_000, 10_000), tuple(factor_slides(q) for q in (1, 10, 100, 1_000, 10_000))),
    Experiment(
        2,
        "largest slide",
        (10, 100, 1_000, 10_000, 100_000),
        tuple(factor_slides(largest_slide=slide) for slide in (10, 100, 1_000, 10_000, 100_000)),
    ),
    Experiment(
        3,
        "largest overlap factor",
        (100, 1_000, 10_000, 100_000, 1_000_000),
        tuple(factor_slides(most_overlap=most) for most in (100, 1_000, 10_000, 100_000, 1_000_000)),
    ),
    Experiment(
        4,
        "rows per tick",
        (0.01, 0.1, 1, 10, 100),
        tuple(factor_slides(rate=Fraction(rate)) for rate in ("0.01", "0.1", "1", "10", "100")),
    ),
    Experiment(5, "skew", (-1, -0.5, 0, 0.5, 1), tuple(factor_slides(skew=skew) for skew in (-1, -0.5, 0, 0.5, 1))),
)


@dataclass(frozen=True, slots=True)
class Point:
    """The means over all seeds at one point of an experiment, by kernel."""

    value: float
    costs: dict[str, float]
    trees: dict[str, float]
    slides: float
    """Different slides: more trees than that never pay, since equal slides have equal edges."""

    def ratio(self, rival: str = "slickdeque_noninv") -> float:
        return self.costs["panes"] / self.costs[rival]


def measure(quick: bool) -> dict[int, list[Point]]:
    seeds = 2 if quick else 10
    return {each.number: [_point(each, at, seeds) for at in range(len(each.values))] for each in EXPERIMENTS}


def _point(experiment: Experiment, at: int, seeds: int) -> Point:
    workload = experiment.workloads[at]
    report.progress(f"  experiment {experiment.number}: {experiment.varies} {experiment.values[at]:g}")
    costs: dict[str, list[float]] = {}
    trees: dict[str, list[float]] = {}
    slides: list[float] = []
    for seed in range(seeds):
        table = draw_table(workload, seed)
        queries = collapse_table(table.ranges, table.slides)
        for kernel in (*PRINTED_KERNELS, BEST):
            weaving = weave(queries, _costing(kernel))
            # Weave Share as the paper has it: what weft does besides (moving leaves between trees) is left out.
            plan = weaving.plan_after(weaving.cut(workload.rate), workload.rate)
            costs.setdefault(kernel, []).append(float(plan.cost))
            trees.setdefault(kernel, []).append(len(plan.groups))
        slides.append(len(np.unique(table.slides)))
    return Point(
        experiment.values[at],
        {kernel: mean(each) for kernel, each in costs.items()},
        {kernel: mean(each) for kernel, each in trees.items()},
        mean(slides),
    )


def _costing(kernel: str) -> Costing:
    return by_operations(kernel) if kernel == BEST else by_printed(kernel)


def best_ratio(points: list[Point], rival: str = "slickdeque_noninv") -> float:
    return max(point.ratio(rival) for point in points)


def mean_trees(experiments: dict[int, list[Point]], kernel: str) -> float:
    """Over all points of all experiments, as the paper averages over all its runs."""
    return mean([point.trees[kernel] for points in experiments.values() for point in points])


def ratios(experiments: dict[int, list[Point]]) -> dict[str, float]:
    found = {f"panes_over_slickdeque_exp{number}": best_ratio(points) for number, points in experiments.items()}
    found["panes_over_best_exp3"] = best_ratio(experiments[3], BEST)
    for key, kernel in (("panes",) * 2, ("flatfat",) * 2, ("flatfit",) * 2, ("slickdeque", "slickdeque_noninv")):
        found[f"trees_{key}"] = mean_trees(experiments, kernel)
    return found


def show(experiments: dict[int, list[Point]], quick: bool) -> None:
    for experiment in EXPERIMENTS:
        points = experiments[experiment.number]
        report.table(
            f"Shein and Chrysanthis, Experiment {experiment.number}: plan cost, operations per tick",
            [experiment.varies, *(TITLES[kernel] for kernel in points[0].costs), "Panes/SlickDeque", "Panes/Prefix"],
            [
                (f"{point.value:g}", *point.costs.values(), point.ratio(), point.ratio(BEST))
                for point in points
            ],
        )  # fmt: skip
    report.table(
        "Best ratio of each experiment: Panes over SlickDeque",
        ["experiment", "ours", "paper", "ours/paper", "Panes over Prefix"],
        [
            (number, best_ratio(points), PAPER_RATIOS[number], best_ratio(points) / PAPER_RATIOS[number],
             best_ratio(points, BEST))
            for number, points in experiments.items()
        ],
        "ours: the best of the means at five grid points; the paper: the best on a grid that it does not print",
    )  # fmt: skip
    most = mean([point.slides for points in experiments.values() for point in points])
    report.table(
        "Mean number of trees over all points",
        ["kernel", "ours", "paper"],
        [
            *((TITLES[kernel], mean_trees(experiments, kernel), PAPER_TREES.get(kernel)) for kernel in TITLES),
            ("different slides", most, None),
        ],
        f"16.0 cannot be the mean of Panes over these points: there are {most:.1f} different slides in the mean (1 "
        "for one query, 4 factors of 10), and queries with equal slides share a tree; which runs the paper averaged, "
        "it does not say",
    )
    _draw_costs(experiments, quick)
    _draw_trees(experiments, quick)


def _draw_costs(experiments: dict[int, list[Point]], quick: bool) -> None:
    figure, axes = charts.canvas(3, 2, width=5.2, height=4.0)
    for axis, experiment in zip(axes, EXPERIMENTS, strict=False):
        points = experiments[experiment.number]
        for kernel in points[0].costs:
            charts.line(
                axis,
                experiment.values,
                [point.costs[kernel] for point in points],
                kernel,
                label=TITLES[kernel],
                linestyle="--" if kernel == BEST else "-",
            )
        axis.set_yscale("log")
        if experiment.number != 5:
            axis.set_xscale("log")
        charts.label(axis, f"Experiment {experiment.number}", experiment.varies, "operations per tick")
    last = axes[-1]
    numbers = list(PAPER_RATIOS)
    ours = [best_ratio(experiments[number]) for number in numbers]
    last.bar(numbers, ours, color=charts.COLOURS["slickdeque_noninv"], width=0.6, label="SlickDeque (Non-Inv)")
    best = [best_ratio(experiments[number], BEST) for number in numbers]
    last.plot(numbers, best, "_", markersize=26, markeredgewidth=2.5, color=charts.COLOURS[BEST], label="Prefix")
    charts.paper(last, numbers, list(PAPER_RATIOS.values()), "SlickDeque, paper")
    last.set_yscale("log")
    last.set_ylim(1_000, 2_000_000)
    charts.label(last, "Panes costs so many times as much", "experiment", "ratio of plan costs")
    charts.legend(last, loc="upper right")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=6, frameon=False)
    report.save_chart(figure, "weave_kernels", quick)


def _draw_trees(experiments: dict[int, list[Point]], quick: bool) -> None:
    figure, (axis,) = charts.canvas(1, width=6.6)
    names = [TITLES[kernel].replace(" (", "\n(").replace(", ", ",\n") for kernel in TITLES]
    ours = [mean_trees(experiments, kernel) for kernel in TITLES]
    bars = axis.bar(names, ours, color=[charts.COLOURS[kernel] for kernel in TITLES], width=0.62)
    axis.bar_label(bars, fmt="%.1f", label_type="center", color="white", fontweight="bold")
    places = [at for at, kernel in enumerate(TITLES) if kernel in PAPER_TREES]
    charts.paper(axis, places, [PAPER_TREES[kernel] for kernel in TITLES if kernel in PAPER_TREES])
    axis.tick_params(axis="x", labelsize=8.5)
    charts.label(axis, "A kernel that does more per edge wants more trees", "", "mean number of trees")
    charts.legend(axis)
    report.save_chart(figure, "weave_trees", quick)
