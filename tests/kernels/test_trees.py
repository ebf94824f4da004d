"""Whole trees: rows, cut into fragments, lifted, folded, taken in by a kernel, against windows evaluated row by row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import CASES
from weft.algebra import Window
from weft.algebra.types import BIGINT
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.grouped import GroupedWindows, Partials, make_kernel
from weft.kernels.monoids import COUNT, extreme, sum_of_integers, whole_sum
from weft.kernels.statistic import Columns, Statistic, Values, fold
from weft.windows.schedule import answers_between, edges_between, most_partials
from weft.windows.slicing import Slicing, partials_per_answer, shared_edges
from weft.windows.steps import steps_between

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
    slicing=st.sampled_from([Slicing.PANES, Slicing.PAIRS]),
    rows=rows,
    cycle=st.integers(5, 60),
)
def test_a_tree_answers_what_its_windows_hold(
    kernels: dict[str, str], asked: list[Window], slicing: Slicing, rows: list[tuple[int, int, int]], cycle: int
) -> None:
    """Rows (clock, key, value) of 120 ticks come in cycles; every answer is compared with its rows."""
    edges = shared_edges(asked, slicing)
    at = int(edges_between(edges, -100, 0)[-1])
    reach = max(window.range or 0 for window in asked)
    ranges = len({window.range for window in asked})
    tree = GroupedWindows(STATISTICS, kernels, most_partials(edges, reach), ranges)
    answered = {}
    while at < 120:
        ends = edges_between(edges, at, at + cycle)
        if not len(ends):
            cycle *= 2
            continue
        steps = steps_between(asked, edges, at, int(ends[-1]), first=tree.first, number=tree.next)
        at = int(ends[-1])
        answers = tree.slide(partials_of(rows, steps.begins, steps.ends), len(ends), steps.starts, steps.due)
        found = answers.rows()
        due = np.argwhere(steps.due)[found.answers]
        for (i, j), key, count, total, most in zip(
            due.tolist(),
            found.keys.tolist(),
            found.records["count"][0].tolist(),
            whole_sum(found.records["sum"]).tolist(),
            found.records["max"][0].tolist(),
            strict=True,
        ):
            answered[int(steps.ends[i]), steps.ranges[j], key] = (count, total, most)
    expected = {}
    for answer in answers_between(asked, int(edges_between(edges, -100, 0)[-1]), at):
        for key in range(4):
            held = [value for clock, owner, value in rows if owner == key and answer.start <= clock < answer.end]
            if held:
                expected[answer.end, answer.window.range, key] = (len(held), sum(held), max(held))
    assert answered == expected


def partials_of(rows: list[tuple[int, int, int]], begins: np.ndarray, ends: np.ndarray) -> Partials:
    inside = [row for row in rows if begins[0] <= row[0] < ends[-1]]
    fragments = np.searchsorted(ends, [clock for clock, _, _ in inside], side="right")
    pairs = sorted({(int(n), key) for n, (_, key, _) in zip(fragments, inside, strict=True)})
    members = np.array([pairs.index((int(n), row[1])) for n, row in zip(fragments, inside, strict=True)], dtype=np.intp)
    values = [value for _, _, value in inside]
    return Partials(
        np.array([n for n, _ in pairs], dtype=np.int64),
        np.array([key for _, key in pairs], dtype=np.int64),
        {name: fold(s, lifted(s, values), members, len(pairs)) for name, s in STATISTICS.items()},
    )


# Cutty: the last fragment of a window is still open when its answer is due -------------------------------------------


def cutty_answers(window: Window, texts: list[str], kernel: str) -> dict[int, str]:
    """Texts, one per tick from 0 on, concatenated per window: closed fragments by a kernel, and the open one."""
    statistic = CASES["concatenation"].statistic
    edges = shared_edges([window], Slicing.CUTTY)
    starts = [0, *edges_between(edges, 0, len(texts)).tolist()]
    closed = make_kernel(kernel, statistic, partials_per_answer(window, Slicing.CUTTY))
    numbers = {start: number for number, start in enumerate(starts)}
    answers = {}
    for begin, end in pairwise([*starts, len(texts) + 1]):
        for due in answers_between([window], begin, end):
            if due.start >= 0 and due.end <= len(texts):
                open_text = "".join(texts[begin : due.end])
                if due.start < begin:
                    closed.evict(numbers[due.start])
                    (before,) = closed.query()
                    open_text = statistic.combine((before[0],), (np.array([open_text], dtype=object),))[0][0]
                answers[due.end] = open_text
        if end <= len(texts):
            oldest = max(0, numbers[begin] + 1 - closed.capacity)
            if closed.first < oldest:
                closed.evict(oldest)
            closed.push((np.array(["".join(texts[begin:end])], dtype=object),))
    return answers


def test_cutty_cuts_where_windows_begin() -> None:
    """Range 5, slide 3: partials begin where windows begin; an answer takes the closed one and what is open so far."""
    window = Window(5, 3)
    assert partials_per_answer(window, Slicing.CUTTY) == 2
    assert edges_between(shared_edges([window], Slicing.CUTTY), 0, 12).tolist() == [3, 6, 9, 12]
    texts = [chr(ord("a") + n) for n in range(12)]
    assert cutty_answers(window, texts, "flatfit") == {5: "abcde", 8: "defgh", 11: "ghijk"}


@pytest.mark.parametrize("kernel", [name for name, a in ALGORITHMS.items() if not a.inverts and not a.selects])
@settings(max_examples=10)
@given(reach=st.integers(1, 20), slide=st.integers(1, 8), length=st.integers(1, 60))
def test_cutty_joins_the_open_fragment(kernel: str, reach: int, slide: int, length: int) -> None:
    texts = [chr(ord("A") + n) for n in range(length)]
    expected = {begin + reach: "".join(texts[begin : begin + reach]) for begin in range(0, length - reach + 1, slide)}
    assert cutty_answers(Window(reach, slide), texts, kernel) == expected


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
