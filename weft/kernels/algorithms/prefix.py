"""Prefix difference: one growing aggregate; a window is what came in between two of its values.

Full name    Prefix difference
Needs        a commutative function with an inverse
Time         1 per slide and 1 per answer, amortised and worst, for any number of ranges (2 per answer in blocks)
Space        n + 1
Paper        none of the surveyed ones; summed-area tables are the same idea
Many ranges  yes

    prefix of partial k   c(k) = v(0) ⊕ … ⊕ v(k)          window a … k   = c(k) ⊖ c(a − 1)

Whole numbers may wrap: the difference is right whenever the window's own sum fits. Multisets would grow for ever. For
them the prefix starts over every n partials, so that a window touches at most two blocks

    ── block ──│── block ──          a … k   = (c(end) ⊖ c(a − 1)) ⊕ c(k)
        a      │      k

and no value is older than two windows.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.algorithms.algorithm import Algorithm, KernelShape, MemoryLayout
from weft.kernels.compiled.cells import FIRST, NEXT, OWN, Index, Memory, hold_from, jitable, slot

#: Partials in a block (0: all of them), and the first partials of the newest block and of the one before it.
BLOCK, NEWEST_BLOCK, BLOCK_BEFORE = OWN, OWN + 1, OWN + 2


def layout(shape: KernelShape) -> MemoryLayout:
    block = shape.capacity if shape.grows else 0
    return MemoryLayout(shape.capacity + 1, own=(block, shape.first, shape.first), slots=shape.capacity + 1)


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    ix[FIRST] = starts[at]
    hold_from(ix, starts[at] - 1)
    newest = ix[NEXT]
    if newest - ix[NEWEST_BLOCK] == ix[BLOCK] and ix[BLOCK] != 0:
        ix[BLOCK_BEFORE] = ix[NEWEST_BLOCK]
        ix[NEWEST_BLOCK] = newest
    if newest == ix[NEWEST_BLOCK]:
        f.copy(cells, slot(ix, newest), incoming, i)
    else:
        f.combine(cells, slot(ix, newest), cells, slot(ix, newest - 1), incoming, i)
    ix[NEXT] = newest + 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    newest, block = ix[NEXT] - 1, ix[NEWEST_BLOCK]
    if start >= block:
        _sum_in_block(f, cells, ix, start, newest, block, out, a)
    else:
        _sum_in_block(f, cells, ix, start, block - 1, ix[BLOCK_BEFORE], out, a)
        f.combine(out, a, out, a, cells, slot(ix, newest))


@jitable
def _sum_in_block(f: Any, cells: Memory, ix: Index, start: int, end: int, block: int, out: Memory, a: int) -> None:
    if start == block:
        f.copy(out, a, cells, slot(ix, end))
    else:
        f.subtract(out, a, cells, slot(ix, end), cells, slot(ix, start - 1))


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    end = int(ix[NEXT] if sequence >= ix[NEWEST_BLOCK] else ix[NEWEST_BLOCK])
    return [slot(ix, later) for later in range(sequence, end)]


PREFIX = Algorithm("prefix", "Prefix difference", layout, slide, query, covering, inverts=True)
