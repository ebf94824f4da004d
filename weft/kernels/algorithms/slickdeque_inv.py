"""SlickDeque (Inv): one running aggregate for each range, over one ring of partials.

Full name    SlickDeque for invertible functions
Needs        a commutative function with an inverse
Time         2 per range and slide, amortised and worst
Space        n, and one cell per range
Paper        Shein, Chrysanthis and Labrinidis, "SlickDeque: High Throughput and Low Latency Incremental Sliding-Window
             Aggregation", 2018
Many ranges  yes

The paper keys running aggregates by the number of partials in a window. In a tree of several queries the windows of
one query hold different numbers of partials, and it takes up to three times as many aggregates as there are queries.
Here they are keyed by range: each knows the oldest partial it holds, and loses those that its window has passed.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import (
    FIRST,
    NEXT,
    RANGES,
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
    """The ring and the running aggregates. The table has, for each of these, the oldest partial in it."""
    return MemoryLayout(shape.capacity + shape.ranges, table=shape.ranges)


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    newest = ix[NEXT]
    for j in range(ix[RANGES]):
        # Before the first slide the table says nothing.
        start, oldest = starts[at + j], max(table[j], ix[FIRST])
        running = ix[SLOTS] + j
        table[j] = start
        if start == oldest + 1 and start < newest:
            # The usual slide, one partial in and one out, takes one pass.
            f.swap(cells, running, incoming, i, slot(ix, oldest))
            continue
        for sequence in range(oldest, start):
            f.subtract(cells, running, cells, running, cells, slot(ix, sequence))
        if start == newest:
            f.copy(cells, running, incoming, i)
        else:
            f.combine(cells, running, cells, running, incoming, i)
    forget(ix, starts[at])
    f.copy(cells, slot(ix, newest), incoming, i)
    ix[NEXT] = newest + 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    f.copy(out, a, cells, ix[SLOTS] + j)


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    running = [int(ix[SLOTS]) + j for j in range(int(ix[RANGES])) if table[j] <= sequence]
    return [slot(ix, sequence), *running]


SLICKDEQUE_INV = Algorithm("slickdeque_inv", "SlickDeque (Inv)", layout, slide, query, covering, inverts=True)
