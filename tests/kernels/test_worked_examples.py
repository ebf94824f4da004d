"""Worked examples: the figures of "Multi-Query Optimization of Incrementally Evaluated Sliding-Window Aggregations".

Figures 2 to 4 are about partials and are in tests/windows. Where a figure shows no values, some that fit its text are
made up.
"""

from __future__ import annotations

from dataclasses import replace
from operator import add, sub

import numpy as np
import pytest

from lab.kernels.counting import Trace, all_lengths, sliding, trace
from weft.algebra.types import BIGINT
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.algorithms.daba import A, B, L, R
from weft.kernels.algorithms.two_stacks import BACK
from weft.kernels.compiled.cells import FIRST, NEXT
from weft.kernels.kernel import DequeKernel
from weft.kernels.monoids import extreme

UT_W5 = [5, 3, 8, 1, 9, 2, 7, 4, 6, 6, 1, 3]
UT_W5_SUMS = [5, 8, 16, 17, 21, 20, 19, 22, 19, 23, 17, 16]
UT_W5_GREATEST = [5, 5, 8, 8, 9, 9, 9, 9, 7, 7, 6, 6]


def concatenate(left: str, right: str) -> str:
    return left + right


def slide_over(kernel: str, values: list, length: int, function=add, inverse=sub, *, commutative: bool = True) -> Trace:
    starts = sliding(length, len(values))
    return trace(ALGORITHMS[kernel], values, starts, function, inverse, commutative=commutative)


def letters(count: int) -> list[str]:
    return [chr(ord("a") + n) for n in range(count)]


def test_panes_in_the_source_example() -> None:
    """Range 4, slide 1: F₂ folds P₂ … P₅, and P₄ is part of F₁, F₂ and F₃."""
    result = slide_over("panes", letters(7), 4, concatenate)
    finals = [answer for (answer,) in result.answers[3:]]
    assert finals[1] == "bcde"
    assert [final for final in finals[:3] if "d" in final] == ["abcd", "bcde", "cdef"]


def test_flatfat_in_the_source_example() -> None:
    """UT-W2: 16 leaves; a query of 11 partials from leaf 15 on takes leaf 15, [0..7] and [8..9]: two operations."""
    values = letters(26)
    starts = [[max(0, step - 15), max(0, step - 10)] for step in range(26)]
    due = [[False, False]] * 25 + [[False, True]]
    result = trace(ALGORITHMS["flatfat"], values, starts, concatenate, due=due, commutative=False)
    # Partial 15 is leaf 15; its update recomputes its four ancestors.
    assert result.operations[15] == 4
    assert result.answers[-1] == ["".join(values[15:])]
    assert result.operations[-1] == 4 + 2


def test_b_int_in_the_source_example() -> None:
    """Intervals of 1, 2, 4, … partials: a window takes the fewest that make it up, in order."""
    result = slide_over("b_int", letters(22), 13, concatenate)
    assert result.answers[-1] == ["".join(letters(22)[9:])]
    # 9, 10–11, 12–15, 16–19, 20–21: five intervals, four operations; partial 21 completes 20–21.
    assert result.operations[-1] == 4 + 1


def test_flatfit_in_the_source_example() -> None:
    """A query of 9 partials visits two cells, whose pointers skip the rest, before it reaches the newest."""
    algorithm = ALGORITHMS["flatfit"]
    values = letters(14)
    # Ranges of 4 and 9 are asked once, then 9 again after one more partial: the second query skips what is known.
    starts = [[max(0, step + 1 - 9), max(0, step + 1 - 4)] for step in range(14)]
    due = [[False, False]] * 12 + [[True, True], [True, False]]
    result = trace(algorithm, values, starts, concatenate, due=due)
    assert result.answers[12] == ["".join(values[4:13]), "".join(values[9:13])]
    assert result.operations[12] == 8
    assert result.answers[13] == ["".join(values[5:14])]
    assert result.operations[13] == 1


def test_two_stacks_in_the_source_example() -> None:
    """Step 2 answers max(6, 1) = 6 from the tops; in step 3 the front is empty and the back is flipped onto it."""
    result = slide_over("two_stacks", [4, 6, 1, 3, 2], 3, max, None)
    assert [answer for (answer,) in result.answers] == [4, 6, 6, 6, 3]
    backs = [numbers[BACK] for numbers in result.numbers]
    assert backs == [0, 0, 0, 3, 3]
    two = slide_over("two_stacks", [6, 2, 1], 2, max, None)
    assert two.answers == [[6], [6], [2]]


def test_daba_in_the_source_example() -> None:
    """Six ordered pointers part the queue; a flip renames parts and does no operation at once."""
    result = slide_over("daba", UT_W5, 4)
    for numbers in result.numbers:
        pointers = [numbers[name] for name in (FIRST, L, R, A, B, NEXT)]
        assert pointers == sorted(pointers)


def test_slickdeque_in_the_source_example() -> None:
    """UT-W4: n = 6; the deque before and after partial 4 comes in at position 1, and the answers for ranges 6 … 1."""
    interpreted = replace(extreme(BIGINT, True), rows=None)
    kernel = DequeKernel(ALGORITHMS["slickdeque_noninv"], interpreted, 6, ranges=6, batch=1)
    values = np.array([6, 4, 5, 1, 3, 2, 4]).reshape(7, 1)
    starts = np.array(all_lengths(6, 7))
    kernel.slide((values[:6],), starts[:6], np.zeros((6, 6)))
    assert deque_of(kernel) == [(1, 6), (3, 5), (5, 3), (6, 2)]
    (answers,) = kernel.slide((values[6:],), starts[6:])
    assert deque_of(kernel) == [(3, 5), (1, 4)]
    assert answers.ravel().tolist() == [5, 5, 4, 4, 4, 4]


def deque_of(kernel: DequeKernel) -> list[tuple[int, int]]:
    """The deque of the only key: positions 1 … 6, as the figure counts them, and values."""
    return [(number % 6 + 1, int(values[0])) for number, (values,) in kernel.entries(0)]


def test_ut_w3_one_running_aggregate_per_range() -> None:
    """Windows (20, 4), (30, 6), (50, 10) on one tree hold 8 different numbers of partials, and need 3 aggregates."""
    windows = [(50, 10), (30, 6), (20, 4)]
    edges = sorted({t for reach, slide in windows for t in range(0, 301, slide)})
    lengths: dict[tuple[int, int], set[int]] = {window: set() for window in windows}
    values, starts, due, expected = [], [], [], []
    for n, edge in enumerate(edges[1:]):
        values.append(n * n % 17)
        begins = [max(0, sum(1 for e in edges if e < edge - reach)) for reach, _ in windows]
        starts.append([min(begin, n) for begin in begins])
        due.append([edge % slide == 0 and edge >= reach for reach, slide in windows])
        expected.append([sum(values[begin:]) for begin, is_due in zip(starts[-1], due[-1], strict=True) if is_due])
        for window, begin, is_due in zip(windows, starts[-1], due[-1], strict=True):
            if is_due:
                lengths[window].add(n + 1 - begin)
    assert lengths == {(20, 4): {6, 7, 8}, (30, 6): {10, 11, 12}, (50, 10): {18, 19}}
    result = trace(ALGORITHMS["slickdeque_inv"], values, starts, add, sub, due=due)
    assert result.answers == expected
    # Two operations per range and edge, amortised: every partial enters and leaves each of three aggregates once.
    assert sum(result.operations) <= 2 * 3 * len(values)


@pytest.mark.parametrize("kernel", [name for name in ALGORITHMS if name != "slickdeque_noninv"])
def test_ut_w5_sums(kernel: str) -> None:
    assert [answer for (answer,) in slide_over(kernel, UT_W5, 4).answers] == UT_W5_SUMS


@pytest.mark.parametrize("kernel", [name for name, algorithm in ALGORITHMS.items() if not algorithm.inverts])
def test_ut_w5_greatest(kernel: str) -> None:
    assert [answer for (answer,) in slide_over(kernel, UT_W5, 4, max, None).answers] == UT_W5_GREATEST


@pytest.mark.parametrize(
    ("kernel", "function", "commutative", "operations"),
    [
        ("panes", add, True, [0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3]),
        ("panes_inv", add, True, [0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]),
        ("flatfat", add, True, [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]),
        ("flatfat", add, False, [0, 1, 2, 2, 4, 3, 4, 2, 4, 3, 4, 2]),
        ("b_int", add, True, [0, 1, 1, 2, 2, 2, 2, 3, 2, 2, 2, 2]),
        ("flatfit", add, True, [0, 1, 1, 1, 3, 1, 2, 2, 1, 3, 1, 2]),
        ("two_stacks", add, True, [0, 1, 1, 1, 4, 2, 2, 1, 4, 2, 2, 1]),
        ("slickdeque_inv", add, True, [0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]),
        ("prefix", add, True, [0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]),
        ("slickdeque_noninv", max, True, [0, 1, 2, 1, 2, 1, 2, 1, 2, 2, 1, 2]),
    ],
)
def test_ut_w5_operations(kernel: str, function: object, commutative: bool, operations: list[int]) -> None:
    assert slide_over(kernel, UT_W5, 4, function, commutative=commutative).operations == operations


def test_ut_w5_daba() -> None:
    """DABA spends 0, 1, 1, 3, 3, 3, …. The Lite form keeps the aggregate of [R, B) instead of making it anew.

    Making it takes an operation whenever L moves over a cell to be repaired, while both [R, A) and [A, B) have some.
    """
    result = slide_over("daba", UT_W5, 4)
    assert result.operations == [0, 1, 1, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    pointers = [tuple(numbers[name] for name in (FIRST, L, R, A, B, NEXT)) for numbers in result.numbers]
    assert pointers[3:6] == [(0, 1, 2, 3, 4, 4), (1, 3, 3, 3, 4, 5), (2, 3, 4, 5, 6, 6)]
    assert all(lite <= classic for lite, classic in zip(result.operations, [0, 1, 1] + [3] * 9, strict=True))
