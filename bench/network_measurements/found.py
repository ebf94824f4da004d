"""What a measurement gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench import report
from bench.charts import OTHER, WEFT


@dataclass(frozen=True)
class Printed:
    """A table for people."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    def show(self) -> None:
        report.table(self.title, self.columns, self.rows, self.note)


@dataclass(frozen=True)
class Found:
    """Ratios by the keys of the JSON line, and `reasons` for those that could not be had."""

    ratios: Mapping[str, float | None]
    tables: Sequence[Printed] = ()
    charts: Mapping[str, Figure] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


def costs(
    panel: Axes, title: str, seconds: Mapping[str, float], extrapolated: Collection[str] = (), *, ours: int = 1
) -> None:
    """CPU seconds one below the other, the first of them weft's. Dots: a bar's length means nothing on a log scale."""
    for place, (name, value) in enumerate(seconds.items()):
        panel.plot([value], [place], "o", markersize=9, color=WEFT if place < ours else OTHER)
        label = f"{value:.3g}{' (extrapolated)' if name in extrapolated else ''}"
        panel.annotate(label, (value, place), xytext=(8, 0), textcoords="offset points", va="center", fontsize=8)
    panel.set_yticks(range(len(seconds)), list(seconds))
    panel.set(title=title, xlabel="CPU seconds per cycle (log scale)", xscale="log")
    panel.set_xlim(min(seconds.values()) / 3, max(seconds.values()) * 30)
    panel.set_ylim(len(seconds) - 0.5, -0.5)
