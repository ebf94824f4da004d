"""SlickDeque (Inv): one running aggregate for each range, over one ring of partials.

Full name    SlickDeque for invertible functions
Needs        a commutative function with an inverse
Time         2 per range and slide, amortised and worst (3 where arithmetic is not exact: see `panes_inv`)
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

from weft.kernels.algorithms.algorithm import Algorithm, KernelShape, MemoryLayout
from weft.kernels.algorithms.panes_inv import RENEWED_AFTER, take
from weft.kernels.compiled.cells import (
    CAPACITY,
    EXACT,
    NEXT,
    OWN,
    RANGES,
    SLOTS,
    Index,
    Memory,
    adopt,
    copy,
    forget,
    is_exact,
    lose,
    settle,
    slot,
    swap,
)
from weft.kernels.compiled.pointers import jitable

#: The first partial of the fresh aggregates (see `panes_inv`); it may be still to come.
FRESH_FROM = OWN


def layout(shape: KernelShape) -> MemoryLayout:
    """The table has, for each range, the oldest partial of its running aggregate.

    Rows after the ring: running aggregates, and where arithmetic is not exact fresh ones, and the carries of both.
    """
    rows = shape.capacity + shape.ranges * (1 if shape.exact else 4)
    return MemoryLayout(rows, own=(0,), table=shape.ranges, carry=2 * shape.ranges)


@jitable
def evict(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int) -> None:
    for j in range(ix[RANGES]):
        _expire(f, cells, ix, table, j, starts[at + j])
    _forget(ix, starts[at])


@jitable
def _expire(f: Any, cells: Memory, ix: Index, table: Index, j: int, start: int) -> None:
    running = ix[SLOTS] + j
    for sequence in range(table[j], start):
        if not is_exact(f) and sequence + 1 == ix[FRESH_FROM]:
            adopt(f, cells, running, running + ix[RANGES])
        else:
            lose(f, cells, running, cells, slot(ix, sequence))
    table[j] = start


@jitable
def _forget(ix: Index, start: int) -> None:
    forget(ix, start)
    if start >= ix[FRESH_FROM]:
        # The longest range was the last to adopt its fresh aggregate.
        ix[FRESH_FROM] = ix[NEXT] + 1 + RENEWED_AFTER * ix[CAPACITY]


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    newest, fresh_from = ix[NEXT], ix[FRESH_FROM]
    for j in range(ix[RANGES]):
        start, oldest = starts[at + j], table[j]
        running = ix[SLOTS] + j
        if start == oldest + 1 and start < newest and (is_exact(f) or start != fresh_from):
            # The usual slide, one partial in and one out, takes one pass.
            swap(f, cells, running, incoming, i, slot(ix, oldest))
            table[j] = start
        else:
            _expire(f, cells, ix, table, j, start)
            take(f, cells, running, start == newest, incoming, i)
        if not is_exact(f) and newest >= fresh_from:
            take(f, cells, running + ix[RANGES], newest == fresh_from, incoming, i)
    _forget(ix, starts[at])
    copy(f, cells, slot(ix, newest), incoming, i)
    ix[NEXT] = newest + 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    settle(f, out, a, cells, ix[SLOTS] + j)


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    ranges, exact = int(ix[RANGES]), ix[EXACT]
    first_sum = int(ix[SLOTS]) + (0 if exact else 2 * ranges)
    running = [first_sum + j for j in range(ranges) if table[j] <= sequence]
    fresh = [] if exact or ix[FRESH_FROM] > sequence else [first_sum + ranges + j for j in range(ranges)]
    return [slot(ix, sequence), *running, *fresh]


def move(ix: Index, table: Index, sequence: int) -> None:
    ix[FRESH_FROM] += sequence
    for j in range(int(ix[RANGES])):
        table[j] += sequence


SLICKDEQUE_INV = Algorithm(
    "slickdeque_inv",
    "SlickDeque (Inv)",
    layout,
    evict,
    slide,
    query,
    covering,
    move,
    inverts=True,
    any_start=False,
)
