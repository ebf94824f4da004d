"""The pictures. A kernel has the same colour and mark in all of them; SlickDeque is drawn boldest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.kernel_measurements.latency import Latencies
from bench.kernel_measurements.limits import Limits, Share
from bench.kernel_measurements.multi_query import MultiQuery
from bench.kernel_measurements.single_query import SingleQuery
from bench.kernel_measurements.subjects import MAX, title

# Colours that people with any kind of colour vision can tell apart (Okabe and Ito), and marks for print.
_STYLES = {
    "slickdeque_inv": ("#D55E00", "o"),
    "slickdeque_noninv": ("#D55E00", "o"),
    "two_stacks": ("#0072B2", "s"),
    "daba": ("#56B4E9", "D"),
    "flatfit": ("#009E73", "^"),
    "flatfat": ("#CC79A7", "v"),
    "b_int": ("#8C564B", "P"),
    "prefix": ("#E69F00", "X"),
    "panes_inv": ("#000000", "*"),
    "panes": ("#999999", "."),
}
_GRID: dict[str, Any] = {"color": "#DDDDDD", "linewidth": 0.6}
_LIMIT_COLOUR = "#BBBBBB"


def single_query(single: SingleQuery) -> Figure:
    """Figure 11, for three functions, and figure 13."""
    figure = Figure(figsize=(15, 10), layout="constrained")
    axes = figure.subplots(2, 2).flatten()
    for panel, (function, by_window) in zip(axes, single.nanoseconds.items(), strict=False):
        rates = {window: {k: 1e3 / cost for k, cost in costs.items()} for window, costs in by_window.items()}
        _lines(panel, rates)
        # Panes falls with the window, and would press all others together at the top.
        slowest = min(rate for of_window in rates.values() for k, rate in of_window.items() if k != "panes")
        panel.set_ylim(bottom=slowest / 6)
        panel.set(title=f"One query, {function}", xlabel="partials in the window", ylabel="million slides per second")
        panel.legend(fontsize=8, loc="lower left", ncols=3)
    _lines(axes[3], {w: {k: size / w for k, size in held.items()} for w, held in single.bytes_held.items()}, base=2)
    axes[3].set_ylim(top=1.5 * axes[3].get_ylim()[1])
    axes[3].set(title=f"Memory, {MAX.name}", xlabel="partials in the window", ylabel="bytes held per partial")
    axes[3].legend(fontsize=8, loc="upper right", ncols=2)
    figure.suptitle("Window kernels, one query, one key: an answer after every slide", fontsize=14)
    return figure


def multi_query(multi: MultiQuery) -> Figure:
    """Figure 12, for MAX and for a sum."""
    figure = Figure(figsize=(15, 6), layout="constrained")
    for panel, (function, by_ranges) in zip(figure.subplots(1, 2), multi.nanoseconds.items(), strict=True):
        _lines(panel, {n: {k: 1e3 * n / cost for k, cost in costs.items()} for n, costs in by_ranges.items()})
        panel.set(title=f"All ranges 1 … n, {function}", xlabel="n", ylabel="million answers per second")
        panel.legend(fontsize=9, loc="lower left")
    figure.suptitle("Window kernels, n queries on one state: n answers after every slide", fontsize=14)
    return figure


def _lines(panel: Axes, values: Mapping[int, Mapping[str, float]], base: int = 10) -> None:
    for kernel in next(iter(values.values())):
        colour, mark = _STYLES[kernel]
        bold = kernel.startswith("slickdeque")
        panel.plot(
            list(values),
            [of_window[kernel] for of_window in values.values()],
            color=colour,
            marker=mark,
            markersize=7 if bold else 5,
            linewidth=2.8 if bold else 1.3,
            zorder=3 if bold else 2,
            label=title(kernel),
        )
    panel.set_xscale("log", base=2)
    panel.set_yscale("log", base=base)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.grid(**_GRID)
    panel.spines[["top", "right"]].set_visible(False)


def limits(measured: Limits) -> Figure:
    """Time of each kernel beside that of the loop that is its limit."""
    groups = [("1,000 keys × 1,000 partials", measured.keyed), ("one key, 1,000 partials", measured.single or [])]
    groups = [group for group in groups if group[1]]
    figure = Figure(figsize=(15, 5.5), layout="constrained")
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for panel, (heading, shares) in zip(panels, groups, strict=True):
        _pairs_of_bars(panel, shares)
        panel.set(title=heading, xlabel="nanoseconds per key and slide")
    figure.suptitle("Window kernels beside loops that do the arithmetic and nothing else", fontsize=14)
    return figure


def _pairs_of_bars(panel: Axes, shares: list[Share]) -> None:
    for row, share in enumerate(shares):
        colour, _ = _STYLES[share.kernel]
        panel.barh(row - 0.2, share.kernel_nanoseconds, height=0.38, color=colour if share.counts else "none",
                   edgecolor=colour)  # fmt: skip
        panel.barh(row + 0.2, share.limit_nanoseconds, height=0.38, color=_LIMIT_COLOUR)
        panel.text(share.kernel_nanoseconds, row - 0.2, f"  {title(share.kernel)}, {share.kernel_nanoseconds:.2f} ns",
                   va="center", fontsize=9)  # fmt: skip
        panel.text(share.limit_nanoseconds, row + 0.2, f"  {share.limit}, {share.limit_nanoseconds:.2f} ns",
                   va="center", fontsize=9)  # fmt: skip
    panel.set_yticks(
        range(len(shares)),
        [share.function if share.counts else f"{share.function}\n(this loop drifts)" for share in shares],
    )
    panel.invert_yaxis()
    longest = max(max(share.kernel_nanoseconds, share.limit_nanoseconds) for share in shares)
    panel.set_xlim(0, 1.6 * longest)
    panel.grid(axis="x", **_GRID)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def latency(measured: Latencies) -> Figure:
    """Figure 14: the box is the middle half of all pushes, the line goes from the least to the worst."""
    ordered = sorted(measured.kernels.values(), key=lambda one: one.worst, reverse=True)
    figure = Figure(figsize=(12, 5.5), layout="constrained")
    panel = figure.subplots()
    boxes = [
        {
            "label": one.label,
            "whislo": one.least,
            "q1": one.lower_quartile,
            "med": one.typical,
            "q3": one.upper_quartile,
            "whishi": one.worst,
        }
        for one in ordered
    ]
    panel.bxp(boxes, showfliers=False, orientation="horizontal", patch_artist=True,
              boxprops={"facecolor": "#56B4E9"}, medianprops={"color": "black"})  # fmt: skip
    for row, one in enumerate(ordered, start=1):
        panel.text(one.worst, row, f"  worst {one.worst:,.0f} ns = {one.worst_over_typical:,.0f} × typical",
                   va="center", fontsize=9)  # fmt: skip
    panel.set_xscale("log")
    panel.set_xlim(right=40 * ordered[0].worst)
    panel.set(title="Every single push with its answer, window 2¹⁴, one key", xlabel="nanoseconds (log scale)")
    panel.grid(axis="x", **_GRID)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    return figure
