"""Panes: every answer is folded from the partials of its window.

Full name    Panes, the naive final aggregation
Needs        an associative function
Time         n − 1 per answer; n²/2 per slide when all ranges 1 … n are asked
Space        n
Paper        Li, Maier, Tufte, Papadimos and Tucker, "No Pane, No Gain: Efficient Evaluation of Sliding-Window
             Aggregates over Data Streams", 2005
Many ranges  yes
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import NEXT, Algorithm, Index, KernelShape, MemoryLayout, forget, slot
from weft.kernels.compiled.machine_code import Memory, jitable


def layout(shape: KernelShape) -> MemoryLayout:
    return MemoryLayout(rows=shape.capacity)


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    forget(ix, starts[at])
    f.copy(cells, slot(ix, ix[NEXT]), incoming, i)
    ix[NEXT] += 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    f.copy(out, a, cells, slot(ix, start))
    for sequence in range(start + 1, ix[NEXT]):
        f.combine(out, a, out, a, cells, slot(ix, sequence))


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    return [slot(ix, sequence)]


PANES = Algorithm("panes", "Panes", layout, slide, query, covering)
