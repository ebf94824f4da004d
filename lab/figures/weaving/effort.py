"""Guirguis, Figures 19 and 45: what the optimizer itself costs.

Figure 19 counts comparisons of Weave Share as first written down, and with three improvements, one after the other:

    none         every round weighs every pair; weighing tests each edge of one tree against each query of the other
    I            Cost Lookup: a round weighs the new tree against the others, and remembers all other pairs
    I, II        Edges Bitmap: an edge is tested once, against the bits of the other tree
    I, II, III   Probing Reorder: the tree with fewer edges is the one that is walked along

All four make the same merges, so the comparisons of each are counted along one and the same weaving.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench import charts, report
from lab.figures.weaving.woven import Woven, mean, woven
from lab.weaving.workloads import any_slides

VARIANTS = ("none", "I", "I, II", "I, II, III")

#: Figure 45: the optimizer of AQSIOS takes up to 16 s for 500 queries.
PAPER_SECONDS = (500, 16.0)

_RATE = 100
# Comparisons are counted for as many ticks; their ratios do not depend on it.
_TICKS = 1 << 20


@dataclass(frozen=True, slots=True)
class Effort:
    comparisons: dict[str, float]
    """Figure 19, by variant."""
    seconds: dict[int, float]
    """Figure 45, by the number of queries."""


def measure(quick: bool) -> Effort:
    seeds = 1 if quick else 3
    sets = [woven(any_slides(250, 0, most_overlap=10, skew=0.7), seed) for seed in range(seeds)]
    counted = [count_comparisons(each, _RATE) for each in sets]
    sizes = (50, 100, 250) if quick else (50, 100, 250, 500, 1_000)
    return Effort(
        {name: mean([each[name] for each in counted]) for name in VARIANTS},
        {size: mean([woven(any_slides(size, 0), seed).seconds for seed in range(seeds)]) for size in sizes},
    )


def count_comparisons(each: Woven, rate: float) -> dict[str, float]:
    """The comparisons of all four variants up to the merge after which none has a benefit any more."""
    weaving = each.weaving
    edges = np.array([float(tree.edge_rate) * _TICKS for tree in weaving.trees])
    queries = np.array([sum(leaf.members.values()) for leaf in weaving.leaves] + [0] * len(weaving.merges))
    for number, pair in enumerate(weaving.merges, len(weaving.leaves)):
        queries[number] = queries[list(pair)].sum()
    alive = list(range(len(weaving.leaves)))
    new: int | None = None
    totals = dict.fromkeys(VARIANTS, 0.0)
    # The last round finds nothing: it weighs, and merges no more.
    for round_number in range(len(weaving.leaves) - each.woven(rate).trees + 1):
        here = np.array(alive)
        totals["none"] += _all_pairs(edges[here], queries[here])
        fresh = here if new is None else here[here != new]
        for name in VARIANTS[1:]:
            totals[name] += _weighing(name, edges, queries, fresh, new)
        if round_number < len(weaving.merges):
            left, right = weaving.merges[round_number]
            alive = [tree for tree in alive if tree not in (left, right)]
            new = len(weaving.leaves) + round_number
            alive.append(new)
    return totals


def _all_pairs(edges: NDArray[np.float64], queries: NDArray[np.int64]) -> float:
    """Σ over pairs (x before y): each edge of y against each query of x."""
    return float(np.sum(edges[1:] * np.cumsum(queries)[:-1]))


def _weighing(
    variant: str, edges: NDArray[np.float64], queries: NDArray[np.int64], trees: NDArray[np.int64], new: int | None
) -> float:
    """A round's comparisons: of all pairs at first, of the new tree with each of the others later."""
    if new is None:
        if variant == "I":
            return _all_pairs(edges[trees], queries[trees])
        ascending = np.sort(edges[trees])
        if variant == "I, II":
            return float(np.sum(edges[trees] * np.arange(len(trees))))
        # In ascending order, every tree is the smaller one of its pairs with all that follow.
        return float(np.sum(ascending * np.arange(len(trees))[::-1]))
    if variant == "I":
        return float(edges[new] * queries[trees].sum())
    if variant == "I, II":
        return float(edges[new] * len(trees))
    return float(np.minimum(edges[trees], edges[new]).sum())


def show(found: Effort, quick: bool) -> None:
    first = found.comparisons["none"]
    steps = list(found.comparisons.values())
    report.table(
        "Guirguis, Figure 19: comparisons of Weave Share, 250 queries, 100 rows/s, θ = 0.7, overlap ≤ 10",
        ["improvements", "comparisons", "of the first", "less than before", "paper"],
        [
            (name, count, f"{count / first:.4%}", f"{before / count:.1f}×" if at else "–",
             "about 10× each, 99 % in all" if at == 3 else "")
            for at, (name, count, before) in enumerate(zip(found.comparisons, steps, [first, *steps], strict=False))
        ],
    )  # fmt: skip
    report.table(
        "Guirguis, Figure 45: seconds to weave, θ = 0.6, overlap ≤ 50",
        ["queries", "ours, s", "paper, s"],
        [(size, seconds, dict([PAPER_SECONDS]).get(size)) for size, seconds in found.seconds.items()],
        "paper: on the machines of 2011; the whole dendrogram here, for all rates, one plan for one rate there",
    )  # fmt: skip
    figure, axes = charts.canvas(2, width=5.6)
    bars = axes[0].bar(VARIANTS, steps, color=["#9a9a9a", "#e8963e", "#5fa8d3", "#00798c"], width=0.62)
    axes[0].bar_label(bars, [f"{count / first:.3%}" if at else "100%" for at, count in enumerate(steps)], padding=3)
    axes[0].axhline(first / 100, color="black", linewidth=0.9, linestyle=":", label="paper: 99 % less in all")
    axes[0].set_yscale("log")
    axes[0].set_ylim(top=4 * first)
    charts.label(axes[0], "Figure 19: three improvements", "", "comparisons")
    charts.legend(axes[0])
    charts.line(axes[1], found.seconds, found.seconds.values(), "Weave Share", label="ours, plans for all rates")
    charts.paper(axes[1], [PAPER_SECONDS[0]], [PAPER_SECONDS[1]])
    axes[1].set_yscale("log")
    charts.label(axes[1], "Figure 45: time to weave", "queries", "seconds")
    charts.legend(axes[1])
    report.save_chart(figure, "weave_effort", quick)
