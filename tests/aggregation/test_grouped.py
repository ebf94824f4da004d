"""Keys that come and go, over all kernels of a tree, against plain recomputation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.aggregation.functions import FUNCTIONS, Signature
from weft.aggregation.grouped import GroupedWindows, Partials
from weft.aggregation.keys import FEWEST_COLUMNS, KeyColumns
from weft.aggregation.statistic import Columns, Values, fold
from weft.aggregation.statistics import COUNT, NONFINITE, SUM_OF_DOUBLES, extreme
from weft.aggregation.warm import warm_up
from weft.algebra.types import DOUBLE

STATISTICS = {"count": COUNT, "sum": SUM_OF_DOUBLES, "nonfinite": NONFINITE, "max": extreme(DOUBLE, True)}
KERNELS = {"count": "prefix", "sum": "flatfit", "nonfinite": "slickdeque_inv", "max": "slickdeque_noninv"}


class Rows:
    """All rows by fragment and key, from which every answer can be computed anew."""

    def __init__(self) -> None:
        self.fragments: list[dict[str, list[float]]] = []

    def partials(self, fragments: list[dict[str, list[float]]]) -> Partials:
        entries = [(n, key, values) for n, rows in enumerate(fragments) for key, values in rows.items()]
        return Partials(
            np.array([n for n, _, _ in entries], dtype=np.intp),
            [key for _, key, _ in entries],
            self.records([values for _, _, values in entries]),
        )

    def records(self, groups: list[list[float]]) -> dict[str, Columns]:
        flat = np.array([value for values in groups for value in values])
        members = np.repeat(np.arange(len(groups)), [len(values) for values in groups])
        column = Values(flat, np.ones(len(flat), dtype=bool))
        return {name: fold(s, s.lift(column), members, len(groups)) for name, s in STATISTICS.items()}

    def window(self, start: int, end: int) -> dict[str, list[float]]:
        result: dict[str, list[float]] = {}
        for rows in self.fragments[start:end]:
            for key, values in rows.items():
                result.setdefault(key, []).extend(values)
        return result


def check(tree: GroupedWindows, rows: Rows, fragments: list[dict[str, list[float]]], lengths: list[int]) -> None:
    begin = len(rows.fragments)
    rows.fragments += fragments
    starts = np.array([[max(0, begin + n + 1 - length) for length in lengths] for n in range(len(fragments))])
    answers = tree.slide(rows.partials(fragments), len(fragments), starts)
    row = 0
    for n in range(len(fragments)):
        for j in range(len(lengths)):
            expected = rows.window(int(starts[n, j]), begin + n + 1)
            records = {name: tuple(column[row] for column in columns) for name, columns in answers.records.items()}
            seen = {key for key, count in zip(answers.keys, records["count"][0], strict=True) if count > 0}
            assert seen == set(expected)
            signature = Signature((DOUBLE,), DOUBLE)
            sums = FUNCTIONS["sum"].lower([records["count"], records["sum"], records["nonfinite"]], signature)
            greatest = FUNCTIONS["max"].lower([records["count"], records["max"], records["nonfinite"]], signature)
            for k, key in enumerate(answers.keys):
                if key in expected:
                    np.testing.assert_allclose(sums.values[k], np.sum(expected[key]), rtol=1e-9, atol=1e-9)
                    np.testing.assert_array_equal(greatest.values[k], np.max(expected[key]))
            row += 1


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True))
def test_key_churn(seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    lengths = sorted(lengths, reverse=True)
    tree, rows = GroupedWindows(STATISTICS, KERNELS, lengths[0], len(lengths)), Rows()
    for cycle in range(6):
        # The keys in use move on, so that old ones disappear; now and then there are many, or none.
        population = [0, 3, 20, 5][int(rng.integers(4))]
        fragments: list[dict[str, list[float]]] = []
        for _ in range(int(rng.integers(1, 4))):
            present = {f"k{5 * cycle + int(key)}" for key in rng.integers(0, population + 1, population)}
            values = {key: rng.normal(size=int(rng.integers(1, 3))).tolist() for key in sorted(present)}
            if values and rng.random() < 0.1:
                values[min(values)].append(float("nan"))
            fragments.append(values)
        check(tree, rows, fragments, lengths)
        first = max(0, len(rows.fragments) - lengths[0])
        if rng.random() < 0.5 and first < len(rows.fragments):
            late = int(rng.integers(first, len(rows.fragments)))
            news = {f"k{5 * cycle}": [float(rng.normal())], "late": [100.0, float(rng.choice([1.0, np.inf]))]}
            for key, values in news.items():
                rows.fragments[late].setdefault(key, []).extend(values)
            tree.amend(late, list(news), rows.records(list(news.values())))


def test_columns_are_used_again() -> None:
    tree, rows = GroupedWindows(STATISTICS, KERNELS, 2), Rows()
    for cycle in range(60):
        check(tree, rows, [{f"key {cycle}": [1.0], f"other {cycle}": [2.0]}], [2])
    assert tree.number_of_keys <= 4
    assert tree._kernels["count"].width == FEWEST_COLUMNS


def test_columns_are_given_back() -> None:
    tree, rows = GroupedWindows(STATISTICS, KERNELS, 2), Rows()
    check(tree, rows, [{f"key {n}": [1.0] for n in range(500)}], [2])
    assert tree._kernels["count"].width == 512
    for _ in range(3):
        check(tree, rows, [{"key 7": [1.0], "key 8": [2.0]}], [2])
    assert tree._kernels["count"].width == FEWEST_COLUMNS


def test_a_rare_statistic_has_a_kernel_only_when_it_must() -> None:
    tree, rows = GroupedWindows(STATISTICS, KERNELS, 3), Rows()
    check(tree, rows, [{"a": [1.0]}, {"b": [2.0]}], [3])
    assert "nonfinite" not in tree._kernels
    check(tree, rows, [{"a": [float("inf")]}, {"b": [2.0]}, {}, {"a": [1.0]}], [3])
    assert "nonfinite" in tree._kernels


def test_keys_by_hand() -> None:
    keys = KeyColumns()
    assert keys.columns_of(["a", "b", "a"], np.array([0, 1, 2])).tolist() == [0, 1, 0]
    assert keys.release(2) == [1]
    assert keys.columns_of(["c"], np.array([3])).tolist() == [1]
    names, columns = keys.live()
    assert (names, columns.tolist()) == (["a", "c"], [0, 1])
    assert keys.compact() is None


def test_warm_up_leaves_nothing_to_compile() -> None:
    from weft.aggregation.driver import compiled, interpreted_run
    from weft.aggregation.kernels import ALGORITHMS

    warm_up([COUNT, SUM_OF_DOUBLES], ["prefix", "flatfit"])
    for name in ("prefix", "flatfit"):
        before = len(compiled(interpreted_run, ALGORITHMS[name]).signatures)
        tree = GroupedWindows({"n": COUNT, "s": SUM_OF_DOUBLES}, {"n": name, "s": name}, 3)
        tree.slide(Partials(np.array([0]), ["a"], {"n": (np.array([1]),), "s": (np.array([1.0]),)}), 1, [[0]])
        assert len(compiled(interpreted_run, ALGORITHMS[name]).signatures) == before > 0


@pytest.mark.prove
@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32), lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5, unique=True))
def test_key_churn_at_length(seed: int, lengths: list[int]) -> None:
    test_key_churn.hypothesis.inner_test(seed, lengths)
