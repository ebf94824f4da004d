"""Measurement 1: one query. Slides per second of every kernel, for windows from 2⁴ to 2²⁰ partials."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bench.kernel_measurements.rounds import Contestant, best_nanoseconds
from bench.kernel_measurements.subjects import (
    COUNTS,
    MAX,
    PER_CALL,
    SUM_OF_BIGINTS,
    Function,
    filled,
    power,
    random_partials,
)
from bench.report import progress
from lab.kernels.rolling import RollingKernel
from weft.kernels.statistic import Columns

FUNCTIONS = (MAX, COUNTS, SUM_OF_BIGINTS)

# Some kernels do in bursts what others do in every slide: TwoStacks flips and FlatFIT resets once per window. A round
# that is shorter would miss it.
_WINDOWS_PER_ROUND = 16
_FEWEST_SLIDES = 1 << 18
_SHORT_WINDOW = _FEWEST_SLIDES // _WINDOWS_PER_ROUND

# These cost the same in every slide, and too much for as many of them.
_STEADY = {"panes": 1 << 22, "flatfat": 1 << 20, "b_int": 1 << 20}
_FEWEST_STEADY_SLIDES = 8


@dataclass(frozen=True)
class SingleQuery:
    """Nanoseconds per slide, and bytes held, by function, window and kernel."""

    nanoseconds: dict[str, dict[int, dict[str, float]]]
    bytes_held: dict[int, dict[str, int]]
    """Of MAX, which figure 13 is about."""

    def slickdeque_over_best(self, function: Function) -> dict[int, float]:
        """By window: the throughput of SlickDeque over that of the best other kernel; above 1, it leads."""
        return {
            window: min(cost for kernel, cost in costs.items() if kernel != function.slickdeque)
            / costs[function.slickdeque]
            for window, costs in self.nanoseconds[function.name].items()
        }


def measure(windows: Iterable[int], rounds: int, short_rounds: int) -> SingleQuery:
    """Rounds of short windows take a millisecond or two, which is soon disturbed: there are `short_rounds` of them."""
    nanoseconds: dict[str, dict[int, dict[str, float]]] = {function.name: {} for function in FUNCTIONS}
    bytes_held = {}
    for window in windows:
        for function in FUNCTIONS:
            progress(f"single query: {function.name}, window {power(window)}")
            kernels = {name: filled(name, function, window) for name in function.kernels()}
            partials = random_partials(kernels[function.slickdeque], function, _slides(function.slickdeque, window))
            _expect_equal_answers(kernels, function, window)
            nanoseconds[function.name][window] = _nanoseconds_per_slide(
                kernels, partials, window, short_rounds if window <= _SHORT_WINDOW else rounds
            )
            if function is MAX:
                bytes_held[window] = {name: kernel.nbytes for name, kernel in kernels.items()}
    return SingleQuery(nanoseconds, bytes_held)


def _nanoseconds_per_slide(
    kernels: dict[str, RollingKernel], partials: Columns, window: int, rounds: int
) -> dict[str, float]:
    contestants = {
        name: _rolling(kernel, tuple(column[: _slides(name, window)] for column in partials), window)
        for name, kernel in kernels.items()
    }
    best = best_nanoseconds(contestants, rounds)
    return {name: spent / _slides(name, window) for name, spent in best.items()}


def _slides(kernel: str, window: int) -> int:
    slides = max(_FEWEST_SLIDES, _WINDOWS_PER_ROUND * window)
    if kernel in _STEADY:
        operations_per_slide = window if kernel == "panes" else window.bit_length()
        return min(slides, max(_FEWEST_STEADY_SLIDES, _STEADY[kernel] // operations_per_slide))
    return slides


def _rolling(kernel: RollingKernel, partials: Columns, window: int) -> Contestant:
    return lambda: lambda: roll_through(kernel, partials, window)


def roll_through(kernel: RollingKernel, partials: Columns, window: int) -> None:
    """Slides over all partials, call by call; there is an answer for every slide."""
    for at in range(0, len(partials[0]), PER_CALL):
        kernel.roll(tuple(column[at : at + PER_CALL] for column in partials), window)


def _expect_equal_answers(kernels: dict[str, RollingKernel], function: Function, window: int) -> None:
    """A kernel that is fast and wrong has not taken part."""
    partials = function.draw(np.random.default_rng(1), (_FEWEST_STEADY_SLIDES, 1))
    answers = {name: np.hstack(kernel.roll(partials, window)) for name, kernel in kernels.items()}
    expected = answers[function.slickdeque]
    for name, answer in answers.items():
        if not np.array_equal(answer, expected):
            raise AssertionError(f"{name} and {function.slickdeque} disagree on {function.name} over {window} partials")
