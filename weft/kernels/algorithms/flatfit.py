"""FlatFIT: what a query has combined is written back, with a pointer that lets the next query skip it.

Full name    Flat and Fast Index Traverser
Needs        an associative function
Time         3 per slide, amortised; n worst, at a *window reset* every n + 1 slides; n − 1 per slide when all ranges
             1 … n are asked
Space        2n
Paper        Shein, Chrysanthis and Labrinidis, "FlatFIT: Accelerated Incremental Sliding-Window Aggregation For
             Real-Time Analytics", 2017
Many ranges  yes

Cell i holds the aggregate of partials i to pointer(i) − 1. A query follows the pointers from the start of its window,
then comes back and makes each cell it visited reach to the newest partial:

    before   i:  8 ──────→ 1 ──→ 5 → (newest)        after   8 ───────────────→
                                                             1 ────────→

The pointers depend on when queries come, and not on data: one walk serves all keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.kernels.compiled.cells import (
    BASE,
    FIRST,
    NEXT,
    SLOTS,
    Algorithm,
    Index,
    KernelShape,
    MemoryLayout,
    forget,
    slot,
)
from weft.kernels.compiled.machine_code import Memory, jitable


def layout(shape: KernelShape) -> MemoryLayout:
    """The table has, for each cell of the ring, the first partial it does not cover; then a stack of visits."""
    return MemoryLayout(rows=shape.capacity, table=2 * shape.capacity)


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    forget(ix, starts[at])
    newest = slot(ix, ix[NEXT])
    f.copy(cells, newest, incoming, i)
    ix[NEXT] += 1
    table[newest] = ix[NEXT]


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    visits = ix[SLOTS]
    depth = 0
    cell = slot(ix, start)
    while table[cell] < ix[NEXT]:
        table[visits + depth] = cell
        depth += 1
        cell = slot(ix, table[cell])
    while depth > 0:
        depth -= 1
        longer = table[visits + depth]
        f.combine(cells, longer, cells, longer, cells, cell)
        table[longer] = ix[NEXT]
        cell = longer
    f.copy(out, a, cells, cell)


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    cells = np.arange(ix[FIRST], sequence + 1) - ix[BASE]
    cells[cells >= ix[SLOTS]] -= ix[SLOTS]
    covers = np.asarray(table)[cells] > sequence
    return [int(cell) for cell in cells[covers]]


FLATFIT = Algorithm("flatfit", "FlatFIT", layout, slide, query, covering)
