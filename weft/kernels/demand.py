"""Demand: what the queries of a tree ask of its kernel, in a form that a million queries do not make long.

Whatever Ω (see `kernel_cost`) needs to know of a tree's queries are sums over them, some over those whose
range is at least so long. The queries are therefore kept as a table by distinct range, with suffix sums, and all sums
are exact integers: equal costs compare equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, lcm
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window

#: Integers too large for a machine word are kept as Python's own, in arrays of objects.
Integers: TypeAlias = NDArray[Any]

# Answers are counted per common period of all slides, which is exact, unless that is longer than this (hundreds of
# unrelated slides in one tree): then they are rounded to as fine a fraction of a tick.
_LONGEST_PERIOD = 1 << 4096


@dataclass(frozen=True, eq=False)
class Demand:
    """What the queries of a tree ask of its kernel, by distinct range: all that any Ω needs to know of them.

    A million queries have some thousand distinct ranges, and merging two trees merges two short tables.
    """

    ranges: NDArray[np.int64]
    """The distinct ranges, ascending."""

    queries: NDArray[np.int64]
    """How many queries have each range."""

    answers: Integers
    """How many answers they give together in one period."""

    period: int
    """Ticks in which every query gives a whole number of answers."""

    overlap: int
    """Σ ⌈range/slide⌉ over the queries: Guirguis' overlap factor, the Ω of Weave Share without incremental kernels."""

    @property
    def longest(self) -> int:
        return int(self.ranges[-1])

    @property
    def shortest(self) -> int:
        return int(self.ranges[0])

    @property
    def number_of_queries(self) -> int:
        return self.by_queries.weight_from(0)

    @property
    def number_of_ranges(self) -> int:
        return len(self.ranges)

    @property
    def answers_per_tick(self) -> Fraction:
        return Fraction(self.by_answers.weight_from(0), self.period)

    @property
    def windows_per_row(self) -> Fraction:
        """Σ range/slide: the mean number of window instances, of all queries, that a row is in."""
        return Fraction(self.by_answers.length_from(0), self.period)

    @cached_property
    def by_queries(self) -> Tails:
        return _tails(self.ranges, self.queries)

    @cached_property
    def by_answers(self) -> Tails:
        return _tails(self.ranges, self.answers)


def demand(windows: Iterable[Window]) -> Demand:
    """The demand of a tree with one query for each of these windows (equal ones count as often as they are given)."""
    queries: Counter[int] = Counter()
    by_window = Counter((_bounded_range(window), window.slide) for window in windows)
    period = _common_period(*{slide for _, slide in by_window})
    answers: Counter[int] = Counter()
    overlap = 0
    for (reach, slide), number in by_window.items():
        queries[reach] += number
        answers[reach] += number * period // slide
        overlap += number * -(-reach // slide)
    ranges = sorted(queries)
    return Demand(
        np.array(ranges, dtype=np.int64),
        np.array([queries[reach] for reach in ranges], dtype=np.int64),
        np.array([answers[reach] for reach in ranges], dtype=_dtype(sum(answers.values()))),
        period,
        overlap,
    )


def merged(left: Demand, right: Demand) -> Demand:
    """The demand of one tree in the place of two."""
    period = _common_period(left.period, right.period)
    ranges = np.union1d(left.ranges, right.ranges)
    queries = np.zeros(len(ranges), dtype=np.int64)
    # Before the division below, answers are counted in the product of two periods.
    answers = np.zeros(len(ranges), dtype=_dtype((left.answers_per_tick + right.answers_per_tick) * period**2))
    for part in (left, right):
        at = np.searchsorted(ranges, part.ranges)
        queries[at] += part.queries
        answers[at] += part.answers.astype(answers.dtype) * period // part.period
    return Demand(ranges, queries, answers, period, left.overlap + right.overlap)


@dataclass(frozen=True, slots=True)
class Tails:
    """Sums of a weight, and of weight·range, over all ranges from the n-th on: suffix sums, exact."""

    ranges: NDArray[np.int64]
    weights: Integers
    lengths: Integers

    def weight_from(self, index: int) -> int:
        return int(self.weights[index])

    def length_from(self, index: int) -> int:
        return int(self.lengths[index])

    def at_least(self, ticks: int) -> tuple[int, int]:
        """Both sums over the ranges of at least this length."""
        index = int(np.searchsorted(self.ranges, ticks)) if ticks <= self.ranges[-1] else len(self.ranges)
        return self.weight_from(index), self.length_from(index)


def _tails(ranges: NDArray[np.int64], weights: Integers) -> Tails:
    dtype = _dtype(int(ranges[-1]) * sum(weights.tolist()))
    exact = weights.astype(dtype)
    return Tails(ranges, _suffix_sums(exact), _suffix_sums(exact * ranges.astype(dtype)))


def _suffix_sums(values: Integers) -> Integers:
    return np.append(np.cumsum(values[::-1])[::-1], 0)


def octaves(tails: Tails, edge_rate: Fraction, shift: int, lowest: int) -> Iterator[tuple[int, int, int]]:
    """For each k ≥ lowest: k, Σ weight and Σ weight·range over the ranges with 2ᵏ ≤ P + shift < 2ᵏ⁺¹."""
    octave = lowest
    weight, length = tails.at_least(ceil((2**octave - shift) / edge_rate))
    while weight:
        later_weight, later_length = tails.at_least(ceil((2 ** (octave + 1) - shift) / edge_rate))
        if weight > later_weight:
            yield octave, weight - later_weight, length - later_length
        weight, length = later_weight, later_length
        octave += 1


def _dtype(highest: int | Fraction) -> type[np.int64] | type[object]:
    """Machine words if no sum can exceed them."""
    return np.int64 if highest < 1 << 63 else object


def _common_period(*periods: int) -> int:
    return min(lcm(*periods), _LONGEST_PERIOD)


def _bounded_range(window: Window) -> int:
    if window.range is None:
        raise ValueError("an UNBOUNDED window has one running aggregate, and no kernel to choose")
    return window.range
