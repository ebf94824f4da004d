"""A kernel at work: an algorithm, a statistic, and memory for a ring of partials of every group key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.kernels.algorithms.slickdeque_noninv import FEWEST_SLOTS, GATHERED, ROOM, batch_for, layout_of, slots_for
from weft.kernels.compiled.cells import FIRST, NEXT, SLOTS, Algorithm, KernelShape, MemoryLayout, empty_index
from weft.kernels.compiled.machine_code import address
from weft.kernels.execution import COMPLAINTS, GO_BACK, KernelError, Run, arithmetic_of, compiled, loop_of, packed
from weft.kernels.statistic import Array, Columns, Statistic, records_at, same_records, write_records


class Kernel:
    """A window kernel over the columns 0 … width − 1, one for each group key.

    Partials are numbered from 0 on. A window is named by its *start*, the number of its oldest partial; it ends with
    the newest one.

    >>> import numpy as np
    >>> from weft.kernels.algorithms import ALGORITHMS
    >>> from weft.kernels.monoids import COUNT
    >>> counts = Kernel(ALGORITHMS["prefix"], COUNT, capacity=3, width=2)
    >>> counts.slide((np.array([[1, 10], [2, 20], [3, 30]]),), starts=[[0], [0], [1]])
    (array([[ 1, 10],
           [ 3, 30],
           [ 5, 50]]),)
    """

    def __init__(
        self, algorithm: Algorithm, statistic: Statistic, capacity: int, ranges: int = 1, width: int = 1
    ) -> None:
        reason = why_not(algorithm, statistic, ranges)
        if reason:
            raise KernelError(reason)
        if capacity < 1:
            raise KernelError(f"a window holds at least one partial, not {capacity}")
        self.algorithm = algorithm
        self.statistic = statistic
        self.capacity = capacity
        self.ranges = ranges
        self.width = width
        self._starts: NDArray[np.int64]
        self._begin(0)

    @property
    def first(self) -> int:
        """The number of the oldest partial still held."""
        return int(self._ix[FIRST])

    @property
    def next(self) -> int:
        """The number that the next partial will get."""
        return int(self._ix[NEXT])

    @property
    def nbytes(self) -> int:
        """The memory it holds; what Python objects hold is not counted."""
        return sum(column.nbytes for column in (*self._columns, self._ix, self._table))

    def slide(self, partials: Columns, starts: ArrayLike, due: ArrayLike | None = None) -> Columns:
        """Takes in one partial after the other, and answers after each.

        partials[c][i, k] is column c of slice i's partial for key column k. After slice i is taken in, range j
        begins at starts[i, j]: ranges are ordered from the longest to the shortest, and starts never go back. Where
        due[i, j] is set (everywhere, if it is not given) there is an answer; answers come in this order, one row each.
        """
        table = np.ascontiguousarray(starts, dtype=np.int64).reshape(-1, self.ranges)
        if not len(table):
            return self.statistic.empty(0, self.width)
        if np.any(table[0] < self._starts):
            raise KernelError(COMPLAINTS[GO_BACK])
        answers, places = table.size, np.zeros(1, dtype=np.int64)
        if due is not None:
            # After the last place that is due there is one that no step has: the loop goes from one to the next.
            places = np.append(np.flatnonzero(np.asarray(due, dtype=bool).reshape(table.shape)), table.size)
            answers = len(places) - 1
        numbers = len(table), self.ranges, int(due is None)
        wrong, out = self.drive(loop_of, partials, (table, places), answers, numbers)
        if wrong:
            raise KernelError(COMPLAINTS[wrong].format(self.capacity))
        self._starts = table[-1].copy()
        return out

    def drive(
        self,
        driver: Callable[[Algorithm], Run],
        partials: Columns,
        schedule: tuple[Array, ...],
        answers: int,
        numbers: tuple[int, ...],
    ) -> tuple[int, Columns]:
        """Calls a driver, interpreted or compiled; returns what it returns, and its answers."""
        out = self.statistic.unwritten(answers, self.width)
        if self.statistic.rows is None:
            ix, table, *lists = (array.ravel().tolist() for array in (self._ix, self._table, *schedule))
            run = driver(self.algorithm)
            result = run(self._f, self._columns, ix, table, partials, *lists, out, *numbers)
            self._ix[:], self._table[:] = ix, table
            return result, out
        incoming = packed(self.statistic, partials, self.width)
        arrays = (self._columns[0], self._ix, self._table, incoming[0], *schedule, out[0])
        return compiled(driver, self.algorithm)(self._f, *map(address, arrays), *numbers), out

    def amend(self, sequence: int, partial: Columns, columns: ArrayLike | None = None) -> None:
        """Combines late rows into partial number `sequence`, for all key columns or for some."""
        if not self.first <= sequence < self.next:
            raise KernelError(f"partial {sequence} is not held; those from {self.first} to {self.next - 1} are")
        keys = np.arange(self.width) if columns is None else np.asarray(columns, dtype=np.intp)
        self._absorb(sequence, partial, keys)

    def _absorb(self, sequence: int, partial: Columns, keys: NDArray[np.intp]) -> None:
        rows = np.array(self.algorithm.covering(self._ix, self._table, sequence), dtype=np.intp)
        at = np.ix_(rows, keys)
        held = records_at(self._columns, at)
        late = tuple(np.broadcast_to(np.asarray(values), held[0].shape) for values in partial)
        write_records(self._columns, at, self.statistic.combine(held, late))

    def clear(self, columns: ArrayLike) -> None:
        """Makes these key columns as if nothing had ever come for them, so that other keys can have them."""
        self.statistic.erase(self._columns, (slice(None), np.asarray(columns, dtype=np.intp)))

    def select(self, columns: ArrayLike) -> None:
        """Rearranges the key columns: new column i is what columns[i] was, or empty where that is −1."""
        keys = np.asarray(columns, dtype=np.intp)
        taken, before = np.flatnonzero(keys >= 0), self._columns
        self.width = len(keys)
        self._allocate(len(before[0]))
        write_records(self._columns, (slice(None), taken), records_at(before, (slice(None), keys[taken])))

    def rebuild(self, first: int, partials: Columns, starts: ArrayLike | None = None) -> None:
        """Starts over: the window holds these partials, numbered from `first` on, and the ranges begin at `starts`."""
        self._begin(first)
        numbers = np.arange(first, first + len(partials[0]))[:, np.newaxis]
        table = np.minimum(numbers, np.full(self.ranges, first) if starts is None else starts)
        self.slide(partials, table, np.zeros(table.shape))

    def _begin(self, first: int) -> None:
        """Forgets everything; the next partial is number `first`."""
        shape = KernelShape(self.capacity, self.ranges, self.statistic.commutative, self.width, first)
        layout = self._layout(shape)
        self._ix = np.array(empty_index(shape, layout), dtype=np.int64)
        self._table = np.zeros(layout.table, dtype=np.int64)
        self._starts = np.full(self.ranges, first, dtype=np.int64)
        self._allocate(layout.rows)

    def _layout(self, shape: KernelShape) -> MemoryLayout:
        return self.algorithm.layout(shape)

    def _allocate(self, rows: int) -> None:
        self._columns = self.statistic.empty(rows, self.width)
        self._f = arithmetic_of(self.statistic, self.width)


def why_not(algorithm: Algorithm, statistic: Statistic, ranges: int = 1) -> str | None:
    """Why a kernel cannot serve a statistic, in words; None if it can.

    None takes DOUBLEs out of a sum again: its error would be bounded by the values that were in windows before, and not
    by those of the window alone.
    """
    if algorithm.inverts and statistic.inverse is None:
        return f"{algorithm.title} needs an inverse, and {statistic.name} has none"
    if algorithm.inverts and not statistic.commutative:
        return f"{algorithm.title} takes partials out in any order, and {statistic.name} minds the order"
    if algorithm.selects and not statistic.selective:
        return f"{algorithm.title} needs a function that selects one of its arguments; {statistic.name} does not"
    if ranges > 1 and not algorithm.many_ranges:
        return f"{algorithm.title} serves one range, not {ranges}"
    if algorithm.inverts and not statistic.exact:
        return f"it takes values out of a {statistic.name} again, and rounding errors would stay"
    return None


# --- SlickDeque (Non-Inv): its memory grows with the deques, and late rows find their place in them -------------------

#: The most steps in one call, times keys: what one call can add to the deques is reserved before it.
_RESERVED_ENTRIES = 1 << 16


class DequeKernel(Kernel):
    """A kernel with one deque for every key column. With batches of one it is the paper's algorithm, step by step."""

    def __init__(
        self, algorithm: Algorithm, statistic: Statistic, capacity: int, ranges: int = 1, width: int = 1, batch: int = 0
    ) -> None:
        self._batch = batch or batch_for(capacity)
        self._slots = min(FEWEST_SLOTS, slots_for(capacity))
        super().__init__(algorithm, statistic, capacity, ranges, width)

    @property
    def longest(self) -> int:
        """The length of the longest deque, what is gathered counted in."""
        (_, lengths), _ = self._tables()
        return int(lengths.max()) + int(self._ix[GATHERED])

    def entries(self, key: int) -> list[tuple[int, Columns]]:
        """The deque of a key, from head to tail: the numbers and the records of its partials."""
        (_, lengths), numbers = self._tables()
        places = self._places(key, int(lengths[key]))
        return [(int(numbers[place, key]), records_at(self._columns, (place, [key]))) for place in places]

    def slide(self, partials: Columns, starts: ArrayLike, due: ArrayLike | None = None) -> Columns:
        table = np.asarray(starts, dtype=np.int64).reshape(-1, self.ranges)
        wanted = None if due is None else np.asarray(due).reshape(table.shape)
        return self._in_parts(
            len(table),
            lambda part: super(DequeKernel, self).slide(
                records_at(partials, part), table[part], None if wanted is None else wanted[part]
            ),
        )

    def _in_parts(self, steps: int, take: Callable[[slice], Columns]) -> Columns:
        """Takes steps in parts; before each, all that it can add to the deques is reserved."""
        at_once, answers = max(self._batch, _RESERVED_ENTRIES // self.width), []
        for at in range(0, max(1, steps), at_once):
            part = slice(at, min(at + at_once, steps))
            self._reserve(min(self.capacity, self.longest + part.stop - part.start))
            answers.append(take(part))
        return answers[0] if len(answers) == 1 else tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))

    def clear(self, columns: ArrayLike) -> None:
        super().clear(columns)
        (_, lengths), _ = self._tables()
        lengths[np.asarray(columns, dtype=np.intp)] = 0

    def select(self, columns: ArrayLike) -> None:
        self._rearrange(self._slots, np.asarray(columns, dtype=np.intp))

    def _layout(self, shape: KernelShape | None = None) -> MemoryLayout:
        return layout_of(self.width, self._slots, self._batch, room=self._batch)

    def _tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """By key: where the deque begins, and its length; and by slot and key the numbers of the entries."""
        heads_and_lengths = self._table[: 2 * self.width].reshape(2, self.width)
        return heads_and_lengths, self._table[2 * self.width + int(self._ix[ROOM]) :].reshape(self._slots, self.width)

    def _reserve(self, entries: int) -> None:
        """Makes room for deques of this length."""
        if slots_for(entries) > self._slots:
            self._rearrange(slots_for(entries), np.arange(self.width))

    def _rearrange(self, slots: int, keys: NDArray[np.intp]) -> None:
        """Makes room for as many slots; new deque i is what deque keys[i] was, moved to slot 0, or empty."""
        columns, ((heads, lengths), numbers), before = self._columns, self._tables(), self._slots
        taken, self.width = np.flatnonzero(keys >= 0), len(keys)
        self._slots = self._ix[SLOTS] = slots
        layout = self._layout()
        self._table = np.zeros(layout.table, dtype=np.int64)
        self._allocate(layout.rows)
        source = keys[taken]
        order = (heads[source] + np.arange(before)[:, np.newaxis]) % before
        (_, new_lengths), new_numbers = self._tables()
        new_lengths[taken] = lengths[source]
        new_numbers[:before, taken] = numbers[order, source]
        write_records(self._columns, (slice(before), taken), records_at(columns, (order, source)))
        gathered = records_at(columns, (slice(before, None), source))
        write_records(self._columns, (slice(slots, None), taken), gathered)

    def _absorb(self, sequence: int, partial: Columns, keys: NDArray[np.intp]) -> None:
        if sequence >= self.next - self._ix[GATHERED]:
            super()._absorb(sequence, partial, keys)
            return
        self._reserve(min(self.capacity, self.longest + 1))
        for position, key in enumerate(keys.tolist()):
            self._insert(sequence, records_at(partial, slice(position, position + 1)), key)

    def _insert(self, sequence: int, late: Columns, key: int) -> None:
        """Brings a late record to its place in one deque, and drops what no answer can name any more."""
        combine = self.statistic.combine
        deque = dict(self.entries(key))
        deque[sequence] = combine(deque[sequence], late) if sequence in deque else late
        kept: list[tuple[int, Columns]] = []
        for number in sorted(deque, reverse=True):
            if not kept or not same_records(combine(deque[number], kept[-1][1]), kept[-1][1]):
                kept.append((number, deque[number]))
        (_, lengths), numbers = self._tables()
        for place, (number, record) in zip(self._places(key, len(kept)), reversed(kept), strict=True):
            numbers[place, key] = number
            write_records(self._columns, (place, [key]), record)
        lengths[key] = len(kept)

    def _places(self, key: int, count: int) -> list[int]:
        """The slots of the first entries of a deque."""
        return [(int(self._table[key]) + n) % self._slots for n in range(count)]
