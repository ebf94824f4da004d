"""Whole trees: rows, cut into slices, lifted, folded, taken in by a kernel, against windows evaluated row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import rows_of
from tests.windows.strategies import answers_between
from weft.algebra import Window
from weft.algebra.types import BIGINT
from weft.kernels.grouped import GroupedWindows, KernelPartials
from weft.kernels.monoids import COUNT, extreme, sum_of_integers, whole_sum
from weft.kernels.statistic import Columns, Statistic, Values, fold
from weft.windows.slicing import edges_between, most_partials, shared_edges

windows = st.builds(Window, range=st.integers(1, 40), slide=st.integers(1, 12), origin=st.integers(-20, 20))
rows = st.lists(st.tuples(st.integers(0, 119), st.integers(0, 3), st.integers(-9, 9)), max_size=60)


def lifted(statistic: Statistic, values: list[int]) -> Columns:
    return statistic.lift(Values(np.array(values, dtype=np.int64), np.ones(len(values), dtype=bool)))


STATISTICS = {"count": COUNT, "sum": sum_of_integers(2), "max": extreme(BIGINT, True)}
#: Kernels that serve several ranges, for each statistic.
ROUNDS = [
    {"count": "prefix", "sum": "prefix", "max": "slickdeque_noninv"},
    {"count": "slickdeque_inv", "sum": "slickdeque_inv", "max": "flatfit"},
    {"count": "panes", "sum": "flatfit", "max": "flatfat"},
    {"count": "b_int", "sum": "flatfat", "max": "b_int"},
]


@pytest.mark.parametrize("kernels", ROUNDS, ids=lambda kernels: "-".join(kernels.values()))
@settings(max_examples=12)
@given(
    asked=st.lists(windows, min_size=1, max_size=4),
    rows=rows,
    cycle=st.integers(5, 60),
)
def test_a_tree_answers_what_its_windows_hold(
    kernels: dict[str, str], asked: list[Window], rows: list[tuple[int, int, int]], cycle: int
) -> None:
    """Rows (clock, key, value) of 120 ticks come in cycles; every answer is compared with its rows."""
    edges = shared_edges(asked)
    at = int(edges_between(edges, -100, 0)[-1])
    reach = max(window.range or 0 for window in asked)
    ranges = sorted({window.range or 0 for window in asked}, reverse=True)
    tree = GroupedWindows(STATISTICS, kernels, most_partials(edges, reach), len(ranges))
    answered = {}
    while at < 120:
        ends = edges_between(edges, at, at + cycle)
        if not len(ends):
            cycle *= 2
            continue
        # After the slice that ends at ends[i], range j begins with slice starts[i, j]; due where an instance ends.
        instants = edges_between(edges, at - reach - 1, int(ends[-1]))
        numbers = tree.next + np.arange(len(ends))[:, np.newaxis]
        inside = np.searchsorted(instants, ends[:, np.newaxis] - np.array(ranges)) - np.searchsorted(instants, at)
        starts = np.clip(tree.next + inside, tree.first, numbers)
        closing = {(due.end, due.window.range) for due in answers_between(asked, at, int(ends[-1]))}
        due = np.array([[(end, each) in closing for each in ranges] for end in ends.tolist()])
        begins = np.append(at, ends[:-1])
        at = int(ends[-1])
        answers = tree.slide(partials_of(rows, begins, ends), len(ends), starts, due)
        found = rows_of(answers, answers.records["count"][0] > 0)
        places = np.argwhere(due)[found.answers]
        for (i, j), key, count, total, most in zip(
            places.tolist(),
            found.keys.tolist(),
            found.records["count"][0].tolist(),
            whole_sum(found.records["sum"]).tolist(),
            found.records["max"][0].tolist(),
            strict=True,
        ):
            answered[int(ends[i]), ranges[j], key] = (count, total, most)
    expected = {}
    for answer in answers_between(asked, int(edges_between(edges, -100, 0)[-1]), at):
        for key in range(4):
            held = [value for clock, owner, value in rows if owner == key and answer.start <= clock < answer.end]
            if held:
                expected[answer.end, answer.window.range, key] = (len(held), sum(held), max(held))
    assert answered == expected


def partials_of(rows: list[tuple[int, int, int]], begins: np.ndarray, ends: np.ndarray) -> KernelPartials:
    inside = [row for row in rows if begins[0] <= row[0] < ends[-1]]
    slices = np.searchsorted(ends, [clock for clock, _, _ in inside], side="right")
    pairs = sorted({(int(n), key) for n, (_, key, _) in zip(slices, inside, strict=True)})
    members = np.array([pairs.index((int(n), row[1])) for n, row in zip(slices, inside, strict=True)], dtype=np.intp)
    values = [value for _, _, value in inside]
    return KernelPartials(
        np.array([n for n, _ in pairs], dtype=np.int64),
        np.array([key for _, key in pairs], dtype=np.int64),
        {name: fold(s, lifted(s, values), members, len(pairs)) for name, s in STATISTICS.items()},
    )


# Groupings ------------------------------------------------------------------------------------------------------------


def test_the_example_of_weave_share() -> None:
    """Groupings A, BC, AC and CD: ABC is rolled up from ABCD, and A, BC and AC from ABC, never from rows again."""
    rng = np.random.default_rng(4)
    groupings = rng.integers(0, 3, (200, 4))
    statistic = STATISTICS["sum"]
    records = lifted(statistic, rng.integers(-(2**62), 2**62, 200).tolist())

    def grouped(keys: np.ndarray, partials: Columns, by: list[int]) -> tuple[np.ndarray, Columns]:
        distinct, members = np.unique(keys[:, by], axis=0, return_inverse=True)
        return distinct, fold(statistic, partials, members.ravel(), len(distinct))

    abcd_keys, abcd = grouped(groupings, records, [0, 1, 2, 3])
    abc_keys, abc = grouped(abcd_keys, abcd, [0, 1, 2])
    shared = {
        "A": grouped(abc_keys, abc, [0]),
        "BC": grouped(abc_keys, abc, [1, 2]),
        "AC": grouped(abc_keys, abc, [0, 2]),
        "CD": grouped(abcd_keys, abcd, [2, 3]),
    }
    for name, (keys, totals) in shared.items():
        alone_keys, alone = grouped(groupings, records, ["ABCD".index(letter) for letter in name])
        assert keys.tolist() == alone_keys.tolist()
        assert whole_sum(totals).tolist() == whole_sum(alone).tolist()
