"""The query graph of a coordinator: vertices that are queries, or bundles of queries.

A vertex keeps how many of its queries want each substream. So an edge between two vertices need not be kept: its weight
is the sum of the edges between their queries, Σ_x rate[x] · count[x] · count'[x], and the edge cut of bundles is
exactly that of the queries in them, but for the edges inside bundles. Edges to sources and homes lead to nodes that do
not move; `pull` has their weights, a column for each node. So the nodes of the network are here, and never merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from weft.federation.model.edge_cut import pulls
from weft.federation.model.network import NetworkGraph
from weft.federation.model.queries import QuerySet, rows
from weft.federation.model.substreams import Substreams


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
    return QueryGraph(
        starts,
        graph.substream[cells],
        graph.count[cells],
        graph.size[vertices],
        graph.weight[vertices],
        graph.state[vertices],
        graph.pull[vertices],
    )


def joined(graphs: Sequence[QueryGraph]) -> QueryGraph:
    """The vertices of several graphs, one graph after the other."""
    offsets = np.cumsum([0, *(each.starts[-1] for each in graphs)])
    starts = [each.starts[:-1] + offset for each, offset in zip(graphs, offsets[:-1], strict=True)]
    return QueryGraph(
        np.concatenate([*starts, offsets[-1:]]).astype(np.int64),
        np.concatenate([each.substream for each in graphs]),
        np.concatenate([each.count for each in graphs]),
        np.concatenate([each.size for each in graphs]),
        np.concatenate([each.weight for each in graphs]),
        np.concatenate([each.state for each in graphs]),
        np.concatenate([each.pull for each in graphs]),
    )


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
