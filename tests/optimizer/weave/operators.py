"""The operators that a plan stands for, written to be obviously right: every operation is done, and counted.

One row comes at each tick and its value is the tick. Fragments are summed; answers are folds of fragments, one
operation for each. Two levels: every group folds every row. Three: rows are folded once, at the edges of all groups,
and every group combines those fragments into its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.algebra import Window


@dataclass
class Run:
    """What a run did."""

    operations: Counter[str] = field(default_factory=Counter)
    answers: dict[Window, dict[int, int]] = field(default_factory=dict)
    fragments: list[dict[int, int]] = field(default_factory=list)
    """For each group, the sum of the fragment that ends at each edge."""

    base: dict[int, int] = field(default_factory=dict)
    """The same for the finest cut, if there is one."""


def is_edge(windows: Iterable[Window], instant: int) -> bool:
    return any(
        (instant - window.origin) % window.slide == 0 or (instant - window.origin - _reach(window)) % window.slide == 0
        for window in windows
    )


def run(groups: Sequence[Sequence[Window]], after: int, until: int, *, three_levels: bool = False) -> Run:
    """Runs from instant 0 to `until`; counts operations in (after, until] only. Queries may occur several times."""
    done = Run(fragments=[{} for _ in groups])
    if three_levels:
        done.base = _sums(range(until), [window for group in groups for window in group], until)
        done.operations["row"] += until - after
    for number, group in enumerate(groups):
        source = range(until) if not three_levels else None
        if source is not None:
            done.fragments[number] = _sums(source, group, until)
            done.operations["row"] += until - after
        else:
            done.fragments[number] = _combined(done.base, group)
            done.operations["combine"] += sum(after < end <= until for end in done.base)
        for window in group:
            answers = done.answers.setdefault(window, {})
            for end, fragments in _windows(done.fragments[number], window, until):
                answers[end] = sum(fragments)
                if after < end:
                    done.operations["answer"] += len(fragments)
    return done


def _sums(rows: range, windows: Sequence[Window], until: int) -> dict[int, int]:
    """Every row into the open fragment, which an edge closes."""
    fragments, open_fragment = {}, 0
    for row in rows:
        open_fragment += row
        if is_edge(windows, row + 1):
            fragments[row + 1], open_fragment = open_fragment, 0
    return fragments


def _combined(base: dict[int, int], windows: Sequence[Window]) -> dict[int, int]:
    fragments, open_fragment = {}, 0
    for end, value in base.items():
        open_fragment += value
        if is_edge(windows, end):
            fragments[end], open_fragment = open_fragment, 0
    return fragments


def _windows(fragments: dict[int, int], window: Window, until: int) -> Iterable[tuple[int, list[int]]]:
    ends = sorted(fragments)
    for start in range(window.origin % window.slide, until, window.slide):
        end = start + _reach(window)
        if end <= until:
            yield end, [fragments[edge] for edge in ends if start < edge <= end]


def _reach(window: Window) -> int:
    assert window.range is not None
    return window.range
