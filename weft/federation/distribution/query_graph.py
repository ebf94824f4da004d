"""The query graph of a coordinator, and its coarsening.

Vertices are queries, or bundles of queries. A vertex keeps how many of its queries want each substream. So an edge
between two vertices need not be kept: its weight is the sum of the edges between their queries,
Σ_x rate[x] · count[x] · count'[x], and the edge cut of bundles is exactly that of the queries in them, but for the
edges inside bundles. Edges to sources and homes lead to nodes that do not move; `pull` has their weights, a column for
each node. So the nodes of the network are here, and never merged.

**Coarsening** makes bundles of queries that overlap much, so that a coordinator decides about hundreds and not
thousands. It is heavy-edge matching: visit the vertices in random order and merge each with the neighbour it shares
most with, until the graph is small. Two things are different from the textbook.

- Edges are compared **per pair of queries** (weight divided by the sizes of both ends). By total weight large bundles
  attract all others, whatever they want, and hot spots melt into one another.
- A bundle never grows beyond a **cap**. Bundles as heavy as a provider's share cannot be placed within the load limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, pulls, rows


@dataclass(frozen=True)
class QueryGraph:
    """Vertices by number. Vertex v wants `substream[starts[v]:starts[v + 1]]`, by `count` of its queries each.

    `size` is the number of its queries, `weight` their load, `state` the bytes that move with them.
    """

    starts: NDArray[np.int64]
    substream: NDArray[np.int32]
    count: NDArray[np.float64]
    size: NDArray[np.int64]
    weight: NDArray[np.float64]
    state: NDArray[np.float64]
    pull: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.weight)


_PER_VERTEX = ("size", "weight", "state", "pull")


def graph_of(network: NetworkGraph, substreams: Substreams, queries: QuerySet) -> QueryGraph:
    """The query graph in which each vertex is a query."""
    return QueryGraph(
        starts=queries.starts,
        substream=queries.wanted,
        count=np.ones(len(queries.wanted)),
        size=np.ones(len(queries), np.int64),
        weight=queries.load,
        state=queries.state,
        pull=pulls(network, substreams, queries),
    )


def selected(graph: QueryGraph, vertices: NDArray[np.int64]) -> QueryGraph:
    """Some of the vertices, in the given order."""
    starts, cells = rows(graph.starts, vertices)
    per_vertex = (getattr(graph, each)[vertices] for each in _PER_VERTEX)
    return QueryGraph(starts, graph.substream[cells], graph.count[cells], *per_vertex)


def joined(graphs: Sequence[QueryGraph]) -> QueryGraph:
    """The vertices of several graphs, one graph after the other."""
    offsets = np.cumsum([0, *(each.starts[-1] for each in graphs)])
    starts = [each.starts[:-1] + offset for each, offset in zip(graphs, offsets[:-1], strict=True)]
    names = ("substream", "count", *_PER_VERTEX)
    columns = (np.concatenate([getattr(each, name) for each in graphs]) for name in names)
    return QueryGraph(np.concatenate([*starts, offsets[-1:]]).astype(np.int64), *columns)


def bundled(graph: QueryGraph, bundle: NDArray[np.int64], substreams: int) -> QueryGraph:
    """The graph whose vertices are bundles; `bundle` has for each vertex the number of its bundle."""
    bundles = int(bundle.max(initial=-1)) + 1
    order = np.argsort(bundle, kind="stable")
    starts, substream, count = _counted(bundles, bundle, order, graph.starts, graph.substream, graph.count, substreams)
    return QueryGraph(
        starts=starts,
        substream=substream,
        count=count,
        size=summed(graph.size, bundle, bundles).astype(np.int64),
        weight=summed(graph.weight, bundle, bundles),
        state=summed(graph.state, bundle, bundles),
        pull=_summed(graph.pull, bundle, order, bundles),
    )


def summed(values: NDArray[np.generic], where: NDArray[np.integer[Any]], places: int) -> NDArray[np.float64]:
    """By place the sum of the values there."""
    # Of nothing at all NumPy makes whole numbers, and whole numbers would swallow what is added to them later.
    return np.asarray(np.bincount(where, values, minlength=places), np.float64)


@numba.njit(cache=True)
def _counted(bundles, bundle, order, starts, substream, count, substreams):  # type: ignore[no-untyped-def]
    """By bundle the substreams that its vertices want, as they come, and by how many of its queries each is wanted."""
    firsts = np.zeros(bundles + 1, np.int64)
    found, counted = np.empty(len(substream), substream.dtype), np.zeros(len(substream), count.dtype)
    seen_in, seen_at = np.full(substreams, -1, np.int64), np.empty(substreams, np.int64)
    end = 0
    for v in order:
        b = bundle[v]
        for i in range(starts[v], starts[v + 1]):
            x = substream[i]
            if seen_in[x] != b:
                seen_in[x], seen_at[x] = b, end
                found[end] = x
                end += 1
            counted[seen_at[x]] += count[i]
        firsts[b + 1] = end
    return firsts, found[:end].copy(), counted[:end].copy()


def _summed(
    rows: NDArray[np.float64], bundle: NDArray[np.int64], order: NDArray[np.int64], bundles: int
) -> NDArray[np.float64]:
    if not bundles:
        return rows[:0]
    found: NDArray[np.float64] = np.add.reduceat(
        rows[order], np.searchsorted(bundle[order], np.arange(bundles)), axis=0
    )
    return found


#: How many times as heavy as an average bundle of the smallest graph a bundle may be.
HEAVIEST = 1.5


@dataclass(frozen=True)
class Coarse:
    """A coarse graph, and for each vertex of the finer one the number of its bundle."""

    graph: QueryGraph
    bundle: NDArray[np.int64]


def coarsened(
    graph: QueryGraph, rates: NDArray[np.float64], most: int, random: Generator, heaviest: float | None = None
) -> Coarse:
    """A graph of at most `most` vertices, or as few as the cap on their weight allows."""
    bundle = np.arange(len(graph))
    if len(graph) <= most:
        return Coarse(graph, bundle)
    if heaviest is None:
        heaviest = HEAVIEST * float(graph.weight.sum()) / most
    overlap = overlaps(graph, rates)
    size, weight = graph.size.astype(np.float64), graph.weight.copy()
    while len(weight) > most:
        match = _matched(overlap, size, weight, random.permutation(len(weight)), len(weight) - most, heaviest)
        firsts, merged = np.unique(match, return_inverse=True)
        if len(firsts) == len(weight):
            break
        overlap = _merged(overlap, merged, len(firsts))
        size, weight = summed(size, merged, len(firsts)), summed(weight, merged, len(firsts))
        bundle = merged[bundle]
    return Coarse(bundled(graph, bundle, len(rates)), bundle)


def overlaps(graph: QueryGraph, rates: NDArray[np.float64]) -> NDArray[np.float32]:
    """The weights of all edges between vertices, as a matrix with zeros on the diagonal."""
    found: NDArray[np.float32] = _overlaps(*by_substream(graph.starts, graph.substream, graph.count, len(rates)), rates)
    return found


@numba.njit(cache=True)
def by_substream(starts, substream, count, substreams):  # type: ignore[no-untyped-def]
    """Who wants each substream: how many vertices there are, and by substream its vertices, ascending, and counts."""
    firsts = np.zeros(substreams + 1, np.int64)
    for x in substream:
        firsts[x + 1] += 1
    firsts = np.cumsum(firsts)
    vertex, counted = np.empty(len(substream), np.int32), np.empty(len(substream), np.float32)
    free = firsts[:-1].copy()
    for v in range(len(starts) - 1):
        for i in range(starts[v], starts[v + 1]):
            at = free[substream[i]]
            vertex[at], counted[at] = v, count[i]
            free[substream[i]] = at + 1
    return len(starts) - 1, firsts, vertex, counted


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


@numba.njit(cache=True)
def _merged(overlap, merged, vertices):  # type: ignore[no-untyped-def]
    found = np.zeros((vertices, vertices), np.float32)
    for u in range(len(merged)):
        for v in range(len(merged)):
            found[merged[u], merged[v]] += overlap[u, v]
    for u in range(vertices):
        found[u, u] = 0
    return found
