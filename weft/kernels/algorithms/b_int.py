"""B-Int: aggregates of dyadic intervals, each made once, when it is complete.

Full name    Base Intervals
Needs        an associative function
Time         1 per slide for the update (log₂ n worst), and up to 2·log₂ n per answer
Space        4n to 8n: an interval that a window uses may begin before the window does
Paper        Arasu and Widom, "Resource Sharing in Continuous Sliding-Window Aggregates", 2004
Many ranges  yes

Level l is a ring of intervals of 2ˡ partials; interval j of it covers partials j·2ˡ to (j + 1)·2ˡ − 1. The paper
updates a path to the top at every insertion; an interval that is only made when it is full costs one operation per
insertion, and never mixes new partials with expired ones.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import NEXT, OWN, Algorithm, Index, KernelShape, MemoryLayout, forget
from weft.kernels.compiled.machine_code import Memory, jitable

#: The highest level, which has one interval.
TOP = OWN


def layout(shape: KernelShape) -> MemoryLayout:
    top = (2 * shape.capacity - 1).bit_length()
    return MemoryLayout(rows=2 << top, own=(top,))


@jitable
def _cell(ix: Index, level: int, interval: int) -> int:
    """Level l has 2^(TOP − l) cells, and lies where those of the levels below it end."""
    size = 1 << (ix[TOP] - level)
    return (2 << ix[TOP]) - 2 * size + (interval & (size - 1))


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    forget(ix, starts[at])
    newest = ix[NEXT]
    f.copy(cells, _cell(ix, 0, newest), incoming, i)
    ix[NEXT] = newest + 1
    level = 1
    while level <= ix[TOP] and (newest + 1) & ((1 << level) - 1) == 0:
        interval = newest >> level
        left = _cell(ix, level - 1, 2 * interval)
        right = _cell(ix, level - 1, 2 * interval + 1)
        f.combine(cells, _cell(ix, level, interval), cells, left, cells, right)
        level += 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    # Intervals first grow, as far as `reached` is aligned, and then shrink, as what is left gets short.
    reached, level = start, 0
    while reached < ix[NEXT]:
        while level < ix[TOP] and reached & ((2 << level) - 1) == 0 and reached + (2 << level) <= ix[NEXT]:
            level += 1
        while reached + (1 << level) > ix[NEXT]:
            level -= 1
        interval = _cell(ix, level, reached >> level)
        if reached == start:
            f.copy(out, a, cells, interval)
        else:
            f.combine(out, a, out, a, cells, interval)
        reached += 1 << level


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    levels = range(int(ix[TOP]) + 1)
    complete = (level for level in levels if ((sequence >> level) + 1) << level <= ix[NEXT])
    return [_cell(ix, level, sequence >> level) for level in complete]


B_INT = Algorithm("b_int", "B-Int", layout, slide, query, covering)
