"""Prefix difference: one growing aggregate; a window is what came in between two of its values.

Full name    Prefix difference
Needs        a commutative function with an inverse
Time         1 per slide and 1 per answer, amortised and worst, for any number of ranges
Space        n + 1
Paper        none of the surveyed ones; summed-area tables are the same idea
Many ranges  yes

    prefix of partial k   c(k) = v(0) ⊕ … ⊕ v(k)          window a … k   = c(k) ⊖ c(a − 1)

Whole numbers may wrap: the difference is right whenever the window's own sum fits.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import FIRST, NEXT, OWN, Algorithm, Index, KernelShape, MemoryLayout, hold_from, slot
from weft.kernels.compiled.machine_code import Memory, jitable

#: The first partial of all.
ORIGIN = OWN


def layout(shape: KernelShape) -> MemoryLayout:
    return MemoryLayout(shape.capacity + 1, own=(shape.first,), slots=shape.capacity + 1)


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    ix[FIRST] = starts[at]
    hold_from(ix, starts[at] - 1)
    newest = ix[NEXT]
    if newest == ix[ORIGIN]:
        f.copy(cells, slot(ix, newest), incoming, i)
    else:
        f.combine(cells, slot(ix, newest), cells, slot(ix, newest - 1), incoming, i)
    ix[NEXT] = newest + 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    newest = slot(ix, ix[NEXT] - 1)
    if start == ix[ORIGIN]:
        f.copy(out, a, cells, newest)
    else:
        f.subtract(out, a, cells, newest, cells, slot(ix, start - 1))


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    return [slot(ix, later) for later in range(sequence, int(ix[NEXT]))]


PREFIX = Algorithm("prefix", "Prefix difference", layout, slide, query, covering, inverts=True)
