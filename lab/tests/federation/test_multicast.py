"""The true cost against ways that are walked one by one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from lab.federation.generated_topologies import power_law, transit_stub
from lab.federation.multicast import trees_of, true_cost
from lab.federation.synthetic import drawn_queries, workload
from weft.federation.distribution.model import network_of
from weft.federation.distribution.topology import Site, SiteLink, Topology


@pytest.mark.parametrize("make", [transit_stub, power_law])
def test_a_link_carries_a_substream_once(make) -> None:
    topology = make(5, sites=200, sources=4, providers=12)
    network, trees = network_of(topology), trees_of(topology)
    drawn = workload(1, sources=4, substreams=30, groups=2, fewest=3, most=8)
    queries, _ = drawn_queries(drawn, np.random.default_rng(1), 25, 12)
    placement = np.random.default_rng(2).integers(12, size=25).astype(np.int32)
    graph = nx.Graph()
    for link in topology.links:
        graph.add_edge(*(topology.number[end] for end in link.between), weight=link.milliseconds)
    cost = 0.0
    for x, (source, rate) in enumerate(zip(drawn.substreams.source, drawn.substreams.rate, strict=True)):
        at = {topology.providers[placement[q]] for q in range(25) if x in queries.interest(q)}
        ways = nx.single_source_dijkstra_path(graph, topology.sources[source])
        links = {frozenset(step) for provider in at for step in nx.utils.pairwise(ways[provider])}
        cost += rate * sum(graph.edges[tuple(link)]["weight"] for link in links)
    found = true_cost(trees, network, drawn.substreams, queries, placement)
    assert found.data == pytest.approx(cost)
    home = network.between[placement, queries.home].sum()
    assert found.total == pytest.approx(cost + home)


def test_a_source_that_also_runs_queries_gets_its_own_data_for_nothing() -> None:
    topology = Topology((Site("both", 1.0, True), Site("other", 1.0)), (SiteLink(("both", "other"), 4.0),))
    network, trees = network_of(topology), trees_of(topology)
    drawn = workload(1, sources=1, substreams=5, groups=1, fewest=2, most=2, result=0)
    queries, _ = drawn_queries(drawn, np.random.default_rng(1), 1, 2)
    rate = drawn.substreams.rate[queries.interest(0)].sum()
    assert true_cost(trees, network, drawn.substreams, queries, np.array([0], np.int32)).total == 0
    assert true_cost(trees, network, drawn.substreams, queries, np.array([1], np.int32)).total == pytest.approx(
        4 * rate
    )
