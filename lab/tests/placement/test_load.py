"""The low-pass filter of loads."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.placement.load import (
    after_peak,
    is_news,
    low_pass,
    smallest_weight,
    windows_to_see,
)


def _iterated(weight: float, rising: int, lasting: int, peak: float) -> float:
    load = 1.0
    for window in range(1, rising + 1):
        load = low_pass(load, 1.0 + (peak - 1.0) * window / rising, weight)
    for _ in range(lasting):
        load = low_pass(load, peak, weight)
    return load


@pytest.mark.parametrize("weight", [0.5, 0.8, 0.9, 0.95])
def test_a_window_up_and_a_window_there(weight: float) -> None:
    assert after_peak(weight, 1, 1, 2.0) == pytest.approx(2.0 - weight**2)


def test_the_smallest_weight_that_keeps_a_doubled_load_out() -> None:
    assert smallest_weight(1, 1, 2.0, factor=1.2) == pytest.approx(0.8**0.5)
    assert after_peak(0.9, 1, 1, 2.0) == pytest.approx(1.19)


@pytest.mark.parametrize(("weight", "windows"), [(0.9, 10), (0.95, 20)])
def test_windows_until_a_doubled_load_is_seen(weight: float, windows: int) -> None:
    share = 1.0 - 1.0 / (2.0 * 2.718281828459045)
    assert windows_to_see(weight, 2.0, share) == windows
    # What the source prints as the share, 0.92, would take nearly twice as long.
    assert windows_to_see(weight, 2.0, 0.92) == {0.9: 18, 0.95: 36}[weight]


@pytest.mark.parametrize(
    ("weight", "rising", "lasting", "peak", "expected"),
    [(0.9, 3, 2, 2.0, 1.34147), (0.8, 5, 4, 3.0, 2.5593883648)],
)
def test_the_closed_form(weight: float, rising: int, lasting: int, peak: float, expected: float) -> None:
    assert after_peak(weight, rising, lasting, peak) == pytest.approx(expected)


@given(st.floats(0.05, 0.98), st.integers(1, 30), st.integers(0, 30), st.floats(1.01, 10.0))
def test_the_closed_form_is_what_the_filter_does(weight: float, rising: int, lasting: int, peak: float) -> None:
    assert after_peak(weight, rising, lasting, peak) == pytest.approx(_iterated(weight, rising, lasting, peak))


@given(st.floats(0.5, 0.99), st.floats(1.1, 5.0), st.floats(0.1, 0.99))
def test_a_lasting_change_is_seen_in_the_window_computed_and_not_before(
    weight: float, change: float, part: float
) -> None:
    share = (1.0 + part * (change - 1.0)) / change
    windows = windows_to_see(weight, change, share)
    loads = [1.0]
    for _ in range(windows):
        loads.append(low_pass(loads[-1], change, weight))
    assert loads[-1] >= share * change - 1e-9
    assert all(load < share * change + 1e-9 for load in loads[:-1])


def test_what_is_news() -> None:
    assert is_news(0.61, 0.5)
    assert is_news(0.41, 0.5)
    assert not is_news(0.59, 0.5)
    assert not is_news(0.42, 0.5)


def test_a_filtered_load_follows_a_step_and_trembles_less_in_the_source_example() -> None:
    """A load of 0.5 that becomes 0.7 half-way, measured with noise."""
    noise = random.Random(3)
    measured = [level + noise.uniform(-0.3, 0.3) for level in [0.5] * 500 + [0.7] * 500]
    filtered = [measured[0]]
    for each in measured[1:]:
        filtered.append(low_pass(filtered[-1], each))

    def spread(loads: list[float]) -> float:
        return max(loads) - min(loads)

    assert spread(filtered[100:500]) < spread(measured[100:500]) / 2
    assert sum(filtered[600:]) / 400 == pytest.approx(0.7, abs=0.02)
