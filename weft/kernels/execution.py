"""How a kernel is executed: the loop around an algorithm, the arithmetic of a statistic, and blocks of memory.

The loop takes step after step: take in, answer. It is compiled once per algorithm and kind of arithmetic, and
kept on disk; statistics without compiled arithmetic run it as plain Python, on the statistic's own arrays.

Compiled code takes a block of memory, which holds the columns of a statistic (see `Statistic.unwritten`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from weft.kernels.compiled.arithmetic import RowPointers
from weft.kernels.compiled.cells import CAPACITY, FIRST, NEXT, Algorithm, Arithmetic, Index
from weft.kernels.compiled.machine_code import (
    address,
    in_machine_code,
    jitable,
    keep_numbers,
    numbers,
    row_operation,
    words,
)
from weft.kernels.statistic import Columns, Statistic, records_at, same_records, write_records

#: Drives a kernel: see `run` below for its arguments.
Run = Callable[..., int]


class KernelError(ValueError):
    """A kernel was asked for what it cannot do. The text says what to do instead."""


GO_BACK, TOO_LONG, TOO_SHORT, OUT_OF_ORDER = 1, 2, 3, 4
#: What is wrong with the starts of windows, in words.
COMPLAINTS = {
    GO_BACK: "the starts of windows never go back",
    TOO_LONG: "a window has more than {} partials; rebuild the kernel with a larger capacity",
    TOO_SHORT: "a window begins with a partial it holds",
    OUT_OF_ORDER: "ranges are ordered: the longest, which begins first, comes first",
}


@jitable
def check_starts(ix: Index, starts: Any, steps: int, ranges: int) -> int:
    """0 if no window goes back, holds more partials than fit, or begins after the newest one or one of a shorter range.

    Compiled code trusts these numbers: a wrong one would be an address outside of the kernel's memory.
    """
    before, held = ix[FIRST], ix[NEXT]
    for step in range(steps):
        at = step * ranges
        first = starts[at]
        held += 1
        if first < before:
            return GO_BACK
        if held - first > ix[CAPACITY]:
            return TOO_LONG
        if starts[at + ranges - 1] >= held:
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
    slide, query, answer = algorithm.slide, algorithm.query, algorithm.answer

    def run(
        f: Any,
        cells_at: Any,
        ix_at: Any,
        table_at: Any,
        incoming_at: Any,
        starts_at: Any,
        due_at: Any,
        out_at: Any,
        steps: int,
        ranges: int,
        all_due: int,
    ) -> int:
        """Takes `steps` steps, each of which brings a partial. In step s the ranges begin at starts[s·ranges], ….

        Answer a is for the range that begins at starts[due[a]]: `due` ascends, and ends with a place that no step has
        (all ranges are due, and it is not read, if `all_due` is 1). Answers go to out[0], out[1], …. Returns 0, or,
        before it has done anything, what is wrong with the starts.
        """
        cells, incoming, out = f.memory(cells_at), f.memory(incoming_at), f.memory(out_at)
        starts, due, table, ix = words(starts_at), words(due_at), words(table_at), numbers(ix_at)
        wrong = check_starts(ix, starts, steps, ranges)
        if wrong != 0:
            return wrong
        answers = 0
        for step in range(steps):
            at = step * ranges
            slide(f, cells, ix, table, starts, at, incoming, step)
            if answer is not None:
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
    return in_machine_code(driver(algorithm))


def arithmetic_of(statistic: Statistic, width: int) -> Arithmetic:
    """The `f` of a kernel of `width` keys."""
    rows, columns = statistic.rows, len(statistic.dtypes)
    if rows is None:
        return Interpreted(statistic, width)
    if width == 1 and columns in rows.of_one_key:
        return rows.of_one_key[columns](statistic.dtypes[0].type(0).item())
    combine, subtract, swap = (
        0 if each is None else row_operation(each).address for each in (rows.combine, rows.subtract, rows.swap)
    )
    return RowPointers(combine, subtract, swap, rows.order, width, columns)


class Interpreted(Arithmetic):
    """Arithmetic on the arrays of a statistic, by the statistic's own `combine` and `inverse`."""

    def __init__(self, statistic: Statistic, width: int) -> None:
        self.statistic = statistic
        self.width = width

    def number_of_keys(self) -> int:
        return self.width

    def combine(self, to: Columns, dst: int, left: Columns, a: int, right: Columns, b: int) -> None:
        write_records(to, dst, self.statistic.combine(records_at(left, a), records_at(right, b)))

    def subtract(self, to: Columns, dst: int, left: Columns, a: int, right: Columns, b: int) -> None:
        assert self.statistic.inverse is not None
        write_records(to, dst, self.statistic.inverse(records_at(left, a), records_at(right, b)))

    def copy(self, to: Columns, dst: int, source: Columns, a: int) -> None:
        write_records(to, dst, records_at(source, a))

    def displaces(self, new: Columns, a: int, old: Columns, b: int, key: int) -> bool:
        newer = records_at(new, (a, [key]))
        return same_records(self.statistic.combine(records_at(old, (b, [key])), newer), newer)

    def put(self, to: Columns, dst: int, source: Columns, a: int, key: int) -> None:
        write_records(to, (dst, key), records_at(source, (a, key)))


def packed(statistic: Statistic, columns: Columns, width: int) -> Columns:
    """The same columns as a block: themselves, if they are one already."""
    rows, word = len(columns[0]), 8
    if any(np.size(column) != rows * width for column in columns):
        shapes = ", ".join(str(np.shape(column)) for column in columns)
        raise KernelError(f"{rows} partials of {width} keys are expected, not arrays of shape {shapes}")
    if all(
        column.dtype == dtype
        and column.strides[0] == word * width * len(columns)
        and (width == 1 or column.strides[-1] == word)
        and address(column) == address(columns[0]) + word * width * c
        for c, (column, dtype) in enumerate(zip(columns, statistic.dtypes, strict=True))
    ):
        return columns
    block = statistic.unwritten(rows, width)
    write_records(block, ..., (np.reshape(column, (rows, width)) for column in columns))
    return block
