"""What is measured: aggregate functions as users write them, and kernels whose windows are full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab.kernels.rolling import RollingKernel, rolling_kernel
from weft.algebra.types import DOUBLE
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel import Kernel, why_not
from weft.kernels.monoids import COUNT, SUM_OF_DOUBLES, extreme, sum_of_integers
from weft.kernels.statistic import Columns, Statistic, Values

#: Partials per call: what an engine hands over at once, and few enough that answers are written into memory at hand.
PER_CALL = 1 << 16


@dataclass(frozen=True)
class Function:
    """An aggregate function: the statistic that kernels keep for it, and the SlickDeque that serves it."""

    name: str
    statistic: Statistic
    slickdeque: str
    draw: Callable[[np.random.Generator, tuple[int, int]], Columns]
    """Random partials of a shape (slices, keys)."""

    def kernels(self, ranges: int = 1) -> list[str]:
        """The kernels that may serve it."""
        return [name for name, algorithm in ALGORITHMS.items() if why_not(algorithm, self.statistic, ranges) is None]


def _reals(random: np.random.Generator, shape: tuple[int, int]) -> Columns:
    return (random.standard_normal(shape),)


def _counts(random: np.random.Generator, shape: tuple[int, int]) -> Columns:
    return (random.integers(0, 1000, size=shape),)


def _limbs(random: np.random.Generator, shape: tuple[int, int]) -> Columns:
    """Whole numbers of all sizes, lifted as the engine lifts them."""
    values = random.integers(-(1 << 62), 1 << 62, size=shape) >> random.integers(0, 62, size=shape)
    return SUM_OF_BIGINTS.statistic.lift(Values(values, np.ones(shape, dtype=bool)))


MAX = Function("MAX(DOUBLE)", extreme(DOUBLE, greatest=True), "slickdeque_noninv", _reals)
SUM_OF_REALS = Function("SUM(DOUBLE)", SUM_OF_DOUBLES, "slickdeque_inv", _reals)
SUM_OF_BIGINTS = Function("SUM(BIGINT)", sum_of_integers(2), "slickdeque_inv", _limbs)
COUNTS = Function("COUNT(*)", COUNT, "slickdeque_inv", _counts)


def title(kernel: str) -> str:
    """The name of a kernel for people."""
    return ALGORITHMS[kernel].title


def filled(kernel: str, function: Function, window: int, *, ranges: int = 1, keys: int = 1) -> RollingKernel:
    """A kernel whose window is full, so that every slide from here on takes one partial in and one out."""
    made = rolling_kernel(kernel, function.statistic, window, ranges, keys)
    filling = random_partials(made, function, window, seed=window)
    lengths = np.arange(window, window - ranges, -1)
    for at in range(0, window, PER_CALL // ranges):
        part = tuple(column[at : at + PER_CALL // ranges] for column in filling)
        if kernel == "panes":
            # Answers on the way would take n² operations.
            nothing = np.zeros((len(part[0]), ranges), dtype=np.int64)
            made.slide(part, starts=nothing, due=nothing)
        else:
            # What is measured is rolling too, and nothing else needs to be compiled.
            made.roll(part, lengths)
    return made


def random_partials(kernel: Kernel, function: Function, slices: int, seed: int = 0) -> Columns:
    """Partials in the memory that kernels take as it is; the engine hands them over like that too."""
    partials = kernel.statistic.empty(slices, kernel.width)
    drawn = function.draw(np.random.default_rng(seed), (slices, kernel.width))
    for column, values in zip(partials, drawn, strict=True):
        column[...] = values
    return partials


def power(window: int) -> str:
    """A power of two, as people read it."""
    digits = str(window.bit_length() - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"2{digits}"
