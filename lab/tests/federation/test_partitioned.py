"""The start by partition: the edges it looks at, the limit it keeps, and where it is not to be had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.federation.partitioned import by_partition, heaviest_edges
from tests.federation.distribution.test_distribution import federation, fullest
from tests.federation.examples import small_cases
from weft.federation import FederationError
from weft.federation.distribution.model import edge_cut
from weft.federation.distribution.query_graph import graph_of, overlaps


@given(small_cases(most=8), st.integers(1, 8))
@settings(deadline=None, max_examples=30)
def test_edges_are_the_heaviest_of_one_of_their_ends(case, most: int) -> None:
    network, substreams, queries = case
    graph = graph_of(network, substreams, queries)
    every = overlaps(graph, substreams.rate)
    found = heaviest_edges(graph, substreams.rate, most).toarray()
    assert (found == found.T).all()
    assert ((found == 0) | np.isclose(found, every)).all()
    for v in range(len(queries)):
        left_out = every[v][found[v] == 0]
        heaviest = np.sort(every[v])[::-1][:most]
        assert (left_out <= heaviest[-1]).all()


def test_a_partition_is_balanced_and_better_than_staying_at_home() -> None:
    network, substreams, queries, _ = federation()
    found = by_partition(network, substreams, queries)
    home = edge_cut(network, substreams, queries, queries.home.astype(np.int32))
    assert edge_cut(network, substreams, queries, found) < home
    assert fullest(queries, found, tuple(range(40))) < 1.11


def test_unequal_providers_are_refused() -> None:
    network, substreams, queries, _ = federation()
    uneven = replace(network, capability=np.arange(1.0, 41.0))
    with pytest.raises(FederationError, match="capabilities differ"):
        by_partition(uneven, substreams, queries)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    network, substreams, queries, _ = federation()
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    with pytest.raises(FederationError, match="pip install"):
        by_partition(network, substreams, queries)
