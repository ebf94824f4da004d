"""Trees give the same groups whether they are dense, sparse, or change from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra import Window
from weft.algebra.types import BIGINT
from weft.kernels import sparse
from weft.kernels.monoids import COUNT, MOMENTS, SUM_OF_DOUBLES, extreme
from weft.kernels.sparse import Crowd
from weft.kernels.statistic import Columns
from weft.plan.nodes import TreeSpec
from weft.runtime.stages.windows.window_tree import InstanceGroups, SlicePartials, WindowTree

T = TypeVar("T")

STATISTICS = {"rows": COUNT, "sum": SUM_OF_DOUBLES, "moments": MOMENTS, "max": extreme(BIGINT, True)}
KERNELS = {"rows": "prefix", "sum": "flatfit", "moments": "flatfit", "max": "flatfit"}
WINDOWS = ((12, 3), (12, 4), (10, 5), (6, 2), (6, 5), (4, 9), (3, 3))

#: The constants that decide: see `weft/kernels/sparse.py`.
Form = tuple[int, int, int, int]
USUAL = sparse.FEW, sparse.SMALL, sparse.SPARSE_BELOW, sparse.DENSE_ABOVE
DENSE, SPARSE, CHANGING = (-1, 1 << 60, 0, 0), (-1, -2, 0, 0), (-1, -2, 3, 4)


def tree(windows: list[tuple[int, int]]) -> WindowTree:
    ordered = sorted((Window(range_, slide) for range_, slide in windows), key=lambda each: -(each.range or 0))
    return WindowTree(TreeSpec(frozenset(), ("k",), tuple(ordered), tuple(STATISTICS)), STATISTICS, KERNELS)


def cellwise(rng: np.random.Generator, clock: int, number: int, crowd: int) -> SlicePartials:
    """Random partials of slices of one tick, around a clock."""
    codes = np.unique(rng.integers(-9, 4, number) * crowd + rng.integers(0, crowd, number))
    ones, values = np.ones(len(codes)), rng.normal(size=len(codes))
    records: dict[str, Columns] = {
        "rows": (ones.astype(np.int64),),
        "sum": (values,),
        "moments": (ones, values, ones * 0),
        "max": (rng.integers(-99, 99, len(codes)),),
    }
    return SlicePartials(clock + codes // crowd, codes % crowd, records)


class Followed:
    """A tree, its log, and what it has answered."""

    def __init__(self, windows: list[tuple[int, int]], form: Form) -> None:
        self.form = form
        self.tree = self._with_form(lambda: tree(windows))
        self.log: list[SlicePartials] = []
        self.forgot = 0
        self.answered: list[tuple[object, ...]] = []
        self.rounded: list[np.ndarray] = []

    def _with_form(self, act: Callable[[], T]) -> T:
        sparse.FEW, sparse.SMALL, sparse.SPARSE_BELOW, sparse.DENSE_ABOVE = self.form
        try:
            return act()
        finally:
            sparse.FEW, sparse.SMALL, sparse.SPARSE_BELOW, sparse.DENSE_ABOVE = USUAL

    def take(self, arrived: SlicePartials, before: int | None, until: int) -> None:
        self._with_form(lambda: self._take(arrived, before, until))

    def _take(self, arrived: SlicePartials, before: int | None, until: int) -> None:
        if self.tree.is_outgrown_by(self.tree.crowd(len(np.unique(arrived.keys)), len(arrived))):
            self.tree.forget()
            self.forgot += 1
            for each in self.log:
                self.tree.take(each, before, None)
            assert self.tree.take(None, before, before) is None, "what has closed is not answered again"
        self.log.append(arrived)
        found = self.tree.take(arrived, before, until)
        if found is not None:
            self._note(found)

    def take_up(self, log: list[SlicePartials], before: int, behind: int) -> None:
        """Take in a log piece by piece, as far as the newest partial goes, or not so far; what is behind comes late."""
        self.log = list(log)
        for each in log:
            until = min(before, int(each.slices.max()) - behind) if len(each) else before
            assert self._with_form(partial(self.tree.take, each, before, until)) is None
        assert self._with_form(partial(self.tree.take, None, before, before)) is None

    def _note(self, groups: InstanceGroups) -> None:
        assert np.all(np.diff(groups.windows) >= 0)
        order = np.lexsort((groups.keys, groups.ends, groups.windows))
        exact = [groups.windows, groups.ends, groups.keys, *groups.records["rows"], *groups.records["max"]]
        self.answered += zip(*(column[order].tolist() for column in exact), strict=True)
        self.rounded += [column[order] for column in (*groups.records["sum"], *groups.records["moments"])]


def assert_alike(one: Followed, other: Followed) -> None:
    assert one.answered == other.answered
    for mine, its in zip(one.rounded, other.rounded, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-9)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    windows=st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=4, unique=True),
)
def test_all_forms_of_a_tree_answer_alike(seed: int, windows: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(seed)
    forms = [Followed(windows, form) for form in (DENSE, SPARSE, CHANGING)]
    clock, before = 0, None
    for _ in range(8):
        clock += int(rng.choice([0, 1, 7, 40]))
        arrived = cellwise(rng, clock, int(rng.choice([0, 3, 30])), int(rng.integers(1, 9)))
        for each in forms:
            each.take(arrived, before, clock - 4)
        before = clock - 4
    dense, sparse, changing = forms
    assert not dense.tree.is_sparse
    assert sparse.tree.is_sparse
    assert_alike(dense, sparse)
    assert_alike(dense, changing)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    windows=st.lists(st.sampled_from(WINDOWS), min_size=2, max_size=6, unique=True),
    form=st.sampled_from([DENSE, SPARSE, CHANGING]),
)
def test_windows_in_one_tree_answer_as_in_trees_of_their_own(
    seed: int, windows: list[tuple[int, int]], form: Form
) -> None:
    rng = np.random.default_rng(seed)
    together, apart = Followed(windows, form), [Followed([window], form) for window in windows]
    clock, before = 0, None
    for _ in range(8):
        clock += int(rng.choice([0, 1, 7, 40]))
        arrived = cellwise(rng, clock, int(rng.choice([0, 3, 30])), int(rng.integers(1, 9)))
        for each in (together, *apart):
            each.take(arrived, before, clock - 4)
        before = clock - 4
    by_window = {each.tree.spec.windows[0]: [rest for _, *rest in each.answered] for each in apart}
    for number, window in enumerate(together.tree.spec.windows):
        mine = [rest for position, *rest in together.answered if position == number]
        assert mine == by_window[window]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    windows=st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=4, unique=True),
    form=st.sampled_from([DENSE, SPARSE, CHANGING]),
    behind=st.integers(-3, 12),
)
def test_a_tree_that_takes_up_a_log_piece_by_piece_answers_like_the_one_that_was_there(
    seed: int, windows: list[tuple[int, int]], form: Form, behind: int
) -> None:
    rng = np.random.default_rng(seed)
    first, second = Followed(windows, form), Followed(windows, form)
    clock, before = 0, None
    for step in range(10):
        if step == 5 and before is not None:
            second.take_up(first.log, before, behind)
            first.answered, first.rounded = [], []
        clock += int(rng.choice([0, 1, 7, 40]))
        arrived = cellwise(rng, clock, int(rng.choice([0, 3, 30])), int(rng.integers(1, 9)))
        for follower in (first, second) if step >= 5 else (first,):
            follower.take(arrived, before, clock - 4)
        before = clock - 4
    assert_alike(first, second)


def test_a_window_without_readers_is_not_answered_and_comes_back_whole() -> None:
    rng = np.random.default_rng(5)
    windows = [(12, 3), (6, 2), (6, 5)]
    whole, asked = Followed(windows, DENSE), Followed(windows, DENSE)
    for clock in range(0, 60, 4):
        wanted = set(asked.tree.spec.windows[:1] if 16 <= clock < 40 else asked.tree.spec.windows)
        asked.tree.ask_for(wanted)
        answered = len(whole.answered), len(asked.answered)
        arrived = cellwise(rng, clock, 30, 5)
        for each in (whole, asked):
            each.take(arrived, clock - 8 if clock else None, clock - 4)
        expected = [row for row in whole.answered[answered[0] :] if whole.tree.spec.windows[row[0]] in wanted]
        assert asked.answered[answered[1] :] == expected
    assert len(asked.answered) < len(whole.answered)


def test_a_dense_tree_becomes_sparse_from_its_log_and_dense_again() -> None:
    rng = np.random.default_rng(3)
    changing, plain = Followed([(12, 3), (6, 2)], CHANGING), Followed([(12, 3), (6, 2)], DENSE)
    forms = []
    few, many = (200, 4), (300, 9_000)
    for step, (number, crowd) in enumerate([few, few, many, many, few, few, few, few, many, many]):
        arrived = cellwise(rng, 8 * step, number, crowd)
        for each in (changing, plain):
            each.take(arrived, 8 * step - 12 if step else None, 8 * step - 4)
        forms.append("sparse" if changing.tree.is_sparse else "dense")
    assert [forms[step] for step in (1, 3, 7, 9)] == ["dense", "sparse", "dense", "sparse"]
    assert changing.forgot >= 2
    assert_alike(changing, plain)


def test_a_tree_forgets_nothing_when_it_becomes_dense() -> None:
    rng = np.random.default_rng(2)
    followed = Followed([(12, 3), (4, 9)], SPARSE)
    plain = Followed([(12, 3), (4, 9)], DENSE)
    for step in range(6):
        arrived = cellwise(rng, 5 * step, 20, 4)
        if step == 3:
            followed.form = DENSE
        for each in (followed, plain):
            each.take(arrived, 5 * step - 9, 5 * step - 4)
    assert not followed.tree.is_sparse
    assert plain.answered
    assert_alike(followed, plain)


def test_want_of_memory_keeps_a_tree_sparse() -> None:
    frugal = tree([(12, 3)])
    frugal.take(cellwise(np.random.default_rng(1), 20, 30, 4), None, 20)
    assert not frugal.is_sparse
    crowd = frugal.crowd()
    assert frugal.bytes_for(crowd) == crowd.dense_bytes
    assert frugal.save_memory()
    assert frugal.bytes_for(crowd) == crowd.sparse_bytes
    frugal.take(cellwise(np.random.default_rng(1), 20, 30, 4), None, 20)
    assert frugal.is_sparse
    assert not frugal.save_memory(), "nothing had to be forgotten"


def crowded(keys: int, partials: int, slices: int = 50) -> Crowd:
    return Crowd(keys, partials, slices, capacity=50, dense_key=50 * 64, sparse_partial=80)


def test_what_a_crowd_takes() -> None:
    many = crowded(1_000_000, 3_000_000)
    assert many.dense_bytes == 3_200 * 2**20
    assert many.sparse_bytes == 480_000_000
    # In more than one place of 32, in fewer than one of 8: it stays what it is.
    assert many.is_better_sparse(sparse_now=True)
    assert not many.is_better_sparse(sparse_now=False)
    assert crowded(1_000_000, 1_500_000).is_better_sparse(sparse_now=False)
    assert not crowded(1_000_000, 6_500_000).is_better_sparse(sparse_now=True)


def test_few_keys_are_dense_however_little_they_have() -> None:
    assert not crowded(5_000, 5_000).is_better_sparse(sparse_now=True)
    long = Crowd(100, 100, slices=6_000, capacity=6_000, dense_key=6_000 * 200, sparse_partial=80)
    assert long.dense_bytes > sparse.SMALL
    assert not long.is_better_sparse(sparse_now=True)


def test_windows_that_have_only_begun_are_as_full_as_they_look_unless_there_are_very_many_keys() -> None:
    assert crowded(50_000, 100_000).is_better_sparse(sparse_now=True)
    assert not crowded(50_000, 100_000, slices=10).is_better_sparse(sparse_now=True)
    assert crowded(50_000, 50_000, slices=1).is_better_sparse(sparse_now=True), "one slice tells nothing"
    assert crowded(1_000_000, 2_000_000, slices=10).is_better_sparse(sparse_now=True)
