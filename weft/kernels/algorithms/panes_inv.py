"""Panes (Inv): one running aggregate; a partial is added when it comes and taken out when it expires.

Full name    Panes for invertible functions; also known as R-Int and as Subtract-on-Evict
Needs        a commutative function with an inverse
Time         2 per slide, amortised and worst
Space        n
Paper        Li, Maier, Tufte, Papadimos and Tucker, "No Pane, No Gain: Efficient Evaluation of Sliding-Window
             Aggregates over Data Streams", 2005
Many ranges  no
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import FIRST, NEXT, SLOTS, Algorithm, Index, KernelShape, MemoryLayout, forget, slot
from weft.kernels.compiled.machine_code import Memory, jitable


def layout(shape: KernelShape) -> MemoryLayout:
    """The ring, and the running aggregate."""
    return MemoryLayout(rows=shape.capacity + 1)


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    running, newest = ix[SLOTS], ix[NEXT]
    for sequence in range(ix[FIRST], starts[at]):
        f.subtract(cells, running, cells, running, cells, slot(ix, sequence))
    forget(ix, starts[at])
    if ix[FIRST] == newest:
        f.copy(cells, running, incoming, i)
    else:
        f.combine(cells, running, cells, running, incoming, i)
    f.copy(cells, slot(ix, newest), incoming, i)
    ix[NEXT] = newest + 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    f.copy(out, a, cells, ix[SLOTS])


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    return [slot(ix, sequence), int(ix[SLOTS])]


PANES_INV = Algorithm("panes_inv", "Panes (Inv)", layout, slide, query, covering, inverts=True, many_ranges=False)
