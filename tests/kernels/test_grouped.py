"""Keys that come and go, over all kernels of a tree, against plain recomputation."""

from __future__ import annotations

import doctest
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import CASES, rows_of
from weft.algebra.types import DOUBLE
from weft.kernels import grouped
from weft.kernels.aggregate_functions import FUNCTIONS, Signature
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.compiled.machine_code import row_operation
from weft.kernels.execution import KernelError, compiled, loop_of
from weft.kernels.grouped import FEWEST_COLUMNS, GroupedWindows, KernelPartials, KeyColumns, WindowAnswers, make_kernel
from weft.kernels.kernel import why_not
from weft.kernels.monoids import COUNT, NONFINITE, SUM_OF_DOUBLES, extreme
from weft.kernels.statistic import Columns, Values, fold
from weft.runtime.stages.windows.warm_start import compile_kernels

STATISTICS = {"count": COUNT, "sum": SUM_OF_DOUBLES, "nonfinite": NONFINITE, "max": extreme(DOUBLE, True)}
KERNELS = {"count": "prefix", "sum": "flatfit", "nonfinite": "prefix", "max": "slickdeque_noninv"}


Slice = dict[int, list[float]]


class Rows:
    """All rows by slice and key, from which every answer can be computed anew."""

    def __init__(self) -> None:
        self.slices: list[Slice] = []

    def partials(self, slices: list[Slice]) -> KernelPartials:
        entries = [(n, key, values) for n, rows in enumerate(slices) for key, values in rows.items()]
        return KernelPartials(
            np.array([n for n, _, _ in entries], dtype=np.int64),
            np.array([key for _, key, _ in entries], dtype=np.int64),
            self.records([values for _, _, values in entries]),
        )

    def records(self, groups: list[list[float]]) -> dict[str, Columns]:
        flat = np.array([value for values in groups for value in values])
        members = np.repeat(np.arange(len(groups)), [len(values) for values in groups])
        column = Values(flat, np.ones(len(flat), dtype=bool))
        return {name: fold(s, s.lift(column), members, len(groups)) for name, s in STATISTICS.items()}

    def window(self, start: int, end: int) -> Slice:
        result: Slice = {}
        for rows in self.slices[start:end]:
            for key, values in rows.items():
                result.setdefault(key, []).extend(values)
        return result


def check(tree: GroupedWindows, rows: Rows, slices: list[Slice], lengths: list[int], due: object = None) -> None:
    begin = len(rows.slices)
    rows.slices += slices
    starts = np.array([[max(0, begin + n + 1 - length) for length in lengths] for n in range(len(slices))])
    answers = tree.slide(rows.partials(slices), len(slices), starts, due)
    wanted = np.argwhere(np.ones(starts.shape) if due is None else due)
    windows = [rows.window(int(starts[n, j]), begin + n + 1) for n, j in wanted]
    check_answers(answers, windows)


def check_answers(answers: WindowAnswers, windows: list[Slice]) -> None:
    found = rows_of(answers, answers.records["count"][0] > 0)
    expected = [(n, key) for n, window in enumerate(windows) for key in window]
    assert sorted(zip(found.answers.tolist(), found.keys.tolist(), strict=True)) == sorted(expected)
    signature = Signature((DOUBLE,), DOUBLE)
    count, total, nonfinite, greatest = (found.records[name] for name in ("count", "sum", "nonfinite", "max"))
    sums = FUNCTIONS["sum"].lower([count, total, nonfinite], signature)
    extremes = FUNCTIONS["max"].lower([count, greatest, nonfinite], signature)
    for row, (n, key) in enumerate(zip(found.answers.tolist(), found.keys.tolist(), strict=True)):
        values = windows[n][key]
        assert count[0][row] == len(values)
        np.testing.assert_allclose(sums.values[row], np.sum(values), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(extremes.values[row], np.max(values))


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True))
def test_key_churn(seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    lengths = sorted(lengths, reverse=True)
    tree, rows = GroupedWindows(STATISTICS, KERNELS, lengths[0], len(lengths)), Rows()
    for cycle in range(6):
        # The keys in use move on, so that old ones disappear; now and then there are many, or none.
        population = [0, 3, 20, 5][int(rng.integers(4))]
        slices: list[Slice] = []
        for _ in range(int(rng.integers(0, 4))):
            present = {5 * cycle + int(key) for key in rng.integers(0, population + 1, population)}
            values = {key: rng.normal(size=int(rng.integers(1, 3))).tolist() for key in sorted(present)}
            if values and rng.random() < 0.1:
                values[min(values)].append(float("nan"))
            slices.append(values)
        due = rng.random((len(slices), len(lengths))) < 0.6
        check(tree, rows, slices, lengths, due if cycle % 2 else None)
        if rng.random() < 0.5 and tree.first < tree.next:
            late = int(rng.integers(tree.first, tree.next))
            news = {5 * cycle: [float(rng.normal())], 1000: [100.0, float(rng.choice([1.0, np.inf]))]}
            for key, values in news.items():
                rows.slices[late].setdefault(key, []).extend(values)
            tree.absorb(np.full(2, late), np.array(list(news)), rows.records(list(news.values())))


def test_columns_are_used_again() -> None:
    tree, rows = GroupedWindows(STATISTICS, KERNELS, 2), Rows()
    for cycle in range(60):
        check(tree, rows, [{2 * cycle: [1.0], 2 * cycle + 1: [2.0]}], [2])
    assert tree.number_of_keys <= 4
    assert tree._kernels["count"].width == FEWEST_COLUMNS


def test_columns_are_given_back() -> None:
    tree, rows = GroupedWindows(STATISTICS, KERNELS, 2), Rows()
    check(tree, rows, [{n: [1.0] for n in range(500)}], [2])
    assert tree._kernels["count"].width == 512
    for _ in range(3):
        check(tree, rows, [{7: [1.0], 8: [2.0]}], [2])
    assert tree._kernels["count"].width == FEWEST_COLUMNS


def test_a_rare_statistic_has_a_kernel_only_when_it_must() -> None:
    tree, rows = GroupedWindows(STATISTICS, KERNELS, 3), Rows()
    check(tree, rows, [{1: [1.0]}, {2: [2.0]}], [3])
    assert "nonfinite" not in tree._kernels
    check(tree, rows, [{1: [float("inf")]}, {2: [2.0]}], [3])
    assert "nonfinite" in tree._kernels
    check(tree, rows, [{}, {1: [1.0]}], [3])
    assert "nonfinite" not in tree._kernels


def test_a_tree_may_begin_with_any_slice() -> None:
    """Rebuilt from a log: slices keep the numbers they had."""
    tree = GroupedWindows({"n": COUNT}, {"n": "prefix"}, 3, first=1000)
    ones = KernelPartials(np.array([0, 2]), np.array([4, 4]), {"n": (np.array([1, 1]),)})
    answers = tree.slide(ones, 3, [[1000], [1000], [1001]])
    assert (tree.first, tree.next) == (1001, 1003)
    assert answers.records["n"][0].tolist() == [[1], [1], [1]]
    tree.absorb(np.array([1001]), np.array([4]), {"n": (np.array([5]),)})
    nothing = KernelPartials(
        np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), {"n": (np.empty(0, dtype=np.int64),)}
    )
    assert tree.slide(nothing, 1, [[1001]]).records["n"][0].tolist() == [[6]]
    with pytest.raises(KernelError, match="slice 1000 is not held"):
        tree.absorb(np.array([1000]), np.array([4]), {"n": (np.array([5]),)})


def test_keys_by_hand() -> None:
    keys = KeyColumns()
    assert keys.columns_of(np.array([30, 20, 30])).tolist() == [1, 0, 1]
    keys.see(np.array([1, 0, 1]), np.array([0, 1, 2]))
    assert keys.release(2).tolist() == [0]
    assert keys.columns_of(np.array([10])).tolist() == [0]
    names, columns = keys.live()
    assert (names.tolist(), columns.tolist(), len(keys)) == ([10, 30], [0, 1], 2)
    assert keys.compact() is None
    with pytest.raises(ValueError, match="from 0 on, not -1"):
        keys.columns_of(np.array([-1]))


def compilations() -> int:
    """How many kernels and row operations this process has compiled or loaded so far."""
    kernels = sum(len(compiled(loop_of, algorithm).signatures) for algorithm in ALGORITHMS.values())
    return kernels + row_operation.cache_info().currsize


def test_kernels_compiled_ahead_leave_nothing_to_compile() -> None:
    compile_kernels()
    before = compilations()
    for name, case in CASES.items():
        for kernel, algorithm in ALGORITHMS.items():
            for ranges in (1, 2) if algorithm.many_ranges else (1,):
                if why_not(algorithm, case.statistic, ranges) is None:
                    tree = GroupedWindows({name: case.statistic}, {name: kernel}, 3, ranges)
                    partials = KernelPartials(
                        np.zeros(9, dtype=np.int64), np.arange(9), {name: case.records(np.random.default_rng(1), 9)}
                    )
                    tree.slide(partials, 1, np.zeros(ranges))
                    tree.absorb(np.array([0]), np.array([20]), {name: case.records(np.random.default_rng(1), 1)})
    assert compilations() == before


def test_another_process_loads_what_is_compiled() -> None:
    make_kernel("prefix", COUNT, 1, width=2).slide(COUNT.empty(1, 2), [[0]])
    program = (
        "from weft.kernels.execution import compiled, loop_of\n"
        "from weft.kernels.algorithms import ALGORITHMS\n"
        "from weft.kernels.monoids import COUNT\n"
        "from weft.kernels.grouped import make_kernel\n"
        "make_kernel('prefix', COUNT, 1, width=2).slide(COUNT.empty(1, 2), [[0]])\n"
        "stats = compiled(loop_of, ALGORITHMS['prefix']).stats\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]


@pytest.mark.prove
@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32), lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5, unique=True))
def test_key_churn_at_length(seed: int, lengths: list[int]) -> None:
    test_key_churn.hypothesis.inner_test(seed, lengths)


def test_examples() -> None:
    assert doctest.testmod(grouped).failed == 0
