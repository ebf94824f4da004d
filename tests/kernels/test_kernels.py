"""One matrix: all kernels × all statistics they admit, under random operations, against recomputation."""

from __future__ import annotations

import doctest
import importlib
import inspect
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import CASES, Case, Recomputation, assert_same, slide_on
from weft.kernels import kernel as kernel_module
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.compiled.cells import Algorithm
from weft.kernels.execution import KernelError
from weft.kernels.kernel import DequeKernel, Kernel, why_not

ADMITTED = [
    pytest.param(algorithm, case, id=f"{algorithm.name}-{name}")
    for algorithm, (name, case) in product(ALGORITHMS.values(), CASES.items())
    if why_not(algorithm, case.statistic) is None
]
COMPILED = [parameters for parameters in ADMITTED if parameters.values[1].statistic.rows is not None]


class Script:
    """Random operations on a kernel, each checked against recomputation."""

    def __init__(
        self,
        algorithm: Algorithm,
        case: Case,
        rng: np.random.Generator,
        *,
        capacity: int,
        ranges: int,
        width: int,
        interpret: bool,
        batch: int = 3,
    ) -> None:
        self.algorithm, self.case, self.rng = algorithm, case, rng
        self.capacity, self.ranges, self.interpret, self.batch = capacity, ranges, interpret, batch
        self.kernel = self._kernel(width)
        self.truth = Recomputation(case.statistic, width)
        self.starts = np.zeros(ranges, dtype=np.int64)

    def _kernel(self, width: int) -> Kernel:
        statistic = replace(self.case.statistic, rows=None) if self.interpret else self.case.statistic
        arguments = (self.algorithm, statistic, self.capacity, self.ranges, width)
        return DequeKernel(*arguments, batch=self.batch) if self.algorithm.selects else Kernel(*arguments)

    @property
    def width(self) -> int:
        return self.kernel.width

    def _next_starts(self, newest: int) -> np.ndarray:
        """Starts for a window that ends with partial `newest`: none goes back, the longest range first."""
        least = np.maximum(self.starts, newest + 1 - self.capacity)
        moved = np.minimum(least + self.rng.integers(0, 3, self.ranges), newest)
        return np.maximum.accumulate(np.maximum(np.sort(moved), least))

    def slide(self) -> None:
        steps = int(self.rng.integers(1, 6))
        partials = self.case.records(self.rng, steps, self.width)
        due = self.rng.random((steps, self.ranges)) < 0.7
        table, expected = [], []
        for step in range(steps):
            self.starts = self._next_starts(self.truth.next)
            table.append(self.starts)
            self.truth.push(tuple(column[step] for column in partials))
            self.truth.evict(int(self.starts[0]))
            expected += [self.truth.query(int(start)) for start in self.starts[due[step]]]
        answers = self.kernel.slide(partials, np.array(table), due)
        assert len(answers[0]) == len(expected)
        for row, answer in enumerate(expected):
            assert_same(tuple(column[row] for column in answers), answer, (self.starts, row))

    def amend(self) -> None:
        # A statistic that minds the order takes no late rows.
        if self.kernel.first < self.kernel.next and self.case.statistic.commutative:
            sequence = int(self.rng.integers(self.kernel.first, self.kernel.next))
            columns = self.rng.permutation(self.width)[: int(self.rng.integers(1, self.width + 1))]
            late = self.case.records(self.rng, len(columns))
            self.kernel.amend(sequence, late, columns)
            self.truth.amend(sequence, late, columns)

    def select(self) -> None:
        """Keys leave, others come, columns move."""
        wanted = self.rng.permutation(self.width + 1)[: max(1, self.width)]
        columns = np.where(wanted < self.width, wanted, -1)
        if self.width == 1 and not self.interpret:
            return  # the kernel of an ungrouped query, compiled for one number
        self.kernel.select(columns)
        self.truth.select(columns)

    def clear(self) -> None:
        gone = self.rng.permutation(self.width)[:1]
        self.kernel.clear(gone)
        self.truth.select(np.where(np.isin(np.arange(self.width), gone), -1, np.arange(self.width)))

    def rebuild(self) -> None:
        held = [self.truth.partials[sequence] for sequence in range(int(self.starts[0]), self.truth.next)]
        if held:
            partials = tuple(np.stack(columns) for columns in zip(*held, strict=True))
            self.kernel = self._kernel(self.width)
            self.kernel.rebuild(int(self.starts[0]), partials, self.starts)

    def run(self, steps: int) -> None:
        operations = [self.slide, self.slide, self.amend, self.slide, self.select, self.clear, self.rebuild]
        for _ in range(steps):
            operations[int(self.rng.integers(len(operations)))]()


def play(algorithm: Algorithm, case: Case, seed: int, *, interpret: bool, steps: int) -> None:
    rng = np.random.default_rng(seed)
    Script(
        algorithm,
        case,
        rng,
        capacity=int(rng.integers(1, 10)),
        ranges=int(rng.integers(1, 4)) if algorithm.many_ranges else 1,
        width=int(rng.integers(2, 5)),
        interpret=interpret,
        batch=int(rng.integers(1, 5)),
    ).run(steps)


@pytest.mark.parametrize(("algorithm", "case"), ADMITTED)
def test_interpreted(algorithm: Algorithm, case: Case) -> None:
    for seed in range(2):
        play(algorithm, case, seed, interpret=True, steps=25)


@pytest.mark.parametrize(("algorithm", "case"), COMPILED)
def test_compiled(algorithm: Algorithm, case: Case) -> None:
    for seed in range(5):
        play(algorithm, case, seed, interpret=False, steps=25)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=list(ALGORITHMS))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_operations(algorithm: Algorithm, data: st.DataObject) -> None:
    names = [parameters.id.partition("-")[2] for parameters in COMPILED if parameters.values[0] is algorithm]
    case = CASES[data.draw(st.sampled_from(names))]
    play(algorithm, case, data.draw(st.integers(0, 2**32)), interpret=False, steps=data.draw(st.integers(1, 60)))


# The kernels of ungrouped queries are compiled once for each kind of number: here for those that are chosen most.
SINGLE = [
    ("flatfit", "sum of doubles"),
    ("slickdeque_inv", "count"),
    ("slickdeque_inv", "sum of integers"),
    ("two_stacks", "sum of doubles"),
    ("prefix", "sum of integers"),
    ("panes_inv", "count"),
    ("slickdeque_noninv", "min of integers"),
]


@pytest.mark.parametrize(("kernel", "name"), SINGLE)
def test_single_key(kernel: str, name: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        ranges = int(rng.integers(1, 4)) if ALGORITHMS[kernel].many_ranges else 1
        script = Script(
            ALGORITHMS[kernel],
            CASES[name],
            rng,
            capacity=int(rng.integers(1, 80)),
            ranges=ranges,
            width=1,
            interpret=False,
            batch=32,
        )
        script.run(40)


@pytest.mark.prove
@pytest.mark.parametrize(("algorithm", "case"), ADMITTED)
def test_interpreted_at_length(algorithm: Algorithm, case: Case) -> None:
    for seed in range(100, 108):
        play(algorithm, case, seed, interpret=True, steps=150)


@pytest.mark.prove
@pytest.mark.parametrize(("algorithm", "case"), COMPILED)
def test_compiled_at_length(algorithm: Algorithm, case: Case) -> None:
    for seed in range(100, 160):
        play(algorithm, case, seed, interpret=False, steps=150)


@pytest.mark.prove
@pytest.mark.parametrize(("algorithm", "case"), COMPILED)
def test_single_key_at_length(algorithm: Algorithm, case: Case) -> None:
    for seed in range(100, 110):
        rng = np.random.default_rng(seed)
        ranges = int(rng.integers(1, 4)) if algorithm.many_ranges else 1
        capacity = int(rng.integers(1, 80))
        Script(algorithm, case, rng, capacity=capacity, ranges=ranges, width=1, interpret=False, batch=32).run(150)


# What is refused ------------------------------------------------------------------------------------------------------


def make(name: str, case: str, **arguments: int) -> Kernel:
    return Kernel(ALGORITHMS[name], CASES[case].statistic, **arguments)


def test_a_kernel_says_what_a_function_lacks() -> None:
    with pytest.raises(KernelError, match="needs an inverse, and max has none"):
        make("prefix", "max of doubles", capacity=3)
    with pytest.raises(KernelError, match="selects one of its arguments; count does not"):
        make("slickdeque_noninv", "count", capacity=3)
    with pytest.raises(KernelError, match="out of a sum again, and rounding errors would stay"):
        make("panes_inv", "sum of doubles", capacity=3)
    with pytest.raises(KernelError, match="serves one range, not 2"):
        make("two_stacks", "count", capacity=3, ranges=2)
    with pytest.raises(KernelError, match="at least one partial"):
        make("panes", "count", capacity=0)


def test_starts_are_checked_before_anything_changes() -> None:
    kernel = make("panes", "count", capacity=3, width=2)
    ones = (np.ones((2, 2), dtype=np.int64),)
    kernel.slide(ones, [[0], [1]])
    with pytest.raises(KernelError, match="never go back"):
        kernel.slide(ones, [[0], [0]])
    with pytest.raises(KernelError, match="never go back"):
        kernel.slide(ones, [[1], [0]])
    assert (kernel.first, kernel.next) == (1, 2)


@pytest.mark.parametrize("kernel", ["panes", "slickdeque_inv"])
def test_ranges_are_ordered(kernel: str) -> None:
    ranges = make(kernel, "count", capacity=4, ranges=3, width=2)
    ones = (np.ones((2, 2), dtype=np.int64),)
    with pytest.raises(KernelError, match="the longest, which begins first, comes first"):
        ranges.slide(ones, [[0, 0, 0], [0, 1, 0]])
    ranges.slide(ones, [[0, 0, 0], [0, 1, 1]])
    with pytest.raises(KernelError, match="never go back"):
        ranges.slide(ones, [[0, 0, 2], [0, 1, 3]])
    with pytest.raises(KernelError, match="never go back"):
        ranges.slide(ones, [[0, 2, 2], [0, 1, 3]])
    assert (ranges.first, ranges.next) == (0, 2)


def test_a_window_that_does_not_fit() -> None:
    kernel = make("panes", "count", capacity=3, width=2)
    with pytest.raises(KernelError, match="more than 3 partials"):
        kernel.slide((np.ones((4, 2), dtype=np.int64),), np.zeros((4, 1)))
    assert kernel.next == 0


def test_a_window_of_nothing() -> None:
    kernel = make("panes", "count", capacity=3, width=2)
    with pytest.raises(KernelError, match="begins with a partial it holds"):
        kernel.slide((np.ones((1, 2), dtype=np.int64),), [[1]])


def test_partials_of_the_wrong_width() -> None:
    with pytest.raises(KernelError, match="1 partials of 2 keys"):
        make("panes", "count", capacity=3, width=2).slide((np.ones((1, 3), dtype=np.int64),), [[0]])


def test_late_rows_for_what_has_expired() -> None:
    kernel = make("panes", "count", capacity=3, width=2)
    with pytest.raises(KernelError, match="partial 0 is not held"):
        kernel.amend(0, (np.ones(2, dtype=np.int64),))


# Memory and documentation ---------------------------------------------------------------------------------------------


def test_a_deque_takes_the_memory_it_needs() -> None:
    """Space of SlickDeque (Non-Inv): 2 to 2n. Rising input keeps one entry per key, falling input all of them."""
    case = CASES["max of doubles"]
    n, keys = 4096, 4
    rising = np.arange(4 * n, dtype=np.float64)[:, np.newaxis] + np.zeros(keys)
    sizes = {}
    for name, values in (("rising", rising), ("falling", -rising)):
        kernel = DequeKernel(ALGORITHMS["slickdeque_noninv"], case.statistic, n, width=keys)
        for begin in range(0, len(values), 64):
            slide_on(kernel, (values[begin : begin + 64],), n)
        sizes[name] = kernel.nbytes
    assert sizes["rising"] < 2 * 8 * keys * 256 < sizes["falling"] <= 2.1 * 8 * keys * n


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_kernel_has_the_same_card(name: str) -> None:
    card = inspect.getdoc(importlib.import_module(f"weft.kernels.algorithms.{name}"))
    assert card is not None
    for line in ("Full name    ", "Needs        ", "Time         ", "Space        ", "Paper        ", "Many ranges  "):
        assert f"\n{line}" in card, f"the card of {name} has no line {line.strip()!r}"
    algorithm = ALGORITHMS[name]
    assert algorithm.name == name
    assert f"Many ranges  {'yes' if algorithm.many_ranges else 'no'}" in card
    assert algorithm.title in card.partition("\n")[0]


def test_examples() -> None:
    assert doctest.testmod(kernel_module).failed == 0
