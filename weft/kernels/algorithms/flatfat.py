"""FlatFAT: a complete binary tree of aggregates over the ring of partials.

Full name    Flat Fixed-sized Aggregator
Needs        an associative function
Time         log₂ n per slide for the update, and up to 2·log₂ n per answer, amortised and worst
Space        2n if n is a power of two, up to 4n otherwise
Paper        Tangwongsan, Hirzel, Schneider and Wu, "General Incremental Sliding-Window Aggregation", 2015
Many ranges  yes

Cell 1 is the root, cells 2i and 2i + 1 are the children of cell i, and partial k is leaf N + k mod N. The root is the
answer only if the window fills all N leaves, and only if the function does not mind the order: after the first round,
the leaves hold new partials before old ones.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import COMMUTES, NEXT, SLOTS, Algorithm, Index, KernelShape, MemoryLayout, forget
from weft.kernels.compiled.machine_code import Memory, jitable

#: Cell 0 belongs to no node; the right end of a range is gathered in it.
RIGHT = 0
ROOT = 1


def layout(shape: KernelShape) -> MemoryLayout:
    leaves = 1 << (shape.capacity - 1).bit_length()
    return MemoryLayout(rows=2 * leaves, slots=leaves)


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    forget(ix, starts[at])
    node = ix[SLOTS] + (ix[NEXT] & (ix[SLOTS] - 1))
    f.copy(cells, node, incoming, i)
    node >>= 1
    while node >= ROOT:
        f.combine(cells, node, cells, 2 * node, cells, 2 * node + 1)
        node >>= 1
    ix[NEXT] += 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    leaves = ix[SLOTS]
    oldest, newest = start & (leaves - 1), (ix[NEXT] - 1) & (leaves - 1)
    if ix[NEXT] - start == leaves and ix[COMMUTES]:
        f.copy(out, a, cells, ROOT)
    elif oldest <= newest:
        append_range(f, cells, leaves + oldest, leaves + newest + 1, True, out, a)
    else:
        append_range(f, cells, leaves + oldest, 2 * leaves, True, out, a)
        append_range(f, cells, leaves, leaves + newest + 1, False, out, a)


@jitable
def append_range(f: Any, cells: Memory, left: int, right: int, is_first: bool, out: Memory, a: int) -> None:
    """out[a] = out[a] ⊕ the leaves from `left` up to, not including, `right`, by the fewest nodes that make them up."""
    nothing_right = True
    while left < right:
        if left & 1:
            if is_first:
                f.copy(out, a, cells, left)
                is_first = False
            else:
                f.combine(out, a, out, a, cells, left)
            left += 1
        if right & 1:
            right -= 1
            if nothing_right:
                f.copy(cells, RIGHT, cells, right)
                nothing_right = False
            else:
                f.combine(cells, RIGHT, cells, right, cells, RIGHT)
        left >>= 1
        right >>= 1
    if not nothing_right:
        if is_first:
            f.copy(out, a, cells, RIGHT)
        else:
            f.combine(out, a, out, a, cells, RIGHT)


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    leaf = int(ix[SLOTS] + (sequence & (ix[SLOTS] - 1)))
    return [leaf >> height for height in range(leaf.bit_length())]


FLATFAT = Algorithm("flatfat", "FlatFAT", layout, slide, query, covering)
