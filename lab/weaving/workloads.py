"""Workloads: query sets to plan, drawn as the papers draw theirs, and dashboards as people build them.

A workload is a handful of numbers and a seed; the same two give the same queries on every machine.

    Guirguis             "Scalable Processing of Multiple Aggregate Continuous Queries": any slide up to the largest
    Shein, Chrysanthis   "Multi-Query Optimization of Incrementally Evaluated Sliding-Window Aggregations": slides that
                         are factors of the largest, so that they meet often

Both draw an overlap factor (how many slides make up a range) evenly, and the slide from a Zipf distribution. The first
text leaves two things open that decide what its figures look like, so both are switches here. Read literally, large
slides are the frequent ones; a tree of 250 queries would then have one edge in a hundred ticks, sharing all would win
at every rate, and no figure could be as it is described. With frequent *small* slides they come out. And an overlap
factor may be whole, which makes one edge per slide, or real, which makes two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import isqrt
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.optimizer.weave.costing import Acq

Ticks: TypeAlias = NDArray[np.int64]


class Slides(Enum):
    """Which slides can be drawn."""

    EVERY = "every number of ticks up to the largest"
    FACTORS = "the factors of the largest"


class Toward(Enum):
    """Which end of the slides a positive skew favours. A negative skew favours the other one as much."""

    SMALL = "small slides"
    LARGE = "large slides"


@dataclass(frozen=True, slots=True)
class Workload:
    """How to draw queries. In the papers' letters: Q_num, S_max, O_max, λ and Z_skew, then the switches."""

    queries: int
    largest_slide: int
    most_overlap: int
    rate: Fraction
    """Rows per tick of the stream that the queries read; it does not influence what is drawn."""
    skew: float
    """The exponent θ of Zipf's law: the slide of rank k is drawn in proportion to k^−θ. 0 draws evenly."""
    slides: Slides
    toward: Toward
    whole_overlap: bool = True
    """Whether a range is a whole number of slides, or any number of ticks."""

    def __post_init__(self) -> None:
        if self.queries < 0 or min(self.largest_slide, self.most_overlap) < 1:
            raise ValueError("a workload needs no fewer than 0 queries, and slides and overlap factors from 1 on")
        if self.rate < 0:
            raise ValueError(f"a stream has no fewer than 0 rows per tick, not {self.rate}")


class WindowTable(NamedTuple):
    """Ranges and slides of many windows, one entry per query: a million windows without a million objects."""

    ranges: Ticks
    slides: Ticks


def any_slides(
    queries: int, rate: Fraction | int, *, most_overlap: int = 50, skew: float = 0.6, largest_slide: int = 100_000
) -> Workload:
    """The workload of Guirguis' figures, with the settings that most of them have."""
    return Workload(queries, largest_slide, most_overlap, Fraction(rate), skew, Slides.EVERY, Toward.SMALL)


def factor_slides(
    queries: int = 100,
    rate: Fraction | int = 1,
    *,
    most_overlap: int = 10_000,
    skew: float = 0,
    largest_slide: int = 1_000,
) -> Workload:
    """The workload of Shein and Chrysanthis' experiments, with the settings that they keep while one varies."""
    return Workload(queries, largest_slide, most_overlap, Fraction(rate), skew, Slides.FACTORS, Toward.LARGE)


def draw(workload: Workload, seed: int) -> list[Window]:
    """The windows of a workload, in the order in which their queries arrive.

    >>> windows = draw(factor_slides(50, largest_slide=10, most_overlap=4), seed=1)
    >>> sorted({window.slide for window in windows})
    [1, 2, 5, 10]
    """
    table = draw_table(workload, seed)
    return [Window(reach, slide) for reach, slide in zip(table.ranges.tolist(), table.slides.tolist(), strict=True)]


def draw_table(workload: Workload, seed: int) -> WindowTable:
    """The same windows as `draw` gives, as two arrays."""
    generator = np.random.default_rng(seed)
    candidates = possible_slides(workload)
    slides = candidates[_zipf(generator, len(candidates), abs(workload.skew), workload.queries)]
    if workload.whole_overlap:
        factors = generator.integers(1, workload.most_overlap, endpoint=True, size=workload.queries)
        return WindowTable(factors * slides, slides)
    # Down to the tick: a factor of 1 gives a tumbling window, never one with gaps.
    stretch = generator.uniform(1, workload.most_overlap, size=workload.queries)
    return WindowTable(np.floor(stretch * slides).astype(np.int64), slides)


def possible_slides(workload: Workload) -> Ticks:
    """The slides that a workload draws from, the most frequent one first.

    >>> possible_slides(factor_slides(largest_slide=12)).tolist()
    [12, 6, 4, 3, 2, 1]
    """
    every = workload.slides is Slides.EVERY
    ascending = (
        np.arange(1, workload.largest_slide + 1, dtype=np.int64)
        if every
        else np.array(factors_of(workload.largest_slide), dtype=np.int64)
    )
    small_first = (workload.toward is Toward.SMALL) == (workload.skew >= 0)
    return ascending if small_first else ascending[::-1]


def factors_of(number: int) -> list[int]:
    """All factors of a number, ascending.

    >>> factors_of(100)
    [1, 2, 4, 5, 10, 20, 25, 50, 100]
    """
    small = [candidate for candidate in range(1, isqrt(number) + 1) if number % candidate == 0]
    return sorted({*small, *(number // each for each in small)})


def _zipf(generator: np.random.Generator, ranks: int, skew: float, size: int) -> NDArray[np.intp]:
    """Ranks 0, 1, …, each drawn in proportion to (rank + 1)^−skew."""
    cumulated = np.cumsum(np.arange(1, ranks + 1, dtype=np.float64) ** -skew)
    # `random` stays below 1, so a rank past the end would take a rounding error in the last sum: it is cut off.
    drawn: NDArray[np.intp] = np.searchsorted(cumulated, generator.random(size) * cumulated[-1], side="right")
    np.minimum(drawn, ranks - 1, out=drawn)
    return drawn


# Dashboards ------------------------------------------------------------------------------------------------------

_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3_600, 86_400

#: How often panels are refreshed, in seconds, and how many of a hundred panels are refreshed so often.
_REFRESH = {
    _SECOND: 4,
    5 * _SECOND: 10,
    10 * _SECOND: 14,
    15 * _SECOND: 6,
    30 * _SECOND: 14,
    _MINUTE: 22,
    5 * _MINUTE: 12,
    10 * _MINUTE: 3,
    15 * _MINUTE: 4,
    30 * _MINUTE: 3,
    _HOUR: 5,
    6 * _HOUR: 1,
    12 * _HOUR: 1,
    _DAY: 1,
}

#: How far panels look back, in seconds: the entries of the menus of common dashboards.
_LOOK_BACK = (
    *(5 * _SECOND, 15 * _SECOND, 30 * _SECOND, _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 30 * _DAY),
)

# A panel that is drawn every second does not show a month: nobody would see it move.
_MOST_REFRESHES_IN_SIGHT = 10_000


def dashboards(panels: int, seed: int, *, second: int = 1) -> list[Window]:
    """Windows as panels of dashboards have them: refreshed and looking back by round periods, from 1 s to 30 days.

    `second` is the number of ticks in a second: 1,000,000 on the clock of a TIMESTAMP.

    >>> all(1 <= window.slide <= 86_400 for window in dashboards(100, seed=0))
    True
    """
    generator = np.random.default_rng(seed)
    periods = np.array(list(_REFRESH), dtype=np.int64)
    shares = np.array(list(_REFRESH.values()), dtype=np.float64)
    slides = periods[generator.choice(len(periods), size=panels, p=shares / shares.sum())].tolist()
    choices = {slide: _look_backs(slide) for slide in set(slides)}
    picks = generator.random(panels).tolist()
    return [
        Window(choices[slide][int(pick * len(choices[slide]))] * second, slide * second)
        for slide, pick in zip(slides, picks, strict=True)
    ]


def _look_backs(slide: int) -> list[int]:
    return [reach for reach in _LOOK_BACK if slide <= reach <= slide * _MOST_REFRESHES_IN_SIGHT]


def collapse_table(ranges: NDArray[np.int64], slides: NDArray[np.int64]) -> dict[Acq, int]:
    """Each different query of a table of windows with its multiplicity: a million rows take no million objects."""
    order = np.lexsort((ranges, slides))
    ranges, slides = ranges[order], slides[order]
    first = np.flatnonzero(np.append(True, (np.diff(ranges) != 0) | (np.diff(slides) != 0)))
    counts = np.diff(np.append(first, len(ranges)))
    rows = zip(ranges[first].tolist(), slides[first].tolist(), counts.tolist(), strict=True)
    return {Acq(Window(reach, slide)): count for reach, slide, count in rows}
