"""Guirguis, Figures 31 to 35: TriOps, a third level of aggregation, and TriWeave, which weaves for it.

Two levels pay m·λ for reading rows, three levels λ + m·E. Figure 31 runs the trees that Weave Share found with a third
level; Figure 33 lets TriWeave find its own, which are more, since another tree costs E and not λ.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench import charts, report
from lab.figures.weaving.sharing import FULL, QUICK, RATES
from lab.figures.weaving.woven import mean, woven
from lab.weaving.plans import Levels
from lab.weaving.workloads import any_slides


@dataclass(frozen=True, slots=True)
class Point:
    """Means over the seeds at one number of queries and one rate."""

    queries: int
    rate: float
    shared: float
    woven: float
    """Weave Share, two levels."""
    woven_on_three: float
    """The same trees, three levels."""
    tri_woven: float
    """TriWeave; one tree without a third level where that is cheaper."""
    trees: float
    tri_trees: float

    @property
    def gain_of_third_level(self) -> float:
        return 1 - self.woven_on_three / self.woven

    @property
    def gain_of_tri_weave(self) -> float:
        return 1 - self.tri_woven / self.woven


def measure(quick: bool) -> list[Point]:
    scope = QUICK if quick else FULL
    return [_point(size, rate, scope.seeds) for rate in RATES for size in scope.sizes]


def _point(queries: int, rate: float, seeds: int) -> Point:
    sets = [woven(any_slides(queries, 0), seed) for seed in range(seeds)]
    two = [each.woven(rate) for each in sets]
    three = [each.woven(rate, Levels.THREE) for each in sets]
    return Point(
        queries,
        rate,
        mean([each.shared(rate) for each in sets]),
        mean([cut.cost for cut in two]),
        mean([each.under(cut.trees, rate, Levels.THREE) for each, cut in zip(sets, two, strict=True)]),
        mean([min(cut.cost, each.shared(rate)) for each, cut in zip(sets, three, strict=True)]),
        mean([cut.trees for cut in two]),
        mean([cut.trees for cut in three]),
    )


def show(points: list[Point], quick: bool) -> None:
    report.table(
        "Guirguis, Figures 31 to 35: three levels, operations per second",
        ["rows/s", "queries", "Shared", "Weave Share", "… on three levels", "gain", "TriWeave", "gain", "trees", "its"],
        [
            (f"{each.rate:,}", each.queries, each.shared, each.woven, each.woven_on_three,
             f"{each.gain_of_third_level:.0%}", each.tri_woven, f"{each.gain_of_tri_weave:.0%}", each.trees,
             each.tri_trees)
            for each in points
        ],
    )  # fmt: skip
    several = [each for each in points if each.trees >= 2]
    single = [each for each in points if each.trees == 1]
    low = [each for each in points if each.rate == RATES[0]]
    high = [each for each in points if each.rate == RATES[-1]]
    rows = [
        ("31", "third level under Weave Share's trees, 50 rows/s", "< 40 %",
         _span([each.gain_of_third_level for each in low]),
         f"the text has it shrink with more queries; here {low[0].gain_of_third_level:.0%} at {low[0].queries}, "
         f"{low[-1].gain_of_third_level:.0%} at {low[-1].queries:,}"),
        ("32, 34, 35", "the same where there are two trees or more", "40 to 60 %",
         _span([each.gain_of_third_level for each in several]), "(λ(m − 1) − mE)/(mλ + F)"),
        ("32, 34, 35", "the same where there is one", "slightly worse",
         f"{min(each.gain_of_third_level for each in single):.3%}" if single else "no such point",
         "a level between one tree and its rows only costs E; weft leaves it out"),
        ("33", "TriWeave over Weave Share", "63 %", _span([each.gain_of_tri_weave for each in points]), ""),
        ("35", "TriWeave over Shared, 10,000 rows/s", "up to 40 %",
         _span([1 - each.tri_woven / each.shared for each in high]), ""),
        ("–", "TriWeave regroups when the rate changes", "yes", _trees_by_rate(points),
         "cannot be: one tree more costs E, in which λ has no part"),
    ]  # fmt: skip
    report.table(
        "Guirguis, Figures 31 to 35: what the text states", ["figure", "statement", "paper", "ours", "remark"], rows
    )
    _draw(points, quick)


def _span(gains: list[float]) -> str:
    return f"{min(gains):.0%} to {max(gains):.0%}"


def _trees_by_rate(points: list[Point]) -> str:
    largest = max(each.queries for each in points)
    counts = [f"{each.tri_trees:.0f}" for each in points if each.queries == largest]
    return f"no: {', '.join(counts)} trees at the three rates"


def _draw(points: list[Point], quick: bool) -> None:
    figure, axes = charts.canvas(3, width=4.9)
    for axis, rate in zip(axes, RATES, strict=True):
        here = [each for each in points if each.rate == rate]
        sizes = [each.queries for each in here]
        for name, costs, style in (
            ("Shared", [each.shared for each in here], {}),
            ("Weave Share", [each.woven for each in here], {}),
            ("Weave Share (three levels)", [each.woven_on_three for each in here], {"linestyle": "--"}),
            ("TriWeave", [each.tri_woven for each in here], {}),
        ):
            relative = [100 * cost / each.shared for cost, each in zip(costs, here, strict=True)]
            charts.line(axis, sizes, relative, name, **style)
        axis.set_ylim(0, 110)
        charts.label(axis, f"{rate:,} rows per second", "queries", "cost, % of Shared on two levels")
    if not quick:
        charts.paper(axes[2], [1_000], [60], "TriWeave in the paper: up to 40 % saved")
    handles, names = axes[2].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
    report.save_chart(figure, "weave_three_levels", quick)
