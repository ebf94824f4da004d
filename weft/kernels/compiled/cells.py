"""Cells: where a kernel keeps its aggregates, and what it can do to them.

A kernel is an algorithm over numbered cells; a cell is one partial, or one row of partials, one for each group key. The
algorithm never looks into a cell. It is written once, in terms of the functions below, and runs in three worlds that
differ in their first argument, the arithmetic `f`:

    RowPointers             compiled; a cell is a row of all group keys; `f` holds pointers to row operations
    Add, Greatest, Least,   compiled; a cell is one number, or a pair of them (an ungrouped query); the arithmetic is
    AddPairs                part of the kernel's own machine code
    any other object        interpreted; `f` has a method for each function below. Multisets, texts and sketches are
                            combined so, and operations are counted so.

`to`, `left`, `cells`, … are memories (addresses when compiled), and the numbers after them the cells in these. An
*accumulator* is a cell, with a carry if arithmetic is not exact, that partials can be taken out of again.

Partials are numbered 0, 1, 2, … for ever. Those of the window, FIRST to NEXT − 1, live in a ring of SLOTS cells. All
keys see the same partials come and go, so one set of numbers serves all keys. They are few, and kept in a short list,
`ix`, that compiled code holds in registers; a kernel's own begin at OWN. A kernel that needs more of them, one for each
partial or range, has a `table` as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.kernels.compiled.pointers import jitable

#: A memory: an address, a typed pointer, or whatever the interpreted arithmetic takes for one.
Memory: TypeAlias = Any


class Arithmetic(Protocol):
    """What `f` must offer when a kernel is interpreted."""

    width: int
    exact: bool

    def combine(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None: ...
    def copy(self, to: Memory, dst: int, source: Memory, a: int) -> None: ...
    def begin(self, cells: Memory, acc: int, source: Memory, a: int) -> None: ...
    def adopt(self, cells: Memory, acc: int, other: int) -> None: ...
    def extend(self, cells: Memory, acc: int, other: int, source: Memory, a: int) -> None: ...
    def lose(self, cells: Memory, acc: int, source: Memory, a: int) -> None: ...
    def swap(self, cells: Memory, acc: int, source: Memory, a: int, old: int) -> None: ...
    def settle(self, to: Memory, dst: int, cells: Memory, acc: int) -> None: ...
    def between(self, to: Memory, dst: int, cells: Memory, newer: int, older: int) -> None: ...
    def displaces(self, new: Memory, a: int, old: Memory, b: int, key: int) -> bool: ...
    def put(self, to: Memory, dst: int, source: Memory, a: int, key: int) -> None: ...


def combine(f: Arithmetic, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
    """to[dst] = left[a] ⊕ right[b]."""
    f.combine(to, dst, left, a, right, b)


def copy(f: Arithmetic, to: Memory, dst: int, source: Memory, a: int) -> None:
    """to[dst] = source[a]."""
    f.copy(to, dst, source, a)


def begin(f: Arithmetic, cells: Memory, acc: int, source: Memory, a: int) -> None:
    """Accumulator acc = source[a]."""
    f.begin(cells, acc, source, a)


def adopt(f: Arithmetic, cells: Memory, acc: int, other: int) -> None:
    """Accumulator acc = accumulator other."""
    f.adopt(cells, acc, other)


def extend(f: Arithmetic, cells: Memory, acc: int, other: int, source: Memory, a: int) -> None:
    """Accumulator acc = accumulator other ⊕ source[a]."""
    f.extend(cells, acc, other, source, a)


def lose(f: Arithmetic, cells: Memory, acc: int, source: Memory, a: int) -> None:
    """Accumulator acc = acc ⊖ source[a]."""
    f.lose(cells, acc, source, a)


def swap(f: Arithmetic, cells: Memory, acc: int, source: Memory, a: int, old: int) -> None:
    """Accumulator acc = acc ⊕ source[a] ⊖ cells[old]."""
    f.swap(cells, acc, source, a, old)


def settle(f: Arithmetic, to: Memory, dst: int, cells: Memory, acc: int) -> None:
    """to[dst] = the value of accumulator acc."""
    f.settle(to, dst, cells, acc)


def between(f: Arithmetic, to: Memory, dst: int, cells: Memory, newer: int, older: int) -> None:
    """to[dst] = accumulator newer ⊖ accumulator older."""
    f.between(to, dst, cells, newer, older)


def displaces(f: Arithmetic, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
    """Whether old[b] ⊕ new[a] = new[a], for one key: the older of the two can never be an answer again."""
    return f.displaces(new, a, old, b, key)


def put(f: Arithmetic, to: Memory, dst: int, source: Memory, a: int, key: int) -> None:
    """to[dst] = source[a], for one key."""
    f.put(to, dst, source, a, key)


def undisplaced(f: Arithmetic, cells: Memory, first: int, count: int, kept: Memory, at: int, key: int) -> int:
    """Of `count` cells, in the order they came in, those that no later one displaces: kept[at], …, the latest first.

    Returns how many there are.
    """
    latest, number = count - 1, 1
    kept[at] = latest
    for earlier in range(count - 2, -1, -1):
        # Without a branch, for the comparison is a coin toss: what is not kept is overwritten by the next.
        keeps = not displaces(f, cells, first + latest, cells, first + earlier, key)
        kept[at + number] = earlier
        number += int(keeps)
        latest = earlier if keeps else latest
    return number


def put_span(f: Arithmetic, to: Memory, dst: int, count: int, room: int, source: Memory, a: int, key: int) -> None:
    """to[dst], … = source[a], `count` times, for one key. `room` cells from to[dst] on may be overwritten."""
    for n in range(count):
        put(f, to, dst + n, source, a, key)


def number_of_keys(f: Arithmetic) -> int:
    return f.width


def is_exact(f: Arithmetic) -> bool:
    """Whether an accumulator that a partial was taken out of is what it would be without it, to the last bit."""
    return f.exact


def memory(f: Arithmetic, address: Memory) -> Memory:
    """The memory at an address, in the form that the functions above take."""
    return address


def words(address: Memory) -> Memory:
    """The integers at an address."""
    return address


def numbers(address: Memory) -> Memory:
    """The numbers at an address, for as long as the kernel runs."""
    return address


def keep_numbers(address: Memory, held: Memory) -> None:
    """Writes them back."""


class RowPointers(NamedTuple):
    """Compiled arithmetic on rows: addresses of row operations, and the shape of a row."""

    combine_at: int
    extend_at: int
    lose_at: int
    swap_at: int
    settle_at: int
    between_at: int
    order: int
    """Which records displace others: see `ORDERS`. 0 where none does."""

    width: int
    columns: int
    carry: int
    """Bytes from an accumulator to its carry; 0 if arithmetic is exact."""


class Add(NamedTuple):
    """Compiled addition of single numbers; `zero` is 0 or 0.0, and so tells their type."""

    zero: float
    carry: int
    """Cells from an accumulator to its carry; 0 if arithmetic is exact."""


class AddPairs(NamedTuple):
    """Compiled addition of single records of two integers, the limbs of a sum."""

    zero: int
    pairs: int
    """Always 2; a record is told from a number by it."""


class Greatest(NamedTuple):
    """Compiled maximum of single numbers; `zero` is 0 or 0.0, and so tells their type."""

    zero: float


class Least(NamedTuple):
    """Compiled minimum of single numbers; `zero` is 0 or 0.0, and so tells their type."""

    zero: float


#: `RowPointers.order` by whether the greatest is wanted and whether columns are floats.
ORDERS = {(True, False): 1, (False, False): 2, (True, True): 3, (False, True): 4}


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
