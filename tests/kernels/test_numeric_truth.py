"""Sums of DOUBLEs that slide for ever: they do not drift, and what has left the window has left the answer.

Method: partials that are not finite are counted apart, and no kernel takes a DOUBLE out of a sum again.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.kernels.cases import slide_on
from weft.algebra.types import DOUBLE
from weft.kernels.aggregate_functions import FUNCTIONS, Signature
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.grouped import make_kernel
from weft.kernels.kernel import Kernel, why_not
from weft.kernels.monoids import COUNT, NONFINITE, SUM_OF_DOUBLES, ieee_sum
from weft.kernels.statistic import Values

ADDING = [name for name, algorithm in ALGORITHMS.items() if why_not(algorithm, SUM_OF_DOUBLES) is None]
#: Those that spend the same few operations on every slide, however long the window.
QUICK = ["two_stacks", "daba", "flatfit"]
LENGTH = 1000


def uniform(rng: np.random.Generator, count: int, spike_at: int) -> np.ndarray:
    return rng.random(count)


def spiked(rng: np.random.Generator, count: int, spike_at: int) -> np.ndarray:
    """One value of 1e17 among values below 1; a running sum would be off by a percent for ever after."""
    values = rng.random(count)
    values[spike_at] = 1e17
    return values


def spread(rng: np.random.Generator, count: int, spike_at: int) -> np.ndarray:
    """Values over forty orders of magnitude, of both signs."""
    return np.exp(rng.normal(0, 12, count)) * rng.choice([-1.0, 1.0], count)


def slide_for_long(kernel: Kernel, slides: int, values_of: object, seed: int) -> None:
    rng = np.random.default_rng(seed)
    chunk = 100_000
    spike_at = 3 * LENGTH + 17
    tail = np.empty(0)
    checked = 0
    for begin in range(0, slides, chunk):
        values = values_of(rng, chunk, spike_at)
        (answers,) = slide_on(kernel, (values[:, np.newaxis],), LENGTH)
        window = np.concatenate((tail, values))
        offset = len(tail)
        # At every 997th slide of a part, and at its end, the window is added up anew, exactly.
        for at in [*range(0, chunk, 997 * (1 if begin == 0 else 16)), chunk - 1]:
            held = window[max(0, offset + at + 1 - LENGTH) : offset + at + 1]
            exact = math.fsum(held)
            scale = math.fsum(np.abs(held))
            assert abs(answers[at, 0] - exact) <= 1e-9 * abs(exact) + 1e-14 * scale, (begin + at, answers[at, 0], exact)
            checked += 1
        tail = window[-LENGTH + 1 :]
    assert checked > slides // chunk


@pytest.mark.parametrize("values_of", [uniform, spiked, spread])
@pytest.mark.parametrize("name", QUICK)
def test_no_drift_in_1e5_slides(name: str, values_of: object) -> None:
    slide_for_long(make_kernel(name, SUM_OF_DOUBLES, LENGTH), 100_000, values_of, seed=7)


@pytest.mark.prove
@pytest.mark.parametrize("values_of", [uniform, spiked, spread])
@pytest.mark.parametrize("name", QUICK)
def test_no_drift_in_1e7_slides(name: str, values_of: object) -> None:
    slide_for_long(make_kernel(name, SUM_OF_DOUBLES, LENGTH), 10_000_000, values_of, seed=8)


@pytest.mark.prove
@pytest.mark.parametrize("name", ADDING)
def test_no_drift_in_1e7_slides_of_many_keys(name: str) -> None:
    """The arithmetic on rows, with a short window: 10⁷ slides of four keys."""
    kernel = make_kernel(name, SUM_OF_DOUBLES, 10, width=4)
    rng = np.random.default_rng(9)
    tail = np.empty((0, 4))
    for _ in range(100):
        values = np.exp(rng.normal(0, 8, (100_000, 4)))
        (answers,) = slide_on(kernel, (values,), 10)
        window = np.concatenate((tail, values))[-10:]
        exact = [math.fsum(window[:, key]) for key in range(4)]
        np.testing.assert_allclose(answers[-1], exact, rtol=1e-12)
        tail = window[1:]


@pytest.mark.parametrize("name", ADDING)
def test_a_spike_leaves_nothing_behind(name: str) -> None:
    """With keys side by side, one spiked and one not."""
    kernel = make_kernel(name, SUM_OF_DOUBLES, 50, width=2)
    values = np.random.default_rng(1).random((2000, 2))
    values[:, 1] = values[:, 0]
    values[::131, 1] = 1e17
    (answers,) = slide_on(kernel, (values,), 50)
    spike_free = np.array([not np.any(values[max(0, n - 49) : n + 1, 1] == 1e17) for n in range(2000)])
    assert spike_free.sum() > 100
    # Windows without a spike hold what the other key holds, but for the rows that the spike took the place of.
    np.testing.assert_allclose(answers[spike_free, 1], answers[spike_free, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        *((name, 3) for name in ADDING),
        ("two_stacks", 1),
        ("flatfit", 1),
    ],
)
def test_nan_and_infinities_leave_with_the_window(name: str, width: int) -> None:
    """SUM, over every kernel that can add: the answer is IEEE's as long as they are there, and exact again after."""
    rng = np.random.default_rng(3)
    values = rng.random((400, width))
    for special in (np.nan, np.inf, -np.inf):
        values[rng.integers(0, 400, 6), rng.integers(0, width, 6)] = special
    column = Values(values.ravel(), np.ones(values.size, dtype=bool))
    sums, flags = (
        slide_on(make_kernel(name, statistic, 8, width=width), (statistic.lift(column)[0].reshape(values.shape),), 8)[0]
        for statistic in (SUM_OF_DOUBLES, NONFINITE)
    )
    answers = ieee_sum(sums, flags)
    with np.errstate(invalid="ignore"):
        expected = np.array([values[max(0, n - 7) : n + 1].sum(axis=0) for n in range(400)])
    assert np.isnan(expected).any()
    assert np.isinf(expected).any()
    np.testing.assert_allclose(answers, expected, rtol=1e-9)


def test_a_nan_is_forgotten_by_extremes() -> None:
    values = np.array([3.0, np.nan, np.nan, 5.0, 4.0])
    column = Values(values, np.ones(5, dtype=bool))
    for name, expected in (("max", [3, np.nan, np.nan, np.nan, 5]), ("min", [3, 3, np.nan, 5, 4])):
        needs = FUNCTIONS[name].needs([DOUBLE])
        records = [
            slide_on(
                make_kernel("two_stacks", need.statistic, 2, width=3),
                tuple(np.repeat(lifted[:, np.newaxis], 3, axis=1) for lifted in need.statistic.lift(column)),
                2,
            )
            for need in needs
        ]
        answer = FUNCTIONS[name].lower(records, Signature((DOUBLE,), DOUBLE))
        assert answer.valid.all()
        np.testing.assert_array_equal(answer.values[:, 0], expected)


def test_wrapped_prefixes_of_integers_are_exact() -> None:
    """The prefix of large integers wraps many times; differences do not notice."""
    kernel = make_kernel("prefix", COUNT, 4, width=2)
    (answers,) = slide_on(kernel, (np.full((1000, 2), 2**60, dtype=np.int64),), 3)
    assert answers[-1].tolist() == [3 * 2**60] * 2
