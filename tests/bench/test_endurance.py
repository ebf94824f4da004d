"""The arithmetic of the endurance benchmark."""

from __future__ import annotations

import pytest

from bench.endurance import Cycle, Run, Sample


def run_of(python: list[float], seconds: list[float]) -> Run:
    samples = [Sample(minute, mb, 1_000.0, 1, 1) for minute, mb in enumerate(python)]
    cycles = [Cycle(minute, each, 1, None) for minute, each in enumerate(seconds)]
    return Run(samples, cycles, answered=9, expected=10)


def test_what_fills_in_the_first_third_is_no_growth() -> None:
    ratios = run_of([100.0 + 10 * minute for minute in range(20)] + [300.0] * 41, [1.0] * 61).ratios()
    assert ratios["python_mb_per_minute"] == pytest.approx(0)
    assert ratios["python_last_over_settled"] == 1
    assert ratios["cycle_last_over_settled"] == 1
    assert ratios["answers_of_counted_rows"] == 0.9


def test_what_grows_to_the_end_is_growth() -> None:
    ratios = run_of([100.0 + 7 * minute for minute in range(61)], [1.0] * 54 + [3.0] * 7).ratios()
    assert ratios["python_mb_per_minute"] == pytest.approx(7)
    assert ratios["java_mb_per_minute"] == pytest.approx(0)
    assert ratios["cycle_last_over_settled"] == 3
