"""Where new queries go, many at a time: by tables, which a coordinator that routes thousands a second would keep.

`weft coordinator` routes one query at a time, and computes only what that query wants
(`weft.federation.distribution.coordinator`). Here each coordinator keeps a **routing table**: by substream and child
what one more query that wants the substream would cost there, sharing and fetching together. A new query's costs are
the sum of its substreams' rows and of one row for its home; it goes to the cheapest child, and on from there, down to a
provider.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from weft.federation.distribution.coordinator_tree import Cluster
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams
from weft.federation.distribution.rounds import targets_of


@dataclass(frozen=True)
class RoutingTable:
    """A coordinator's table, one row for each substream and one for each home, and those of the coordinators below."""

    cluster: Cluster
    by_substream: NDArray[np.float32]
    by_home: NDArray[np.float32]
    below: tuple[RoutingTable, ...]


def routing_table(
    tree: Cluster, network: NetworkGraph, substreams: Substreams, queries: QuerySet, placement: Placement
) -> RoutingTable:
    """The tables of a tree, for queries that are placed already."""
    at = queries.counts(placement, len(substreams), len(network.providers))
    return _table(tree, network, substreams, at)


def _table(cluster: Cluster, network: NetworkGraph, substreams: Substreams, at: NDArray[np.float64]) -> RoutingTable:
    targets = targets_of(cluster, network, fair=1.0)
    here = np.stack([at[:, each].sum(axis=1) for each in targets.providers], axis=1)
    from_source, homes = np.split(targets.reach, [len(network.sources)])
    by_substream = substreams.rate[:, None] * (here @ targets.latency + from_source[substreams.source])
    below = tuple(_table(child, network, substreams, at) for child in cluster.children)
    return RoutingTable(cluster, by_substream.astype(np.float32), homes.astype(np.float32), below)


def choices(table: RoutingTable, queries: QuerySet) -> NDArray[np.int64]:
    """By query the place of the cheapest child of one coordinator."""
    result = queries.result.astype(np.float32)
    found: NDArray[np.int64] = _choices(
        queries.starts, queries.wanted, queries.home, result, table.by_substream, table.by_home
    )
    return found


def routed(table: RoutingTable, queries: QuerySet) -> Placement:
    """By query the provider that it goes to. The queries of a batch do not see one another."""
    placement = np.empty(len(queries), np.int32)
    at = choices(table, queries)
    if table.cluster.is_leaf:
        placement[:] = np.asarray(table.cluster.providers, np.int32)[at]
    for number, below in enumerate(table.below):
        here = np.flatnonzero(at == number)
        if len(here):
            placement[here] = routed(below, queries.chosen(here))
    return placement


@numba.njit(cache=True, fastmath=True)
def _choices(starts, wanted, home, result, by_substream, by_home):  # type: ignore[no-untyped-def]
    children = by_substream.shape[1]
    found = np.empty(len(home), np.int64)
    costs = np.empty(children, np.float32)
    for q in range(len(home)):
        for j in range(children):
            costs[j] = result[q] * by_home[home[q], j]
        for i in range(starts[q], starts[q + 1]):
            row = by_substream[wanted[i]]
            for j in range(children):
                costs[j] += row[j]
        found[q] = np.argmin(costs)
    return found
