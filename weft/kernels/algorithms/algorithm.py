"""What a kernel is made of, before it is given memory and an aggregate function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.kernels.compiled import cells


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
    """One technique of final aggregation, as functions over cells (see `weft/kernels/compiled/cells.py`).

    A *step* brings one partial, and moves the start of every range forwards; `starts[at + j]` is the sequence number of
    the oldest partial that range j then holds. Ranges are ordered: longest first.
    """

    name: str
    title: str

    layout: Callable[[KernelShape], MemoryLayout]
    slide: Callable[[Any, cells.Memory, cells.Index, cells.Index, Any, int, cells.Memory, int], None]
    """(f, cells, ix, table, starts, at, incoming, i): forgets what no range needs, and takes in partial incoming[i]."""

    query: Callable[[Any, cells.Memory, cells.Index, cells.Index, int, int, cells.Memory, int], None]
    """(f, cells, ix, table, start, j, out, a): out[a] = all partials from `start`, where range j begins, on."""

    covering: Callable[[cells.Index, cells.Index, int], list[int]]
    """(ix, table, sequence): the cells whose value includes this partial, so that late rows can be added to them."""

    answer: (
        Callable[[Any, cells.Memory, cells.Index, cells.Index, Any, Any, int, int, int, cells.Memory, int], int] | None
    ) = None
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
    ix = [0] * cells.OWN + list(layout.own)
    ix += [0] * (cells.NUMBERS - len(ix))
    ix[cells.FIRST] = ix[cells.NEXT] = ix[cells.BASE] = shape.first
    ix[cells.SLOTS] = layout.slots or shape.capacity
    ix[cells.CAPACITY] = shape.capacity
    ix[cells.RANGES] = shape.ranges
    ix[cells.COMMUTES] = int(shape.commutative)
    return ix
