"""Coarsening: bundles of queries that overlap much, so that a coordinator decides about hundreds and not thousands.

Heavy-edge matching: visit the vertices in random order and merge each with the neighbour it shares most with, until the
graph is small. Two things are different from the textbook.

- Edges are compared **per pair of queries** (weight divided by the sizes of both ends). By total weight large bundles
  attract all others, whatever they want, and hot spots melt into one another.
- A bundle never grows beyond a **cap**. Bundles as heavy as a provider's share cannot be placed within the load limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from weft.federation.distribution.graph import QueryGraph, bundled, summed

#: A bundle may be so many times as heavy as bundles are on average when the graph is as small as asked for.
HEAVIEST = 1.5


@dataclass(frozen=True)
class Coarse:
    """A coarse graph, and for each vertex of the finer one the number of its bundle."""

    graph: QueryGraph
    bundle: NDArray[np.int64]


def coarsened(
    graph: QueryGraph, rates: NDArray[np.float64], most: int, random: Generator, heaviest: float | None = None
) -> Coarse:
    """A graph of at most so many vertices, or as few as the cap on their weight lets it have."""
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
