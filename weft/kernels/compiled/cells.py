"""Cells: what window algorithms are written in, and what an algorithm is.

A kernel is an algorithm over numbered cells; a cell is one partial, or one row of partials, one for each group key. The
algorithm never looks into a cell. It is written once, in terms of the methods of an arithmetic `f`, and runs in three
worlds:

    RowPointers             compiled; a cell is a row of all group keys; `f` holds pointers to row operations
    Add, Greatest, Least,   compiled; a cell is one number, or a pair of them (an ungrouped query); the arithmetic is
    AddPairs                part of the kernel's own machine code
    any other               interpreted. Texts are combined so, and operations are counted so.

`to`, `left`, `cells`, … are memories (addresses when compiled), and the numbers after them the cells in these.

Partials are numbered 0, 1, 2, … for ever. Those of the window, FIRST to NEXT − 1, live in a ring of SLOTS cells. All
keys see the same partials come and go, so one set of numbers serves all keys. They are few, and kept in a short list,
`ix`, that compiled code holds in registers; a kernel's own begin at OWN. A kernel that needs more of them, one for each
partial or range, has a `table` as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.kernels.compiled.machine_code import NUMBERS, Memory, compiles, jitable

#: Numbers that a kernel keeps: a list when interpreted, an array when compiled.
Index: TypeAlias = list[int] | NDArray[np.int64]

FIRST, NEXT, SLOTS, BASE, CAPACITY, RANGES, COMMUTES, OWN = range(8)


class Arithmetic:
    """What a kernel can do to cells. One that is compiled is a named tuple, whose class says what is compiled in."""

    def memory(self, address: Memory) -> Memory:
        """The memory at an address, in the form that the methods below take."""
        return address

    def number_of_keys(self) -> int:
        raise NotImplementedError

    def combine(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        """to[dst] = left[a] ⊕ right[b]."""
        raise NotImplementedError

    def subtract(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        """to[dst] = left[a] ⊖ right[b]."""
        raise NotImplementedError

    def swap(self, cells: Memory, dst: int, source: Memory, a: int, old: int) -> None:
        """cells[dst] = cells[dst] ⊕ source[a] ⊖ cells[old]: one partial in and one out."""
        self.combine(cells, dst, cells, dst, source, a)
        self.subtract(cells, dst, cells, dst, cells, old)

    def copy(self, to: Memory, dst: int, source: Memory, a: int) -> None:
        """to[dst] = source[a]."""
        raise NotImplementedError

    def put(self, to: Memory, dst: int, source: Memory, a: int, key: int) -> None:
        """to[dst] = source[a], for one key."""
        raise NotImplementedError

    def put_span(self, to: Memory, dst: int, count: int, room: int, source: Memory, a: int, key: int) -> None:
        """to[dst], … = source[a], `count` times, for one key. `room` cells from to[dst] on may be overwritten."""
        for n in range(count):
            self.put(to, dst + n, source, a, key)

    def displaces(self, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
        """Whether old[b] ⊕ new[a] = new[a], for one key: the older of the two can never be an answer again."""
        raise NotImplementedError

    def undisplaced(self, cells: Memory, first: int, count: int, kept: Memory, at: int, key: int) -> int:
        """Of `count` cells, as they came in, those that no later one displaces: kept[at], …, the latest first.

        Returns how many there are.
        """
        latest, number = count - 1, 1
        kept[at] = latest
        for earlier in range(count - 2, -1, -1):
            # Without a branch, for the comparison is a coin toss: what is not kept is overwritten by the next.
            keeps = not self.displaces(cells, first + latest, cells, first + earlier, key)
            kept[at + number] = earlier
            number += int(keeps)
            latest = earlier if keeps else latest
        return number


for _method in [each for name, each in vars(Arithmetic).items() if not name.startswith("_")]:
    compiles(_method)


# --- the ring ---------------------------------------------------------------------------------------------------------


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


# --- algorithms -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KernelShape:
    """What a kernel must hold."""

    capacity: int
    """The most partials that any window holds, at any edge (not only where an answer is due)."""

    ranges: int = 1
    """How many different ranges are asked for."""

    commutative: bool = True
    width: int = 1
    """The number of key columns."""

    first: int = 0
    """The number of the first partial."""


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """The memory that a kernel wants."""

    rows: int
    own: tuple[int, ...] = ()
    """First values of its own numbers, from ix[OWN] on."""

    table: int = 0
    """How many more numbers, all of them 0 at first, it keeps in a table."""

    slots: int = 0
    """Length of the ring; the capacity where it is not given."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A technique of final aggregation, as functions over cells.

    A *step* brings one partial, and moves the start of every range forwards; `starts[at + j]` is the sequence number of
    the oldest partial that range j then holds. Ranges are ordered: longest first.
    """

    name: str
    title: str

    layout: Callable[[KernelShape], MemoryLayout]
    slide: Callable[[Any, Memory, Index, Index, Any, int, Memory, int], None]
    """(f, cells, ix, table, starts, at, incoming, i): forgets what no range needs, and takes in partial incoming[i]."""

    query: Callable[[Any, Memory, Index, Index, int, int, Memory, int], None]
    """(f, cells, ix, table, start, j, out, a): out[a] = all partials from `start`, where range j begins, on."""

    covering: Callable[[Index, Index, int], list[int]]
    """(ix, table, sequence): the cells whose value includes this partial, so that late rows can be added to them."""

    answer: Callable[[Any, Memory, Index, Index, Any, Any, int, int, int, Memory, int], int] | None = None
    """(f, cells, ix, table, starts, due, all_due, at, ranges, out, a): out[a], … for all ranges that are due.

    Those are due[a], due[a + 1], … as far as they are less than at + ranges; or, with `all_due`, all. Returns how many
    there are. Where it is given, it is called in the place of `query`.
    """

    inverts: bool = False
    """Takes partials out again, and so needs an exact inverse, and a function that does not mind the order."""

    selects: bool = False
    """Keeps some partials and drops others, and so needs a selective function."""

    many_ranges: bool = True
    """Answers windows of different ranges from one state."""

    data_independent: bool = True
    """Does the same to every key, whatever the data: all keys go through together."""


def empty_index(shape: KernelShape, layout: MemoryLayout) -> list[int]:
    """The numbers of a kernel that has seen nothing."""
    ix = [0] * OWN + list(layout.own)
    ix += [0] * (NUMBERS - len(ix))
    ix[FIRST] = ix[NEXT] = ix[BASE] = shape.first
    ix[SLOTS] = layout.slots or shape.capacity
    ix[CAPACITY] = shape.capacity
    ix[RANGES] = shape.ranges
    ix[COMMUTES] = int(shape.commutative)
    return ix
