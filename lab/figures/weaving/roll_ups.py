"""Beyond the papers' levels: trees that read one another, and cuts that no query asked for.

Wu et al., "Factor Windows: Cost-based Query Rewriting for Optimizing Correlated Window Aggregates", on top of weaving.
The gain is in what trees read, so it shows where reading is what costs: fast streams, and kernels with a small Ω.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bench import report
from lab.weaving.costings import Costing, by_overlap, by_printed
from lab.weaving.factor_windows import weave_with_factor_windows
from lab.weaving.plans import Levels, weave
from lab.weaving.workloads import dashboards, draw, factor_slides
from weft.algebra import Window


@dataclass(frozen=True, slots=True)
class Point:
    """One query set at one rate: the cheapest plan of each kind."""

    queries: str
    costing: str
    rate: float
    two_levels: float
    three_levels: float
    factored: float
    trees: int
    auxiliary: int


def measure(quick: bool) -> list[Point]:
    panels = dashboards(100 if quick else 1_000, seed=1)
    drawn = draw(factor_slides(100), seed=1)
    # No period divides another, so that nothing can be read that was not inserted.
    odd = [Window(period * times, period) for period in (20, 30, 45, 70, 105, 110) for times in (1, 2, 5, 8)]
    costings = {"overlap factor": by_overlap(), "SlickDeque (Inv)": by_printed("slickdeque_inv")}
    return [
        _point(name, windows, costing_name, costing, rate)
        for name, windows in (("dashboards", panels), ("factors of 1,000", drawn), ("odd periods", odd))
        for costing_name, costing in costings.items()
        for rate in (Fraction(1), Fraction(100))
    ]


def _point(name: str, windows: list[Window], costing_name: str, costing: Costing, rate: Fraction) -> Point:
    weaving = weave(windows, costing)
    found = weave_with_factor_windows(weaving, rate)
    return Point(
        f"{len(windows):,}, {name}",
        costing_name,
        float(rate),
        float(weaving.plan(rate, Levels.TWO).cost),
        float(weaving.plan(rate, Levels.THREE).cost),
        float(found.cost),
        len(found.plan.groups),
        len(found.roll_up.auxiliary),
    )


def show(points: list[Point], quick: bool) -> None:
    report.table(
        "Trees that read one another: plan cost, operations per tick",
        ["queries", "Ω", "rows per tick", "two levels", "three levels", "factor windows", "gain", "trees", "inserted"],
        [
            (each.queries, each.costing, each.rate, each.two_levels, each.three_levels, each.factored,
             f"{1 - each.factored / min(each.two_levels, each.three_levels):.1%}", each.trees, each.auxiliary)
            for each in points
        ],
        "gain: over the cheaper of two and three levels",
    )  # fmt: skip
