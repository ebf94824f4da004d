"""Rolling: slides of a single key over windows that are always as long, many in one loop.

The engine answers what is due and has no such case; papers measure it. A kernel of this module has `roll` besides, and
the two SlickDeques take **stretches** of slides at once, without asking for each what window it is for.

**SlickDeque (Inv)** takes one partial into the running sum and one out of it, up to where the ring turns.

**SlickDeque (Non-Inv)** gathers partials in a list that may grow longer than a batch. A window that is not longer than
that is not gathered at all: while whole windows come, the deque of each is written out as a table of its answers, one
for each start, and made to a deque again at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numpy.typing import ArrayLike, NDArray

from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.algorithms.slickdeque_noninv import BATCH, GATHERED, ROOM, entries_at, layout_of
from weft.kernels.compiled.arithmetic import Add, AddPairs, RowPointers
from weft.kernels.compiled.cells import (
    FIRST,
    NEXT,
    RANGES,
    SLOTS,
    Algorithm,
    Arithmetic,
    Index,
    KernelShape,
    MemoryLayout,
    forget,
    slot,
)
from weft.kernels.compiled.machine_code import INTS, Memory, implements, in_place, jitable, keep_numbers, numbers, words
from weft.kernels.execution import COMPLAINTS, TOO_LONG, TOO_SHORT, KernelError, Run
from weft.kernels.kernel import DequeKernel, Kernel
from weft.kernels.statistic import Columns, Statistic

#: The longest list of gathered partials.
LONGEST_STRETCH = 256

# --- spans: a function of `cells`, many times -------------------------------------------------------------------------


def swap_span(
    f: Arithmetic,
    cells: Memory,
    acc: int,
    old: int,
    new: int,
    source: Memory,
    a: int,
    out: Memory,
    dst: int,
    count: int,
) -> None:
    """`count` times: one partial into the accumulator and one out of it, the new one into the ring, and an answer."""
    for n in range(count):
        f.swap(cells, acc, source, a + n, old + n)
        f.copy(cells, new + n, source, a + n)
        f.copy(out, dst + n, cells, acc)


def gather_span(
    f: Arithmetic,
    cells: Memory,
    first: int,
    peak: int,
    head: int,
    source: Memory,
    a: int,
    out: Memory,
    dst: int,
    count: int,
) -> None:
    """`count` times: a partial to those gathered from cell `first` on, and to their peak; the answer is head ⊕ peak."""
    for n in range(count):
        f.copy(cells, first + n, source, a + n)
        f.combine(cells, peak, cells, peak, source, a + n)
        f.combine(out, dst + n, cells, head, cells, peak)


def suffixes(f: Arithmetic, to: Memory, dst: int, source: Memory, a: int, count: int) -> None:
    """to[dst + n] = source[a + n] ⊕ … ⊕ source[a + count − 1], for each n < count."""
    f.copy(to, dst + count - 1, source, a + count - 1)
    for n in range(count - 2, -1, -1):
        f.combine(to, dst + n, source, a + n, to, dst + n + 1)


def join_prefixes(
    f: Arithmetic, cells: Memory, acc: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    """out[dst + n] = out[dst + n] ⊕ source[a] ⊕ … ⊕ source[a + n], for each n < count; cells[acc] is overwritten."""
    f.copy(cells, acc, source, a)
    f.combine(out, dst, out, dst, cells, acc)
    for n in range(1, count):
        f.combine(cells, acc, cells, acc, source, a + n)
        f.combine(out, dst + n, out, dst + n, cells, acc)


# Of single numbers, spans are loops over what is held in registers.


def swap_span_numbers(
    f: Add, cells: Memory, acc: int, old: int, new: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    total = cells[acc]
    for n in range(count):
        come = source[a + n]
        total += come - cells[old + n]
        cells[new + n] = come
        out[dst + n] = total
    cells[acc] = total


def swap_span_pairs(
    f: AddPairs, cells: Memory, acc: int, old: int, new: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    low, high = cells[2 * acc], cells[2 * acc + 1]
    for n in range(count):
        come_low, come_high = source[2 * (a + n)], source[2 * (a + n) + 1]
        low += come_low - cells[2 * (old + n)]
        high += come_high - cells[2 * (old + n) + 1]
        cells[2 * (new + n)] = come_low
        cells[2 * (new + n) + 1] = come_high
        out[2 * (dst + n)] = low
        out[2 * (dst + n) + 1] = high
    cells[2 * acc] = low
    cells[2 * acc + 1] = high


# A running maximum waits four cycles for each comparison. The loops below take four numbers at a time: what these four
# make among themselves does not wait, and only one comparison in four is part of the chain.


def gather_span_of_numbers(
    f: Any, cells: Memory, first: int, peak: int, head: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    best = cells[peak]
    answer = f.choose(cells[head], best)
    n = 0
    while n + 4 <= count:
        w, x, y, z = source[a + n], source[a + n + 1], source[a + n + 2], source[a + n + 3]
        wx, yz = f.choose(w, x), f.choose(y, z)
        cells[first + n], cells[first + n + 1], cells[first + n + 2], cells[first + n + 3] = w, x, y, z
        wxyz = f.choose(wx, yz)
        out[dst + n] = f.choose(answer, w)
        out[dst + n + 1] = f.choose(answer, wx)
        out[dst + n + 2] = f.choose(answer, f.choose(wx, y))
        answer = f.choose(answer, wxyz)
        out[dst + n + 3] = answer
        best = f.choose(best, wxyz)
        n += 4
    while n < count:
        come = source[a + n]
        cells[first + n] = come
        best = f.choose(best, come)
        answer = f.choose(answer, come)
        out[dst + n] = answer
        n += 1
    cells[peak] = best


def suffixes_of_numbers(f: Any, to: Memory, dst: int, source: Memory, a: int, count: int) -> None:
    best = source[a + count - 1]
    n = count
    while n >= 4:
        w, x, y, z = source[a + n - 4], source[a + n - 3], source[a + n - 2], source[a + n - 1]
        wx, yz = f.choose(w, x), f.choose(y, z)
        to[dst + n - 1] = f.choose(best, z)
        to[dst + n - 2] = f.choose(best, yz)
        to[dst + n - 3] = f.choose(best, f.choose(x, yz))
        best = f.choose(best, f.choose(wx, yz))
        to[dst + n - 4] = best
        n -= 4
    while n > 0:
        n -= 1
        best = f.choose(best, source[a + n])
        to[dst + n] = best


def join_prefixes_of_numbers(
    f: Any, cells: Memory, acc: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    best = source[a]
    n = 0
    while n + 4 <= count:
        w, x, y, z = source[a + n], source[a + n + 1], source[a + n + 2], source[a + n + 3]
        wx, yz = f.choose(w, x), f.choose(y, z)
        out[dst + n] = f.choose(out[dst + n], f.choose(best, w))
        out[dst + n + 1] = f.choose(out[dst + n + 1], f.choose(best, wx))
        out[dst + n + 2] = f.choose(out[dst + n + 2], f.choose(best, f.choose(wx, y)))
        best = f.choose(best, f.choose(wx, yz))
        out[dst + n + 3] = f.choose(out[dst + n + 3], best)
        n += 4
    while n < count:
        best = f.choose(best, source[a + n])
        out[dst + n] = f.choose(out[dst + n], best)
        n += 1


def is_arithmetic(f: Any, kind: type[Arithmetic]) -> bool:
    return issubclass(f.instance_class, kind)


@implements(swap_span)
def _swap_span(
    f: Any, cells: Any, acc: Any, old: Any, new: Any, source: Any, a: Any, out: Any, dst: Any, count: Any
) -> Any:
    if is_arithmetic(f, RowPointers):
        return swap_span
    if is_arithmetic(f, AddPairs):
        return swap_span_pairs
    return swap_span_numbers


@implements(gather_span)
def _gather_span(
    f: Any, cells: Any, first: Any, peak: Any, head: Any, source: Any, a: Any, out: Any, dst: Any, count: Any
) -> Any:
    return gather_span if is_arithmetic(f, RowPointers) else gather_span_of_numbers


@implements(suffixes)
def _suffixes(f: Any, to: Any, dst: Any, source: Any, a: Any, count: Any) -> Any:
    return suffixes if is_arithmetic(f, RowPointers) else suffixes_of_numbers


@implements(join_prefixes)
def _join_prefixes(f: Any, cells: Any, acc: Any, source: Any, a: Any, out: Any, dst: Any, count: Any) -> Any:
    return join_prefixes if is_arithmetic(f, RowPointers) else join_prefixes_of_numbers


def one_number(first: int) -> Memory:
    """A list of one number, which can be changed."""
    return [first]


@in_place(one_number, INTS, types.intp)
def _one_number(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    held = cgutils.alloca_once(builder, ir.IntType(64))
    builder.store(args[0], held)
    return held


# --- stretches --------------------------------------------------------------------------------------------------------


@jitable
def no_stretch(
    f: Any, cells: Memory, ix: Index, table: Index, length: int, incoming: Memory, i: int, most: int, out: Memory
) -> int:
    """The stretch of an algorithm that slides step by step."""
    return 0


@jitable
def running_sums(
    f: Any, cells: Memory, ix: Index, table: Index, length: int, incoming: Memory, i: int, most: int, out: Memory
) -> int:
    """Slides of a full window, one partial in and one out, up to where the ring turns."""
    old, new = slot(ix, ix[FIRST]), slot(ix, ix[NEXT])
    if ix[NEXT] - ix[FIRST] != length or ix[RANGES] != 1:
        return 0
    count = min(most, ix[SLOTS] - old, ix[SLOTS] - new)
    if count <= 0:
        return 0
    swap_span(f, cells, ix[SLOTS], old, new, incoming, i, out, i, count)
    ix[NEXT] += count
    table[0] = ix[FIRST] + count
    forget(ix, table[0])
    return count


@jitable
def deques(
    f: Any, cells: Memory, ix: Index, table: Index, length: int, incoming: Memory, i: int, most: int, out: Memory
) -> int:
    """Slides of a full window of one key."""
    if f.number_of_keys() != 1 or ix[NEXT] - ix[FIRST] != length:
        return 0
    if length <= ix[ROOM]:
        # All that the window holds was taken in by this stretch of calls, and can be read again.
        return _whole_windows(f, cells, ix, table, length, incoming, i, most, out) if i >= length else 0
    return _gathering(f, cells, ix, table, incoming, i, most, out)


@jitable
def _gathering(f: Any, cells: Memory, ix: Index, table: Index, incoming: Memory, i: int, most: int, out: Memory) -> int:
    """Slides while partials are gathered, and the same entry of the deque stays its head."""
    entries, last_slot = entries_at(ix, 1), ix[SLOTS] - 1
    while table[1] > 0 and table[entries + table[0]] <= ix[FIRST]:
        table[0] = (table[0] + 1) & last_slot
        table[1] -= 1
    # A long list is only for those who do not wait for single answers: it makes the merge longer, too.
    room = ix[ROOM] if most >= ix[ROOM] else ix[BATCH]
    # One place is left: whoever takes it merges.
    if ix[GATHERED] == 0 or ix[GATHERED] >= room - 1 or table[1] == 0:
        return 0
    count = min(most, room - 1 - ix[GATHERED], table[entries + table[0]] - ix[FIRST])
    gather_span(f, cells, ix[SLOTS] + ix[GATHERED], ix[SLOTS] + ix[ROOM], table[0], incoming, i, out, i, count)
    ix[GATHERED] += count
    ix[NEXT] += count
    forget(ix, ix[FIRST] + count)
    return count


@jitable
def _whole_windows(
    f: Any, cells: Memory, ix: Index, table: Index, length: int, incoming: Memory, i: int, most: int, out: Memory
) -> int:
    """As many slides as there are whole windows of them: an answer joins an end of one and a beginning of the next."""
    peak, done = ix[SLOTS] + ix[ROOM], 0
    while length > 1 and most - done >= length:
        at = i + done
        suffixes(f, out, at, incoming, at - length + 1, length - 1)
        f.copy(out, at + length - 1, incoming, at + length - 1)
        join_prefixes(f, cells, peak, incoming, at, out, at, length)
        done += length
    if done > 0:
        ix[NEXT] += done
        ix[GATHERED] = 0
        forget(ix, ix[FIRST] + done)
        _hold_window(f, cells, ix, table, length, incoming, i + done - length)
    return done


@jitable
def _hold_window(f: Any, cells: Memory, ix: Index, table: Index, length: int, incoming: Memory, a: int) -> None:
    """Makes the deque of one key anew, from the partials incoming[a], … of its window."""
    entries = entries_at(ix, 1)
    kept = f.undisplaced(incoming, a, length, table, 2, 0)
    for n in range(kept):
        source = table[2 + kept - 1 - n]
        f.put(cells, n, incoming, a + source, 0)
        table[entries + n] = ix[FIRST] + source
    table[0] = 0
    table[1] = kept


#: (f, cells, ix, table, length, incoming, i, most, out) → how many slides of a full window of `length` partials were
#: done. They take in incoming[i], …, up to `most` of them, with an answer out[i], … for each; none, if what comes next
#: is not of that plain kind.
STRETCHES: dict[str, Any] = {"slickdeque_inv": running_sums, "slickdeque_noninv": deques}


# --- drivers ----------------------------------------------------------------------------------------------------------


@cache
def rolling_loop_of(algorithm: Algorithm) -> Run:
    """The loop of an algorithm that rolls."""
    slide, query = algorithm.slide, algorithm.query
    stretch: Any = STRETCHES.get(algorithm.name, no_stretch)

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
        cells, incoming, out = f.memory(cells_at), f.memory(incoming_at), f.memory(out_at)
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
def rolling_loop_of_many(algorithm: Algorithm) -> Run:
    """The loop of an algorithm that rolls over several ranges."""
    slide, query, answer = algorithm.slide, algorithm.query, algorithm.answer

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
        cells, incoming, out = f.memory(cells_at), f.memory(incoming_at), f.memory(out_at)
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
            if answer is not None:
                answer(f, cells, ix, table, starts, due, 1, 0, ranges, out, step * ranges)
            else:
                for j in range(ranges):
                    query(f, cells, ix, table, starts[j], j, out, step * ranges + j)
        keep_numbers(ix_at, ix)
        return 0

    return roll_many


# --- kernels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a kernel remembers, as arrays."""

    index: NDArray[np.int64]
    table: NDArray[np.int64]
    columns: Columns
    starts: NDArray[np.int64]


class RollingKernel(Kernel):
    """A kernel that rolls, and goes back to a snapshot."""

    def roll(self, partials: Columns, lengths: ArrayLike) -> Columns:
        """Takes in one partial after the other, and after each answers for the newest ones: so many for each range.

        The same as `slide` with those starts; the faster way for a single key.
        """
        newest = np.array(lengths, dtype=np.int64, ndmin=1)
        if len(newest) != self.ranges or np.any(newest[1:] > newest[:-1]):
            raise KernelError(f"a kernel of {self.ranges} ranges rolls over as many lengths, longest first")
        if not 0 < newest[-1] <= newest[0] <= self.capacity:
            raise KernelError(COMPLAINTS[TOO_LONG if newest[-1] > 0 else TOO_SHORT].format(self.capacity))
        steps = len(partials[0])
        if self.width > 1 and self.statistic.rows is not None:
            ends = np.arange(self.next + 1, self.next + 1 + steps)[:, np.newaxis]
            return self.slide(partials, np.maximum(ends - newest, self._starts))
        if self.ranges == 1:
            _, answers = self.drive(rolling_loop_of, partials, (), steps, (steps, int(newest[0])))
        else:
            schedule, numbers = (self._starts, newest), (steps, self.ranges)
            _, answers = self.drive(rolling_loop_of_many, partials, schedule, steps * self.ranges, numbers)
        self._starts = np.maximum(self._starts, self.next - newest)
        return answers

    def snapshot(self) -> Snapshot:
        """A copy of all that is remembered."""
        columns = tuple(column.copy() for column in self._columns)
        return Snapshot(self._ix.copy(), self._table.copy(), columns, self._starts.copy())

    def restore(self, snapshot: Snapshot) -> None:
        """Makes this kernel what it was."""
        self._ix, self._table, self._starts = snapshot.index.copy(), snapshot.table.copy(), snapshot.starts.copy()
        self._allocate(len(snapshot.columns[0]))
        for to, source in zip(self._columns, snapshot.columns, strict=True):
            to[...] = source


class RollingDeques(DequeKernel, RollingKernel):
    """SlickDeque (Non-Inv) that rolls: of one key, room for a stretch of gathered partials."""

    def roll(self, partials: Columns, lengths: ArrayLike) -> Columns:
        def rolled(part: slice) -> Columns:
            return super(RollingDeques, self).roll(tuple(column[part] for column in partials), lengths)

        return self._in_parts(len(partials[0]), rolled)

    def restore(self, snapshot: Snapshot) -> None:
        super().restore(snapshot)
        self._slots = int(self._ix[SLOTS])

    def _layout(self, shape: KernelShape | None = None) -> MemoryLayout:
        room = max(self._batch, min(LONGEST_STRETCH, self.capacity)) if self.width == 1 else self._batch
        return layout_of(self.width, self._slots, self._batch, room)


def rolling_kernel(name: str, statistic: Statistic, capacity: int, ranges: int = 1, width: int = 1) -> RollingKernel:
    """A kernel by its name."""
    algorithm = ALGORITHMS[name]
    kind = RollingDeques if algorithm.selects else RollingKernel
    return kind(algorithm, statistic, capacity, ranges, width)
