"""A window tree: partials of slices in, aggregates of closed windows out, for the windows of one cut.

    finest       |--|--|--|--|--|--|--|--|--|--|--|      slices as Spark delivers them
    slices       |-----|--------|-----|--------|--       as far as these windows tell them apart
                               ^ front      ^ watermark

Slices that end before the watermark are in the kernels; partials of later ones wait. A late row of a slice that
is in the kernels is combined into it there, as long as some open window covers it.

A tree is sparse or dense (`weft/kernels/sparse.py`). It begins sparse, since the number of keys is not yet known, and
becomes dense when that is better. A dense tree has no partials left to become sparse with: its owner lets it forget
everything, and feeds it the partials again from where they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.arrays.ordinals import positions_in_ranges
from weft.kernels.grouped import GroupedWindows, KernelPartials, WindowAnswers, bytes_per_key
from weft.kernels.sparse import AnswerRows, Crowd, SparseWindows, bytes_per_partial
from weft.kernels.statistic import Array, Columns, Statistic, fold, records_at
from weft.plan.nodes import TreeSpec
from weft.windows import slicing

#: Slices that are taken in at once: what is dense in a call is as long as this, whatever the gaps in a stream.
_AT_ONCE = 512


@dataclass(frozen=True)
class SlicePartials:
    """Partials by the start of their slice and the number of their key, with the records of each measure by name."""

    slices: NDArray[np.int64]
    keys: NDArray[np.int64]
    records: Mapping[str, Columns]

    def __len__(self) -> int:
        return len(self.slices)

    def at(self, places: Array | slice) -> SlicePartials:
        """Some of them; of a slice, nothing is copied."""
        return SlicePartials(self.slices[places], self.keys[places], _taken(self.records, places))

    def where(self, wanted: NDArray[np.bool_]) -> SlicePartials:
        # Mostly nothing is late, and all are wanted.
        return self if wanted.all() else self.at(wanted)

    def by_cell(self) -> SlicePartials:
        """The same, the oldest slices first, as the partials of one cycle mostly are."""
        is_ordered = np.all(self.slices[1:] >= self.slices[:-1])
        return self if is_ordered else self.at(np.argsort(self.slices, kind="stable"))


@dataclass(frozen=True)
class InstanceGroups:
    """Groups of closed instances: for each the position of its window, ascending, the end of its instance, its key's
    number, and its records. The numbers in `block` repeat `times` times."""

    windows: NDArray[np.intp]
    ends: NDArray[np.int64]
    block: NDArray[np.int64]
    records: Mapping[str, Columns]
    times: int = 1

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        return self.block if self.times == 1 else np.tile(self.block, self.times)


class WindowTree:
    """Kernels over the slices of some windows."""

    def __init__(self, spec: TreeSpec, statistics: Mapping[str, Statistic], kernels: Mapping[str, str]) -> None:
        self.spec = spec
        self._statistics = {name: statistics[name] for name in spec.measures}
        self.kernels = kernels
        self._edges = slicing.shared_edges(spec.windows)
        self.ranges = np.array([window.range for window in spec.windows], dtype=np.int64)
        self._slides = np.array([window.slide for window in spec.windows], dtype=np.int64)
        self._phases = np.array([window.origin + (window.range or 0) for window in spec.windows], dtype=np.int64)
        self._capacity = slicing.most_partials(self._edges, int(self.ranges[0])) + 1
        #: Kernels know each range once, the longest first; windows of one range share its answers.
        self._reaches = -np.unique(-self.ranges)
        self._reach_of = np.searchsorted(-self._reaches, -self.ranges)
        self._dense_key = bytes_per_key(self._statistics, kernels, self._capacity, len(self._reaches))
        self._sparse_partial = bytes_per_partial(self._statistics)
        self._frugal = False
        #: The windows that some query reads.
        self._wanted = np.ones(len(spec.windows), dtype=bool)
        self._windows: GroupedWindows | SparseWindows
        self.forget()

    def ask_for(self, windows: Set[Window]) -> None:
        """Answer only these of the windows from now on."""
        self._wanted = np.array([each in windows for each in self.spec.windows], dtype=bool)

    def forget(self) -> None:
        """Forget all partials, and be sparse."""
        self._waiting: list[SlicePartials] = []
        self._start_over(is_sparse=True)

    def _start_over(self, *, is_sparse: bool) -> None:
        self._windows = SparseWindows(self._statistics, len(self._reaches)) if is_sparse else self._dense(0)
        self._front: int | None = None
        #: Where the slices in the kernels begin, the oldest first, and the partials of each.
        self._begins = np.empty(0, dtype=np.int64)
        self._sizes = np.empty(0, dtype=np.int64)

    def _dense(self, first: int) -> GroupedWindows:
        return GroupedWindows(self._statistics, self.kernels, self._capacity, len(self._reaches), first)

    # --- size --------------------------------------------------------------------------------------------------------

    @property
    def is_sparse(self) -> bool:
        """Whether only present partials take memory."""
        return isinstance(self._windows, SparseWindows)

    @property
    def number_of_keys(self) -> int:
        """How many keys have partials in an open window."""
        return self._windows.number_of_keys

    def crowd(self, keys: int = 0, partials: int = 0) -> Crowd:
        """The keys, partials and slices in the tree, or those after more partials of a number of keys have come."""
        held = int(self._sizes.sum()) + sum(len(each) for each in self._waiting)
        keys, slices = max(keys, self.number_of_keys), len(self._begins)
        waiting = [each.slices for each in self._waiting if len(each)]
        if waiting:
            since = min(int(each.min()) for each in waiting) if self._front is None else self._front
            slices += slicing.most_partials(self._edges, max(1, max(int(each.max()) for each in waiting) - since))
        return Crowd(keys, held + partials, slices, self._capacity, self._dense_key, self._sparse_partial)

    def bytes_for(self, crowd: Crowd) -> int:
        """About the memory that the tree needs for these keys and partials, in the form that it will have."""
        sparse = self._frugal or crowd.is_better_sparse(self.is_sparse)
        return crowd.sparse_bytes if sparse else crowd.dense_bytes

    def is_outgrown_by(self, crowd: Crowd) -> bool:
        """Whether the tree is dense and would be better off sparse."""
        return not self.is_sparse and crowd.is_better_sparse(sparse_now=False)

    def save_memory(self) -> bool:
        """Be sparse from now on, whatever it costs in time; True if all partials had to be forgotten for it."""
        self._frugal = True
        if self.is_sparse:
            return False
        self.forget()
        return True

    def _settle(self, waiting: SlicePartials) -> None:
        """Become dense if that is better with the partials that wait."""
        if not isinstance(self._windows, SparseWindows) or self._frugal:
            return
        if self.crowd(len(np.unique(waiting.keys))).is_better_sparse(sparse_now=True):
            return
        sparse, slices = self._windows, self._windows.next - self._windows.first
        dense, starts = self._dense(sparse.first), np.full((slices, len(self._reaches)), sparse.first)
        dense.slide(sparse.held(), slices, starts, np.zeros_like(starts, dtype=bool))
        self._windows = dense

    # --- taking in and answering -------------------------------------------------------------------------------------

    def take(self, arrived: SlicePartials | None, before: int | None, until: int | None) -> InstanceGroups | None:
        """Take in partials and advance to a watermark; `before` is the previous one. Returns the groups that closed.

        Instances that end before `before`, or with it, have closed already and are not answered again.
        """
        if arrived is not None and before is not None:
            arrived = arrived.where(arrived.slices >= self._oldest_open(before))
        if arrived is not None and len(arrived):
            self._waiting.append(self._amended(arrived))
        if until is None or not (self._waiting or self._front is not None):
            return None
        waiting = _joined(self._waiting, self._statistics).by_cell()
        # Stored partials come piece by piece, up to a watermark that was reached long before.
        known = until if before is None else max(before, until)
        if self._front is None and len(waiting):
            self._front = self._first_slice(waiting, known)
        self._settle(waiting)
        closed: list[InstanceGroups] = []
        while self._front is not None:
            edges = self._next_edges(waiting, until, known)
            if not len(edges):
                break
            done = int(np.searchsorted(waiting.slices, edges[-1]))
            closed.append(self._push(edges, waiting.at(slice(done)), before))
            waiting = waiting.at(slice(done, None))
            if not len(waiting) and self._windows.is_empty:
                self._start_over(is_sparse=self.is_sparse)
        self._waiting = [waiting] if len(waiting) else []
        return _in_order([each for each in closed if len(each)])

    def _oldest_open(self, watermark: int) -> int:
        """The start of the oldest instance that is open at a watermark: rows before it are late for all windows."""
        return slicing.oldest_open_start(self.ranges, self._slides, self._phases, watermark)

    def _first_slice(self, waiting: SlicePartials, watermark: int) -> int:
        """A slice that begins not after any partial that has come, or can still come for an open window."""
        return slicing.slice_start(self._edges, min(int(waiting.slices.min()), self._oldest_open(watermark)))

    def _next_edges(self, waiting: SlicePartials, until: int, watermark: int) -> NDArray[np.int64]:
        """The ends of the next slices that are complete at an instant, which is the watermark or before it."""
        assert self._front is not None
        if self._windows.is_empty and len(waiting):
            # The kernels are empty: slices before the next partial are skipped.
            start = self._first_slice(waiting, watermark)
            if start > self._front:
                self._start_over(is_sparse=self.is_sparse)
                self._front = start
        horizon = min(until, self._front + _AT_ONCE * int(self._slides.min()))
        edges = slicing.edges_between(self._edges, self._front, horizon)
        if not len(edges) and horizon < until:
            edges = slicing.edges_between(self._edges, self._front, until)
        return np.asarray(edges[:_AT_ONCE])

    def _amended(self, arrived: SlicePartials) -> SlicePartials:
        """Combine late partials into the slices that the kernels have; returns the others."""
        if self._front is None:
            return arrived
        late = arrived.slices < self._front
        held = late & (arrived.slices >= self._begins[0]) if len(self._begins) else np.zeros_like(late)
        if held.any():
            some = arrived.where(held)
            slices = np.searchsorted(self._begins, some.slices, side="right") - 1
            at, keys, records = self._folded(slices, some)
            self._windows.absorb(self._windows.first + at, keys, records)
        return arrived.where(~late)

    def _push(self, edges: NDArray[np.int64], partials: SlicePartials, before: int | None) -> InstanceGroups:
        first = self._windows.first
        self._begins = np.concatenate([self._begins, [self._front], edges[:-1]])
        # Between the instances of a hopping window no answer is due, and any start will do: the newest slice.
        newest = np.arange(len(self._begins) - len(edges), len(self._begins))[:, None]
        starts = np.minimum(np.searchsorted(self._begins, edges[:, None] - self._reaches), newest) + first
        due = ((edges[:, None] - self._phases) % self._slides == 0) & self._wanted
        if before is not None:
            due &= edges[:, None] > before
        asked = np.logical_or.reduceat(due, np.searchsorted(self._reach_of, np.arange(len(self._reaches))), axis=1)
        slices, keys, records = self._folded(np.searchsorted(edges, partials.slices, side="right"), partials)
        self._sizes = np.append(self._sizes, np.bincount(slices, minlength=len(edges)))
        found = self._windows.slide(KernelPartials(slices, keys, records), len(edges), starts, asked)
        self._front = int(edges[-1])
        gone = self._windows.first - first
        self._begins, self._sizes = self._begins[gone:], self._sizes[gone:]
        window, slice_ = np.nonzero(due.T)
        answers = (np.cumsum(asked).reshape(asked.shape) - 1)[slice_, self._reach_of[window]]
        if isinstance(found, WindowAnswers):
            return self._whole_rows(found, answers, window, edges[slice_])
        return _single_rows(found, answers, window, edges[slice_])

    def _folded(
        self, slices: NDArray[np.intp], partials: SlicePartials
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, Columns]]:
        """Partials by slice and key, one record for each pair."""
        width = int(partials.keys.max()) + 1 if len(partials) else 1
        codes, records = folded(slices * width + partials.keys, partials.records, self._statistics)
        return codes // width, codes % width, records

    def _whole_rows(
        self, found: WindowAnswers, answers: NDArray[np.intp], windows: NDArray[np.intp], ends: NDArray[np.int64]
    ) -> InstanceGroups:
        """The groups of some windows, window by window, from answers for all keys, without groups that have no rows."""
        (counted,) = found.records[self.spec.measures[0]]
        counted = counted[answers]
        # Whole rows of all keys are moved, and single entries only if some group is missing.
        records = {name: tuple(column[answers].ravel() for column in of) for name, of in found.records.items()}
        if counted.all():
            width = len(found.keys)
            return InstanceGroups(np.repeat(windows, width), np.repeat(ends, width), found.keys, records, len(answers))
        instance, key = np.nonzero(counted)
        records = _taken(records, instance * len(found.keys) + key)
        return InstanceGroups(windows[instance], ends[instance], found.keys[key], records)


def _single_rows(
    found: AnswerRows, answers: NDArray[np.intp], windows: NDArray[np.intp], ends: NDArray[np.int64]
) -> InstanceGroups:
    """The groups of some windows, window by window, from answers key by key; those of an answer lie together."""
    begins, number = np.flatnonzero(np.diff(found.answers, prepend=-1)), int(answers.max(initial=-1)) + 1
    first, sizes = np.zeros(number, dtype=np.int64), np.bincount(found.answers, minlength=number)
    first[found.answers[begins]] = begins
    instance = np.repeat(np.arange(len(answers)), sizes[answers])
    rows = positions_in_ranges(first[answers], sizes[answers])
    return InstanceGroups(windows[instance], ends[instance], found.keys[rows], _taken(found.records, rows))


class Folding:
    """How records are combined by code: computed once, used for every statistic."""

    def __init__(self, codes: NDArray[np.int64]) -> None:
        self._order: NDArray[np.intp] | None = None
        #: The present codes, ascending.
        self.codes = codes
        self._is_first = np.ones(len(codes), dtype=bool)
        if (codes[1:] > codes[:-1]).all():
            # Partials mostly come in order, one for each code.
            return
        self._order = np.argsort(codes, kind="stable")
        ordered = codes[self._order]
        np.not_equal(ordered[1:], ordered[:-1], out=self._is_first[1:])
        self.codes = ordered[self._is_first]

    def combined(self, statistic: Statistic, records: Columns) -> Columns:
        """One record for each code."""
        if self._order is None:
            return records
        columns = records_at(records, self._order)
        if len(self.codes) == len(self._order):
            return columns
        if statistic.ufunc is not None:
            begins = np.flatnonzero(self._is_first)
            return tuple(statistic.ufunc.reduceat(column, begins) for column in columns)
        return fold(statistic, columns, np.cumsum(self._is_first) - 1, len(self.codes))


def folded(
    codes: NDArray[np.int64], records: Mapping[str, Columns], statistics: Mapping[str, Statistic]
) -> tuple[NDArray[np.int64], dict[str, Columns]]:
    """The records with equal codes combined: the codes, ascending, and one record each."""
    folding = Folding(codes)
    return folding.codes, {name: folding.combined(each, records[name]) for name, each in statistics.items()}


def _joined(parts: Sequence[SlicePartials], statistics: Mapping[str, Statistic]) -> SlicePartials:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        nothing = np.empty(0, dtype=np.int64)
        return SlicePartials(nothing, nothing, {name: each.empty(0) for name, each in statistics.items()})
    records = {name: concatenated([part.records[name] for part in parts]) for name in statistics}
    slices, keys = concatenated([(part.slices, part.keys) for part in parts])
    return SlicePartials(slices, keys, records)


def _in_order(parts: Sequence[InstanceGroups]) -> InstanceGroups | None:
    """Groups of several slides, window by window."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    windows, ends, keys = concatenated([(part.windows, part.ends, part.keys) for part in parts])
    order = np.argsort(windows, kind="stable")
    records = {name: concatenated([part.records[name] for part in parts]) for name in parts[0].records}
    return InstanceGroups(windows[order], ends[order], keys[order], _taken(records, order))


def concatenated(parts: Sequence[Columns]) -> Columns:
    """Records one after the other, column by column."""
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _taken(records: Mapping[str, Columns], wanted: Array | slice) -> dict[str, Columns]:
    return {name: records_at(columns, wanted) for name, columns in records.items()}
