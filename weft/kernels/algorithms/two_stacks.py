"""TwoStacks: a queue of two stacks, each of which knows the aggregate of all that is below its top.

Full name    TwoStacks, in the form called TwoStacks Lite
Needs        an associative function
Time         3 per slide, amortised; n worst, when the stacks flip
Space        n + 1
Paper        Tangwongsan, Hirzel and Schneider, "In-Order Sliding-Window Aggregation in Worst-Case Constant Time", 2021
             (the idea is older: a queue of two stacks is a trick of functional programming)
Many ranges  no

    ring   F a b c d B e f g E         F = FIRST, B = BACK, E = NEXT

The front stack [F, B) holds suffixes: its cell a is a ⊕ b ⊕ c ⊕ d. The back stack [B, E) holds plain partials, and one
more cell their aggregate e ⊕ f ⊕ g; the original keeps one for each depth, which nothing ever reads. When the front is
used up, a flip turns the back into the new front.
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

#: Where the front stack ends and the back stack begins.
BACK = OWN


def layout(shape: KernelShape) -> MemoryLayout:
    return MemoryLayout(rows=shape.capacity + 1, own=(shape.first,))


@jitable
def _flip(f: Any, cells: Memory, ix: Index) -> None:
    later = slot(ix, ix[NEXT] - 1)
    for sequence in range(ix[NEXT] - 2, ix[BACK] - 1, -1):
        earlier = slot(ix, sequence)
        f.combine(cells, earlier, cells, earlier, cells, later)
        later = earlier
    ix[BACK] = ix[NEXT]


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    if starts[at] > ix[BACK]:
        _flip(f, cells, ix)
    forget(ix, starts[at])
    newest = ix[NEXT]
    f.copy(cells, slot(ix, newest), incoming, i)
    if newest == ix[BACK]:
        f.copy(cells, ix[SLOTS], incoming, i)
    else:
        f.combine(cells, ix[SLOTS], cells, ix[SLOTS], incoming, i)
    ix[NEXT] = newest + 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    front, back = slot(ix, ix[FIRST]), ix[SLOTS]
    if ix[FIRST] == ix[BACK]:
        f.copy(out, a, cells, back)
    elif ix[BACK] == ix[NEXT]:
        f.copy(out, a, cells, front)
    else:
        f.combine(out, a, cells, front, cells, back)


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    if sequence >= ix[BACK]:
        return [slot(ix, sequence), int(ix[SLOTS])]
    return [slot(ix, earlier) for earlier in range(int(ix[FIRST]), sequence + 1)]


TWO_STACKS = Algorithm("two_stacks", "TwoStacks", layout, slide, query, covering, many_ranges=False)
