"""The style of all charts: weft in one colour, limits grey, and the values that a paper states as open diamonds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # before pyplot: benchmarks run where there is no screen

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WEFT, OTHER, LIMIT = "#00798c", "#e8963e", "#9a9a9a"
#: For series that stand for nothing else.
PALETTE = (WEFT, "#d1495b", OTHER, "#8f6bb3", "#5fa8d3", "#1b4332", "#c9b458")

#: One colour for each thing that appears in several pictures.
COLOURS = {
    "No Share": "#9a9a9a",
    "Shared": "#d1495b",
    "Random": "#c9b458",
    "Local Search": "#8f6bb3",
    "Insert-then-Weave": "#e8963e",
    "Weave Share": "#00798c",
    "TriWeave": "#6a0572",
    "bound": "#222222",
    "panes": "#d1495b",
    "flatfat": "#e8963e",
    "flatfit": "#8f6bb3",
    "slickdeque_inv": "#5fa8d3",
    "slickdeque_noninv": "#00798c",
    "prefix": "#1b4332",
}

PAPER: dict[str, Any] = {
    "marker": "D",
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "linestyle": "none",
    "zorder": 5,
}


def canvas(columns: int, rows: int = 1, width: float = 5.4, height: float = 4.2) -> tuple[Figure, list[Axes]]:
    """A figure of equal panels, and the panels from left to right, top to bottom."""
    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    panels = [axis for row in axes for axis in row]
    for axis in panels:
        axis.grid(visible=True, color="#e4e4e4", linewidth=0.7)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, panels


def label(axis: Axes, title: str, across: str, up: str) -> None:
    axis.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axis.set_xlabel(across)
    axis.set_ylabel(up)


def line(axis: Axes, across: Iterable[float], up: Iterable[float], name: str, **style: Any) -> None:
    """One series of ours, in the colour of its name."""
    colour = COLOURS.get(name.partition(" (")[0])
    axis.plot(
        list(across),
        list(up),
        **{"label": name, "marker": "o", "markersize": 4, "linewidth": 1.8, "color": colour, **style},
    )


def paper(axis: Axes, across: Iterable[float], up: Iterable[float], name: str = "paper") -> None:
    """What a paper states, as open diamonds."""
    axis.plot(list(across), list(up), label=name, markersize=7, **PAPER)


def legend(axis: Axes, **style: Any) -> None:
    axis.legend(**{"frameon": False, "fontsize": 8.5, **style})
