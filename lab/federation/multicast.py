"""The true cost of a placement: every substream travels once over every link it needs.

Data leave a source along the shortest ways and are copied where ways part, so a link carries a substream once, whoever
wants it behind that link. Answers travel from a query's provider to its home, each on its own. Only this module and the
simulator know the links; what decides about placements does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams
from weft.federation.distribution.topology import Topology


@dataclass(frozen=True)
class Trees:
    """The multicast trees of all sources: by source the sites from far to near, the site before each, and the delay
    of the link between the two."""

    providers: NDArray[np.int32]
    order: NDArray[np.int32]
    before: NDArray[np.int32]
    delay: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrueCost:
    """Bytes per second times milliseconds, summed over links: of the data to the providers, of answers to homes."""

    data: float
    results: float

    @property
    def total(self) -> float:
        return self.data + self.results


def trees_of(topology: Topology) -> Trees:
    """The trees of shortest ways from each source, without the sites that lead to no provider."""
    size = len(topology.sites)
    delays = [link.milliseconds for link in topology.links]
    ends = np.array([[topology.number[end] for end in link.between] for link in topology.links]).T
    links = csr_array((delays, ends), shape=(size, size))
    ways, before = dijkstra(links, directed=False, indices=topology.sources, return_predecessors=True)
    before = np.maximum(before, -1).astype(np.int32)
    order = np.argsort(-ways, axis=1, kind="stable").astype(np.int32)
    delay = ways - np.take_along_axis(ways, np.maximum(before, 0), axis=1)
    return Trees(np.asarray(topology.providers, np.int32), order, before, np.where(before < 0, 0.0, delay))


def true_cost(
    trees: Trees, network: NetworkGraph, substreams: Substreams, queries: QuerySet, placement: Placement
) -> TrueCost:
    """What a placement costs on the links."""
    wanted = np.zeros((len(substreams), len(network.providers)), np.bool_)
    wanted[queries.wanted, np.repeat(placement, np.diff(queries.starts))] = True
    data = 0.0
    for source in range(len(network.sources)):
        of_source = np.flatnonzero(substreams.source == source)
        carried = np.zeros((trees.before.shape[1], len(of_source)), np.bool_)
        carried[trees.providers] = wanted[of_source].T
        rates = substreams.rate[of_source]
        data += _carried_up(carried, trees.order[source], trees.before[source], trees.delay[source], rates)
    return TrueCost(data, float(queries.result @ network.between[placement, queries.home]))


@numba.njit(cache=True)
def _carried_up(carried, order, before, delay, rates):  # type: ignore[no-untyped-def]
    """The cost of one tree: from the far sites to the source, a link carries what is wanted behind it."""
    cost = 0.0
    for site in order:
        up = before[site]
        if up < 0:
            continue
        crossing = 0.0
        for x in range(len(rates)):
            if carried[site, x]:
                carried[up, x] = True
                crossing += rates[x]
        cost += crossing * delay[site]
    return cost
