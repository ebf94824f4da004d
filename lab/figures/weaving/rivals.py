"""Rivals of Weave Share on hundreds of unrelated slides, where edges are too many to count exactly.

The searches are those of `lab/weaving/partition_search.py`. Edges are marked in one stretch of time, the same for
all trees, as the bits of an integer; a union is one operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from lab.figures.weaving.woven import Woven, overlap_factor
from lab.weaving.baselines import random_partition
from lab.weaving.costings import by_overlap
from lab.weaving.partition_search import Partition, insert_one_by_one, local_search
from lab.weaving.plans import collapse, weave
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq
from weft.windows.slicing import window_edges

_HORIZON = 1 << 16
# An arbitrary place far from the origin, where all slides begin together.
_START = 0x5851F42D4C957F2D14057B7EF767814F


class Rival(NamedTuple):
    cost: float
    trees: int
    seconds: float


class MarkedEdges:
    """Prices of trees, by the numbers of their queries, in integers: edges in the horizon times overlap factors."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._marks = [_marked(window) for window in windows]
        self._overlap = [overlap_factor(window) for window in windows]

    def price(self, tree: tuple[int, ...]) -> int:
        union = 0
        for number in tree:
            union |= self._marks[number]
        # Searches add and compare; integers do that a hundred times as fast as fractions.
        return union.bit_count() * sum(self._overlap[number] for number in tree)

    def per_tree(self, rate: float) -> int:
        return round(rate * _HORIZON)

    def cost(self, partition: Partition, rate: float) -> float:
        return len(partition) * rate + float(sum(self.price(tree) for tree in partition)) / _HORIZON


def _marked(window: Window) -> int:
    marks = np.zeros(_HORIZON, dtype=np.bool_)
    for modulus, residue in window_edges(window):
        marks[(residue - _START) % modulus :: modulus] = True
    return int.from_bytes(np.packbits(marks).tobytes(), "little")


def random_rival(woven: Woven, rate: float, seed: int) -> Rival:
    started = perf_counter()
    partition = random_partition(len(woven.windows), seed)
    seconds = perf_counter() - started
    return Rival(MarkedEdges(woven.windows).cost(partition, rate), len(partition), seconds)


def local_search_rival(woven: Woven, rate: float) -> Rival:
    """LS-NS-10x: from No Share, with ten times as many moves as there are queries."""
    edges = MarkedEdges(woven.windows)
    queries = len(woven.windows)
    started = perf_counter()
    alone = tuple((number,) for number in range(queries))
    found = local_search(alone, edges.per_tree(rate), edges.price, most_moves=10 * queries)
    return Rival(edges.cost(found, rate), len(found), perf_counter() - started)


def insert_then_weave_rival(woven: Woven, rate: float) -> Rival:
    edges = MarkedEdges(woven.windows)
    started = perf_counter()
    inserted = insert_one_by_one(range(len(woven.windows)), edges.per_tree(rate), edges.price)
    groups = [collapse([Acq(woven.windows[number]) for number in tree]) for tree in inserted]
    weaving = weave((), by_overlap(), start=groups)
    finals = np.array([float(final) for final in weaving.finals])
    costs = rate * (len(groups) - np.arange(len(finals))) + finals
    best = int(np.argmin(costs))
    return Rival(float(costs[best]), len(groups) - best, perf_counter() - started)
