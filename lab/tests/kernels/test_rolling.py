"""Rolling gives the answers of sliding, step by step."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from lab.kernels.rolling import rolling_kernel
from tests.kernels.cases import CASES, Case, assert_same
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.compiled.cells import Algorithm
from weft.kernels.execution import KernelError
from weft.kernels.grouped import make_kernel
from weft.kernels.kernel import why_not

ADMITTED = [
    pytest.param(algorithm, case, id=f"{algorithm.name}-{name}")
    for algorithm, (name, case) in product(ALGORITHMS.values(), CASES.items())
    if why_not(algorithm, case.statistic) is None
]


def check(algorithm: Algorithm, case: Case, width: int, seed: int) -> None:
    """Parts of random lengths over windows whose lengths change from part to part, with a step back in between."""
    rng = np.random.default_rng(seed)
    capacity = int(rng.integers(1, 40))
    ranges = int(rng.integers(1, 4)) if algorithm.many_ranges else 1
    rolling = rolling_kernel(algorithm.name, case.statistic, capacity, ranges, width)
    sliding = make_kernel(algorithm.name, case.statistic, capacity, ranges, width)
    starts = np.zeros(ranges, dtype=np.int64)
    for _ in range(4):
        lengths = np.sort(rng.integers(1, capacity + 1, ranges))[::-1]
        partials = case.records(rng, int(rng.integers(1, 3 * capacity + 2)), width)
        before = rolling.snapshot()
        rolled = rolling.roll(partials, lengths)
        rolling.restore(before)
        assert_same(rolling.roll(partials, lengths), rolled)
        ends = np.arange(sliding.next + 1, sliding.next + 1 + len(partials[0]))[:, np.newaxis]
        table = np.maximum(ends - lengths, starts)
        assert_same(rolled, sliding.slide(partials, table))
        starts = table[-1]


@pytest.mark.parametrize(("algorithm", "case"), ADMITTED)
def test_rolling_over_rows_answers_as_sliding_does(algorithm: Algorithm, case: Case) -> None:
    check(algorithm, case, width=3, seed=1)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("slickdeque_inv", "count"),
        ("slickdeque_inv", "sum of integers"),
        ("two_stacks", "sum of doubles"),
        ("slickdeque_noninv", "min of integers"),
        ("slickdeque_noninv", "max of doubles"),
    ],
)
def test_rolling_over_single_numbers_answers_as_sliding_does(kernel: str, name: str) -> None:
    for seed in range(10):
        check(ALGORITHMS[kernel], CASES[name], width=1, seed=seed)


def test_a_window_that_does_not_fit_is_refused() -> None:
    kernel = rolling_kernel("panes", CASES["count"].statistic, 3, width=2)
    with pytest.raises(KernelError, match="more than 3 partials"):
        kernel.roll((np.ones((4, 2), dtype=np.int64),), 4)


@pytest.mark.parametrize("length", [255, 256, 257, 700])
@pytest.mark.parametrize("shape", ["random", "falling", "rising", "ties"])
def test_long_windows_of_one_key(length: int, shape: str) -> None:
    """Windows longer than a stretch are gathered, shorter ones written out; a call goes on where the last one ended."""
    rng = np.random.default_rng(length)
    values = {
        "random": rng.normal(size=3500),
        "falling": -np.arange(3500.0),
        "rising": np.arange(3500.0),
        "ties": rng.integers(0, 3, 3500).astype(np.float64),
    }[shape]
    kernel = rolling_kernel("slickdeque_noninv", CASES["max of doubles"].statistic, 700)
    cuts = np.sort(np.append(rng.integers(0, 3500, 12), [0, 3500]))
    parts = [kernel.roll((values[begin:end, np.newaxis],), length)[0][:, 0] for begin, end in pairwise(cuts)]
    expected = [values[max(0, n + 1 - length) : n + 1].max() for n in range(3500)]
    np.testing.assert_array_equal(np.concatenate(parts), expected)
