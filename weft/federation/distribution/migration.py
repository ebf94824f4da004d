"""What has to move once all is decided, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.federation.model.edge_cut import Placement
from weft.federation.model.network import NetworkGraph
from weft.federation.model.queries import QuerySet


@dataclass(frozen=True)
class Migration:
    """The queries that move, from where, to where, and the bytes of state that move with each."""

    query: NDArray[np.int64]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    state: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.query)


def migration(queries: QuerySet, before: Placement, after: Placement) -> Migration:
    """The moves between two placements."""
    moving = np.flatnonzero(before != after)
    return Migration(moving, before[moving], after[moving], queries.state[moving])


def cost_of(network: NetworkGraph, moves: Migration) -> float:
    """Bytes of state times the milliseconds that they travel."""
    return float(moves.state @ network.between[moves.source, moves.target])


def bounded(network: NetworkGraph, moves: Migration, gain: NDArray[np.float64], budget: float) -> Migration:
    """The moves that gain most for what carrying them costs, as many as a budget of bytes times milliseconds allows."""
    each = moves.state * network.between[moves.source, moves.target]
    order = np.argsort(-gain / np.maximum(each, 1e-300), kind="stable")
    kept = np.sort(order[np.cumsum(each[order]) <= budget])
    return Migration(moves.query[kept], moves.source[kept], moves.target[kept], moves.state[kept])
