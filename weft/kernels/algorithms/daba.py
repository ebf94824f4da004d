"""DABA: TwoStacks whose flip is spread over the slides before it is needed.

Full name    De-Amortized Bankers Aggregator, in the form called DABA Lite
Needs        an associative function
Time         4 per slide, amortised; 6 worst (the original: 5 and 8)
Space        n + 2 (the original: 2n)
Paper        Tangwongsan, Hirzel and Schneider, "In-Order Sliding-Window Aggregation in Worst-Case Constant Time", 2021
Many ranges  no

Six pointers part the ring F ≤ L ≤ R ≤ A ≤ B ≤ E (F = FIRST, E = NEXT):

    F ──────── L ──────── R ──────── A ──────── B ──────── E
      up to B    up to R    plain      up to B    plain            what a cell aggregates, from itself on

and two more cells hold the aggregates of [R, B) and of [B, E). An answer is cell F ⊕ the aggregate of [B, E). A flip
only renames the parts: the back becomes [R, B), still plain. Then every insertion and every eviction repairs one cell
at L and one at A, and when the front is used up the repair is done. The original keeps prefixes of [R, A) in a second
ring to make the aggregate of [R, B) again each time; keeping it saves that ring and one operation per repair.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import (
    FIRST,
    NEXT,
    OWN,
    SLOTS,
    Algorithm,
    Index,
    KernelShape,
    MemoryLayout,
    forget,
    slot,
)
from weft.kernels.compiled.machine_code import Memory, jitable

L, R, A, B = OWN, OWN + 1, OWN + 2, OWN + 3

# Cells after the ring: the aggregates of [R, B) and of [B, E).
MIDDLE, BACK = 0, 1


def layout(shape: KernelShape) -> MemoryLayout:
    return MemoryLayout(rows=shape.capacity + 2, own=(shape.first,) * 4)


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    while ix[FIRST] < starts[at]:
        forget(ix, ix[FIRST] + 1)
        _repair(f, cells, ix)
    newest = ix[NEXT]
    back = ix[SLOTS] + BACK
    f.copy(cells, slot(ix, newest), incoming, i)
    if ix[B] == newest:
        f.copy(cells, back, incoming, i)
    else:
        f.combine(cells, back, cells, back, incoming, i)
    ix[NEXT] = newest + 1
    _repair(f, cells, ix)


@jitable
def _repair(f: Any, cells: Memory, ix: Index) -> None:
    if ix[FIRST] == ix[NEXT]:
        ix[L] = ix[R] = ix[A] = ix[B] = ix[FIRST]
        return
    if ix[L] == ix[B]:
        if ix[B] < ix[NEXT]:
            f.copy(cells, ix[SLOTS] + MIDDLE, cells, ix[SLOTS] + BACK)
        ix[L] = ix[FIRST]
        ix[R] = ix[B]
        ix[A] = ix[B] = ix[NEXT]
    if ix[FIRST] != ix[B]:
        if ix[A] != ix[R]:
            ix[A] -= 1
            if ix[A] + 1 < ix[B]:
                cell = slot(ix, ix[A])
                f.combine(cells, cell, cells, cell, cells, slot(ix, ix[A] + 1))
        if ix[L] != ix[R]:
            cell = slot(ix, ix[L])
            f.combine(cells, cell, cells, cell, cells, ix[SLOTS] + MIDDLE)
        else:
            ix[R] += 1
            ix[A] += 1
        ix[L] += 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    front, back = slot(ix, ix[FIRST]), ix[SLOTS] + BACK
    if ix[FIRST] == ix[B]:
        f.copy(out, a, cells, back)
    elif ix[B] == ix[NEXT]:
        f.copy(out, a, cells, front)
    else:
        f.combine(out, a, cells, front, cells, back)


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    first, left, middle, suffixes, back = (int(ix[pointer]) for pointer in (FIRST, L, R, A, B))
    if sequence >= back:
        return [slot(ix, sequence), int(ix[SLOTS]) + BACK]
    front = range(first, min(left, sequence + 1))
    if sequence < left:
        return [slot(ix, earlier) for earlier in front]
    if sequence < middle:
        return [slot(ix, earlier) for earlier in (*front, *range(left, sequence + 1))]
    own = range(suffixes, sequence + 1) if sequence >= suffixes else (sequence,)
    return [int(ix[SLOTS]) + MIDDLE, *(slot(ix, earlier) for earlier in (*front, *own))]


DABA = Algorithm("daba", "DABA", layout, slide, query, covering, many_ranges=False)
