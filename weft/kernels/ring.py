"""Sequence numbers and the ring they live in; the numbers that a kernel keeps beside its cells.

Partials are numbered 0, 1, 2, … for ever. Those of the window, FIRST to NEXT − 1, live in a ring of SLOTS cells. All
keys see the same partials come and go, so one set of numbers serves all keys. They are few, and kept in a short list,
`ix`, that compiled code holds in registers; a kernel's own begin at OWN. A kernel that needs more of them, one for each
partial or range, has a `table` as well.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.kernels.pointers import jitable

#: Numbers that a kernel keeps: a list when interpreted, an array when compiled.
Index: TypeAlias = list[int] | NDArray[np.int64]

FIRST, NEXT, SLOTS, BASE, CAPACITY, RANGES, EXACT, COMMUTES, OWN = range(9)

#: How many numbers `ix` has.
NUMBERS = 16


@jitable
def slot(ix: Index, sequence: int) -> int:
    """The ring's cell for a sequence number: `sequence mod SLOTS`, without a division."""
    offset = sequence - ix[BASE]
    return offset - ix[SLOTS] if offset >= ix[SLOTS] else offset


@jitable
def forget(ix: Index, start: int) -> None:
    """Nothing before `start` is needed any more."""
    ix[FIRST] = start
    hold_from(ix, start)


@jitable
def hold_from(ix: Index, oldest: int) -> None:
    """Turns the ring until the oldest sequence number still addressed lies in its first round."""
    while oldest - ix[BASE] >= ix[SLOTS]:
        ix[BASE] += ix[SLOTS]
