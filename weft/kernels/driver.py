"""The loop that drives a kernel: step after step, evict, take in, answer. Compiled once per kernel, kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba import njit

from weft.kernels import compiled as machine
from weft.kernels.algorithm import Algorithm, one_by_one
from weft.kernels.cells import Memory, keep_numbers, memory, numbers, one_number, words
from weft.kernels.pointers import jitable
from weft.kernels.ring import CAPACITY, FIRST, NEXT, Index

#: Drives a kernel: see `run` below for its arguments.
Run = Callable[..., int]


@cache
def source_stamp() -> int:
    """Changes with any source file of this package.

    Numba keeps compiled code on disk and looks at the file of the compiled function alone to see whether it is still
    good. This stamp makes it look at the files of all functions that are compiled into it.
    """
    assert machine  # what it registers with Numba is compiled in, too
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
def interpreted_run(algorithm: Algorithm) -> Run:
    """`run` as plain Python; memories are arrays, `ix`, `starts` and `due` are lists."""
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
        `due` ascends, and ends with a place that no step has (all ranges are due, and nobody looks at it, if `all_due`
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
def interpreted_roll(algorithm: Algorithm) -> Run:
    """`roll` as plain Python."""
    slide, query, stretch, stamp = algorithm.slide, algorithm.query, algorithm.stretch, source_stamp()

    def roll(
        f: Any,
        cells_at: Memory,
        ix_at: Any,
        table_at: Any,
        incoming_at: Memory,
        out_at: Memory,
        steps: int,
        length: int,
    ) -> int:
        """Takes in `steps` partials, and after each of them answers for the newest `length` partials.

        It does what `run` does when there is one range, always due, and always as long.
        """
        stamp  # noqa: B018
        cells, incoming, out = memory(f, cells_at), memory(f, incoming_at), memory(f, out_at)
        table, ix = words(table_at), numbers(ix_at)
        start = one_number(0)
        step = 0
        while step < steps:
            done = stretch(f, cells, ix, table, length, incoming, step, steps - step, out)
            if done == 0:
                start[0] = max(ix[FIRST], ix[NEXT] + 1 - length)
                slide(f, cells, ix, table, start, 0, incoming, step)
                query(f, cells, ix, table, start[0], 0, out, step)
                done = 1
            step += done
        keep_numbers(ix_at, ix)
        return 0

    return roll


@jitable
def move_starts(starts: Any, lengths: Any, ranges: int, end: int) -> bool:
    """Ranges of these lengths begin so far before `end`; none goes back. Returns whether all of them are as long."""
    all_full = True
    for j in range(ranges):
        start = end - lengths[j]
        all_full = all_full and starts[j] <= start
        starts[j] = max(starts[j], start)
    return all_full


@cache
def interpreted_roll_many(algorithm: Algorithm) -> Run:
    """`roll` of several ranges as plain Python."""
    slide, query, answer = algorithm.slide, algorithm.query, algorithm.answer
    together, stamp = answer is not one_by_one, source_stamp()

    def roll_many(
        f: Any,
        cells_at: Memory,
        ix_at: Any,
        table_at: Any,
        incoming_at: Memory,
        starts_at: Any,
        lengths_at: Any,
        out_at: Memory,
        steps: int,
        ranges: int,
    ) -> int:
        """Takes in `steps` partials, and after each of them answers for the newest lengths[0], lengths[1], … partials.

        It does what `run` does when all ranges are always due, and always as long. `starts` says where they begin now.
        """
        stamp  # noqa: B018
        cells, incoming, out = memory(f, cells_at), memory(f, incoming_at), memory(f, out_at)
        starts, lengths, table, ix = words(starts_at), words(lengths_at), words(table_at), numbers(ix_at)
        due = starts  # which nobody reads: all are due
        all_full = False
        for step in range(steps):
            if all_full:
                for j in range(ranges):
                    starts[j] += 1
            else:
                all_full = move_starts(starts, lengths, ranges, ix[NEXT] + 1)
            slide(f, cells, ix, table, starts, 0, incoming, step)
            if together:
                answer(f, cells, ix, table, starts, due, 1, 0, ranges, out, step * ranges)
            else:
                for j in range(ranges):
                    query(f, cells, ix, table, starts[j], j, out, step * ranges + j)
        keep_numbers(ix_at, ix)
        return 0

    return roll_many


@cache
def compiled(driver: Callable[[Algorithm], Run], algorithm: Algorithm) -> Run:
    """`run` or `roll` of an algorithm in machine code; memories and arrays are addresses."""
    in_machine_code: Run = njit(cache=True, nogil=True)(driver(algorithm))
    return in_machine_code
