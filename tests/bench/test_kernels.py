"""What the kernel benchmark makes of its measurements; the measurements themselves are not repeated here."""

from __future__ import annotations

import numpy as np
import pytest

from bench import kernels
from bench.kernel_measurements import numba_loops, papers
from bench.kernel_measurements.cpp_loops import CppLoop, compile_loops, compiler
from bench.kernel_measurements.latency import Latencies, Latency
from bench.kernel_measurements.limits import Limits, Share
from bench.kernel_measurements.multi_query import MultiQuery
from bench.kernel_measurements.single_query import SingleQuery

KEYS = [
    "slickdeque_over_best_single_max",
    "slickdeque_over_best_single_sum",
    "slickdeque_over_next_multi",
    "numpy_limit_share_sum",
    "numpy_limit_share_max",
    "cpp_limit_share",
    "daba_worst_over_typical",
    "slickdeque_worst_over_typical",
]

SINGLE = SingleQuery(
    nanoseconds={
        "MAX(DOUBLE)": {
            16: {"slickdeque_noninv": 2.0, "two_stacks": 4.0, "flatfit": 8.0},
            64: {"slickdeque_noninv": 4.0, "two_stacks": 3.0, "flatfit": 9.0},
        },
        "COUNT(*)": {16: {"slickdeque_inv": 2.0, "two_stacks": 4.0, "panes": 1.0}},
        "SUM(BIGINT)": {16: {"slickdeque_inv": 2.0, "two_stacks": 4.0, "panes": 3.0}},
    },
    bytes_held={16: {"slickdeque_noninv": 100, "two_stacks": 200}},
)
MULTI = MultiQuery(
    {
        "MAX(DOUBLE)": {
            16: {"slickdeque_noninv": 5.0, "flatfit": 1.0},
            256: {"slickdeque_noninv": 1.0, "flatfit": 3.0},
            1024: {"slickdeque_noninv": 1.0, "flatfit": 4.0},
        }
    }
)
KEYED = [
    Share("SUM(DOUBLE)", "two_stacks", "Numba loop", 2.0, 1.0),
    Share("SUM(BIGINT)", "slickdeque_inv", "Numba loop", 4.0, 1.0),
    Share("MAX(DOUBLE)", "two_stacks", "Numba loop", 5.0, 4.0),
]
CPP = [
    Share("COUNT(*)", "slickdeque_inv", "C++ sum_int64", 2.0, 1.5),
    Share("SUM(DOUBLE)", "two_stacks", "C++ sum_double", 8.0, 1.0, counts=False),
]
LATENCIES = Latencies(
    clock=20.0,
    kernels={
        label: Latency(label, 1.0, 2.0, typical, 4.0, worst)
        for label, typical, worst in (
            ("DABA, MAX(DOUBLE)", 5.0, 20.0),
            ("SlickDeque (Non-Inv), MAX(DOUBLE)", 4.0, 40.0),
            ("SlickDeque (Inv), COUNT(*)", 2.0, 12.0),
            ("SlickDeque (Non-Inv), falling input", 4.0, 4000.0),
        )
    },
)


def test_ratios_have_the_keys_of_the_json_line_and_take_the_worst_case() -> None:
    ratios = kernels.ratios(SINGLE, MULTI, Limits(KEYED, CPP), LATENCIES)
    assert list(ratios) == KEYS == list(kernels.DEFINITIONS)
    assert list(ratios.values()) == [0.75, 0.5, 3.0, 0.25, 0.8, 0.75, 4.0, 10.0]


def test_without_a_compiler_the_share_of_cpp_is_null() -> None:
    assert kernels.ratios(SINGLE, MULTI, Limits(KEYED, None), LATENCIES)["cpp_limit_share"] is None


def test_kernels_out_of_the_papers_order_are_named_with_their_windows() -> None:
    found = papers.differences(SINGLE.nanoseconds, papers.ORDER_SINGLE)
    where = {(one.faster, one.slower): one.where for one in found}
    assert where == {
        ("two_stacks", "slickdeque_noninv"): {"MAX(DOUBLE)": [64]},
        ("panes", "slickdeque_inv"): {"COUNT(*)": [16]},
        ("panes", "two_stacks"): {"COUNT(*)": [16], "SUM(BIGINT)": [16]},
    }


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(3).integers(-50, 50, size=40).astype(np.float64)


def _windows(values: np.ndarray, length: int) -> list[np.ndarray]:
    return [values[max(0, end - length) : end] for end in range(1, len(values) + 1)]


@pytest.mark.parametrize("length", [1, 2, 7])
def test_numba_loops_answer_what_they_claim_to(values: np.ndarray, length: int) -> None:
    """Rows of two keys, the second with the opposite values; taken in by two calls."""
    rows = np.stack([values, -values], axis=1)
    for loop, fold, nothing in ((numba_loops.sum_rows, np.sum, 0.0), (numba_loops.max_rows, np.max, -np.inf)):
        ring, kept = np.full((length, 2), nothing), np.full(2, nothing)
        answers, at = np.empty_like(rows), 0
        for part in (slice(0, 15), slice(15, 40)):
            at = loop(rows[part], ring, kept, at, answers[part])
        for key in range(2):
            assert answers[:, key].tolist() == [fold(window) for window in _windows(rows[:, key], length)]


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to hold the C++ loops against")
@pytest.mark.parametrize("length", [1, 2, 7])
def test_cpp_loops_answer_what_they_claim_to(values: np.ndarray, length: int) -> None:
    with_compiler = compiler()
    assert with_compiler is not None
    library = compile_loops(with_compiler)
    sums = [window.sum() for window in _windows(values, length)]
    whole = values.astype(np.int64)
    assert CppLoop(library, "sum_int64", whole, length).slide(40)[:, 0].tolist() == sums
    assert CppLoop(library, "sum_int128", whole, length, words=2).slide(40)[:, 0].tolist() == sums
    assert CppLoop(library, "sum_double", values, length).slide(40)[:, 0].tolist() == sums
    assert CppLoop(library, "sum_compensated", values, length).slide(40)[:, 0].tolist() == sums
    # The ring begins with zeros, so that a window is not full of values before `length` of them have come.
    greatest = [max(window.max(), 0 if len(window) < length else -np.inf) for window in _windows(values, length)]
    assert CppLoop(library, "max_double", values, length).slide(40)[:, 0].tolist() == greatest
