"""SlickDeque (Non-Inv) at work: its memory grows with the deques, and late rows find their place in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.kernels.algorithms.algorithm import Algorithm
from weft.kernels.algorithms.slickdeque_noninv import (
    FEWEST_SLOTS,
    GATHERED,
    ROOM,
    batch_for,
    layout_of,
    slots_for,
)
from weft.kernels.compiled.cells import SLOTS
from weft.kernels.kernel import Kernel, Snapshot
from weft.kernels.statistic import Columns, Statistic, same_records

#: The most steps in one call, times keys: what one call can add to the deques is reserved before it.
_RESERVED_ENTRIES = 1 << 16
_RESERVED_ENTRIES_OF_ONE_KEY = 1 << 18


class DequeKernel(Kernel):
    """A kernel with one deque for every key column. With batches of one it is the paper's algorithm, step by step."""

    def __init__(
        self,
        algorithm: Algorithm,
        statistic: Statistic,
        capacity: int,
        ranges: int = 1,
        width: int = 1,
        *,
        batch: int | None = None,
    ) -> None:
        self._batch = batch_for(capacity) if batch is None else batch
        self._slots = min(FEWEST_SLOTS, slots_for(capacity))
        super().__init__(algorithm, statistic, capacity, ranges, width)

    @property
    def longest(self) -> int:
        """The length of the longest deque, what is gathered counted in."""
        return int(max(self._table[self._width : 2 * self._width])) + int(self._ix[GATHERED])

    def entries(self, key: int) -> list[tuple[int, Columns]]:
        """The deque of a key, from head to tail: the numbers and the records of its partials."""
        places = self._places(key, int(self._table[self._width + key]))
        return [
            (
                int(self._table[self._entry(place, key)]),
                tuple(column[place, key : key + 1].copy() for column in self._columns),
            )
            for place in places
        ]

    def slide(self, partials: Columns, starts: ArrayLike, due: ArrayLike | None = None) -> Columns:
        table = np.asarray(starts, dtype=np.int64).reshape(-1, self.ranges)
        wanted = None if due is None else np.asarray(due).reshape(table.shape)
        return self._in_parts(
            len(table),
            lambda part: super(DequeKernel, self).slide(
                _rows(partials, part), table[part], None if wanted is None else wanted[part]
            ),
        )

    def _in_parts(self, steps: int, take: Callable[[slice], Columns]) -> Columns:
        """Takes steps in parts; before each, all that it can add to the deques is reserved."""
        reserved = _RESERVED_ENTRIES_OF_ONE_KEY if self._width == 1 else _RESERVED_ENTRIES
        at_once = max(self._batch, reserved // self._width)
        answers = [self.statistic.empty(0, self._width)] if steps == 0 else []
        for at in range(0, steps, at_once):
            part = slice(at, min(at + at_once, steps))
            self._reserve(min(self.capacity, self.longest + part.stop - part.start))
            answers.append(take(part))
        return answers[0] if len(answers) == 1 else tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))

    def clear(self, columns: ArrayLike) -> None:
        super().clear(columns)
        for key in np.asarray(columns, dtype=np.intp).tolist():
            self._table[self._width + key] = 0

    def _allocate(self, width: int) -> None:
        self._width = width
        self._allocate_memory(layout_of(width, self._slots, self._batch, room=self._batch))

    def _load(self, snapshot: Snapshot, columns: NDArray[np.intp]) -> None:
        if snapshot.index[SLOTS] != self._slots:
            self._slots = int(snapshot.index[SLOTS])
            self._allocate(len(columns))
        old, new = _Table(snapshot), _Table(self.snapshot())
        taken = np.flatnonzero(columns >= 0)
        new.per_key[:, taken] = old.per_key[:, columns[taken]]
        new.entries[:, taken] = old.entries[:, columns[taken]]
        super()._load(replace(snapshot, table=new.table), columns)

    def _reserve(self, entries: int) -> None:
        """Makes room for deques of this length."""
        slots, room = slots_for(entries), self._slots
        if slots <= room:
            return
        before = self.snapshot()
        self._slots = slots
        self._allocate(self._width)
        old, new = _Table(before), _Table(self.snapshot())
        # Every deque moves to slot 0.
        new.per_key[1] = old.per_key[1]
        order, keys = (old.per_key[0] + np.arange(room)[:, np.newaxis]) % room, np.arange(self._width)
        new.entries[:room] = old.entries[order, keys]
        super()._load(replace(before, table=new.table), keys)
        self._ix[SLOTS] = slots
        for to, source in zip(self._columns, before.columns, strict=True):
            to[:room] = source[order, keys]
            to[slots:] = source[room:]

    def _absorb(self, sequence: int, partial: Columns, keys: NDArray[np.intp]) -> None:
        if sequence >= self.next - self._ix[GATHERED]:
            super()._absorb(sequence, partial, keys)
            return
        self._reserve(min(self.capacity, self.longest + 1))
        for position, key in enumerate(keys.tolist()):
            late = tuple(np.asarray(column)[position : position + 1] for column in partial)
            self._insert(sequence, late, key)

    def _insert(self, sequence: int, late: Columns, key: int) -> None:
        """Brings a late record to its place in one deque, and drops what no answer can name any more."""
        combine = self.statistic.combine
        deque = dict(self.entries(key))
        deque[sequence] = combine(deque[sequence], late) if sequence in deque else late
        kept: list[tuple[int, Columns]] = []
        for number in sorted(deque, reverse=True):
            if not kept or not same_records(combine(deque[number], kept[-1][1]), kept[-1][1]):
                kept.append((number, deque[number]))
        for place, (number, record) in zip(self._places(key, len(kept)), reversed(kept), strict=True):
            self._table[self._entry(place, key)] = number
            for column, value in zip(self._columns, record, strict=True):
                column[place, key : key + 1] = value
        self._table[self._width + key] = len(kept)

    def _places(self, key: int, count: int) -> list[int]:
        """The slots of the first entries of a deque."""
        return [(int(self._table[key]) + n) % self._slots for n in range(count)]

    def _entry(self, place: int, key: int) -> int:
        """Where in the table the number of an entry is."""
        return 2 * self._width + int(self._ix[ROOM]) + place * self._width + key


def _rows(partials: Columns, part: slice) -> Columns:
    return tuple(column[part] for column in partials)


class _Table:
    """The table of a deque kernel, as tables."""

    def __init__(self, snapshot: Snapshot) -> None:
        slots, room = int(snapshot.index[SLOTS]), int(snapshot.index[ROOM])
        keys = snapshot.columns[0].shape[1]
        self.table = snapshot.table
        self.per_key = self.table[: 2 * keys].reshape(2, keys)
        """Heads and lengths."""

        self.entries = self.table[2 * keys + room :].reshape(slots, keys)
        """Sequence numbers, by slot and key."""
