"""What is decided about: the network graph, the data in substreams, the queries, and what a placement costs.

A placement costs its **weighted edge cut** (docs/federation.md). Edges between queries need not be listed: with c[x, k]
the number of queries at provider k that want substream x, all pairs that share x cost together

    rate[x] · ½ Σ_kl c[x, k] · c[x, l] · latency[k, l]

so the **count matrix** says it all. It is an estimate: queries side by side that want the same data get it once, and
are charged one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.federation.distribution.topology import Topology, ways_from


@dataclass(frozen=True)
class NetworkGraph:
    """Providers and sources, complete with the latency of each pair. All that a decision may know of the network."""

    providers: tuple[str, ...]
    capability: NDArray[np.float64]
    sources: tuple[str, ...]
    between: NDArray[np.float64]
    from_source: NDArray[np.float64]

    @cached_property
    def number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.providers)}

    @cached_property
    def nodes(self) -> NDArray[np.float64]:
        """The latencies from all nodes, sources first, to each provider."""
        return np.concatenate([self.from_source, self.between])


def network_of(topology: Topology) -> NetworkGraph:
    """The network graph of a topology; latencies are those of the shortest ways."""
    ways = ways_from(topology, topology.providers)
    return NetworkGraph(
        providers=tuple(topology.sites[site].name for site in topology.providers),
        capability=np.array([topology.sites[site].capability for site in topology.providers]),
        sources=tuple(topology.sites[site].name for site in topology.sources),
        between=ways[:, topology.providers],
        from_source=np.ascontiguousarray(ways[:, topology.sources].T),
    )


@dataclass(frozen=True)
class Substreams:
    """By substream its source (a number in the network graph) and its rate in bytes per second."""

    source: NDArray[np.int32]
    rate: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rate)


#: By query the number of its provider.
Placement = NDArray[np.int32]


@dataclass(frozen=True)
class QuerySet:
    """Some queries, by number. Query q wants the substreams `wanted[starts[q]:starts[q + 1]]`, in ascending order.

    `load` is processor time per second on a provider of capability 1, `home` the provider next to the user, `result`
    the bytes per second of the answers, `state` the bytes that would move along with the query.
    """

    starts: NDArray[np.int64]
    wanted: NDArray[np.int32]
    load: NDArray[np.float64]
    home: NDArray[np.int32]
    result: NDArray[np.float64]
    state: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.load)

    def interest(self, query: int) -> NDArray[np.int32]:
        return self.wanted[self.starts[query] : self.starts[query + 1]]

    def chosen(self, numbers: NDArray[np.int64] | Sequence[int]) -> QuerySet:
        """Some of the queries, in the given order."""
        picked = np.asarray(numbers, np.int64)
        sizes = np.diff(self.starts)[picked]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        cells = np.arange(starts[-1]) + np.repeat(self.starts[picked] - starts[:-1], sizes)
        columns = (getattr(self, each)[picked] for each in ("load", "home", "result", "state"))
        return QuerySet(starts, self.wanted[cells], *columns)

    def counts(self, placement: Placement, substreams: int, providers: int) -> NDArray[np.float64]:
        """The count matrix: by substream and provider the number of queries there that want it."""
        cells = self.wanted.astype(np.int64) * providers + np.repeat(placement, np.diff(self.starts))
        return np.bincount(cells, minlength=substreams * providers).reshape(substreams, providers).astype(np.float64)

    def loads(self, placement: Placement, providers: int) -> NDArray[np.float64]:
        """The load of each provider."""
        return np.asarray(np.bincount(placement, self.load, minlength=providers), np.float64)


def query_set(
    interests: Sequence[Sequence[int] | NDArray[np.int32]],
    load: Sequence[float],
    home: Sequence[int],
    result: Sequence[float],
    state: Sequence[float] | None = None,
) -> QuerySet:
    """Queries from the substreams that each of them wants."""
    listed = [np.unique(np.asarray(each, np.int32)) for each in interests]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in listed], dtype=np.int64)]).astype(np.int64)
    return QuerySet(
        starts=starts,
        wanted=np.concatenate([*listed, np.empty(0, np.int32)]).astype(np.int32),
        load=np.asarray(load, np.float64),
        home=np.asarray(home, np.int32),
        result=np.asarray(result, np.float64),
        state=np.asarray(load if state is None else state, np.float64),
    )


def edge_cut(network: NetworkGraph, substreams: Substreams, queries: QuerySet, placement: Placement) -> float:
    """The edge cut of a placement, in bytes per second times milliseconds."""
    at = queries.counts(placement, len(substreams), len(network.providers))
    # All that is wanted of a substream, copy by copy, comes from its source; that of overlaps goes between providers.
    overlap = 0.5 * float(substreams.rate @ np.einsum("xk,xk->x", at @ network.between, at))
    sources = float(substreams.rate @ np.einsum("xk,xk->x", at, network.from_source[substreams.source]))
    results = float(queries.result @ network.between[placement, queries.home])
    return overlap + sources + results


def pulls(network: NetworkGraph, substreams: Substreams, queries: QuerySet) -> NDArray[np.float64]:
    """By query the weights of its edges to nodes of the network: to each source, and after those to each provider."""
    nodes, sources = len(network.sources) + len(network.providers), len(network.sources)
    first = np.arange(len(queries)) * nodes
    to_sources = np.repeat(first, np.diff(queries.starts)) + substreams.source[queries.wanted]
    found = np.bincount(to_sources, substreams.rate[queries.wanted], minlength=len(queries) * nodes)
    found[first + sources + queries.home] = queries.result
    return np.asarray(found, np.float64).reshape(len(queries), nodes)
