"""A kernel at work: an algorithm, a statistic, and memory for a ring of partials of every group key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from weft.kernels.algorithms.algorithm import Algorithm, KernelShape, MemoryLayout, empty_index, start_at
from weft.kernels.compiled.cells import FIRST, NEXT, Index
from weft.kernels.compiled.pointers import address
from weft.kernels.execution import (
    GO_BACK,
    OUT_OF_ORDER,
    TOO_LONG,
    Interpreted,
    Run,
    compiled,
    compiled_arithmetic,
    identities,
    loop_of,
    packed,
    unwritten,
)
from weft.kernels.statistic import Array, Columns, Statistic

_ALL_DUE = np.zeros(1, dtype=np.int64)


class KernelError(ValueError):
    """A kernel was asked for what it cannot do. The text says what to do instead."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a kernel remembers, as arrays."""

    index: NDArray[np.int64]
    table: NDArray[np.int64]
    columns: Columns
    starts: NDArray[np.int64]


class Kernel:
    """A window kernel over the columns 0 … width − 1, one for each group key.

    Partials are numbered from 0 on. A window is named by its *start*, the number of its oldest partial; it ends with
    the newest one. `slide` does everything, for many slices in one call; `push`, `evict` and `query` are its parts.

    >>> import numpy as np
    >>> from weft.kernels.algorithms import ALGORITHMS
    >>> from weft.kernels.monoids import COUNT
    >>> counts = Kernel(ALGORITHMS["prefix"], COUNT, capacity=3, width=2)
    >>> for slice_ in ([1, 10], [2, 20], [3, 30]):
    ...     counts.push((np.array(slice_),))
    >>> counts.query([0, 1])
    (array([[ 6, 60],
           [ 5, 50]]),)
    """

    def __init__(
        self,
        algorithm: Algorithm,
        statistic: Statistic,
        capacity: int,
        ranges: int = 1,
        width: int = 1,
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
        self._interpreted = statistic.rows is None
        self._starts = np.zeros(ranges, dtype=np.int64)
        self._allocate(width)

    @property
    def width(self) -> int:
        return self._width

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
        return sum(column.nbytes for column in self._columns) + 8 * (len(self._ix) + len(self._table))

    # --- taking in and answering -------------------------------------------------------------------------------------

    def slide(self, partials: Columns, starts: ArrayLike, due: ArrayLike | None = None) -> Columns:
        """Takes in one partial after the other, and answers after each.

        partials[c][i, k] is column c of slice i's partial for key column k. After slice i is taken in, range j
        begins at starts[i, j]: ranges are ordered from the longest to the shortest, and starts never go back. Where
        due[i, j] is set (everywhere, if it is not given) there is an answer; answers come in this order, one row each.
        """
        table = np.ascontiguousarray(starts, dtype=np.int64).reshape(-1, self.ranges)
        steps = len(table)
        if not steps:
            return self.statistic.empty(0, self._width)
        self._check_first(table[0])
        answers = self._run(table, due, partials, evictions=steps)
        self._starts = table[-1].copy()
        return answers

    def blank(self, steps: int) -> Columns:
        """Identities for a number of slices, to be filled in; `slide` takes such columns without copying them."""
        if self._interpreted:
            return self.statistic.empty(steps, self._width)
        return identities(self.statistic, steps, self._width)

    def push(self, partial: Columns) -> None:
        """Takes in the partials of one slice, one for each key column."""
        rows = tuple(np.asarray(column)[np.newaxis] for column in partial)
        self.slide(rows, self._starts, np.zeros(self.ranges))

    def evict(self, starts: ArrayLike) -> None:
        """Moves the start of every range forwards (a single number moves all of them)."""
        table = np.broadcast_to(np.asarray(starts, dtype=np.int64), (1, self.ranges)).copy()
        self._check_first(table[0])
        self._run(table, np.zeros(table.shape, dtype=bool), None, evictions=1)
        self._starts = table[0]

    def query(self, starts: Sequence[int] | None = None) -> Columns:
        """The aggregates of the windows that begin at `starts` and end with the newest partial, one row each.

        Without `starts`, those of all ranges. A kernel that keeps an aggregate per range has no others.
        """
        table = self._starts if starts is None else np.asarray(starts, dtype=np.int64)
        if not (np.all(self.first <= table) and np.all(table < self.next)):
            raise KernelError(f"windows begin at one of the partials {self.first} to {self.next - 1}, not at {starts}")
        if not self.algorithm.any_start and not np.array_equal(table, self._starts):
            raise KernelError(f"{self.algorithm.title} answers its own ranges alone; they begin at {self._starts}")
        # Kernels answer the longest window first.
        order = np.argsort(table, kind="stable")
        answers = self._run(table[order].reshape(1, -1), None, None, evictions=0)
        return answers if np.all(order[1:] > order[:-1]) else tuple(column[np.argsort(order)] for column in answers)

    # --- late rows, keys, snapshots ----------------------------------------------------------------------------------

    def amend(self, sequence: int, partial: Columns, columns: ArrayLike | None = None) -> None:
        """Combines late rows into partial number `sequence`, for all key columns or for some."""
        if not self.first <= sequence < self.next:
            raise KernelError(f"partial {sequence} is not held; those from {self.first} to {self.next - 1} are")
        keys = np.arange(self._width) if columns is None else np.asarray(columns, dtype=np.intp)
        self._absorb(sequence, partial, keys)

    def clear(self, columns: ArrayLike) -> None:
        """Makes these key columns as if nothing had ever come for them, so that other keys can have them."""
        keys = np.asarray(columns, dtype=np.intp)
        self.statistic.erase(self._columns, (slice(None), keys))

    def select(self, columns: ArrayLike) -> None:
        """Rearranges the key columns: new column i is what columns[i] was, or empty where that is −1."""
        keys = np.asarray(columns, dtype=np.intp)
        snapshot = self.snapshot()
        self._allocate(len(keys))
        taken = np.flatnonzero(keys >= 0)
        self._load(snapshot, keys)
        for to, source in zip(self._columns, snapshot.columns, strict=True):
            to[:, taken] = source[:, keys[taken]]

    def snapshot(self) -> Snapshot:
        """A copy of all that is remembered."""
        return Snapshot(
            np.array(self._ix, dtype=np.int64),
            np.array(self._table, dtype=np.int64),
            tuple(column.copy() for column in self._columns),
            self._starts.copy(),
        )

    def rebuild(self, first: int, partials: Columns, starts: ArrayLike | None = None) -> None:
        """Starts over: the window holds these partials, numbered from `first` on, and the ranges begin at `starts`."""
        self._allocate(self._width)
        start_at(self.algorithm, self._ix, self._table, first)
        self._starts = np.full(self.ranges, first, dtype=np.int64)
        slices = len(partials[0])
        self.slide(partials, np.repeat(self._starts[np.newaxis], slices, axis=0), np.zeros((slices, self.ranges)))
        if starts is not None:
            self.evict(starts)

    # --- memory ------------------------------------------------------------------------------------------------------

    def _allocate(self, width: int) -> None:
        self._width = width
        self._allocate_memory(self.algorithm.layout(self._shape()))

    def _allocate_memory(self, layout: MemoryLayout) -> None:
        rows, numbers = layout.rows, empty_index(self._shape(), layout)
        self._ix: Index = numbers if self._interpreted else np.array(numbers, dtype=np.int64)
        self._table: Index = [0] * layout.table if self._interpreted else np.zeros(layout.table, dtype=np.int64)
        self._columns = self.blank(rows)
        carry = 0 if self.statistic.exact else layout.carry
        if self._interpreted:
            self._f: Any = Interpreted(self.statistic, self._width, carry)
        else:
            self._f = compiled_arithmetic(self.statistic, self._width, carry, inverts=self.algorithm.inverts)

    def _load(self, snapshot: Snapshot, columns: NDArray[np.intp]) -> None:
        """Takes over the numbers of a snapshot; new column i was columns[i]."""
        self._ix[:] = snapshot.index.tolist() if self._interpreted else snapshot.index
        self._table[:] = snapshot.table.tolist() if self._interpreted else snapshot.table

    def _shape(self) -> KernelShape:
        return shape_of(self.statistic, self.capacity, self.ranges, self._width)

    # --- running -----------------------------------------------------------------------------------------------------

    def _run(
        self, starts: NDArray[np.int64], due: ArrayLike | None, partials: Columns | None, evictions: int
    ) -> Columns:
        steps, ranges = starts.shape
        pushes, all_due = 0 if partials is None else steps, int(due is None)
        wanted = _ALL_DUE if due is None else _places(np.asarray(due, dtype=bool).reshape(starts.shape))
        answers = starts.size if due is None else len(wanted) - 1
        wrong, out = self.drive(
            loop_of, partials, (starts, wanted), answers, (steps, pushes, evictions, ranges, all_due)
        )
        if wrong:
            raise KernelError(self._complaint(wrong))
        return out

    def drive(
        self,
        driver: Callable[[Algorithm], Run],
        partials: Columns | None,
        schedule: tuple[Array, ...],
        answers: int,
        numbers: tuple[int, ...],
    ) -> tuple[int, Columns]:
        """Calls a driver, interpreted or compiled; returns what it returns, and its answers."""
        if self._interpreted:
            out = self.statistic.empty(answers, self._width)
            lists = [array.ravel().tolist() for array in schedule]
            run = driver(self.algorithm)
            return run(self._f, self._columns, self._ix, self._table, partials, *lists, out, *numbers), out
        incoming = self._columns if partials is None else self._packed(partials)
        out = unwritten(self.statistic, answers, self._width)
        arrays = (self._columns[0], self._ix, self._table, incoming[0], *schedule, out[0])
        result = compiled(driver, self.algorithm)(self._f, *(address(array) for array in arrays), *numbers)
        return result, out

    def _packed(self, partials: Columns) -> Columns:
        try:
            return packed(self.statistic, partials, self._width)
        except ValueError as error:
            raise KernelError(str(error)) from None

    def _check_first(self, starts: NDArray[np.int64]) -> None:
        if np.any(starts < self._starts):
            raise KernelError(self._complaint(GO_BACK))

    def _complaint(self, wrong: int) -> str:
        if wrong == OUT_OF_ORDER:
            return "ranges are ordered: the longest, which begins first, comes first"
        if wrong == TOO_LONG:
            return f"a window has more than {self.capacity} partials; rebuild the kernel with a larger capacity"
        return "the starts of windows never go back" if wrong == GO_BACK else "a window begins with a partial it holds"

    # --- late rows ---------------------------------------------------------------------------------------------------

    def _absorb(self, sequence: int, partial: Columns, keys: NDArray[np.intp]) -> None:
        rows = np.array(self.algorithm.covering(self._ix, self._table, sequence), dtype=np.intp)
        at = np.ix_(rows, keys)
        held = tuple(column[at] for column in self._columns)
        late = tuple(
            np.broadcast_to(np.asarray(values), cells.shape) for cells, values in zip(held, partial, strict=True)
        )
        for column, values in zip(self._columns, self.statistic.combine(held, late), strict=True):
            column[at] = values


def shape_of(statistic: Statistic, capacity: int, ranges: int, width: int) -> KernelShape:
    """What an algorithm must know of a kernel to say how much memory it needs."""
    return KernelShape(
        capacity,
        ranges,
        statistic.exact,
        statistic.commutative,
        restarts=not statistic.exact or statistic.grows,
        width=width,
    )


def _places(due: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where something is due, ascending, and then a place after all: a kernel goes from one to the next."""
    places = np.empty(np.count_nonzero(due) + 1, dtype=np.int64)
    _find_places(np.ascontiguousarray(due).reshape(-1), places)
    return places


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _find_places(due: NDArray[np.bool_], places: NDArray[np.int64]) -> None:
    """As `flatnonzero`, in half the time: what is not due is overwritten, and no branch is guessed wrong."""
    found = 0
    for place in range(due.size):
        places[found] = place
        found += due[place]
    places[found] = due.size


def why_not(algorithm: Algorithm, statistic: Statistic, ranges: int = 1) -> str | None:
    """Why a kernel cannot serve a statistic, in words; None if it can."""
    if algorithm.inverts and statistic.inverse is None:
        return f"{algorithm.title} needs an inverse, and {statistic.name} has none"
    if algorithm.inverts and not statistic.commutative:
        return f"{algorithm.title} takes partials out in any order, and {statistic.name} minds the order"
    if algorithm.selects and not statistic.selective:
        return f"{algorithm.title} needs a function that selects one of its arguments; {statistic.name} does not"
    if ranges > 1 and not algorithm.many_ranges:
        return f"{algorithm.title} serves one range, not {ranges}"
    return None
