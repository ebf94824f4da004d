"""Shein and Chrysanthis, Figure 16: counting the edges of a composite slide by F1, and by a bit set as long as it.

Both count the same windows and must agree. The paper reports F1 up to 60,000 times as fast; the ratio has no bound,
since a bit set takes time in proportion to the composite slide, and F1 in proportion to how many different meets the
slides have. So the ratio is given for composite slides that grow to 10¹¹ ticks, a day on a clock of microseconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from time import process_time

import numpy as np

from bench import charts, report
from lab.weaving.inclusion_exclusion import rate_by_inclusion_exclusion
from lab.weaving.workloads import factors_of
from weft.algebra import Window
from weft.windows.counting import exact_edge_rate
from weft.windows.slicing import EdgeSet, shared_edges

PAPER_RATIO = 60_000

#: Composite slides with many factors, each about ten times the one before: 720 … 97,772,875,200.
_COMPOSITE_SLIDES = (*(720, 7_560, 83_160, 720_720, 7_207_200, 73_513_440, 735_134_400, 6_983_776_800, 97_772_875_200),)
_QUICK = 7
_QUERIES = 16
_SHORTEST, _LONGEST = 48, 5_000
_SEGMENT = 1 << 20


@dataclass(frozen=True, slots=True)
class Count:
    """One composite slide, counted in three ways. Seconds are of CPU: each of them keeps one core busy."""

    composite_slide: int
    edges: int
    bit_set_seconds: float
    f1_seconds: float
    chosen_seconds: float
    """By `exact_edge_rate`, which chooses a method by the shape of the input."""

    @property
    def ratio(self) -> float:
        return self.bit_set_seconds / self.f1_seconds


def measure(quick: bool) -> list[Count]:
    return [_count(period) for period in _COMPOSITE_SLIDES[: _QUICK if quick else None]]


def _count(period: int) -> Count:
    report.progress(f"  counting edges in a composite slide of {period:,} ticks")
    edges = shared_edges(_windows(period))
    started = process_time()
    marked = _count_by_bit_set(edges, period)
    bit_set_seconds = process_time() - started
    f1, f1_seconds = _fastest(lambda: rate_by_inclusion_exclusion(edges))
    chosen, chosen_seconds = _fastest(lambda: exact_edge_rate(edges) or Fraction(0))
    if not marked == f1 * period == chosen * period:
        raise AssertionError(f"three ways to count the edges in {period} ticks disagree: {marked}, {f1}, {chosen}")
    return Count(period, marked, bit_set_seconds, f1_seconds, chosen_seconds)


def _count_by_bit_set(edges: EdgeSet, period: int) -> int:
    """The number of edges among `period` instants, by marking each of them, a segment at a time."""
    count = 0
    for start in range(0, period, _SEGMENT):
        marks = np.zeros(min(_SEGMENT, period - start), dtype=np.bool_)
        for modulus, residue in edges:
            marks[(residue - start) % modulus :: modulus] = True
        count += int(np.count_nonzero(marks))
    return count


def _windows(period: int) -> list[Window]:
    """Tumbling windows whose slides are factors of the period, and have no shorter one."""
    generator = random.Random(period)
    factors = [each for each in factors_of(period) if _SHORTEST <= each <= _LONGEST and each < period]
    windows = [Window(slide, slide) for slide in generator.sample(factors, min(_QUERIES, len(factors)))]
    while lcm(*(window.slide for window in windows)) != period:
        windows = [Window(slide, slide) for slide in generator.sample(factors, min(_QUERIES, len(factors)))]
    return windows


def _fastest(work: Callable[[], Fraction], repeats: int = 5) -> tuple[Fraction, float]:
    """The shortest of a few runs, since what is measured takes less than a millisecond."""
    fastest = float("inf")
    for _ in range(repeats):
        started = process_time()
        answer = work()
        fastest = min(fastest, process_time() - started)
    return answer, fastest


def show(counts: list[Count], quick: bool) -> None:
    report.table(
        f"Shein and Chrysanthis, Figure 16: edges of {_QUERIES} windows, bit set against F1",
        ["composite slide", "edges", "bit set, s", "F1, s", "chosen method, s", "bit set / F1", "paper"],
        [
            (f"{each.composite_slide:,}", each.edges, each.bit_set_seconds, each.f1_seconds, each.chosen_seconds,
             each.ratio, f"up to {PAPER_RATIO:,}")
            for each in counts
        ],
        "the ratio grows with the composite slide for ever; the paper does not say at which one it stopped",
    )  # fmt: skip
    figure, (axis,) = charts.canvas(1, width=6.6)
    across = [each.composite_slide for each in counts]
    charts.line(axis, across, [each.bit_set_seconds for each in counts], "bit set", color="#d1495b")
    charts.line(axis, across, [each.f1_seconds for each in counts], "F1", color="#00798c")
    charts.line(
        axis, across, [each.chosen_seconds for each in counts], "chosen by shape", color="#5fa8d3", linestyle=":"
    )
    last = counts[-1]
    axis.annotate(
        f"{last.ratio:,.0f}×\n(paper: up to {PAPER_RATIO:,}×)",
        (last.composite_slide, last.bit_set_seconds**0.3 * last.f1_seconds**0.7),
        ha="right",
        xytext=(-8, 0),
        textcoords="offset points",
    )
    axis.vlines(last.composite_slide, last.f1_seconds, last.bit_set_seconds, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    charts.label(axis, "Counting the edges of 16 windows", "composite slide, ticks", "seconds")
    charts.legend(axis, loc="upper left")
    report.save_chart(figure, "weave_counting", quick)
