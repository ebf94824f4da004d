"""Windows over partials that are kept only where there are some: against dense windows and plain recomputation."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import CASES, Case, assert_same
from weft.kernels import sparse
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.execution import KernelError
from weft.kernels.grouped import GroupedWindows, KernelPartials, WindowAnswers
from weft.kernels.kernel import why_not
from weft.kernels.monoids import COUNT, NAN, NONFINITE, SUM_OF_DOUBLES
from weft.kernels.sparse import AnswerRows, SparseWindows, spans
from weft.kernels.statistic import Columns, Statistic

NAMES = tuple(CASES)


class Naive:
    """All partials by slice and key, from which every answer is computed anew."""

    def __init__(self, statistic: Statistic) -> None:
        self.statistic = statistic
        self.partials: dict[tuple[int, int], Columns] = {}

    def take(self, slice_: int, key: int, record: Columns) -> None:
        held = self.partials.get((slice_, key))
        self.partials[slice_, key] = record if held is None else self.statistic.combine(held, record)

    def answer(self, start: int, end: int) -> dict[int, Columns]:
        found: dict[int, Columns] = {}
        for (slice_, key), record in sorted(self.partials.items(), key=lambda item: item[0]):
            if start <= slice_ <= end:
                found[key] = self.statistic.combine(found[key], record) if key in found else record
        return found


class Script:
    """The same random partials for sparse windows, dense windows and recomputation."""

    def __init__(self, case: Case, lengths: list[int], seed: int) -> None:
        self.case, self.lengths = case, sorted(lengths, reverse=True)
        self.rng = np.random.default_rng(seed)
        ranges = len(self.lengths)
        self.sparse = SparseWindows({"x": case.statistic}, ranges)
        self.naive = Naive(case.statistic)
        kernel = next(name for name, each in ALGORITHMS.items() if why_not(each, case.statistic, ranges) is None)
        self.dense = GroupedWindows({"x": case.statistic}, {"x": kernel}, self.lengths[0], ranges)

    def entries(self, slices: int) -> tuple[np.ndarray, np.ndarray]:
        """Random places, some slices without any; keys come and go."""
        crowd, density = int(self.rng.integers(1, 12)), self.rng.choice((0.1, 0.5, 1.0))
        there = self.rng.random((slices, crowd)) < density
        slice_, key = np.nonzero(there)
        return slice_, key + int(self.rng.integers(0, 8))

    def slide(self) -> None:
        slices, begin = int(self.rng.integers(0, 5)), self.sparse.next
        slice_, key = self.entries(slices)
        records = self.case.records(self.rng, len(key))
        for n, (f, k) in enumerate(zip(slice_.tolist(), key.tolist(), strict=True)):
            self.naive.take(begin + f, k, tuple(column[n : n + 1] for column in records))
        ends = begin + np.arange(slices)
        starts = np.maximum(ends[:, None] + 1 - np.array(self.lengths), 0)
        due = self.rng.random(starts.shape) < self.rng.choice((0.2, 0.8, 1.0))
        # No order is asked for among the entries of a call.
        mixed = self.rng.permutation(len(key))
        partials = KernelPartials(slice_[mixed], key[mixed], {"x": tuple(column[mixed] for column in records)})
        found = self.sparse.slide(partials, slices, starts, due)
        by_answer = sorted_rows(found)
        assert_like_dense(by_answer, self.dense.slide(partials, slices, starts, due), self.case.statistic)
        assert np.all(np.diff(np.nonzero(due)[1][found.answers]) >= 0), "rows come range by range"
        windows = [self.naive.answer(int(starts[n, j]), int(ends[n])) for n, j in np.argwhere(due)]
        expected = [(n, k, window[k]) for n, window in enumerate(windows) for k in sorted(window)]
        assert list(zip(by_answer.answers.tolist(), by_answer.keys.tolist(), strict=True)) == [
            (n, k) for n, k, _ in expected
        ]
        if expected:
            whole = tuple(np.concatenate(columns) for columns in zip(*(r for _, _, r in expected), strict=True))
            assert_same(by_answer.records["x"], whole)

    def amend(self) -> None:
        if self.sparse.first == self.sparse.next:
            return
        held = self.sparse.next - self.sparse.first
        slice_, key = self.entries(held)
        sequences, records = slice_ + self.sparse.first, self.case.records(self.rng, len(key))
        self.sparse.absorb(sequences, key, {"x": records})
        self.dense.absorb(sequences, key, {"x": records})
        for n, (f, k) in enumerate(zip(sequences.tolist(), key.tolist(), strict=True)):
            self.naive.take(f, k, tuple(column[n : n + 1] for column in records))

    def rebuild(self) -> None:
        """Go on with windows that were made from what these hold."""
        held, count = self.sparse.held(), self.sparse.next - self.sparse.first
        successor = SparseWindows({"x": self.case.statistic}, len(self.lengths), self.sparse.first)
        starts = np.full((count, len(self.lengths)), self.sparse.first)
        nothing = successor.slide(held, count, starts, np.zeros_like(starts, dtype=bool))
        assert not len(nothing.answers)
        assert successor.number_of_keys == self.sparse.number_of_keys
        self.sparse = successor


def sorted_rows(rows: AnswerRows) -> AnswerRows:
    order = np.lexsort((rows.keys, rows.answers))
    records = {name: tuple(column[order] for column in columns) for name, columns in rows.records.items()}
    return AnswerRows(rows.answers[order], rows.keys[order], records)


def assert_like_dense(rows: AnswerRows, dense: WindowAnswers, statistic: Statistic) -> None:
    """The same records where there are rows, and identities elsewhere."""
    columns, order = dense.records["x"], np.argsort(dense.keys)
    at = rows.answers, order[np.searchsorted(dense.keys[order], rows.keys)]
    assert_same(tuple(column[at] for column in columns), rows.records["x"])
    elsewhere = np.ones(columns[0].shape[:2], dtype=bool)
    elsewhere[at] = False
    assert_same(tuple(column[elsewhere] for column in columns), statistic.empty(int(elsewhere.sum())))


def run(name: str, lengths: list[int], seed: int) -> None:
    script = Script(CASES[name], lengths, seed)
    for _ in range(6):
        script.slide()
        if script.rng.random() < 0.4:
            script.amend()
        if script.rng.random() < 0.3:
            script.rebuild()


LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32), lengths=LENGTHS)
def test_sparse_windows_answer_like_dense_ones_and_like_recomputation(name: str, seed: int, lengths: list[int]) -> None:
    run(name, lengths, seed)


@pytest.mark.prove
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), lengths=LENGTHS)
def test_sparse_windows_at_length(name: str, seed: int, lengths: list[int]) -> None:
    run(name, lengths, seed)


@pytest.mark.parametrize("name", NAMES)
def test_long_windows_over_many_ranges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough for spans to be put together from a tree, and copied out in parts."""
    monkeypatch.setattr(sparse, "_AT_ONCE", 100)
    case, rng = CASES[name], np.random.default_rng(4)
    slices, lengths = 150, [140, 90, 33, 1]
    slice_, key = np.nonzero(rng.random((slices, 3)) < 0.9)
    records = case.records(rng, len(key))
    naive = Naive(case.statistic)
    for n, (f, k) in enumerate(zip(slice_.tolist(), key.tolist(), strict=True)):
        naive.take(f, k, tuple(column[n : n + 1] for column in records))
    starts = np.maximum(np.arange(1, slices + 1)[:, None] - np.array(lengths), 0)
    due = np.zeros(starts.shape, dtype=bool)
    due[140:] = True
    windows = SparseWindows({"x": case.statistic}, len(lengths))
    rows = sorted_rows(windows.slide(KernelPartials(slice_, key, {"x": records}), slices, starts, due))
    place = 0
    for step, number in np.argwhere(due):
        for k, record in sorted(naive.answer(int(starts[step, number]), int(step)).items()):
            assert rows.keys[place] == k
            assert_same(tuple(column[place : place + 1] for column in rows.records["x"]), record)
            place += 1
    assert place == len(rows.keys)


def one(slice_: int, key: int, value: float, flags: int = 0) -> KernelPartials:
    records = {"sum": (np.array([value]),), "nonfinite": (np.array([flags]),)}
    return KernelPartials(np.array([slice_]), np.array([key]), records)


def test_what_a_large_number_hid_is_there_again_when_it_has_gone() -> None:
    windows = SparseWindows({"sum": SUM_OF_DOUBLES, "nonfinite": NONFINITE})
    for step, value in enumerate((1.0, 1e17, -3.0, 0.5)):
        rows = windows.slide(one(0, 5, value), 1, [[max(0, step - 1)]])
    assert rows.records["sum"][0].tolist() == [-2.5]


def test_a_rare_statistic_has_records_only_while_it_must() -> None:
    windows = SparseWindows({"sum": SUM_OF_DOUBLES, "nonfinite": NONFINITE})
    small = windows.slide(one(0, 1, 1.0), 1, [[0]])
    assert small.records["nonfinite"][0].tolist() == [0]
    assert windows._records.keys() == {"sum"}
    windows.absorb(np.array([0]), np.array([2]), one(0, 2, 0.0, NAN).records)
    assert windows.slide(one(0, 1, 1.0), 1, [[0]]).records["nonfinite"][0].tolist() == [0, NAN]
    assert windows._records.keys() == {"sum", "nonfinite"}
    windows.slide(one(0, 1, 1.0), 1, [[2]])
    assert windows._records.keys() == {"sum"}


def test_expired_partials_are_let_go() -> None:
    windows = SparseWindows({"n": COUNT}, 2)
    for step in range(50):
        partials = KernelPartials(
            np.zeros(3, dtype=np.int64), step + np.arange(3), {"n": (np.ones(3, dtype=np.int64),)}
        )
        windows.slide(partials, 1, [[max(0, step - 4), step]])
    assert (len(windows.held().keys), windows.number_of_keys) == (15, 7)
    windows.slide(KernelPartials(np.empty(0, int), np.empty(0, int), {"n": (np.empty(0, int),)}), 1, [[50, 50]])
    assert windows.is_empty


def test_slices_that_are_gone_cannot_be_amended() -> None:
    windows = SparseWindows({"n": COUNT}, first=1000)
    windows.slide(
        KernelPartials(np.array([0, 2]), np.array([4, 4]), {"n": (np.array([1, 1]),)}), 3, [[1000], [1000], [1001]]
    )
    with pytest.raises(KernelError, match="slice 1000 is not held; those from 1001 to 1002 are"):
        windows.absorb(np.array([1001, 1000]), np.array([4, 4]), {"n": (np.array([5, 5]),)})
    with pytest.raises(KernelError, match="never go back"):
        windows.slide(KernelPartials(np.array([0]), np.array([4]), {"n": (np.array([1]),)}), 1, [[999]])


def test_gaps_between_the_instances_of_a_hopping_window_are_in_none_of_them() -> None:
    keys, slices = np.array([1, 1, 1, 2]), np.array([0, 3, 5, 4])
    found = spans(keys, slices, ranges=np.array([0, 0]), starts=np.array([0, 5]), ends=np.array([1, 6]))
    assert [each.tolist() for each in found] == [[1, 1], [0, 2], [1, 3]]


def test_examples() -> None:
    assert doctest.testmod(sparse).failed == 0
