"""What the engine's runs look like."""

from __future__ import annotations

from itertools import accumulate

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from bench import report
from bench.adaptation_engine.joins import COLD, Joins


def show(joins: Joins) -> None:
    scale, runs = joins.scale, (joins.adaptive, *joins.fixed, *joins.clairvoyant)
    report.table(
        f"a ⋈ b ⋈ c, {scale.rows:,} rows of each in a cycle, {scale.cycles} cycles, selectivities change half-way",
        ["order", "CPU s", "over adaptive", "changed before cycle"],
        [
            [
                each.name,
                each.total,
                each.total / joins.adaptive.total,
                ", ".join(str(cycle) for cycle, _, _ in each.decided) or "-",
            ]
            for each in runs
        ],
    )


def draw(joins: Joins) -> dict[str, Figure]:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    best = joins.best_clairvoyant
    for run, style in ((joins.adaptive, "-"), (joins.fixed[0], "--"), (joins.fixed[1], "--"), (best, ":")):
        name = "knows the future" if run is best else run.name
        axes.plot(range(COLD, len(run.cpu)), list(accumulate(run.cpu[COLD:])), style, label=name)
    axes.axvline(joins.scale.cycles // 2, color="grey", linewidth=0.8)
    for cycle, _, _ in joins.adaptive.decided:
        axes.axvline(cycle, color="C0", linewidth=0.8, linestyle=":")
    axes.set(xlabel="cycle", ylabel="CPU seconds so far", title="A three-way join whose selectivities change places")
    axes.legend()
    return {"adaptation_engine": figure}
