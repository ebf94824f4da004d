"""Calibration: what a kernel costs on this machine, by running it.

The papers count operations, and all operations alike. On a processor they differ tenfold: Panes folds successive
memory, a lookup in a tree waits for guesses that went wrong. And some of the time goes where no operation is counted.
So a few trees, small and large, are run on one key, on some and on many, and prices are fitted to what they took:

    nanoseconds per edge  ≈  edge + Ω·operation + D·answer + windows·window          D answers per edge

by least squares, each with a part for the call and a part for each key. What all kernels have to do, whatever it is
they do else, is measured by itself: no fit puts it on the operations of one and on the answers of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import lcm
from time import perf_counter_ns, thread_time_ns

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.algebra.types import DOUBLE
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.compiled.cells import Algorithm
from weft.kernels.kernel import DequeKernel, Kernel
from weft.kernels.kernel_cost import Price, Tariff, demand, operations_per_edge
from weft.kernels.monoids import COUNT, extreme
from weft.kernels.statistic import Statistic

# Slides and how many of them the ranges are long. The largest trees are like those that weaving makes of many queries.
_SINGLE = ((1, (200,)),)
_SMALL = ((1, (64, 32, 8)),)
_MIXED = ((2, (70, 31)), (3, (64, 24, 9)), (4, (51, 20)), (6, (77, 44, 12)), (12, (60, 35, 8, 3)))
_RARE = ((16, (60, 33, 5)), (32, (48, 29, 14, 2)), (48, (55, 21, 7)), (64, (40, 17, 4, 1)))
_LARGE = (
    (1, (1000, 420, 96)),
    (3, (280, 170, 88, 31, 5)),
    (5, (240, 150, 77, 40, 12, 2)),
    (9, (230, 180, 95, 66, 27, 13, 4)),
    (15, (260, 190, 121, 84, 52, 33, 17, 6)),
    (45, (250, 210, 160, 110, 70, 47, 29, 11, 3)),
)
_CROWD = (
    (2, (600, 333, 210, 99, 48, 20, 7, 2)),
    (6, (510, 404, 290, 181, 133, 92, 61, 43, 25, 16, 9, 3)),
    (14, (333, 270, 215, 166, 120, 88, 63, 41, 30, 19, 11, 5, 1)),
    (21, (280, 222, 170, 131, 99, 72, 51, 35, 23, 14, 8, 4)),
    (42, (190, 155, 128, 101, 80, 62, 45, 33, 22, 13, 6, 2)),
    (84, (120, 97, 76, 58, 44, 31, 21, 12, 5)),
)

# Few enough keys that the call is what costs, and so many that the keys are.
_FEW_KEYS = 8
_MANY_KEYS = 96
_WIDTHS = (1, _FEW_KEYS, _MANY_KEYS)

# So many edges in a call that the call itself does not count, and fewer where they take long.
_EDGES_AT_ONCE = 2_048
_MOST_FOLDED_AT_ONCE = 1 << 24

# So often is measured what all kernels have in common.
_TURNS = 20

_Rows = NDArray[np.float64]


def calibrate(kernels: Iterable[str] = ALGORITHMS, seconds: float = 5.0) -> dict[str, Price]:
    """The price of each kernel, measured on this machine in so many seconds.

    Kernels that were never used on this machine are compiled first, which takes a few seconds each, once.
    """
    names = list(kernels)
    chores = _measured_chores()
    return {name: _price(ALGORITHMS[name], chores, seconds / len(names)) for name in names}


@dataclass(frozen=True)
class _Chores:
    """What all kernels have to do, in nanoseconds; a partial and an answer for one key, for a few and for many."""

    window: float
    """At every edge, for each window of a tree: whether it is due."""

    edge: tuple[float, ...]
    """To take a partial in and keep it."""

    answer: tuple[float, ...]
    """To hand an answer out that is there."""

    def of(self, course: _Course, width: int) -> float:
        """The part that they have in what an edge of a course takes."""
        answers = course.counts("panes")[1]
        return self.window * len(course.windows) + self.edge[width] + self.answer[width] * answers


def _measured_chores() -> _Chores:
    """Panes over windows of one partial have nothing else to do; and of idle trees, one has more windows."""
    tumbling, crowd = _Course((Window(1, 1),)), _Course(_windows(_CROWD))
    panes = ALGORITHMS["panes"]
    idle = [_Run(panes, tumbling, keys, idle=True) for keys in _WIDTHS]
    asked = [_Run(panes, tumbling, keys) for keys in _WIDTHS]
    crowded = _Run(panes, crowd, 1, idle=True)
    for _ in range(_TURNS):
        for run in (*idle, *asked, crowded):
            run.again()
    window = max(0.0, (crowded.fastest - idle[0].fastest) / (len(crowd.windows) - 1))
    return _Chores(
        window,
        tuple(max(0.0, run.fastest - window) for run in idle),
        tuple(max(0.0, one.fastest - other.fastest) for one, other in zip(asked, idle, strict=True)),
    )


def _price(algorithm: Algorithm, chores: _Chores, seconds: float) -> Price:
    courses = [_Course(_windows(table)) for table in (_SINGLE, _SMALL, _MIXED, _RARE, _LARGE, _CROWD)]
    if not algorithm.many_ranges:
        courses = [_Course(ends) for each in courses for ends in (each.windows[:1], each.windows[-1:])]
    # Turn by turn: a moment in which the machine is busy elsewhere spoils one run of each, and not all runs of one.
    runs = [[_Run(algorithm, course, keys) for course in courses] for keys in _WIDTHS]
    deadline, turns = perf_counter_ns() + seconds * 1e9, 0
    while turns < 2 or perf_counter_ns() < deadline:
        for run in chain.from_iterable(runs):
            run.again()
        turns += 1
    counted = np.array([course.counts(algorithm.name) for course in courses])
    single, few, many = (np.array([run.fastest for run in of_width]) for of_width in runs)
    known, known_few, known_many = (np.array([chores.of(course, width) for course in courses]) for width in range(3))
    own = fitted(counted, single, known)
    both = np.vstack([np.hstack([counted, counted * keys]) for keys in _WIDTHS[1:]])
    of_keys = fitted(both, np.append(few, many), np.append(known_few, known_many))
    edge, answer, operation = (Tariff(*map(_fraction, (own[n], of_keys[n], of_keys[n + 3]))) for n in range(3))
    return Price(
        operation, _sum(edge, _tariff(*chores.edge)), _sum(answer, _tariff(*chores.answer)), _fraction(chores.window)
    )


def _tariff(single: float, few: float, many: float) -> Tariff:
    """The tariff by which this is what one key, few and many cost."""
    key = max(0.0, (many - few) / (_MANY_KEYS - _FEW_KEYS))
    return Tariff(_fraction(single), _fraction(max(0.0, few - _FEW_KEYS * key)), _fraction(key))


def _sum(one: Tariff, other: Tariff) -> Tariff:
    return Tariff(one.single + other.single, one.call + other.call, one.key + other.key)


def fitted(counted: _Rows, took: _Rows, known: _Rows) -> list[float]:
    """The prices, none below nothing, with which counts come closest to what was measured but for what is known.

    Between absolute errors, by which the largest tree would decide alone, and relative ones, by which the smallest is
    as good as any: a plan is judged by its large trees.
    """
    weights = took**-0.5
    prices = np.zeros(counted.shape[1])
    columns = list(range(counted.shape[1]))
    while columns:
        found, *_ = np.linalg.lstsq(counted[:, columns] * weights[:, None], (took - known) * weights, rcond=None)
        if found.min() >= 0:
            prices[columns] = found
            break
        del columns[int(np.argmin(found * counted[:, columns].mean(axis=0)))]
    return [float(each) for each in prices]


def _fraction(nanoseconds: float) -> Fraction:
    return Fraction(round(nanoseconds * 10_000), 10_000)


def _windows(table: Sequence[tuple[int, Sequence[int]]]) -> tuple[Window, ...]:
    windows = (Window(slide * slides, slide) for slide, lengths in table for slides in lengths)
    return tuple(sorted(windows, key=lambda window: (-(window.range or 0), window.slide)))


@dataclass(frozen=True, eq=False)
class _Course:
    """A tree to run: windows, longest first, whose slides divide their ranges."""

    windows: tuple[Window, ...]

    @cached_property
    def ranges(self) -> NDArray[np.int64]:
        return np.array([window.range for window in self.windows], dtype=np.int64)

    @cached_property
    def slides(self) -> NDArray[np.int64]:
        return np.array([window.slide for window in self.windows], dtype=np.int64)

    @cached_property
    def period(self) -> int:
        return lcm(*self.slides.tolist())

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """The edges of a period, which begins at 0 and ends with an edge."""
        instants = np.arange(1, self.period + 1)
        return np.asarray(instants[(instants[:, None] % self.slides == 0).any(axis=1)])

    def counts(self, kernel: str) -> tuple[float, ...]:
        """What happens at an edge, in the mean: one edge, answers, operations."""
        tree, rate = demand(self.windows), Fraction(len(self.edges), self.period)
        operations = operations_per_edge(kernel, tree, rate)
        return 1.0, float(tree.answers_per_tick / rate), float(operations)

    def most_partials(self) -> int:
        return int(self.ranges[0]) // self.period * len(self.edges) + len(self.edges)

    def schedule(self, first: int, slices: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each of so many slices: where the ranges begin after it, and which of them are due."""
        numbers = np.arange(first, first + slices)
        ends = numbers // len(self.edges) * self.period + self.edges[numbers % len(self.edges)]
        before = ends[:, None] - self.ranges
        starts = before // self.period * len(self.edges)
        starts += np.searchsorted(self.edges, before % self.period, side="right")
        return np.clip(starts, 0, numbers[:, None]), ends[:, None] % self.slides == 0


class _Run:
    """A kernel on a course, for so many keys; the fastest of all calls counts. An idle one is never asked."""

    def __init__(self, algorithm: Algorithm, course: _Course, keys: int, *, idle: bool = False) -> None:
        self._course = course
        self._idle = idle
        statistic = statistic_for(algorithm)
        kind = DequeKernel if algorithm.selects else Kernel
        self._kernel = kind(algorithm, statistic, course.most_partials() + 1, len(course.windows), keys)
        operations = keys * course.counts(algorithm.name)[-1]
        slices = min(_EDGES_AT_ONCE, max(len(course.edges), int(_MOST_FOLDED_AT_ONCE / max(1, operations))))
        # Whole periods, so that every call does the same.
        self._slices = max(1, slices // len(course.edges)) * len(course.edges)
        values = np.random.default_rng(0).integers(0, 1 << 40, size=(self._slices, keys))
        self._partials = (values.astype(statistic.dtypes[0]),)
        self._warm_up()
        self.fastest = float("inf")
        """Nanoseconds per edge."""

    def _warm_up(self) -> None:
        """Fills the longest window; nothing is due meanwhile."""
        while self._kernel.next < self._course.most_partials():
            starts, due = self._course.schedule(self._kernel.next, self._slices)
            self._kernel.slide(self._partials, starts, np.zeros_like(due))

    def again(self) -> None:
        """Twice: the first time, memory is where others have left it."""
        self._once()
        self._once()

    def _once(self) -> None:
        starts, due = self._course.schedule(self._kernel.next, self._slices)
        if self._idle:
            due[:] = False
        # The processor's time: what others do on this machine has no price here.
        begin = thread_time_ns()
        self._kernel.slide(self._partials, starts, due)
        self.fastest = min(self.fastest, (thread_time_ns() - begin) / self._slices)


def statistic_for(algorithm: Algorithm) -> Statistic:
    """What a kernel is priced with."""
    return extreme(DOUBLE, greatest=True) if algorithm.selects else COUNT
