"""Copies stay within their tolerance if every parent filters with what is left of it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.dissemination.fidelity import Version, effective_tolerances, fidelity, must_forward
from lab.dissemination.trees import Tree, children_of, tree_of


def _copies(tree: Tree, tolerances: list[float], truth: list[float], looks_ahead: bool = True) -> list[list[float]]:
    """The copy of every node after each change of the truth, if messages take no time."""
    effective = effective_tolerances(tree, tolerances)
    below = children_of(tree)
    copies = [truth[0]] * len(tree.parents)
    after = []
    for value in truth:
        arrivals = [0]
        copies[0] = value
        while arrivals:
            node = arrivals.pop()
            for child in below[node]:
                own = effective[node] if looks_ahead else 0.0
                if must_forward(copies[node], copies[child], own, effective[child]):
                    copies[child] = copies[node]
                    arrivals.append(child)
        after.append(list(copies))
    return after


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32))
def test_without_delays_every_copy_is_always_within_its_tolerance(nodes: int, seed: int) -> None:
    random = Random(seed)
    tree = tree_of({node: random.randrange(node) for node in range(1, nodes + 1)}, nodes=nodes + 1)
    tolerances = [0.0, *(random.uniform(0.01, 1.0) for _ in range(nodes))]
    truth = [10.0]
    for _ in range(60):
        truth.append(truth[-1] + random.gauss(0.0, 0.3))
    for value, copies in zip(truth, _copies(tree, tolerances, truth), strict=True):
        assert all(abs(value - copies[node]) <= tolerances[node] + 1e-9 for node in range(1, nodes + 1))


def test_a_parent_that_does_not_look_ahead_leaves_its_child_wrong() -> None:
    chain = tree_of({1: 0, 2: 1}, nodes=3)
    truth = [10.0, 10.55, 10.9]
    assert _copies(chain, [0.0, 0.5, 0.6], truth, looks_ahead=False)[-1] == [10.9, 10.55, 10.0]
    assert _copies(chain, [0.0, 0.5, 0.6], truth)[-1] == [10.9, 10.55, 10.55]


def test_a_lenient_parent_is_sent_what_its_strict_child_needs() -> None:
    chain = tree_of({1: 0, 2: 1}, nodes=3)
    assert effective_tolerances(chain, [0.0, 5.0, 0.1]) == [0.0, 0.1, 0.1]
    assert _copies(chain, [0.0, 5.0, 0.1], [1.0, 1.2])[-1] == [1.2, 1.2, 1.2]


def test_fidelity_is_the_share_of_time_within_tolerance() -> None:
    truth = [Version(0, 1.0), Version(10, 2.0), Version(30, 3.0)]
    copy = [Version(0, 1.0), Version(14, 2.0), Version(36, 3.0)]
    assert fidelity(truth, copy, 0.5, 0, 100) == pytest.approx(1 - (4 + 6) / 100)
    assert fidelity(truth, copy, 1.0, 0, 100) == 1.0
    assert fidelity(truth, copy, 0.5, 12, 16) == pytest.approx(0.5)
    assert fidelity(truth, truth, 0.0, 0, 50) == 1.0
    with pytest.raises(ValueError, match="the end must lie after the start"):
        fidelity(truth, copy, 0.5, 3, 3)


def test_divergence_can_be_anything() -> None:
    def missed(true: float, copy: float) -> float:
        return true - copy

    assert not must_forward(7, 5, 0, 2, missed)
    assert must_forward(8, 5, 0, 2, missed)
