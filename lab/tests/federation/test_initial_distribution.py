"""Mapping and coarsening: the worked example, brute force on small graphs, what moves are worth, what bundles keep."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.federation.generated_topologies import transit_stub
from lab.federation.initial_distribution import all_providers, best_move, centrally, greedy, mapped, refined
from lab.federation.synthetic import drawn_queries, workload
from tests.federation.examples import FOUR_QUERIES, FOUR_SUBSTREAMS, TWO_PROVIDERS, small_cases
from weft.federation.distribution import query_graph as kernels
from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, edge_cut, network_of
from weft.federation.distribution.query_graph import arrays_of, bundled, coarsened, graph_of, joined, overlaps, selected

Case = tuple[NetworkGraph, Substreams, QuerySet]


def test_the_optimiser_finds_the_third_scheme() -> None:
    found = centrally(TWO_PROVIDERS, FOUR_SUBSTREAMS, FOUR_QUERIES)
    assert found.tolist() == [0, 1, 0, 1]
    assert edge_cut(TWO_PROVIDERS, FOUR_SUBSTREAMS, FOUR_QUERIES, found) == pytest.approx(110)
    graph = graph_of(TWO_PROVIDERS, FOUR_SUBSTREAMS, FOUR_QUERIES)
    assert all_providers(TWO_PROVIDERS, graph).caps.tolist() == pytest.approx([0.22, 0.22])


def within(load: np.ndarray, caps: np.ndarray) -> bool:
    return bool((load <= caps * (1 + 1e-9)).all())


@given(small_cases())
@settings(deadline=None, max_examples=40)
def test_no_better_than_the_best_no_worse_than_greedy_and_within_the_limit(case: Case) -> None:
    network, substreams, queries = case
    graph = graph_of(network, substreams, queries)
    targets = all_providers(network, graph, slack=1.0)
    every = (np.array(each, np.int32) for each in product(range(3), repeat=len(queries)))
    allowed = [each for each in every if within(queries.loads(each, 3), targets.caps)]
    best = min((edge_cut(network, substreams, queries, each) for each in allowed), default=0.0)
    first = greedy(graph, substreams.rate, targets)
    found = refined(graph, substreams.rate, targets, first)
    cost = edge_cut(network, substreams, queries, found)
    if within(queries.loads(first, 3), targets.caps):
        assert within(queries.loads(found, 3), targets.caps)
        assert best - 1e-6 <= cost <= edge_cut(network, substreams, queries, first) + 1e-6


@given(small_cases(), st.data())
@settings(deadline=None, max_examples=40)
def test_what_a_move_gains_is_what_the_edge_cut_loses(case: Case, data) -> None:
    network, substreams, queries = case
    graph, size = graph_of(network, substreams, queries), len(queries)
    targets = all_providers(network, graph, slack=9.0)
    at = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), np.int32)
    v = data.draw(st.integers(0, size - 1))
    starts, substream, count, rates, latency, fixed = arrays_of(graph, substreams.rate, targets)
    field = kernels.field_of(3, at, starts, substream, count, rates, latency)
    row = np.empty(3)
    kernels.costs(v, starts, substream, count, fixed, field, row)
    itself = kernels.own(starts, substream, count, rates)[v]
    b, gain = best_move(v, at[v], graph.weight[v], targets.caps, queries.loads(at, 3), itself, latency, row)
    after = at.copy()
    after[v] = b
    before_cut, after_cut = (edge_cut(network, substreams, queries, each) for each in (at, after))
    assert gain == pytest.approx(before_cut - after_cut, abs=1e-6)
    kernels.add(v, latency[b] - latency[at[v]], starts, substream, count, rates, field)
    again = kernels.field_of(3, after, starts, substream, count, rates, latency)
    assert field == pytest.approx(again)


@given(small_cases(most=10), st.data())
@settings(deadline=None, max_examples=40)
def test_the_edge_cut_of_bundles_is_that_of_their_queries(case: Case, data) -> None:
    network, substreams, queries = case
    graph, size = graph_of(network, substreams, queries), len(queries)
    drawn = np.array(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    bundle = np.unique(drawn, return_inverse=True)[1]
    coarse = bundled(graph, bundle)
    targets = all_providers(network, graph)
    at = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(coarse), max_size=len(coarse))), np.int32)
    starts, substream, count, rates, latency, fixed = arrays_of(coarse, substreams.rate, targets)
    field = kernels.field_of(3, at, starts, substream, count, rates, latency)
    cost = 0.0
    row = np.empty(3)
    for v in range(len(coarse)):
        kernels.costs(v, starts, substream, count, np.zeros_like(fixed), field, row)
        cost += row[at[v]] / 2 + fixed[v, at[v]]
    assert cost == pytest.approx(edge_cut(network, substreams, queries, at[bundle]))


@given(small_cases(most=12), st.integers(1, 6), st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_bundles_keep_weight_and_nodes_and_are_few_or_cannot_be_fewer(case: Case, most: int, seed: int) -> None:
    network, substreams, queries = case
    graph = graph_of(network, substreams, queries)
    heaviest = float(graph.weight.max()) * 2
    coarse, _ = coarsened(graph, substreams.rate, most, np.random.default_rng(seed), heaviest)
    assert coarse.weight.sum() == pytest.approx(graph.weight.sum())
    assert coarse.size.sum() == len(queries)
    # Nodes of the network are columns: whatever merges, none of them does.
    assert coarse.pull.sum(axis=0) == pytest.approx(graph.pull.sum(axis=0))
    assert coarse.weight.max() <= heaviest
    overlap = overlaps(coarse, substreams.rate)
    could_merge = (overlap > 0) & (coarse.weight[:, None] + coarse.weight <= heaviest)
    assert len(coarse) <= max(most, 1) or not could_merge.any()


def test_bundles_find_the_hot_spots() -> None:
    drawn = workload(1, sources=5, substreams=2000, groups=8, fewest=50, most=80)
    network = network_of(transit_stub(1, sites=300, sources=5, providers=20))
    queries, groups = drawn_queries(drawn, np.random.default_rng(1), 600, 20)
    graph = graph_of(network, drawn.substreams, queries)
    coarse, bundle = coarsened(graph, drawn.substreams.rate, 60, np.random.default_rng(1))
    largest = [np.bincount(groups[bundle == each]).max() for each in range(len(coarse))]
    # Drawn at random, the largest group in a bundle of ten would have three or four of them.
    assert sum(largest) / len(queries) > 0.85


def test_parts_and_wholes() -> None:
    graph = graph_of(TWO_PROVIDERS, FOUR_SUBSTREAMS, FOUR_QUERIES)
    again = joined([selected(graph, np.array([0, 1])), selected(graph, np.array([2, 3]))])
    assert (again.wants != graph.wants).nnz == 0
    assert again.pull.tolist() == graph.pull.tolist()


def test_a_graph_without_queries_is_mapped_to_nothing() -> None:
    network = TWO_PROVIDERS
    graph = selected(graph_of(network, FOUR_SUBSTREAMS, FOUR_QUERIES), np.empty(0, np.int64))
    assert mapped(graph, FOUR_SUBSTREAMS.rate, all_providers(network, graph)).tolist() == []
