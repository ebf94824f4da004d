"""The weighted edge cut: what a placement costs, as the optimiser sees it.

The query graph has an edge from a query to each source it reads (weight: the rate it reads from there), one to its home
(the rate of its answers), and one to every query that wants some of the same data (the rate of what both want). A
placement pays for each edge its weight times the latency between its ends, once.

Edges between queries are far too many to list: nearly all pairs overlap. But they need not be listed. Let c[x, k] be
the number of queries at provider k that want substream x. All pairs that share x cost together

    rate[x] · ½ Σ_kl c[x, k] · c[x, l] · latency[k, l]

so the **count matrix** says it all, and what moving a query would change is a sum over the substreams it wants.

The edge cut stands in for the truth: queries side by side that want the same data get it once, but are charged for it
one by one. `multicast.py` has the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.federation.model.network import NetworkGraph
from weft.federation.model.queries import QuerySet
from weft.federation.model.substreams import Substreams

#: By query the number of its provider.
Placement = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class EdgeCut:
    """The edge cut of a placement by kinds of edges, in bytes per second times milliseconds."""

    overlap: float
    sources: float
    results: float

    @property
    def total(self) -> float:
        return self.overlap + self.sources + self.results


def counts(queries: QuerySet, placement: Placement, substreams: int, providers: int) -> NDArray[np.float64]:
    """The count matrix: by substream and provider the number of queries there that want it."""
    where = np.repeat(placement, np.diff(queries.starts))
    cells = queries.wanted.astype(np.int64) * providers + where
    return np.bincount(cells, minlength=substreams * providers).reshape(substreams, providers).astype(np.float64)


def edge_cut(network: NetworkGraph, substreams: Substreams, queries: QuerySet, placement: Placement) -> EdgeCut:
    """The edge cut of a placement."""
    at = counts(queries, placement, len(substreams), len(network.providers))
    # All that is wanted of a substream, copy by copy, comes from its source; that of overlaps goes between providers.
    overlap = 0.5 * float(substreams.rate @ np.einsum("xk,xk->x", at @ network.between, at))
    sources = float(substreams.rate @ np.einsum("xk,xk->x", at, network.from_source[substreams.source]))
    results = float(queries.result @ network.between[placement, queries.home])
    return EdgeCut(overlap, sources, results)


def pulls(network: NetworkGraph, substreams: Substreams, queries: QuerySet) -> NDArray[np.float64]:
    """By query the weights of its edges to nodes of the network: to each source, and after those to each provider."""
    nodes, sources = len(network.sources) + len(network.providers), len(network.sources)
    first = np.arange(len(queries)) * nodes
    to_sources = np.repeat(first, np.diff(queries.starts)) + substreams.source[queries.wanted]
    found = np.bincount(to_sources, substreams.rate[queries.wanted], minlength=len(queries) * nodes)
    found[first + sources + queries.home] = queries.result
    return np.asarray(found, np.float64).reshape(len(queries), nodes)


def loads(queries: QuerySet, placement: Placement, providers: int) -> NDArray[np.float64]:
    """By provider the load of the queries there."""
    return np.asarray(np.bincount(placement, queries.load, minlength=providers), np.float64)
