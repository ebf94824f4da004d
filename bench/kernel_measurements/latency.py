"""Measurement 4: every single push under a clock, to see the spikes that means hide.

The clock is read inside the compiled loop, after every push and its answer. The same pushes are repeated from the same
snapshot, and of each push the shortest time counts: interruptions fall on a push once, a flip of TwoStacks every time.
What the clock itself takes (twenty-odd nanoseconds, several pushes' worth) is measured by a kernel that does nothing,
and taken off.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numba.core import types
from numpy.typing import NDArray

from bench.kernel_measurements.subjects import COUNTS, MAX, SUM_OF_BIGINTS, Function, filled, title
from bench.report import progress
from lab.kernels.rolling import STRETCHES, RollingKernel, no_stretch
from weft.kernels.compiled.cells import FIRST, NEXT, Algorithm, Index
from weft.kernels.compiled.machine_code import Memory, jitable, keep_numbers, numbers, words
from weft.kernels.execution import Run
from weft.kernels.statistic import Columns

WINDOW = 1 << 14

#: The kernel that only the clock takes time of.
NOTHING = "nothing"
PUSHES = 4 * WINDOW

_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
_CLOCK = time.CLOCK_MONOTONIC

# A reading is two words: seconds and nanoseconds.
_BYTES_PER_READING = 16


@dataclass(frozen=True)
class Latency:
    """Nanoseconds of single pushes, each with its answer, the clock's own time taken off."""

    label: str
    least: float
    lower_quartile: float
    typical: float
    """The mean of the middle half: finer than a clock that counts whole nanoseconds."""

    upper_quartile: float
    worst: float

    @property
    def worst_over_typical(self) -> float:
        return self.worst / self.typical


@dataclass(frozen=True)
class Latencies:
    clock: float
    """What one reading of the clock takes."""

    kernels: dict[str, Latency]


def measure(rounds: int) -> Latencies:
    random = np.random.default_rng(0)
    subjects: list[tuple[str, str, Function, Columns]] = [
        (_label(name, MAX), name, MAX, MAX.draw(random, (PUSHES, 1)))
        for name in ("slickdeque_noninv", "daba", "flatfat", "b_int", "two_stacks", "flatfit")
    ]
    subjects += [
        (_label("slickdeque_inv", function), "slickdeque_inv", function, function.draw(random, (PUSHES, 1)))
        for function in (COUNTS, SUM_OF_BIGINTS)
    ]
    subjects.append((f"{title('slickdeque_noninv')}, falling input", "slickdeque_noninv", MAX, _falling_with_peaks()))
    clock = _clock_cost(rounds)
    latencies = {}
    for label, name, function, partials in subjects:
        progress(f"latency: {label}")
        kernel = filled(name, function, WINDOW)
        # Room for the longest deque there can be is made here, before the clock runs.
        kernel.roll(partials, WINDOW)
        latencies[label] = _summary(label, _shortest_times(kernel, partials, rounds), clock)
    return Latencies(clock, latencies)


def _label(kernel: str, function: Function) -> str:
    return f"{title(kernel)}, {function.name}"


def _falling_with_peaks() -> Columns:
    """The worst that can happen to a deque: falling values fill it, and then a peak empties it in one push."""
    falling = -np.arange(PUSHES, dtype=np.float64) % WINDOW
    falling[WINDOW - 1 :: WINDOW] = 2.0 * WINDOW
    return (falling[:, np.newaxis],)


@cache
def clocked_loop_of(algorithm: Algorithm) -> Run:
    """`roll` (see `lab/kernels/rolling.py`), which reads the clock after every push."""
    slide, query = algorithm.slide, algorithm.query
    stretch: Any = _pushes_nothing if algorithm.name == NOTHING else STRETCHES.get(algorithm.name, no_stretch)

    def roll(
        f: Any,
        cells_at: Memory,
        ix_at: Any,
        table_at: Any,
        incoming_at: Memory,
        start_at: Any,
        readings_at: int,
        out_at: Memory,
        steps: int,
        length: int,
    ) -> int:
        cells, incoming, out = f.memory(cells_at), f.memory(incoming_at), f.memory(out_at)
        table, ix, start = words(table_at), numbers(ix_at), words(start_at)
        for step in range(steps):
            if stretch(f, cells, ix, table, length, incoming, step, 1, out) == 0:
                start[0] = max(ix[FIRST], ix[NEXT] + 1 - length)
                slide(f, cells, ix, table, start, 0, incoming, step)
                query(f, cells, ix, table, start[0], 0, out, step)
            _clock_gettime(_CLOCK, readings_at + _BYTES_PER_READING * step)
        keep_numbers(ix_at, ix)
        return 0

    return roll


@jitable
def _pushes_nothing(
    f: Any, cells: Memory, ix: Index, table: Index, length: int, incoming: Memory, i: int, most: int, out: Memory
) -> int:
    return most


def _clock_cost(rounds: int) -> float:
    """What is measured of a kernel that does nothing."""
    kernel = filled("panes", MAX, WINDOW)
    kernel.algorithm = replace(kernel.algorithm, name=NOTHING)
    times = _shortest_times(kernel, MAX.draw(np.random.default_rng(0), (PUSHES, 1)), rounds)
    return _middle_mean(times)


def _shortest_times(kernel: RollingKernel, partials: Columns, rounds: int) -> NDArray[np.int64]:
    """Of each push but the first, the shortest time of all rounds."""
    before = kernel.snapshot()
    # Written once before: the first touch of a page of memory takes longer than any push.
    readings = np.ones((PUSHES, 2), dtype=np.int64)
    shortest = np.full(PUSHES - 1, np.iinfo(np.int64).max)
    for _ in range(rounds):
        kernel.restore(before)
        kernel.drive(clocked_loop_of, partials, (np.array([kernel.first]), readings), PUSHES, (PUSHES, WINDOW))
        np.minimum(shortest, np.diff(readings[:, 0] * 10**9 + readings[:, 1]), out=shortest)
    return shortest


def _summary(label: str, times: NDArray[np.int64], clock: float) -> Latency:
    # A push may hide behind the reading of the clock; less than a tenth of a nanosecond is not believed.
    own = np.maximum(times - clock, 0.1)
    lower, upper = np.percentile(own, [25, 75])
    return Latency(label, float(own.min()), float(lower), _middle_mean(own), float(upper), float(own.max()))


def _middle_mean(times: NDArray[Any]) -> float:
    lower, upper = np.percentile(times, [25, 75])
    return float(np.mean(times[(times >= lower) & (times <= upper)]))
