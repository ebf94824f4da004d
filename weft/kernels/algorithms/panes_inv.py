"""Panes (Inv): one running aggregate; a partial is added when it comes and taken out when it expires.

Full name    Panes for invertible functions; also known as R-Int and as Subtract-on-Evict
Needs        a commutative function with an inverse
Time         2 per slide, amortised and worst (3 where arithmetic is not exact, see below)
Space        n
Paper        Li, Maier, Tufte, Papadimos and Tucker, "No Pane, No Gain: Efficient Evaluation of Sliding-Window
             Aggregates over Data Streams", 2005
Many ranges  no

**Rounding.** A running sum of DOUBLEs that lives for months must not drift. It carries its rounding errors along (see
`row_arithmetic`), and it is renewed: from time to time, a fresh sum is built beside it from partials alone, nothing
taken out. When the last partial that the fresh sum has not seen expires, both cover the same window, and the fresh one
takes over:

    window      . . . [ a b c d e f ]           a, b, c expire, g, h, i come
    running            ───────────               = everything in the window
    fresh                    ────── →            began with d: takes over when c expires

So no sum is older than RENEWED_AFTER + 2 windows, and no slide pays for a rebuild.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.algorithms.algorithm import Algorithm, KernelShape, MemoryLayout
from weft.kernels.compiled.cells import (
    CAPACITY,
    EXACT,
    FIRST,
    NEXT,
    OWN,
    SLOTS,
    Index,
    Memory,
    adopt,
    begin,
    copy,
    extend,
    forget,
    is_exact,
    lose,
    settle,
    slot,
)
from weft.kernels.compiled.pointers import jitable

#: The first partial of the fresh sum; it may be still to come.
FRESH_FROM = OWN

#: Windows that pass before the next fresh sum is begun.
RENEWED_AFTER = 14

# Rows after the ring: the running sum, the fresh sum, and the carries of both.
RUNNING, FRESH, CARRY = 0, 1, 2


def layout(shape: KernelShape) -> MemoryLayout:
    return MemoryLayout(rows=shape.capacity + (1 if shape.exact else 4), own=(0,), carry=CARRY)


@jitable
def evict(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int) -> None:
    running = ix[SLOTS] + RUNNING
    for sequence in range(ix[FIRST], starts[at]):
        if not is_exact(f) and sequence + 1 == ix[FRESH_FROM]:
            adopt(f, cells, running, ix[SLOTS] + FRESH)
            ix[FRESH_FROM] = ix[NEXT] + RENEWED_AFTER * ix[CAPACITY]
        else:
            lose(f, cells, running, cells, slot(ix, sequence))
    forget(ix, starts[at])


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    evict(f, cells, ix, table, starts, at)
    newest = ix[NEXT]
    take(f, cells, ix[SLOTS] + RUNNING, ix[FIRST] == newest, incoming, i)
    if not is_exact(f) and newest >= ix[FRESH_FROM]:
        take(f, cells, ix[SLOTS] + FRESH, newest == ix[FRESH_FROM], incoming, i)
    copy(f, cells, slot(ix, newest), incoming, i)
    ix[NEXT] = newest + 1


@jitable
def take(f: Any, cells: Memory, acc: int, is_empty: bool, incoming: Memory, i: int) -> None:
    """Adds a partial to an accumulator."""
    if is_empty:
        begin(f, cells, acc, incoming, i)
    else:
        extend(f, cells, acc, acc, incoming, i)


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    settle(f, out, a, cells, ix[SLOTS] + RUNNING)


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    running = int(ix[SLOTS])
    if ix[EXACT]:
        return [slot(ix, sequence), running]
    fresh = [running + FRESH + CARRY] if ix[FRESH_FROM] <= sequence else []
    return [slot(ix, sequence), running + RUNNING + CARRY, *fresh]


def move(ix: Index, table: Index, sequence: int) -> None:
    ix[FRESH_FROM] += sequence


PANES_INV = Algorithm(
    "panes_inv",
    "Panes (Inv)",
    layout,
    evict,
    slide,
    query,
    covering,
    move,
    inverts=True,
    many_ranges=False,
    any_start=False,
)
