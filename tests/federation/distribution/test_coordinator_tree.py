"""The coordinator tree keeps its shape, whoever comes and goes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.federation.leaving import left
from weft.federation import FederationError
from weft.federation.distribution.coordinator_tree import (
    Cluster,
    _halves,
    centre,
    clusters,
    coordinators_above,
    height,
    joined,
    providers_below,
    tree_over,
)


def plane(seed: int, size: int) -> np.ndarray:
    places = np.random.default_rng(seed).random((size, 2))
    return np.linalg.norm(places[:, None] - places, axis=2)


def check(tree: Cluster, present: set[int], latency: np.ndarray, k: int) -> None:
    assert sorted(providers_below(tree)) == sorted(present)
    for cluster in clusters(tree):
        size = len(cluster.members)
        assert size <= 3 * k - 1
        assert size >= k or cluster is tree
        assert size >= 2 or cluster.is_leaf
        assert cluster.leader == centre(cluster.members, latency)
        assert bool(cluster.providers) != bool(cluster.children)
        assert len({height(child) for child in cluster.children}) <= 1


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_thousand_joins_and_leaves(k: int) -> None:
    latency, random = plane(k, 200), Random(k)
    tree: Cluster | None = tree_over([0], latency, k)
    present = {0}
    for _ in range(1000):
        absent = [each for each in range(200) if each not in present]
        # Waves: the tree grows to a hundred and more, shrinks to a handful, and grows again.
        grows = random.random() < (0.7 if (len(present) // 50) % 2 == 0 else 0.45)
        if not present or (grows and absent):
            new = random.choice(absent)
            tree = tree_over([new], latency, k) if tree is None else joined(tree, new, latency, k)
            present.add(new)
        else:
            gone = random.choice(sorted(present))
            assert tree is not None
            tree = left(tree, gone, latency, k)
            present.discard(gone)
        assert (tree is None) == (not present)
        if tree is not None:
            check(tree, present, latency, k)


@given(st.integers(2, 5), st.integers(1, 70), st.lists(st.integers(0, 69), max_size=60), st.integers(0, 5))
@settings(deadline=None, max_examples=40)
def test_the_shape_holds_for_any_order(k: int, size: int, going: list[int], seed: int) -> None:
    latency = plane(seed, 70)
    tree: Cluster | None = tree_over(range(size), latency, k)
    present = set(range(size))
    for gone in going:
        if gone in present and tree is not None:
            tree = left(tree, gone, latency, k)
            present.discard(gone)
    if tree is not None:
        check(tree, present, latency, k)


@given(st.integers(2, 6), st.integers(0, 50))
@settings(deadline=None, max_examples=40)
def test_both_sides_of_a_split_are_large(k: int, seed: int) -> None:
    near, far = _halves(range(3 * k), plane(seed, 3 * k), 3 * k // 2)
    assert sorted(near + far) == list(range(3 * k))
    assert min(len(near), len(far)) >= 3 * k // 2


def test_a_split_cuts_where_the_gap_is() -> None:
    places = np.array([0, 1, 2, 3, 100, 101, 102, 103, 104.0])
    near, far = _halves(range(9), np.abs(places[:, None] - places), 4)
    assert {frozenset(near), frozenset(far)} == {frozenset(range(4)), frozenset(range(4, 9))}


def test_a_new_provider_goes_to_the_nearest_cluster() -> None:
    places = np.array([*range(6), *range(100, 106), 99.0])
    latency = np.abs(places[:, None] - places)
    tree = joined(tree_over(range(12), latency), 12, latency)
    assert {frozenset(each.providers) for each in tree.children} == {frozenset(range(6)), frozenset(range(6, 13))}


def test_a_leader_that_leaves_is_followed_by_the_member_in_the_middle() -> None:
    places = np.array([0.0, 1, 2, 3, 4])
    latency = np.abs(places[:, None] - places)
    tree = tree_over(range(5), latency)
    assert tree.leader == 2
    smaller = left(tree, 2, latency)
    assert smaller is not None
    assert smaller.leader in (1, 3)


def test_the_way_to_a_provider() -> None:
    latency = plane(1, 60)
    tree = tree_over(range(60), latency)
    way = coordinators_above(tree, 17)
    assert (way[0], len(way)) == (tree, height(tree))
    assert 17 in way[-1].providers
    assert coordinators_above(tree, 99) == ()


def test_an_absent_provider_cannot_leave() -> None:
    latency = plane(1, 60)
    with pytest.raises(FederationError, match="not in the tree"):
        left(tree_over(range(50), latency), 55, latency)
    with pytest.raises(FederationError, match="not in the tree"):
        left(tree_over(range(3), latency), 55, latency)


def test_clusters_of_one_are_refused() -> None:
    with pytest.raises(FederationError, match="2 or more"):
        joined(tree_over([0], plane(1, 5)), 1, plane(1, 5), k=1)
