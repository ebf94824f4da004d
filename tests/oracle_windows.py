"""Window instances and meeting rows: arithmetic on clocks, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from weft.algebra import Input, Window

#: The start (inclusive) and the end (exclusive) of a window instance.
Bounds: TypeAlias = tuple[int, int]


def instances(window: Window, clock: int, after: float = -math.inf, until: float = math.inf) -> Iterator[Bounds]:
    """The instances that cover a clock value, as far as their ends lie in (after, until]."""
    yield from instances_ending(window, max(clock, after), min(clock + _range(window), until))


def instances_ending(window: Window, after: float, until: float) -> Iterator[Bounds]:
    """The instances [o + k·s, o + k·s + r) whose end lies in (after, until]; `after` is finite."""
    k = (int(after) - window.origin - _range(window)) // window.slide + 1
    while (end := window.origin + k * window.slide + _range(window)) <= until:
        yield end - _range(window), end
        k += 1


def meet(inputs: Sequence[Input], clocks: Sequence[int]) -> bool:
    """Whether some instant τ = o + k·s has every row inside (τ − r, τ] of its window.

    A row at t is inside at the instants t ≤ τ < t + r; UNBOUNDED has no upper end. An input without any window asks
    for nothing here: WHERE bounds it.
    """
    windowed = [(each.window, clock) for each, clock in zip(inputs, clocks, strict=True) if each.window is not None]
    if not windowed:
        return True
    slide, origin = _instants([window for window, _ in windowed])
    latest = max(clock for _, clock in windowed)
    instant = origin + -(-(latest - origin) // slide) * slide
    return all(window.range is None or instant < clock + window.range for window, clock in windowed)


def _instants(windows: Sequence[Window]) -> tuple[int, int]:
    """Slide and origin of the instants: those of the bounded windows, which agree; else every tick is one."""
    bounded = {(window.slide, window.origin) for window in windows if not window.is_unbounded}
    assert len(bounded) <= 1, "all inputs of a join have the same slide and origin"
    return bounded.pop() if bounded else (1, 0)


def _range(window: Window) -> int:
    assert window.range is not None, "UNBOUNDED has no instances"
    return window.range
