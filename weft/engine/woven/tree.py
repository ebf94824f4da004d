"""The windows of one partition group: partials of cells in, aggregates of closed windows out.

    cells       |--|--|--|--|--|--|--|--|--|--|--|      as Spark delivers them
    fragments   |-----|--------|-----|--------|--       as far as these windows tell them apart
                              ^ front      ^ watermark

Fragments that end before the watermark are in the kernels; partials of later ones wait. A late row of a fragment that
is in the kernels is combined into it there, as long as some open window covers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.aggregation.grouped import GroupedWindows
from weft.aggregation.grouped import Partials as Fragments
from weft.aggregation.rows import ADD_FLOATS, ADD_INTS
from weft.aggregation.statistic import Array, Columns, Number, Statistic, fold
from weft.algebra import Window
from weft.plan.clockwork import first_open_start
from weft.windows import edges_between, fragment_at, most_partials, shared_edges

#: Fragments that are taken in at once: what is dense in a call is as long as this, whatever the gaps in a stream.
_AT_ONCE = 512


@dataclass(frozen=True)
class TreeSpec:
    """What makes a tree: two with the same are the same."""

    conditions: frozenset[str]
    keys: tuple[str, ...]
    #: The longest range first.
    windows: tuple[Window, ...]
    measures: tuple[str, ...]


@dataclass(frozen=True)
class Cellwise:
    """Partials by the start of their cell and the number of their key, and the records of each measure by its name."""

    cells: NDArray[np.int64]
    keys: NDArray[np.int64]
    records: Mapping[str, Columns]

    def __len__(self) -> int:
        return len(self.cells)

    def where(self, wanted: NDArray[np.bool_]) -> Cellwise:
        return Cellwise(self.cells[wanted], self.keys[wanted], _taken(self.records, wanted))


@dataclass(frozen=True)
class Groups:
    """Groups of closed instances: the end of each one's instance, the number of its key, its records."""

    ends: NDArray[np.int64]
    keys: NDArray[np.int64]
    records: Mapping[str, Columns]


class Tree:
    """Kernels over the fragments of some windows."""

    def __init__(self, spec: TreeSpec, statistics: Mapping[str, Statistic], kernels: Mapping[str, str]) -> None:
        self.spec = spec
        self._statistics = {name: statistics[name] for name in spec.measures}
        self._kernels = kernels
        self._edges = shared_edges(spec.windows)
        self._ranges = np.array([window.range for window in spec.windows], dtype=np.int64)
        self._slides = np.array([window.slide for window in spec.windows], dtype=np.int64)
        self._phases = np.array([window.origin + (window.range or 0) for window in spec.windows], dtype=np.int64)
        self._capacity = most_partials(self._edges, int(self._ranges[0])) + 1
        self._waiting: list[Cellwise] = []
        self._start_over()

    def _start_over(self) -> None:
        self._windows = GroupedWindows(self._statistics, self._kernels, self._capacity, len(self.spec.windows))
        self._front: int | None = None
        #: Where the fragments in the kernels begin, the oldest first, and the number of that one.
        self._begins = np.empty(0, dtype=np.int64)
        self._first = 0

    @property
    def number_of_keys(self) -> int:
        """How many keys have partials in an open window."""
        return self._windows.number_of_keys

    def bytes_for(self, keys: int) -> int:
        """About the memory that the tree needs for so many live keys."""
        fields = sum(len(each.fields) for each in self._statistics.values() if not each.rare)
        return 8 * fields * self._capacity * max(keys, self.number_of_keys)

    def take(self, arrived: Cellwise | None, before: int | None, until: int | None) -> dict[Window, list[Groups]]:
        """Take in partials and go on to a watermark; `before` is what it was. Gives the groups that have closed."""
        if arrived is not None and before is not None:
            arrived = arrived.where(arrived.cells >= self._oldest_open(before))
        if arrived is not None and len(arrived):
            self._waiting.append(self._amended(arrived))
        if until is None or not (self._waiting or self._front is not None):
            return {}
        waiting = _joined(self._waiting, self._statistics)
        self._set_off(waiting, until)
        closed: dict[Window, list[Groups]] = {}
        while self._front is not None:
            edges = self._next_edges(waiting, until)
            if not len(edges):
                break
            done = waiting.cells < edges[-1]
            self._push(edges, waiting.where(done), closed)
            waiting = waiting.where(~done)
            if not len(waiting) and not self._windows.number_of_keys:
                self._start_over()
        self._waiting = [waiting] if len(waiting) else []
        return closed

    def _oldest_open(self, watermark: int) -> int:
        """The start of the oldest instance that is open at a watermark: rows before it are late for all windows."""
        starts = (first_open_start(window, watermark) for window in self.spec.windows)
        return min(start for start in starts if start is not None)

    def _set_off(self, waiting: Cellwise, until: int) -> None:
        """Choose the first fragment: not after anything that is there, or that can still come for an open window."""
        if self._front is None and len(waiting):
            oldest = min(int(waiting.cells.min()), self._oldest_open(until))
            self._front = fragment_at(self._edges, oldest).start

    def _next_edges(self, waiting: Cellwise, until: int) -> NDArray[np.int64]:
        """The ends of the next fragments that are complete at a watermark."""
        assert self._front is not None
        if not self._windows.number_of_keys and len(waiting):
            # Nothing is in the kernels: what lies before the next partial need not be walked through.
            oldest = min(int(waiting.cells.min()), self._oldest_open(until))
            start = fragment_at(self._edges, oldest).start
            if start > self._front:
                self._start_over()
                self._front = start
        step = int(self._slides.min())
        horizon = min(until, self._front + _AT_ONCE * step)
        edges = edges_between(self._edges, self._front, horizon)
        if not len(edges) and horizon < until:
            edges = edges_between(self._edges, self._front, until)
        return np.asarray(edges[:_AT_ONCE])

    def _amended(self, arrived: Cellwise) -> Cellwise:
        """Combine what is late into the fragments that the kernels hold; the rest comes back."""
        if self._front is None:
            return arrived
        late = arrived.cells < self._front
        held = late & (arrived.cells >= self._begins[0]) if len(self._begins) else np.zeros_like(late)
        if held.any():
            some = arrived.where(held)
            fragments = np.searchsorted(self._begins, some.cells, side="right") - 1
            for fragment in np.unique(fragments).tolist():
                part = some.where(fragments == fragment)
                keys, records = folded(part.keys, part.records, self._statistics)
                self._windows.amend(self._first + fragment, keys, records)
        return arrived.where(~late)

    def _push(self, edges: NDArray[np.int64], partials: Cellwise, closed: dict[Window, list[Groups]]) -> None:
        begins = np.concatenate([[self._front], edges[:-1]])
        self._begins = np.concatenate([self._begins, begins])
        # Between a hopping window's instances nothing is asked, and the newest fragment is as good a start as any.
        newest = np.arange(len(self._begins) - len(edges), len(self._begins))[:, None]
        starts = np.minimum(np.searchsorted(self._begins, edges[:, None] - self._ranges), newest) + self._first
        due = (edges[:, None] - self._phases) % self._slides == 0
        fragments = np.searchsorted(edges, partials.cells, side="right")
        width = int(partials.keys.max()) + 1 if len(partials) else 1
        codes, records = folded(fragments * width + partials.keys, partials.records, self._statistics)
        found = self._windows.slide(Fragments(codes // width, codes % width, records), len(edges), starts, due)
        self._gather(found.keys, found.records, edges, due, closed)
        self._front = int(edges[-1])
        gone = int(starts[-1].min()) - self._first
        self._begins, self._first = self._begins[gone:], self._first + gone

    def _gather(
        self,
        keys: NDArray[np.int64],
        records: Mapping[str, Columns],
        edges: NDArray[np.int64],
        due: NDArray[np.bool_],
        closed: dict[Window, list[Groups]],
    ) -> None:
        """Sort the answers of a slide by window; only groups that have rows are groups."""
        (counted,) = records[self.spec.measures[0]]
        fragment, window = np.nonzero(due)
        entries = {name: tuple(np.ravel(column) for column in columns) for name, columns in records.items()}
        for number, each in enumerate(self.spec.windows):
            rows = np.flatnonzero(window == number)
            answer, key = np.nonzero(counted[rows])
            if len(answer):
                at = rows[answer]
                flat = at * len(keys) + key
                picked = {name: tuple(column[flat] for column in of) for name, of in entries.items()}
                closed.setdefault(each, []).append(Groups(edges[fragment[at]], keys[key], picked))


class Folding:
    """How records are brought together by code: found once, used for every statistic."""

    def __init__(self, codes: NDArray[np.int64]) -> None:
        self._order = np.argsort(codes, kind="stable")
        ordered = codes[self._order]
        self._is_first = np.append(True, ordered[1:] != ordered[:-1]) if len(codes) else np.empty(0, dtype=bool)
        self._begins = np.flatnonzero(self._is_first)
        #: The codes that there are, ascending.
        self.codes = ordered[self._begins]

    def combined(self, statistic: Statistic, records: Columns) -> Columns:
        """One record for each code."""
        columns = tuple(column[self._order] for column in records)
        if len(self._begins) == len(self._order):
            return columns
        combine = _REDUCERS.get(statistic.number) or (np.add if statistic.rows in (ADD_INTS, ADD_FLOATS) else None)
        if combine is not None:
            return tuple(combine.reduceat(column, self._begins) for column in columns)
        return fold(statistic, columns, np.cumsum(self._is_first) - 1, len(self._begins))


def folded(
    codes: NDArray[np.int64], records: Mapping[str, Columns], statistics: Mapping[str, Statistic]
) -> tuple[NDArray[np.int64], dict[str, Columns]]:
    """The records with equal codes combined: the codes, ascending, and one record each."""
    folding = Folding(codes)
    return folding.codes, {name: folding.combined(each, records[name]) for name, each in statistics.items()}


_REDUCERS: dict[Number | None, np.ufunc] = {
    Number.ADD: np.add,
    Number.GREATEST: np.maximum,
    Number.LEAST: np.minimum,
}


def _joined(parts: Sequence[Cellwise], statistics: Mapping[str, Statistic]) -> Cellwise:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        nothing = np.empty(0, dtype=np.int64)
        return Cellwise(nothing, nothing, {name: each.empty(0) for name, each in statistics.items()})
    records = {name: concatenated([part.records[name] for part in parts]) for name in statistics}
    cells, keys = concatenated([(part.cells, part.keys) for part in parts])
    return Cellwise(cells, keys, records)


def concatenated(parts: Sequence[Columns]) -> Columns:
    """Records one after the other, column by column."""
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _taken(records: Mapping[str, Columns], wanted: Array) -> dict[str, Columns]:
    return {name: tuple(column[wanted] for column in columns) for name, columns in records.items()}
