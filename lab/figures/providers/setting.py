"""The experiments' network and workload, and what a placement is judged by.

A transit–stub network of 4,096 sites: 100 sources, 256 providers, the rest routers. 20,000 substreams of 1 to 10 bytes
per second. Queries in 20 groups with hot spots of their own (Zipf 0.8) want 100 to 200 substreams each; their users are
spread evenly. The source leaves open what follows, so it is ours: capabilities are equal, answers are 1 byte per
second, state is what a query reads in a minute, data travel on shortest-path trees from their sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from time import process_time

import numpy as np

from lab.federation.generated_topologies import transit_stub
from lab.federation.multicast import Trees, trees_of, true_cost
from lab.federation.synthetic import Workload, drawn_queries, workload
from weft.federation.distribution.coordinator_tree import Cluster, tree_over
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams, edge_cut, network_of

SEED = 1


@dataclass(frozen=True)
class Setting:
    network: NetworkGraph
    trees: Trees
    tree: Cluster
    drawn: Workload

    @property
    def substreams(self) -> Substreams:
        return self.drawn.substreams

    def queries(self, count: int) -> QuerySet:
        return drawn_queries(self.drawn, np.random.default_rng(SEED), count, len(self.network.providers))[0]


@cache
def setting(quick: bool) -> Setting:
    """The source's setting, or, for a quick run, one of a quarter of its size."""
    size = {"sites": 1024, "sources": 25, "providers": 64} if quick else {}
    topology = transit_stub(SEED, **size)
    network = network_of(topology)
    drawn = workload(SEED, sources=len(network.sources), substreams=5_000 if quick else 20_000)
    return Setting(network, trees_of(topology), tree_over(range(len(network.providers)), network.between), drawn)


@dataclass(frozen=True)
class Judged:
    """A placement: both costs against those of every query at home, and the load against the fair one.

    `data_cost` is the true cost without answers. Those cost nothing at home, so for answers of r bytes per second the
    true cost is data_cost + r · (true_cost − data_cost).
    """

    queries: int
    name: str
    edge_cut: float
    true_cost: float
    data_cost: float
    fullest: float
    imbalance: float
    cpu_seconds: float = 0.0


def judged(given: Setting, queries: QuerySet, name: str, placement: Placement, cpu_seconds: float = 0.0) -> Judged:
    naive = queries.home.astype(np.int32)
    cuts = [edge_cut(given.network, given.substreams, queries, each) for each in (placement, naive)]
    costs = [true_cost(given.trees, given.network, given.substreams, queries, each) for each in (placement, naive)]
    load = queries.loads(placement, len(given.network.providers))
    return Judged(
        len(queries),
        name,
        cuts[0] / cuts[1],
        costs[0].total / costs[1].total,
        costs[0].data / costs[1].data,
        float(load.max() / load.mean()),
        float(load.std() / load.mean()),
        cpu_seconds,
    )


class Clock:
    """Processor seconds since it was made."""

    def __init__(self) -> None:
        self._start = process_time()

    def seconds(self) -> float:
        return process_time() - self._start
