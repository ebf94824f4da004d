"""The query graph of a coordinator, and its coarsening.

Vertices are queries, or bundles of queries. An edge between two vertices need not be kept: its weight follows from how
many of their queries want each substream, Σ_x rate[x] · count[x] · count'[x], so the edge cut of bundles is exactly
that of the queries in them, but for the edges inside bundles. Edges to sources and homes lead to nodes of the network,
which do not move and are never merged; `pull` has their weights, a column for each node.

**Coarsening** makes bundles of queries that overlap much. It is heavy-edge matching: visit the vertices in random order
and merge each with the neighbour it shares most with, until the graph is small. Edges are compared **per pair of
queries**: by total weight large bundles attract all others, and hot spots melt into one another. And a bundle never
grows beyond a **cap**: those as heavy as a provider's share cannot be placed within the load limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, pulls


@dataclass(frozen=True)
class QueryGraph:
    """Vertices by number. By vertex and substream, `wants` has how many of the vertex's queries want the substream.

    `size` is the number of a vertex's queries, `weight` their load, `state` the bytes that move with them.
    """

    wants: csr_array
    size: NDArray[np.float64]
    weight: NDArray[np.float64]
    state: NDArray[np.float64]
    pull: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def cells(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """For compiled loops: vertex v wants `substream[starts[v]:starts[v + 1]]`, by `count` of its queries each."""
        return self.wants.indptr, self.wants.indices, self.wants.data


_PER_VERTEX = ("size", "weight", "state", "pull")


def graph_of(network: NetworkGraph, substreams: Substreams, queries: QuerySet) -> QueryGraph:
    """The query graph in which each vertex is a query."""
    return QueryGraph(
        wants=csr_array(
            (np.ones(len(queries.wanted)), queries.wanted, queries.starts), shape=(len(queries), len(substreams))
        ),
        size=np.ones(len(queries)),
        weight=queries.load,
        state=queries.state,
        pull=pulls(network, substreams, queries),
    )


def selected(graph: QueryGraph, vertices: NDArray[np.int64]) -> QueryGraph:
    """Some of the vertices, in the given order."""
    return QueryGraph(graph.wants[vertices], *(getattr(graph, each)[vertices] for each in _PER_VERTEX))


def joined(graphs: Sequence[QueryGraph]) -> QueryGraph:
    """The vertices of several graphs, one graph after the other."""
    columns = (np.concatenate([getattr(each, name) for each in graphs]) for name in _PER_VERTEX)
    return QueryGraph(vstack([each.wants for each in graphs], format="csr"), *columns)


def bundled(graph: QueryGraph, bundle: NDArray[np.int64]) -> QueryGraph:
    """The graph whose vertices are bundles; `bundle` has for each vertex the number of its bundle."""
    into = _sums(bundle)
    return QueryGraph(into @ graph.wants, *(into @ getattr(graph, each) for each in _PER_VERTEX))


def _sums(bundle: NDArray[np.int64]) -> csr_array:
    """What sums over the vertices of each bundle when it is multiplied by values of vertices."""
    shape = int(bundle.max(initial=-1)) + 1, len(bundle)
    return csr_array((np.ones(len(bundle), np.float32), (bundle, np.arange(len(bundle)))), shape=shape)


#: How many times as heavy as an average bundle of the smallest graph a bundle may be.
HEAVIEST = 1.5


def coarsened(
    graph: QueryGraph, rates: NDArray[np.float64], most: int, random: Generator, heaviest: float | None = None
) -> tuple[QueryGraph, NDArray[np.int64]]:
    """A graph of at most `most` vertices, or as few as the cap on their weight allows, and by vertex its bundle."""
    bundle = np.arange(len(graph))
    if len(graph) <= most:
        return graph, bundle
    if heaviest is None:
        heaviest = HEAVIEST * float(graph.weight.sum()) / most
    overlap = overlaps(graph, rates)
    size, weight = graph.size, graph.weight
    while len(weight) > most:
        match = _matched(overlap, size, weight, random.permutation(len(weight)), len(weight) - most, heaviest)
        firsts, merged = np.unique(match, return_inverse=True)
        if len(firsts) == len(weight):
            break
        into = _sums(merged)
        overlap, size, weight = into @ (into @ overlap).T, into @ size, into @ weight
        np.fill_diagonal(overlap, 0)
        bundle = merged[bundle]
    return bundled(graph, bundle), bundle


def overlaps(graph: QueryGraph, rates: NDArray[np.float64]) -> NDArray[np.float32]:
    """The weights of all edges between vertices, as a matrix with zeros on the diagonal."""
    wanting = graph.wants.tocsc()
    cells = wanting.indptr, wanting.indices, wanting.data.astype(np.float32)
    found: NDArray[np.float32] = _overlaps(len(graph), *cells, rates)
    return found


@numba.njit(cache=True)
def _overlaps(vertices, firsts, vertex, count, rates):  # type: ignore[no-untyped-def]
    found = np.zeros((vertices, vertices), np.float32)
    for x in range(len(rates)):
        rate = np.float32(rates[x])
        if rate == 0:
            continue
        for i in range(firsts[x], firsts[x + 1]):
            part = rate * count[i]
            row = found[vertex[i]]
            for j in range(firsts[x], i):
                row[vertex[j]] += part * count[j]
    # A substream's vertices are in ascending order, so all has gone below the diagonal.
    for i in range(vertices):
        for j in range(i):
            found[j, i] = found[i, j]
    return found


@numba.njit(cache=True)
def _matched(overlap, size, weight, order, merges, heaviest):  # type: ignore[no-untyped-def]
    """By vertex the smaller number of the pair it is in, or its own."""
    match = np.arange(len(size))
    free = np.ones(len(size), np.bool_)
    for u in order:
        if merges == 0:
            break
        if not free[u]:
            continue
        free[u] = False
        best, at = 0.0, -1
        for v in range(len(size)):
            if free[v] and overlap[u, v] > best * size[v] and weight[u] + weight[v] <= heaviest:
                best, at = overlap[u, v] / size[v], v
        if at >= 0:
            free[at] = False
            match[u] = match[at] = min(u, at)
            merges -= 1
    return match
