"""Measurement 3: how near the kernels come to loops that do the arithmetic and nothing else.

The kernel is the one that weft chooses by itself. A loop is a peer only if it keeps the same promise: a sum of BIGINTs
that must not wrap is compared with two 64-bit limbs (Numba) or 128 bits (C++), and one key's sum of DOUBLEs with a C++
loop that carries its rounding errors along. The plain, drifting C++ loop is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.kernel_measurements.cpp_loops import CppLoop, compile_loops, compiler
from bench.kernel_measurements.numba_loops import max_rows, sum_rows
from bench.kernel_measurements.rounds import Contestant, best_nanoseconds
from bench.kernel_measurements.single_query import roll_through
from bench.kernel_measurements.subjects import (
    COUNTS,
    MAX,
    PER_CALL,
    SUM_OF_BIGINTS,
    SUM_OF_REALS,
    Function,
    filled,
    random_partials,
)
from bench.report import progress
from lab.kernels.rolling import RollingKernel
from lab.weaving.costings import UNIT_PRICES
from weft.algebra import Window
from weft.kernels.kernel_choice import choose
from weft.kernels.kernel_cost import cost_per_tick, demand
from weft.kernels.statistic import Columns

KEYS = 1000
WINDOW = 1000

_FRAGMENTS_PER_CALL = 100
_CALLS = 20
_PARTS = [slice(at, at + _FRAGMENTS_PER_CALL) for at in range(0, _CALLS * _FRAGMENTS_PER_CALL, _FRAGMENTS_PER_CALL)]
_SLIDES = 16 * PER_CALL


@dataclass(frozen=True)
class Share:
    """A kernel beside a limit, both in nanoseconds per key and slide."""

    function: str
    kernel: str
    limit: str
    kernel_nanoseconds: float
    limit_nanoseconds: float
    counts: bool = True
    """Whether the limit keeps the same promise, so that it counts in the ratio."""

    @property
    def share(self) -> float:
        """1 is as fast as the limit, 1/3 is three times its time."""
        return self.limit_nanoseconds / self.kernel_nanoseconds


@dataclass(frozen=True)
class Limits:
    keyed: list[Share]
    single: list[Share] | None
    """None without a C++ compiler."""


def measure(rounds: int) -> Limits:
    keyed = [_share_of_rows(function, rounds) for function in (SUM_OF_REALS, SUM_OF_BIGINTS, MAX)]
    with_compiler = compiler()
    if with_compiler is None:
        progress("limits: there is no C++ compiler, so the C++ loops are left out (set CXX to name one)")
        return Limits(keyed, None)
    return Limits(keyed, _shares_of_cpp(with_compiler, rounds))


def chosen_kernel(function: Function, keys: int) -> str:
    """What weft takes for one range of WINDOW partials, by operations."""
    tree = demand([Window(WINDOW, 1)])

    def operations(kernel: str) -> Fraction:
        return cost_per_tick(kernel, tree, Fraction(1), keys=keys, prices=UNIT_PRICES)

    return choose(function.statistic, ranges=1, keys=keys, cost=operations).kernel


# --- many keys -------------------------------------------------------------------------------------------------------


def _share_of_rows(function: Function, rounds: int) -> Share:
    progress(f"limits: {function.name}, {KEYS:,} keys × {WINDOW:,} partials")
    name = chosen_kernel(function, KEYS)
    kernel = filled(name, function, WINDOW, keys=KEYS)
    partials = random_partials(kernel, function, _CALLS * _FRAGMENTS_PER_CALL)
    loop = _numba_loop(function, partials)
    best = best_nanoseconds({"kernel": _sliding(kernel, partials), "limit": lambda: loop}, rounds)
    slides = _FRAGMENTS_PER_CALL * _CALLS * KEYS
    return Share(function.name, name, "Numba loop", best["kernel"] / slides, best["limit"] / slides)


def _sliding(kernel: RollingKernel, partials: Columns) -> Contestant:
    def prepare() -> Callable[[], object]:
        starts = kernel.next + 1 - WINDOW + np.arange(_CALLS * _FRAGMENTS_PER_CALL)
        calls = [(tuple(column[part] for column in partials), starts[part]) for part in _PARTS]
        return lambda: [kernel.slide(*call) for call in calls]

    return prepare


def _numba_loop(function: Function, partials: Columns) -> Callable[[], object]:
    """The same slides by hand. The columns of a record lie side by side, as the kernels have them."""
    incoming = np.hstack(partials)
    width = incoming.shape[1]
    answers = np.empty((_FRAGMENTS_PER_CALL, width), dtype=incoming.dtype)
    ring, kept = np.zeros((WINDOW, width), dtype=incoming.dtype), np.zeros(width, dtype=incoming.dtype)
    rows = max_rows if function is MAX else sum_rows

    def run() -> None:
        at = 0
        for part in _PARTS:
            at = rows(incoming[part], ring, kept, at, answers)

    return run


# --- one key, in C++ -------------------------------------------------------------------------------------------------


def _shares_of_cpp(with_compiler: str, rounds: int) -> list[Share]:
    progress("limits: one key against C++")
    library = compile_loops(with_compiler)
    reals, counts = (function.draw(np.random.default_rng(0), (_SLIDES, 1))[0] for function in (MAX, COUNTS))
    peers: list[tuple[Function, str, NDArray[Any], int, bool]] = [
        (COUNTS, "sum_int64", counts, 1, True),
        (SUM_OF_BIGINTS, "sum_int128", counts, 2, True),
        (SUM_OF_REALS, "sum_compensated", reals, 1, True),
        (SUM_OF_REALS, "sum_double", reals, 1, False),
        (MAX, "max_double", reals, 1, True),
    ]
    shares = []
    for function, loop_name, values, words, counts_in in peers:
        name = chosen_kernel(function, keys=1)
        kernel = filled(name, function, WINDOW)
        partials = random_partials(kernel, function, _SLIDES)
        loop = CppLoop(library, loop_name, values, WINDOW, words)
        best = best_nanoseconds({"kernel": _rolling(kernel, partials), "limit": _looping(loop)}, rounds)
        spent = best["kernel"] / _SLIDES, best["limit"] / _SLIDES
        shares.append(Share(function.name, name, f"C++ {loop_name}", *spent, counts=counts_in))
    return shares


def _rolling(kernel: RollingKernel, partials: Columns) -> Contestant:
    return lambda: lambda: roll_through(kernel, partials, WINDOW)


def _looping(loop: CppLoop) -> Contestant:
    return lambda: lambda: loop.slide(PER_CALL)
