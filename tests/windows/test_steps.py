from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.windows.strategies import window_sets
from weft.algebra import Window
from weft.windows.schedule import answers_between, edges_between
from weft.windows.slicing import Slicing, shared_edges
from weft.windows.steps import steps_between

slicings = st.sampled_from([Slicing.PANES, Slicing.PAIRS])


@given(window_sets(), slicings, st.integers(0, 60))
def test_every_due_answer_is_made_of_the_fragments_that_steps_name(
    drawn: list[Window], slicing: Slicing, length: int
) -> None:
    edges = shared_edges(drawn, slicing)
    begin = int(edges_between(edges, -200, 0)[-1])
    first_instant = begin - max(window.range or 0 for window in drawn)
    # Fragments are numbered from the first edge that any of the windows can reach back to.
    before = edges_between(edges, first_instant - 1, begin)
    steps = steps_between(drawn, edges, begin, begin + length, first=0, number=len(before) - 1)
    instants = np.append(before, steps.ends)
    named = {
        (int(steps.ends[i]), int(instants[steps.starts[i, j]]), steps.ranges[j])
        for i, j in np.argwhere(steps.due).tolist()
    }
    due = answers_between(drawn, begin, begin + length)
    assert named == {(answer.end, answer.start, answer.window.range) for answer in due}


@given(window_sets(), slicings, st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_steps_of_a_time_are_the_steps_of_its_parts(drawn: list[Window], slicing: Slicing, lengths: list[int]) -> None:
    edges = shared_edges(drawn, slicing)
    begin = at = int(edges_between(edges, -200, 0)[-1])
    parts, number = [], 5
    for length in lengths:
        until = edges_between(edges, at, at + length)
        if len(until):
            parts.append(steps_between(drawn, edges, at, int(until[-1]), first=5, number=number))
            at, number = int(until[-1]), number + len(parts[-1].ends)
    if parts:
        whole = steps_between(drawn, edges, begin, at, first=5, number=5)
        for name in ("begins", "ends", "starts", "due"):
            assert np.concatenate([getattr(part, name) for part in parts]).tolist() == getattr(whole, name).tolist()


@given(window_sets(), slicings)
def test_a_kernel_takes_the_starts_of_steps(drawn: list[Window], slicing: Slicing) -> None:
    """Starts never go back, the longest range is first, and every window begins with a fragment it holds."""
    edges = shared_edges(drawn, slicing)
    begin = int(edges_between(edges, -200, 0)[-1])
    steps = steps_between(drawn, edges, begin, begin + 100, first=3, number=7)
    assert (np.diff(steps.starts, axis=0) >= 0).all()
    assert (np.diff(steps.starts, axis=1) >= 0).all()
    assert (steps.starts <= 7 + np.arange(len(steps.ends))[:, np.newaxis]).all()
    assert (steps.starts >= 3).all()


def test_steps_begin_at_an_edge() -> None:
    with pytest.raises(ValueError, match="5 is not an edge"):
        steps_between([Window(10, 4)], shared_edges([Window(10, 4)]), 5, 20, first=0, number=0)
