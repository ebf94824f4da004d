"""The pictures. weft is always in the same colour, limits are grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from bench.charts import LIMIT, OTHER, PALETTE, WEFT, canvas

if TYPE_CHECKING:
    from bench.aggregate_measurements.arena import WeftRun
    from bench.aggregate_measurements.model import Estimate
    from bench.contest import Spent


def flatness(runs: Sequence[WeftRun]) -> Figure:
    """CPU and memory by the number of queries."""
    figure, (cpu, memory) = canvas(2, width=5.6)
    sizes = [run.queries for run in runs]
    cpu.plot(sizes, [run.settled.cpu for run in runs], "o-", color=WEFT, label="all processes")
    cpu.plot(sizes, [run.settled.python for run in runs], "o--", color=OTHER, label="Python's part")
    cpu.plot(sizes, [runs[0].settled.cpu * size for size in sizes], ":", color=LIMIT, label="if nothing were shared")
    cpu.set(title="CPU seconds of the settled cycles", xlabel="queries", xscale="log", yscale="log")
    cpu.legend(frameon=False)
    memory.plot(sizes, [run.python_bytes / 1e6 for run in runs], "o-", color=WEFT, label="Python, MB")
    memory.plot(sizes, [run.partials / 1e3 for run in runs], "o--", color=OTHER, label="live partials, thousands")
    memory.set(title="What is held at most", xlabel="queries", xscale="log", yscale="log")
    memory.legend(frameon=False)
    return figure


def against(spent: Mapping[int, Mapping[str, Spent]], flights: Mapping[str, Spent]) -> Figure:
    """CPU per row of all contestants."""
    groups = {f"{size} queries": each for size, each in spent.items()}
    groups |= {"flights": flights} if flights else {}
    figure, panels = canvas(len(groups), width=5.2)
    for panel, (title, each) in zip(panels, groups.items(), strict=True):
        names = list(each)
        values = [each[name].cpu_per_row * 1e6 for name in names]
        bars = panel.barh(names, values, color=[WEFT if name == "weft" else OTHER for name in names])
        panel.bar_label(bars, [f"{value:.3g}{'' if each[name].scaled == 1 else ' (extrapolated)'}"
                               for name, value in zip(names, values, strict=True)], padding=3, fontsize=8)  # fmt: skip
        panel.set(title=title, xlabel="CPU µs per row (log scale)", xscale="log")
        panel.set_xlim(right=max(values) * 20)
        panel.invert_yaxis()
    return figure


def limits(shares: Mapping[int, Mapping[str, float]], parts: Mapping[int, Mapping[str, float]]) -> Figure:
    """weft's shares of limits by the rows of a cycle, and where the time of some cycles goes."""
    figure, (curve, bars) = canvas(2, width=6.4)
    sizes = sorted(shares)
    for place, name in enumerate(shares[sizes[0]]):
        curve.plot(sizes, [shares[rows][name] for rows in sizes], "o-", color=PALETTE[place], label=name)
    curve.set(
        title="weft's rows per CPU second over those of …", xlabel="rows in a cycle", xscale="log", ylim=(0, None)
    )
    curve.legend(frameon=False, fontsize=8)
    names = [f"{rows:,} rows" for rows in parts]
    left = [0.0] * len(parts)
    for place, part in enumerate(next(iter(parts.values()))):
        # What runs of their own cannot account for may also be less than nothing.
        shown = [max(each[part], 0.0) / sum(each.values()) for each in parts.values()]
        bars.barh(names, shown, left=left, color=PALETTE[place % len(PALETTE)], label=part)
        left = [before + more for before, more in zip(left, shown, strict=True)]
    bars.set(title="Where a cycle's CPU time goes", xlabel="share of it")
    bars.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    return figure


def latency(milliseconds: Sequence[float], changes: Mapping[int, str]) -> Figure:
    """Cycle after cycle."""
    figure, (panel,) = canvas(1, width=8.0)
    panel.plot(range(1, len(milliseconds) + 1), milliseconds, "o-", markersize=3, color=WEFT)
    for cycle, what in changes.items():
        panel.axvline(cycle, color=LIMIT, linestyle="--", linewidth=1)
        panel.text(cycle, max(milliseconds), f" {what}", va="top", fontsize=8)
    panel.set(
        title="From the end of a cycle to the end of the next", xlabel="cycle", ylabel="ms (log scale)", yscale="log"
    )
    return figure


def keys(hosts: Mapping[str, Mapping[int, WeftRun]]) -> Figure:
    """By the number of group keys, for each place where kernels may live."""
    figure, (left, right) = canvas(2, width=5.6)
    for (host, runs), colour in zip(hosts.items(), (WEFT, OTHER), strict=False):
        numbers = list(runs)
        cycles = [
            (run.spent.cpu / len(run.warm_cycles), run.spent.wall / len(run.warm_cycles)) for run in runs.values()
        ]
        left.plot(numbers, [cpu for cpu, _ in cycles], "o-", color=colour, label=f"{host}, CPU")
        left.plot(numbers, [wall for _, wall in cycles], "o--", color=colour, label=f"{host}, wall")
        right.plot(numbers, [run.python_bytes / 1e6 for run in runs.values()], "o-", color=colour, label=host)
    left.set(title="50 queries: seconds per cycle", xlabel="group keys", xscale="log", yscale="log")
    right.set(title="Python in the driver, MB", xlabel="group keys", xscale="log", yscale="log")
    for panel in (left, right):
        panel.legend(frameon=False, fontsize=8)
    return figure


def estimates(found: Sequence[Estimate]) -> Figure:
    """Predicted against measured."""
    figure, (panel,) = canvas(1)
    for place, kernel in enumerate(dict.fromkeys(each.kernel for each in found)):
        mine = [each for each in found if each.kernel == kernel]
        colour = PALETTE[place % len(PALETTE)]
        panel.plot([e.measured for e in mine], [e.predicted for e in mine], "o", color=colour, label=kernel)
    ends = [min(e.measured for e in found), max(e.measured for e in found)]
    panel.plot(ends, ends, "-", color=LIMIT, linewidth=1)
    panel.set(title="Final aggregation, ns per tick", xlabel="measured", ylabel="predicted", xscale="log", yscale="log")
    panel.legend(frameon=False, fontsize=8)
    return figure
