"""The initial distribution with the help of a graph partitioner, METIS.

Queries are cut into as many equally heavy parts as there are providers, so that what is cut between parts is little;
the parts are placed, one at each provider. METIS looks at overlaps alone and knows no latencies, and it wants to see
all queries at once. But its parts are purer than ours: queries at one provider want much the same, so that the links
carry less. For up to some ten thousand queries that start together it is the better start.

It is an option: it needs the package `pymetis`, and providers of equal capability.
"""

from __future__ import annotations

from importlib import import_module

import numba
import numpy as np
from scipy.sparse import csr_array

from lab.federation.initial_distribution import all_providers, mapped
from weft.federation import FederationError
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams
from weft.federation.distribution.query_graph import QueryGraph, bundled, graph_of
from weft.federation.distribution.rounds import SLACK

#: METIS gets so many of the heaviest edges of each query: all of them would be millions.
NEIGHBOURS = 20


def by_partition(
    network: NetworkGraph, substreams: Substreams, queries: QuerySet, slack: float = SLACK, seed: int = 0
) -> Placement:
    """By query its provider. Raises FederationError where the option is not to be had."""
    try:
        metis = import_module("pymetis")
    except ImportError as problem:
        raise FederationError("a start by partition needs METIS: pip install 'weft[bench]'") from problem
    if np.ptp(network.capability) > 0:
        raise FederationError("a start by partition makes equal parts, and the providers' capabilities differ")
    graph = graph_of(network, substreams, queries)
    edges = heaviest_edges(graph, substreams.rate, NEIGHBOURS)
    _, found = metis.part_graph(
        len(network.providers),
        metis.CSRAdjacency(edges.indptr.tolist(), edges.indices.tolist()),
        # METIS counts in whole numbers.
        vweights=np.maximum((graph.weight / graph.weight.mean() * 1000).round(), 1).astype(np.int64).tolist(),
        eweights=np.maximum(edges.data.round(), 1).astype(np.int64).tolist(),
        options=metis.Options(ufactor=round(1000 * slack), seed=seed),
    )
    part = np.unique(np.asarray(found), return_inverse=True)[1]
    coarse = bundled(graph, part)
    # A part is as heavy as a provider's share, so the load limit lets each provider have one.
    return mapped(coarse, substreams.rate, all_providers(network, coarse, slack))[part]


def heaviest_edges(graph: QueryGraph, rates: np.ndarray, most: int) -> csr_array:
    """The edges that are among the `most` heaviest of one of their ends, both ways."""
    by_substream, vertices = graph.wants.tocsc(), len(graph)
    kept = min(most, max(vertices - 1, 0))
    wanting = by_substream.indptr, by_substream.indices, by_substream.data.astype(np.float32)
    ends, weights = _heaviest(*graph.cells, *wanting, rates, kept)
    starts = np.arange(vertices + 1) * kept
    one_way = csr_array((weights.ravel(), ends.ravel(), starts), shape=(vertices, vertices))
    both: csr_array = one_way.maximum(one_way.T.tocsr()).tocsr()
    both.eliminate_zeros()
    return both


@numba.njit(cache=True)
def _heaviest(starts, substream, count, firsts, vertex, counted, rates, most):  # type: ignore[no-untyped-def]
    vertices = len(starts) - 1
    ends, weights = np.zeros((vertices, most), np.int32), np.zeros((vertices, most))
    row = np.zeros(vertices)
    for v in range(vertices):
        row[:] = 0.0
        for i in range(starts[v], starts[v + 1]):
            x = substream[i]
            part = rates[x] * count[i]
            for j in range(firsts[x], firsts[x + 1]):
                row[vertex[j]] += part * counted[j]
        row[v] = 0.0
        for u in range(vertices):
            # Few are heavier than the lightest that is kept, so inserting them in order costs next to nothing.
            if most and row[u] > weights[v, most - 1]:
                place = most - 1
                while place > 0 and weights[v, place - 1] < row[u]:
                    weights[v, place], ends[v, place] = weights[v, place - 1], ends[v, place - 1]
                    place -= 1
                weights[v, place], ends[v, place] = row[u], u
    return ends, weights
