"""How far from the best plan there is: 200 random sets of eight queries, against every partition of them.

Slides are factors of 120 and a few that are not, so that some sets weave well and others do not; rates are spread over
the range where neither one tree for all nor a tree for each is the obvious answer.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

from bench import charts, report
from lab.figures.weaving.woven import mean
from lab.weaving.baselines import exhaustive, no_share, shared
from lab.weaving.plans import weave
from lab.weaving.workloads import factors_of
from weft.algebra import Window

SETS, QUICK_SETS, QUERIES = 200, 25, 8

_SLIDES = [*factors_of(120)[1:], 7, 9, 14, 25, 50, 90]
_RATES = [Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(8)]
_MOST_OVERLAP = 10


@dataclass(frozen=True, slots=True)
class Gap:
    """Costs of plans for one set, as multiples of the cheapest."""

    woven: float
    better_of_all_or_none: float
    optimal_trees: int


def measure(quick: bool) -> list[Gap]:
    return [_gap(seed) for seed in range(QUICK_SETS if quick else SETS)]


def _gap(seed: int) -> Gap:
    generator = random.Random(seed)
    slides = [generator.choice(_SLIDES) for _ in range(QUERIES)]
    windows = [Window(generator.randint(slide, _MOST_OVERLAP * slide), slide) for slide in slides]
    if generator.random() < 0.5:
        windows = [Window(slide * generator.randint(1, _MOST_OVERLAP), slide) for slide in slides]
    rate = generator.choice(_RATES)
    best = exhaustive(windows, rate)
    simple = min(no_share(windows, rate).cost, shared(windows, rate).cost)
    return Gap(float(weave(windows).plan(rate).cost / best.cost), float(simple / best.cost), len(best.groups))


def mean_gap(gaps: list[Gap]) -> float:
    return mean([gap.woven for gap in gaps]) - 1


def worst_gap(gaps: list[Gap]) -> float:
    return max(gap.woven for gap in gaps) - 1


def show(gaps: list[Gap], quick: bool) -> None:
    optimal = sum(gap.woven == 1 for gap in gaps)
    simple = [gap.better_of_all_or_none for gap in gaps]
    report.table(
        f"Cost above the optimum, {len(gaps)} random sets of {QUERIES} queries",
        ["plan", "optimal in", "mean", "worst", "asked"],
        [
            ("woven", f"{optimal} of {len(gaps)}", f"{mean_gap(gaps):.2%}", f"{worst_gap(gaps):.2%}", "< 1 %, < 6 %"),
            ("the better of Shared and No Share", f"{sum(each == 1 for each in simple)} of {len(gaps)}",
             f"{mean(simple) - 1:.2%}", f"{max(simple) - 1:.2%}", "–"),
        ],
        "Guirguis reports Weave Share optimal but for one case, 3 % above (Shared there: 32 % above)",
    )  # fmt: skip
    figure, (axis,) = charts.canvas(1, width=6.6)
    axis.plot(
        sorted((each - 1) * 100 for each in simple), color=charts.COLOURS["Shared"], label="better of Shared, No Share"
    )
    woven = sorted((gap.woven - 1) * 100 for gap in gaps)
    axis.plot(woven, color=charts.COLOURS["Weave Share"], linewidth=2.2, label="woven")
    axis.axhline(6, color="black", linewidth=0.8, linestyle=":", label="worst allowed")
    charts.label(axis, "Distance from the best plan there is", f"{len(gaps)} sets, sorted", "cost above the optimum, %")
    charts.legend(axis, loc="upper left")
    report.save_chart(figure, "weave_optimum", quick)
