"""Measurement 2: as many queries as there are ranges. After every slide, all windows of 1 … n partials are answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from bench.kernel_measurements.rounds import Contestant, best_nanoseconds
from bench.kernel_measurements.subjects import COUNTS, MAX, Function, filled, random_partials
from bench.report import progress
from lab.kernels.rolling import RollingKernel

#: Figure 12 is about MAX. A sum shows what SlickDeque (Inv) pays for a running aggregate per range.
FUNCTIONS = (MAX, COUNTS)

_ANSWERS_PER_CALL = 1 << 17
_FEWEST_SLIDES = 4

# Enough for a round of a millisecond. Those that cost ten times as much get there in one call.
_CALLS = 8
_SLOW = {"panes", "flatfat", "b_int"}

_WINDOWS_IN_A_RUN = 8

# Operations per slide are n²/2 for Panes; it gets fewer slides.
_PANES_OPERATIONS = 1 << 23


@dataclass(frozen=True)
class MultiQuery:
    """Nanoseconds per slide (n answers), by function, n and kernel."""

    nanoseconds: dict[str, dict[int, dict[str, float]]]

    def slickdeque_over_next(self, function: Function) -> dict[int, float]:
        """By n: the throughput of SlickDeque over that of the best other kernel."""
        return {
            ranges: min(cost for kernel, cost in costs.items() if kernel != function.slickdeque)
            / costs[function.slickdeque]
            for ranges, costs in self.nanoseconds[function.name].items()
        }


def measure(numbers_of_ranges: Iterable[int], rounds: int) -> MultiQuery:
    nanoseconds: dict[str, dict[int, dict[str, float]]] = {function.name: {} for function in FUNCTIONS}
    for ranges in numbers_of_ranges:
        for function in FUNCTIONS:
            progress(f"multi query: {function.name}, all ranges 1 … {ranges}")
            kernels = {name: filled(name, function, ranges, ranges=ranges) for name in function.kernels(ranges)}
            _expect_equal_answers(kernels, function)
            contestants = {
                name: _rolling(kernel, function, _slides(name, ranges), _calls(name))
                for name, kernel in kernels.items()
            }
            best = best_nanoseconds(contestants, rounds)
            nanoseconds[function.name][ranges] = {
                name: spent / (_calls(name) * _slides(name, ranges)) for name, spent in best.items()
            }
    return MultiQuery(nanoseconds)


def _slides(kernel: str, ranges: int) -> int:
    slides = max(_FEWEST_SLIDES, _ANSWERS_PER_CALL // ranges)
    if kernel == "panes":
        return min(slides, max(_FEWEST_SLIDES, 2 * _PANES_OPERATIONS // ranges**2))
    return slides


def _calls(kernel: str) -> int:
    return 1 if kernel in _SLOW else _CALLS


def _rolling(kernel: RollingKernel, function: Function, slides: int, calls: int) -> Contestant:
    """Walks on through a long run of partials: a deque over a short run that repeats itself would be too short."""
    slices = slides * max(calls, _WINDOWS_IN_A_RUN * kernel.ranges // slides)
    run = random_partials(kernel, function, slices)
    parts = cycle([tuple(column[at : at + slides] for column in run) for at in range(0, slices, slides)])
    lengths = _all_ranges(kernel)

    def roll() -> None:
        for partials in islice(parts, calls):
            kernel.roll(partials, lengths)

    return lambda: roll


def _all_ranges(kernel: RollingKernel) -> NDArray[np.int64]:
    """As an array: to convert a list of thousands of lengths in every call takes as long as the slides."""
    return np.arange(kernel.ranges, 0, -1)


def _expect_equal_answers(kernels: dict[str, RollingKernel], function: Function) -> None:
    partials = function.draw(np.random.default_rng(1), (_FEWEST_SLIDES, 1))
    answers = {name: kernel.roll(partials, _all_ranges(kernel))[0] for name, kernel in kernels.items()}
    for name, answer in answers.items():
        if not np.array_equal(answer, answers[function.slickdeque]):
            raise AssertionError(f"{name} and {function.slickdeque} disagree on {function.name}")
