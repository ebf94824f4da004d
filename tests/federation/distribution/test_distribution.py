"""Initial distribution, routing, diffusion, redistribution: on a federation of some dozens of providers."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.federation.generated_topologies import transit_stub
from lab.federation.initial_distribution import centrally, greedily, hierarchically
from lab.federation.leaving import left
from lab.federation.routing_tables import routed, routing_table
from lab.federation.synthetic import drawn_queries, workload
from lab.simulate.lasting_coordinator import LastingCoordinator, together
from weft.federation.distribution.coordinator_tree import Cluster, joined, providers_below, tree_over
from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, edge_cut, network_of, query_set
from weft.federation.distribution.query_graph import flows
from weft.federation.distribution.rounds import adapted


@cache
def federation() -> tuple[NetworkGraph, Substreams, QuerySet, Cluster]:
    network = network_of(transit_stub(1, sites=400, sources=10, providers=40))
    drawn = workload(2, sources=10, substreams=1000, groups=8, fewest=20, most=40)
    queries, _ = drawn_queries(drawn, np.random.default_rng(3), 1200, 40)
    return network, drawn.substreams, queries, tree_over(range(40), network.between)


def fullest(queries: QuerySet, placement: np.ndarray, there: tuple[int, ...]) -> float:
    load = queries.loads(placement, 40)[list(there)]
    return float(load.max() / load.mean())


def test_the_hierarchy_is_near_the_centre_and_within_the_limit() -> None:
    network, substreams, queries, tree = federation()
    found = hierarchically(tree, network, substreams, queries)
    cost = {
        name: edge_cut(network, substreams, queries, each)
        for name, each in {
            "naive": queries.home,
            "greedy": greedily(network, substreams, queries),
            "central": centrally(network, substreams, queries),
            "hierarchical": found,
        }.items()
    }
    assert cost["central"] < cost["greedy"] < cost["naive"]
    assert cost["hierarchical"] < 1.1 * cost["central"]
    assert fullest(queries, found, tuple(range(40))) <= 1.1 + 1e-9
    assert (hierarchically(tree, network, substreams, queries) == found).all()


def test_more_capable_providers_get_more() -> None:
    network, substreams, queries, tree = federation()
    capability = np.where(np.arange(40) < 20, 3.0, 1.0)
    uneven = NetworkGraph(network.providers, capability, network.sources, network.between, network.from_source)
    found = hierarchically(tree, uneven, substreams, queries)
    load = queries.loads(found, 40)
    assert (load <= 1.1 * capability * load.sum() / capability.sum() + 1e-9).all()
    assert load[:20].sum() > 2 * load[20:].sum()


def test_providers_that_are_away_get_nothing() -> None:
    network, substreams, queries, tree = federation()
    smaller = left(tree, 7, network.between)
    assert smaller is not None
    assert 7 not in hierarchically(smaller, network, substreams, queries)
    placement = hierarchically(tree, network, substreams, queries)
    random = np.random.default_rng(1)
    assert 7 not in adapted(smaller, network, substreams, queries, placement, random)
    assert 7 not in routed(routing_table(smaller, network, substreams, queries, placement), queries)


def test_a_new_query_goes_where_the_edge_cut_grows_least() -> None:
    network, substreams, queries, _ = federation()
    names = [f"q{number}" for number in range(len(queries))]
    coordinator = LastingCoordinator(network, substreams)
    coordinator.tree = tree_over(range(8), network.between)
    assert coordinator.tree.is_leaf
    placement = (queries.home % 8).astype(np.int32)
    old, new = queries.chosen(np.arange(200)), queries.chosen(np.arange(200, 230))
    coordinator.settled(names[:200], old, [network.providers[each] for each in placement[:200]])
    at = [network.number[each.provider] for each in coordinator.register(names[200:230], new)]
    tables = routing_table(coordinator.tree, network, substreams, old, placement[:200])
    assert at == routed(tables, new).tolist()
    for number in range(len(new)):
        both = together(old, new.chosen([number]))
        grown = [
            edge_cut(network, substreams, both, np.append(placement[:200], each).astype(np.int32)) for each in range(8)
        ]
        assert grown[at[number]] == pytest.approx(min(grown), rel=1e-6)


def test_one_query_goes_the_way_that_many_go() -> None:
    network, substreams, queries, tree = federation()
    coordinator = LastingCoordinator(network, substreams)
    assert coordinator.tree == tree
    old, new = queries.chosen(np.arange(1000)), queries.chosen(np.arange(1000, 1200))
    coordinator.settled([str(number) for number in range(1000)], old, [network.providers[each] for each in old.home])
    one_by_one = coordinator.register([str(number) for number in range(1000, 1200)], new)
    tables = routing_table(tree, network, substreams, old, old.home)
    same = [network.number[each.provider] for each in one_by_one] == routed(tables, new)
    # The tables are of single precision.
    assert np.mean(same) > 0.99


@pytest.mark.parametrize(
    ("load", "capability", "expected"),
    [
        ((0.30, 0.20, 0.10), (1, 1, 1), {(0, 1): 0.1 / 3, (0, 2): 0.2 / 3, (1, 2): 0.1 / 3}),
        ((0.6, 0.1, 0.1), (1, 1, 2), {(0, 1): 0.5 / 3, (0, 2): 0.7 / 3, (1, 2): 0.2 / 3}),
    ],
)
def test_diffusion_moves_load_along_links(load: tuple[float, ...], capability: tuple[int, ...], expected: dict) -> None:
    found = flows(np.array(load), np.array(capability, float))
    assert {(i, j): found[i, j] for i, j in np.argwhere(found > 1e-12)} == pytest.approx(expected)


@given(st.lists(st.integers(0, 20), min_size=2, max_size=6), st.data())
def test_flows_balance_the_load(load: list[int], data) -> None:
    size = len(load)
    fair = np.array(data.draw(st.lists(st.integers(1, 3), min_size=size, max_size=size)), float)
    found = flows(np.array(load, float), fair)
    after = np.array(load) - found.sum(axis=1) + found.sum(axis=0)
    assert after == pytest.approx(fair * sum(load) / fair.sum(), abs=1e-9)


def test_rounds_repair_a_random_placement() -> None:
    network, substreams, queries, tree = federation()
    random = np.random.default_rng(5)
    placement = random.integers(40, size=len(queries)).astype(np.int32)
    placement[:300] = 0
    costs, moves = [edge_cut(network, substreams, queries, placement)], []
    for _ in range(5):
        after = adapted(tree, network, substreams, queries, placement, random)
        moves.append(np.count_nonzero(placement != after))
        placement = after
        costs.append(edge_cut(network, substreams, queries, placement))
        assert fullest(queries, placement, tuple(range(40))) < 1.2
    assert costs[-1] < 0.95 * costs[0]
    assert moves[-1] < moves[0] / 3


def test_a_new_provider_is_used_after_a_round() -> None:
    network, substreams, queries, _ = federation()
    tree = tree_over(range(39), network.between)
    placement = hierarchically(tree, network, substreams, queries)
    assert 39 not in placement
    larger = joined(tree, 39, network.between)
    after = adapted(larger, network, substreams, queries, placement, np.random.default_rng(1))
    assert 0.7 < queries.loads(after, 40)[39] / queries.loads(after, 40).mean() < 1.11


def test_moves_that_do_not_pay_are_not_made() -> None:
    network, substreams, queries, tree = federation()
    placement = hierarchically(tree, network, substreams, queries)
    random = np.random.default_rng(1)
    placement = adapted(tree, network, substreams, queries, placement, random)
    heavy = query_set(
        [queries.interest(q) for q in range(len(queries))], queries.load.tolist(), queries.home.tolist(),
        queries.result.tolist(), (queries.state * 1e6).tolist(),
    )  # fmt: skip
    light = adapted(tree, network, substreams, queries, placement, np.random.default_rng(2))
    none = adapted(tree, network, substreams, heavy, placement, np.random.default_rng(2), interval=1e-6)
    assert np.count_nonzero(placement != none) < np.count_nonzero(placement != light)


def test_a_federation_of_one_provider_keeps_its_queries() -> None:
    network, substreams, queries, _ = federation()
    alone = Cluster(leader=4, providers=(4,))
    placement = hierarchically(alone, network, substreams, queries)
    assert set(placement.tolist()) == {4}
    assert set(adapted(alone, network, substreams, queries, placement, np.random.default_rng(1)).tolist()) == {4}
    assert len(providers_below(alone)) == 1
