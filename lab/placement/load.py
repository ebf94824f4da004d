"""Measured load without its noise, and when it is news to others.

A node measures in windows which part of its time it was busy. A low-pass filter takes the noise away:

    load := weight · load + (1 − weight) · measured

A large weight keeps short peaks out, and is slow to follow a change. Both can be computed, and are here: how far a peak
lifts the filtered load (`after_peak`), and how many windows a lasting change takes to be seen (`windows_to_see`).
"""

from __future__ import annotations

from math import ceil, log

#: A load is news if it is this many times what was said last, or less than the inverse of it.
NEWS = 1.2

#: The weight of what was known before.
WEIGHT = 0.9


def low_pass(load: float, measured: float, weight: float = WEIGHT) -> float:
    """The filtered load after one more window."""
    return weight * load + (1.0 - weight) * measured


def is_news(load: float, told: float, factor: float = NEWS) -> bool:
    """Whether partners should be told: the load has changed by the factor, up or down, since they were told last."""
    return load >= factor * told or load <= told / factor


def after_peak(weight: float, rising: int, lasting: int, peak: float) -> float:
    """How many times its old value the filtered load is after a peak.

    The load rises to `peak` times its value over `rising` windows, evenly, and stays there for `lasting` windows.
    """
    climbed = (peak - 1.0) / rising * (rising + 1.0 + (weight ** (rising + 1) - 1.0) / (1.0 - weight))
    kept = weight**lasting
    return kept * (1.0 + climbed) + (1.0 - kept) * peak


def smallest_weight(rising: int, lasting: int, peak: float, factor: float = NEWS) -> float:
    """The smallest weight with which such a peak is not news: above it all are, since the filter only gets slower."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if after_peak(middle, rising, lasting, peak) > factor:
            low = middle
        else:
            high = middle
    return high


def windows_to_see(weight: float, change: float, share: float) -> int:
    """After how many windows the filtered load is that share of a load that has become `change` times what it was."""
    return ceil(log((share - 1.0) * change / (1.0 - change)) / log(weight))
