"""The index of a group: finds, for thousands of subscriptions at once, the rows of a batch that each of them takes.

Every conjunction of every subscription is a box over the subjects of `conditions`, its axes. A box is entered under one
axis: the one of which it wants the smallest part. For a batch

1  rows are sorted by their intervals, once for each axis that boxes are entered under;
2  the rows that a box may hold are then a slice, whose ends are found for all boxes together by binary search;
3  the candidates, and only they, are compared with the rest of their box, all boxes together, axis by axis;
4  then with schedules and with the windows of joins, again together.

Time: O(rows · log rows + boxes · log rows + candidates · axes), in NumPy; space: candidates, in portions. With 1,000 or
10,000 selective members the candidates are about as many as the rows that are delivered.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from weft.arrays.chunks import positions_in_ranges
from weft.arrays.ordinals import Mask, Positions
from weft.delivery.log.delivery_errors import DeliveryError
from weft.delivery.log.itinerary import Span, needed
from weft.delivery.matching.conditions import Meetings, box_of, numbers_of, subjects_of
from weft.plan.subscription import Meeting, Subscription
from weft.predicates.row_matching import Ranges

Member = TypeVar("Member", bound=Hashable)

#: A number after those of all intervals.
_LAST: Final = 2**31 - 1
_ANYWHERE: Final[Ranges] = ((0, _LAST),)

_PORTION: Final = 1 << 21
_FOREVER: Final = 2**62


class Index(Generic[Member]):
    """The legs that members have in one group. It is not changed once it is made."""

    def __init__(self, legs: Sequence[tuple[Member, Subscription, Span]]) -> None:
        self._members = list(dict.fromkeys(member for member, _, _ in legs))
        number = {member: at for at, member in enumerate(self._members)}
        self._needs = [needed(subscription, span) for _, subscription, span in legs]
        self._member_of_leg = np.array([number[member] for member, _, _ in legs], dtype=np.int64)
        self._epoch = np.array([span.epoch for _, _, span in legs], dtype=np.int64)
        self._since, self._until = _cycles([span for _, _, span in legs])
        try:
            boxes = [
                (leg, box)
                for leg, (_, subscription, span) in enumerate(legs)
                for conjunction in subscription.any_of
                if (box := box_of(conjunction, span)) is not None
            ]
            subjects = subjects_of(box for _, box in boxes)
        except TypeError as error:
            raise DeliveryError(f"a column is compared with constants that cannot be ordered: {error}") from error
        self._axes = list(subjects.values())
        axis_of = {subject: axis for axis, subject in enumerate(subjects)}
        self._leg = np.array([leg for leg, _ in boxes], dtype=np.int64)
        self._enter(
            [{axis_of[each]: subjects[each].ranges(values) for each, values in box.items()} for _, box in boxes]
        )
        # A window instance whose end is on a schedule is a row that meets, alone, for an instant.
        schedules = [subscription.schedule for _, subscription, _ in legs]
        ends = [None if each is None else Meeting(((each.column, 1),), each.slide, each.origin) for each in schedules]
        self._meetings = Meetings(ends), Meetings([subscription.meeting for _, subscription, _ in legs])
        self._present: dict[tuple[str, ...], Mask] = {}

    def matches(self, rows: pa.RecordBatch, epoch: int, cycle: int) -> Iterator[tuple[Member, Positions]]:
        """The members that take rows of a batch, each with the positions of its rows in ascending order."""
        live = (self._epoch == epoch) & (self._since <= cycle) & (cycle < self._until) & self._answerable(rows)
        if not live.any() or not rows.num_rows:
            return
        found = [self._survivors(rows, boxes, at) for boxes, at in self._candidates(rows, live)]
        if not found:
            return
        # A row that several conjunctions or spans of a member give is one row.
        codes = np.sort(np.concatenate(found))
        codes = codes[np.flatnonzero(np.diff(codes, prepend=-1))]
        members, positions = codes // rows.num_rows, codes % rows.num_rows
        for run in _runs(members):
            yield self._members[members[run.start]], positions[run]

    def _enter(self, boxes: Sequence[Mapping[int, Ranges]]) -> None:
        """Enter each box under the axis of which it wants least: once for each of its ranges there.

        What it allows of each axis is noted from a first interval to a last; gaps in between are looked at apart.
        """
        shape = len(boxes), len(self._axes)
        self._low, self._high = np.zeros(shape, np.int32), np.full(shape, _LAST, np.int32)
        self._gaps: dict[int, list[tuple[int, Ranges]]] = {}
        entries: dict[int | None, list[tuple[int, int, int]]] = {}
        for at, box in enumerate(boxes):
            for axis, ranges in box.items():
                self._low[at, axis], self._high[at, axis] = ranges[0][0], ranges[-1][1]
                if len(ranges) > 1:
                    self._gaps.setdefault(at, []).append((axis, ranges))
            least = min(box, key=lambda axis: self._part(axis, box[axis]), default=None)
            wanted = _ANYWHERE if least is None else box[least]
            entries.setdefault(least, []).extend((at, low, high) for low, high in wanted)
        self._entries = {axis: np.array(listed, dtype=np.int64) for axis, listed in entries.items()}

    def _part(self, axis: int, ranges: Ranges) -> float:
        return sum(high - low + 1 for low, high in ranges) / (self._axes[axis].null + 1)

    # -- finding ------------------------------------------------------------------------------------------------------

    def _answerable(self, rows: pa.RecordBatch) -> Mask:
        """The legs whose columns are all there. Others have no rows here: these were sent for someone else."""
        names = tuple(rows.schema.names)
        if names not in self._present:
            there = set(names)
            self._present[names] = np.array([needs <= there for needs in self._needs], dtype=bool)
        return self._present[names]

    def _candidates(self, rows: pa.RecordBatch, live: Mask) -> Iterator[tuple[Any, Any]]:
        """Pairs of boxes and rows that may belong together, in portions."""
        self._known: dict[int, Positions] = {}
        for axis, entries in self._entries.items():
            entered = entries[live[self._leg[entries[:, 0]]]]
            if not len(entered):
                continue
            if axis is None:
                order = np.arange(rows.num_rows)
                starts, counts = np.zeros(len(entered), np.int64), np.full(len(entered), rows.num_rows)
            else:
                found = self._numbers(rows, axis)
                order = np.argsort(found, kind="stable")
                ordered = found[order]
                starts = np.searchsorted(ordered, entered[:, 1], "left")
                counts = np.searchsorted(ordered, entered[:, 2], "right") - starts
            some = counts > 0
            for portion in _portions(counts[some]):
                boxes, begin, count = entered[some][portion, 0], starts[some][portion], counts[some][portion]
                yield np.repeat(boxes, count), order[positions_in_ranges(begin, count)]

    def _survivors(self, rows: pa.RecordBatch, boxes: Any, at: Any) -> Positions:
        """The candidates that satisfy all of their box, its schedule and its windows, as member · rows + row."""
        used = (self._low[boxes] > 0) | (self._high[boxes] < _LAST)
        for axis in np.flatnonzero(used.any(axis=0)):
            found = self._numbers(rows, int(axis))[at]
            held = (self._low[boxes, axis] <= found) & (found <= self._high[boxes, axis])
            boxes, at = boxes[held], at[held]
        boxes, at = self._outside_gaps(rows, boxes, at)
        for check in self._meetings:
            held = check.holds(rows, self._leg[boxes], at)
            boxes, at = boxes[held], at[held]
        survivors: Positions = self._member_of_leg[self._leg[boxes]] * rows.num_rows + at
        return survivors

    def _outside_gaps(self, rows: pa.RecordBatch, boxes: Any, at: Any) -> tuple[Any, Any]:
        if not self._gaps:
            return boxes, at
        held = np.ones(len(boxes), dtype=bool)
        for box in np.unique(boxes):
            for axis, ranges in self._gaps.get(int(box), ()):
                mine = np.flatnonzero(boxes == box)
                found = self._numbers(rows, axis)[at[mine]]
                bounds = np.array(ranges)
                place = np.searchsorted(bounds[:, 0], found, "right") - 1
                held[mine] &= (place >= 0) & (found <= bounds[place, 1])
        return boxes[held], at[held]

    def _numbers(self, rows: pa.RecordBatch, axis: int) -> Positions:
        if axis not in self._known:
            self._known[axis] = numbers_of(self._axes[axis], rows)
        return self._known[axis]


def _cycles(spans: Sequence[Span]) -> tuple[Positions, Positions]:
    """The cycles from and before which each span has rows."""
    since = [span.since if not span.by and span.since is not None else -_FOREVER for span in spans]
    until = [span.until if not span.by and span.until is not None else _FOREVER for span in spans]
    return np.array(since, dtype=np.int64), np.array(until, dtype=np.int64)


def _portions(counts: Positions) -> Iterator[slice]:
    """Slices of entries that have about as many candidates as fit in memory at once."""
    return _runs(np.cumsum(counts) // _PORTION)


def _runs(numbers: Positions) -> Iterator[slice]:
    """Slices of equal neighbours."""
    if len(numbers):
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]]).tolist()
        yield from map(slice, starts, [*starts[1:], len(numbers)])
