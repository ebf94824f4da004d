"""Calibration: what an operation of each kernel costs on this machine, by running it.

The papers count operations, and all operations alike. On a processor they differ eightfold: Panes folds successive
memory, a deque waits for guesses that went wrong. Plans woven in nanoseconds differ from plans woven in operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from time import perf_counter_ns, thread_time_ns

import numpy as np

from weft.aggregation.algorithm import Algorithm
from weft.aggregation.cost import Price, operations_per_edge
from weft.aggregation.demand import demand
from weft.aggregation.kernel import Kernel
from weft.aggregation.kernels import ALGORITHMS
from weft.aggregation.statistic import Statistic
from weft.aggregation.statistics import COUNT, extreme
from weft.algebra import Window
from weft.algebra.types import DOUBLE

# Ranges of a small shared tree, longest first; a kernel that serves one range gets the longest.
_RANGES = (64, 32, 8)

# Few enough keys that the call is what costs, and so many that the keys are; rings of both fit into a cache.
_FEW_KEYS = 16
_MANY_KEYS = 1024

_MOST_SLIDES_AT_ONCE = 1 << 14
_MOST_PARTIALS_AT_ONCE = 1 << 17


def calibrate(kernels: Iterable[str] = ALGORITHMS, seconds: float = 3.0) -> dict[str, Price]:
    """The price of an operation of each kernel, measured on this machine in so many seconds.

    Kernels that were never used on this machine are compiled first, which takes a few seconds each, once.
    """
    names = list(kernels)
    budget = seconds / (3 * len(names))
    return {name: _price(ALGORITHMS[name], budget) for name in names}


def _price(algorithm: Algorithm, budget: float) -> Price:
    ranges = _RANGES if algorithm.many_ranges else _RANGES[:1]
    operations = operations_per_edge(algorithm.name, demand([Window(reach, 1) for reach in ranges]), Fraction(1))
    single, few, many = (
        _nanoseconds_per_slide(algorithm, ranges, width, budget) / operations for width in (1, _FEW_KEYS, _MANY_KEYS)
    )
    key = max((many - few) / (_MANY_KEYS - _FEW_KEYS), Fraction(0))
    return Price(single=single, call=max(few - _FEW_KEYS * key, Fraction(0)), key=key)


def _nanoseconds_per_slide(algorithm: Algorithm, ranges: tuple[int, ...], width: int, budget: float) -> Fraction:
    """The fastest of as many runs as the budget (in seconds) allows, every range answered after every slide."""
    slides = min(_MOST_SLIDES_AT_ONCE, _MOST_PARTIALS_AT_ONCE // width)
    statistic = _statistic_for(algorithm)
    kernel = Kernel(algorithm, statistic, max(ranges), len(ranges), width)
    values = np.random.default_rng(0).integers(0, 1 << 40, size=(slides, width))
    partials = (values.astype(statistic.fields[0].dtype),)
    first_starts = np.arange(1, slides + 1)[:, np.newaxis] - np.array(ranges)

    def run() -> int:
        starts = np.maximum(first_starts + kernel.next, 0)
        # The processor's time: what others do on this machine has no price here.
        begin = thread_time_ns()
        kernel.slide(partials, starts)
        return thread_time_ns() - begin

    run()
    deadline = perf_counter_ns() + budget * 1e9
    fastest = run()
    while perf_counter_ns() < deadline:
        fastest = min(fastest, run())
    return Fraction(fastest, slides)


def _statistic_for(algorithm: Algorithm) -> Statistic:
    return extreme(DOUBLE, greatest=True) if algorithm.selects else COUNT
