"""How a kernel is executed: the loop around an algorithm, the arithmetic of a statistic, and blocks of memory.

The loop takes step after step: evict, take in, answer. It is compiled once per algorithm and kind of arithmetic, and
kept on disk; statistics without compiled arithmetic run it as plain Python, on the statistic's own arrays.

Compiled code takes a block, one piece of memory: a row holds one partial of every group key, column after column (see
`weft/kernels/compiled/row_arithmetic.py`), and a block is row after row. Seen from Python it is the columns of a
statistic, which are views of it; it begins where the first of them does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numba import njit

from weft.kernels.algorithms.algorithm import Algorithm, one_by_one
from weft.kernels.compiled import overloads
from weft.kernels.compiled.cells import (
    CAPACITY,
    FIRST,
    NEXT,
    ORDERS,
    Add,
    AddPairs,
    Greatest,
    Index,
    Least,
    Memory,
    RowPointers,
    keep_numbers,
    memory,
    numbers,
    words,
)
from weft.kernels.compiled.pointers import address, jitable
from weft.kernels.compiled.row_arithmetic import address_of
from weft.kernels.statistic import Columns, Number, Statistic, same_records

#: Drives a kernel: see `run` below for its arguments.
Run = Callable[..., int]


@cache
def source_stamp() -> int:
    """Changes with any source file of this package.

    Numba keeps compiled code on disk and looks at the file of the compiled function alone to see whether it is still
    good. This stamp makes it look at the files of all functions that are compiled into it.
    """
    assert overloads  # what it registers with Numba is compiled in, too
    digest = blake2b(digest_size=7)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest(), "big")


GO_BACK, TOO_LONG, TOO_SHORT, OUT_OF_ORDER = 1, 2, 3, 4


@jitable
def check_starts(ix: Index, starts: Any, pushes: int, evictions: int, ranges: int) -> int:
    """0 if no window goes back, holds more partials than fit, or begins after the newest one or one of a shorter range.

    Compiled code trusts these numbers: a wrong one would be an address outside of the kernel's memory.
    """
    before, held = ix[FIRST], ix[NEXT]
    for step in range(evictions):
        at = step * ranges
        first = starts[at]
        held += step < pushes
        if first < before:
            return GO_BACK
        if held - first > ix[CAPACITY]:
            return TOO_LONG
        if starts[at + ranges - 1] >= held + (pushes == 0):
            return TOO_SHORT
        # A difference that is negative leaves its sign: without a branch, processors take several of them at once.
        disorder, back = 0, 0
        for here in range(at + 1, at + ranges):
            disorder |= starts[here] - starts[here - 1]
        if disorder < 0:
            return OUT_OF_ORDER
        if step > 0:
            for here in range(at + 1, at + ranges):
                back |= starts[here] - starts[here - ranges]
        if back < 0:
            return GO_BACK
        before = first
    return 0


@cache
def loop_of(algorithm: Algorithm) -> Run:
    """The loop of an algorithm. As plain Python, memories are arrays, and `ix`, `starts` and `due` are lists."""
    evict, slide, query, answer = algorithm.evict, algorithm.slide, algorithm.query, algorithm.answer
    together, stamp = answer is not one_by_one, source_stamp()

    def run(
        f: Any,
        cells_at: Memory,
        ix_at: Any,
        table_at: Any,
        incoming_at: Memory,
        starts_at: Any,
        due_at: Any,
        out_at: Memory,
        steps: int,
        pushes: int,
        evictions: int,
        ranges: int,
        all_due: int,
    ) -> int:
        """Takes `steps` steps: the first `evictions` of them evict, the first `pushes` take in a partial.

        In step s the ranges begin at starts[s·ranges], …. Answer a is for the range that begins at starts[due[a]]:
        `due` ascends, and ends with a place that no step has (all ranges are due, and it is not read, if `all_due`
        is 1). Answers go to out[0], out[1], …. Returns 0, or, before it has done anything, what is wrong with the
        starts.
        """
        stamp  # noqa: B018 - part of the key under which compiled code is kept on disk
        cells, incoming, out = memory(f, cells_at), memory(f, incoming_at), memory(f, out_at)
        starts, due, table, ix = words(starts_at), words(due_at), words(table_at), numbers(ix_at)
        wrong = check_starts(ix, starts, pushes, evictions, ranges)
        if wrong != 0:
            return wrong
        answers = 0
        for step in range(steps):
            at = step * ranges
            if step < pushes:
                slide(f, cells, ix, table, starts, at, incoming, step)
            elif step < evictions:
                evict(f, cells, ix, table, starts, at)
            if together:
                answers += answer(f, cells, ix, table, starts, due, all_due, at, ranges, out, answers)
            elif all_due:
                for j in range(ranges):
                    query(f, cells, ix, table, starts[at + j], j, out, answers + j)
                answers += ranges
            else:
                while due[answers] < at + ranges:
                    query(f, cells, ix, table, starts[due[answers]], due[answers] - at, out, answers)
                    answers += 1
        keep_numbers(ix_at, ix)
        return 0

    return run


@cache
def compiled(driver: Callable[[Algorithm], Run], algorithm: Algorithm) -> Run:
    """`run` or `roll` of an algorithm in machine code; memories and arrays are addresses."""
    in_machine_code: Run = njit(cache=True, nogil=True)(driver(algorithm))
    return in_machine_code


Compiled: TypeAlias = RowPointers | Add | AddPairs | Greatest | Least

_BYTES = 8


def compiled_arithmetic(statistic: Statistic, width: int, carry: int, *, inverts: bool) -> Compiled:
    """The `f` of a kernel of `width` keys; `carry`: how many rows after an accumulator its carry lies, 0 if none."""
    if width == 1 and statistic.number is not None:
        return _of_one_key(statistic, carry)
    assert statistic.rows is not None
    subtraction = statistic.rows.subtraction if inverts else None
    floats = bool(statistic.fields[0].dtype == np.float64)
    return RowPointers(
        combine_at=address_of(statistic.rows.combine),
        extend_at=address_of(subtraction.extend) if subtraction else 0,
        lose_at=address_of(subtraction.lose) if subtraction else 0,
        swap_at=address_of(subtraction.swap) if subtraction else 0,
        settle_at=address_of(subtraction.settle) if subtraction else 0,
        between_at=address_of(subtraction.between) if subtraction else 0,
        order=ORDERS[statistic.greatest, floats] if statistic.selective else 0,
        width=width,
        columns=len(statistic.fields),
        carry=carry * len(statistic.fields) * width * _BYTES,
    )


def _of_one_key(statistic: Statistic, carry: int) -> Add | AddPairs | Greatest | Least:
    zero = statistic.fields[0].dtype.type(0).item()
    if statistic.number is Number.ADD:
        return Add(zero, carry)
    if statistic.number is Number.ADD_PAIRS:
        return AddPairs(0, 2)
    return Greatest(zero) if statistic.number is Number.GREATEST else Least(zero)


class Interpreted:
    """The functions of `cells`, on the arrays of a statistic, by the statistic's own `combine` and `inverse`.

    A carry, where there is one, only takes in late rows: rounding errors are lost, and the kernels' fresh sums bound
    them.
    """

    def __init__(self, statistic: Statistic, width: int, carry: int) -> None:
        self.statistic = statistic
        self.width = width
        self.carry = carry
        self.exact = statistic.exact

    def combine(self, to: Columns, dst: int, left: Columns, a: int, right: Columns, b: int) -> None:
        self._write(to, dst, self.statistic.combine(_row(left, a), _row(right, b)))

    def copy(self, to: Columns, dst: int, source: Columns, a: int) -> None:
        self._write(to, dst, _row(source, a))

    def begin(self, cells: Columns, acc: int, source: Columns, a: int) -> None:
        self.copy(cells, acc, source, a)
        if self.carry:
            self._write(cells, acc + self.carry, self.statistic.empty(self.width))

    def adopt(self, cells: Columns, acc: int, other: int) -> None:
        self.copy(cells, acc, cells, other)
        if self.carry:
            self.copy(cells, acc + self.carry, cells, other + self.carry)

    def extend(self, cells: Columns, acc: int, other: int, source: Columns, a: int) -> None:
        self.combine(cells, acc, cells, other, source, a)
        if self.carry and acc != other:
            self.copy(cells, acc + self.carry, cells, other + self.carry)

    def lose(self, cells: Columns, acc: int, source: Columns, a: int) -> None:
        self._write(cells, acc, self._inverse(_row(cells, acc), _row(source, a)))

    def swap(self, cells: Columns, acc: int, source: Columns, a: int, old: int) -> None:
        self.combine(cells, acc, cells, acc, source, a)
        self.lose(cells, acc, cells, old)

    def settle(self, to: Columns, dst: int, cells: Columns, acc: int) -> None:
        self._write(to, dst, self._value(cells, acc))

    def between(self, to: Columns, dst: int, cells: Columns, newer: int, older: int) -> None:
        self._write(to, dst, self._inverse(self._value(cells, newer), self._value(cells, older)))

    def displaces(self, new: Columns, a: int, old: Columns, b: int, key: int) -> bool:
        older, newer = (
            tuple(column[cell, key : key + 1] for column in memory) for memory, cell in ((old, b), (new, a))
        )
        return same_records(self.statistic.combine(older, newer), newer)

    def put(self, to: Columns, dst: int, source: Columns, a: int, key: int) -> None:
        for column, its in zip(to, source, strict=True):
            column[dst, key] = its[a, key]

    def _value(self, cells: Columns, acc: int) -> Columns:
        value = _row(cells, acc)
        return self.statistic.combine(value, _row(cells, acc + self.carry)) if self.carry else value

    def _inverse(self, total: Columns, part: Columns) -> Columns:
        assert self.statistic.inverse is not None
        return self.statistic.inverse(total, part)

    @staticmethod
    def _write(to: Columns, dst: int, record: Columns) -> None:
        for column, values in zip(to, record, strict=True):
            column[dst] = values


def _row(memory: Columns, cell: int) -> Columns:
    return tuple(column[cell] for column in memory)


_WORD = 8


def identities(statistic: Statistic, rows: int, width: int) -> Columns:
    """The columns of a block of identities."""
    columns = unwritten(statistic, rows, width)
    statistic.erase(columns, ...)
    return columns


def unwritten(statistic: Statistic, rows: int, width: int) -> Columns:
    """The columns of a block that holds anything."""
    fields = statistic.fields
    block = np.empty((rows, len(fields), width), dtype=fields[0].dtype)
    return tuple(block[:, c] for c in range(len(fields)))


def packed(statistic: Statistic, columns: Columns, width: int) -> Columns:
    """The same columns as a block: themselves, if they are one already."""
    rows = len(columns[0])
    if any(np.size(column) != rows * width for column in columns):
        shapes = ", ".join(str(np.shape(column)) for column in columns)
        raise ValueError(f"{rows} partials of {width} keys are expected, not arrays of shape {shapes}")
    if _are_block(statistic, columns, width):
        return columns
    block = unwritten(statistic, rows, width)
    for to, column in zip(block, columns, strict=True):
        to[...] = np.reshape(column, (rows, width))
    return block


def _are_block(statistic: Statistic, columns: Columns, width: int) -> bool:
    begin, row = address(columns[0]), _WORD * width * len(columns)
    return all(
        column.dtype == field.dtype
        and column.strides[0] == row
        and (width == 1 or column.strides[-1] == _WORD)
        and address(column) == begin + _WORD * width * c
        for c, (column, field) in enumerate(zip(columns, statistic.fields, strict=True))
    )
