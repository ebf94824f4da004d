"""The index of a group: finds, for thousands of subscriptions at once, the rows of a batch that each of them takes.

Every conjunction of every subscription is a **box**: the values that it allows of each of its subjects, a published
column, how two columns compare, or the place of a row in a span. Constants cut the values of a subject into elementary
intervals (`weft/predicates/row_matching.py`), so a box is a few ranges of numbers of intervals along the axes that
subjects are, and is entered under one axis: the one of which it wants the smallest part. For a batch

1  rows are sorted by their intervals, once for each axis that boxes are entered under;
2  the rows that a box may hold are then a slice, whose ends are found for all boxes together by binary search;
3  the candidates, and only they, are compared with the rest of their box, all boxes together, axis by axis;
4  then with schedules and with the windows of joins, again together.

Time: O(rows · log rows + boxes · log rows + candidates · axes), in NumPy; space: candidates, in portions. With 1,000 or
10,000 selective members the candidates are about as many as the rows that are delivered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.algebra.expressions import Value
from weft.arrays.ordinals import Mask, Positions, is_text_array, ordinals, positions_in_ranges
from weft.delivery.delivery_errors import DeliveryError
from weft.delivery.itinerary import Span, needed
from weft.plan.subscription import Comparison, Conjunction, Meeting, Subscription
from weft.predicates import domains, row_matching
from weft.predicates.row_matching import (
    ColumnCombination,
    ColumnComparison,
    LargestColumn,
    PlainColumn,
    Ranges,
    SubjectIntervals,
)

#: What a conjunction allows, of each subject that it speaks of.
Box = dict[row_matching.Value, domains.ValueSet]

_NULLNESS: Final = {"is null": domains.ONLY_NULL, "is not null": domains.EVERYTHING}
_ORDERED: Final = (
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_temporal,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_null,
    is_text_array,
)

#: A number after those of all intervals.
_LAST: Final = 2**31 - 1
_ANYWHERE: Final[Ranges] = ((0, _LAST),)

_PORTION: Final = 1 << 21
_FOREVER: Final = 2**62


class Index:
    """The legs that members have in one group. It is not changed once it is made."""

    def __init__(self, legs: Sequence[tuple[str, Subscription, Span]]) -> None:
        self._members = list(dict.fromkeys(member for member, _, _ in legs))
        number = {member: at for at, member in enumerate(self._members)}
        self._needs = [needed(subscription, span) for _, subscription, span in legs]
        self._member_of_leg = np.array([number[member] for member, _, _ in legs], dtype=np.int64)
        self._epoch = np.array([span.epoch for _, _, span in legs], dtype=np.int64)
        # The cycles from and before which each leg has rows.
        bounds = [(None, None) if span.by else (span.since, span.until) for _, _, span in legs]
        self._since = np.array([-_FOREVER if since is None else since for since, _ in bounds], dtype=np.int64)
        self._until = np.array([_FOREVER if until is None else until for _, until in bounds], dtype=np.int64)
        try:
            boxes = [
                (leg, box)
                for leg, (_, subscription, span) in enumerate(legs)
                for conjunction in subscription.any_of
                if (box := box_of(conjunction, span)) is not None
            ]
            allowed: dict[row_matching.Value, list[domains.ValueSet]] = {}
            for _, box in boxes:
                for subject, values in box.items():
                    allowed.setdefault(subject, []).append(values)
            subjects = {subject: SubjectIntervals(subject, sets) for subject, sets in allowed.items()}
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

    def matches(self, rows: pa.RecordBatch, epoch: int, cycle: int) -> Iterator[tuple[str, Positions]]:
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
            parts = {
                axis: sum(high - low + 1 for low, high in ranges) / (self._axes[axis].null + 1)
                for axis, ranges in box.items()
            }
            least = min(parts, key=parts.__getitem__, default=None)
            wanted = _ANYWHERE if least is None else box[least]
            entries.setdefault(least, []).extend((at, low, high) for low, high in wanted)
        self._entries = {axis: np.array(listed, dtype=np.int64) for axis, listed in entries.items()}

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
            # As many candidates at once as fit in memory.
            for portion in _runs(np.cumsum(counts[some]) // _PORTION):
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


def _runs(numbers: Positions) -> Iterator[slice]:
    """Slices of equal neighbours."""
    if len(numbers):
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]]).tolist()
        yield from map(slice, starts, [*starts[1:], len(numbers)])


# -- subscriptions as boxes -------------------------------------------------------------------------------------------


def box_of(conjunction: Conjunction, span: Span) -> Box | None:
    """What a row must be to be one that a conjunction holds for, and in a span as far as rows tell; None if none is."""
    demands = [_allowed(each) for each in conjunction]
    bounds = ((">=", span.since), ("<", span.until)) if span.by else ()
    demands += [(LargestColumn(span.by), domains.satisfying(op, place_of(at))) for op, at in bounds if at is not None]
    box: Box = {}
    for subject, values in demands:
        box[subject] = domains.intersection(box[subject], values) if subject in box else values
    return None if any(values.is_empty for values in box.values()) else box


def _allowed(each: Comparison) -> tuple[row_matching.Value, domains.ValueSet]:
    """The values of a subject for which a comparison holds."""
    if each.op in _NULLNESS:
        return PlainColumn(each.column), _NULLNESS[each.op]
    if each.other is not None:
        return ColumnComparison(each.column, each.other), domains.satisfying(each.op, place_of(0))
    operator, constants = ("=", each.value) if isinstance(each.value, tuple) else (each.op, (each.value,))
    places = (place_of(one) for one in constants if one is not None)
    return PlainColumn(each.column), domains.union(domains.satisfying(operator, place) for place in places)


def place_of(constant: Value) -> domains.Place:
    """A constant as something that compares with all others of its column, be they exact or not."""
    if isinstance(constant, str | bytes):
        return constant
    if isinstance(constant, date):
        return (0, int(domains.days(constant)))
    assert constant is not None
    return domains.NAN if math.isnan(constant) else (0, constant)  # type: ignore[return-value]


def numbers_of(subject: SubjectIntervals, rows: pa.Table | pa.RecordBatch) -> Positions:
    """The number of each row's interval. Raises DeliveryError if types of columns do not fit the constants."""
    value = subject.value
    assert not isinstance(value, ColumnCombination)
    if isinstance(value, PlainColumn):
        names: tuple[str, ...] = (value.column,)
    else:
        names = value.columns if isinstance(value, LargestColumn) else (value.left, value.right)
    types = [rows.schema.field(name).type for name in names]
    for type_ in types:
        if not any(test(type_) for test in _ORDERED):
            raise DeliveryError(f"a column of type {type_} cannot be compared")
    if isinstance(value, PlainColumn):
        if pa.types.is_null(types[0]):
            return np.full(rows.num_rows, subject.null)
        constant = subject.cuts[0][1] if subject.cuts else None
        if constant is not None and is_text_array(types[0]) != isinstance(constant, str | bytes):
            shown = "NaN" if constant == domains.NAN else repr(constant[1] if isinstance(constant, tuple) else constant)
            raise DeliveryError(f"a column of type {types[0]} is compared with {shown}")
    elif len({is_text_array(type_) for type_ in types}) > 1:
        raise DeliveryError(f"a column of type {types[0]} is compared with one of type {types[1]}")
    return subject.numbers(rows)


# -- windows of joins -------------------------------------------------------------------------------------------------


class Meetings:
    """The windows of joins, one for each leg at most; legs whose clocks are the same columns are tested together.

    Rows are together in their windows at the first instant origin + k · slide that is not before the newest clock.
    """

    def __init__(self, meetings: Sequence[Meeting | None]) -> None:
        self._columns = [() if each is None else tuple(sorted(each.ranges)) for each in meetings]
        clocks = [tuple(name for name, _ in each) for each in self._columns]
        self._kinds = list(dict.fromkeys(clocks))
        self._kind = np.array([self._kinds.index(each) for each in clocks], dtype=np.int64)
        self._slide = np.array([1 if each is None else each.slide for each in meetings], dtype=np.int64)
        origins = [0 if each is None else each.origin % each.slide for each in meetings]
        self._origin = np.array(origins, dtype=np.int64)
        self._ranges = np.zeros((max(map(len, clocks), default=0), len(meetings)), dtype=np.uint64)
        for leg, ranges in enumerate(self._columns):
            self._ranges[: len(ranges), leg] = [min(range_, 2**63 - 1) for _, range_ in ranges]

    def holds(self, rows: pa.RecordBatch, legs: Positions, at: Positions) -> Mask:
        """Whether the row beside each leg is together in the leg's windows."""
        held = np.ones(len(legs), dtype=bool)
        kinds = self._kind[legs]
        for number, names in enumerate(self._kinds):
            if names and len(mine := np.flatnonzero(kinds == number)):
                clocks = [ordinals(rows.column(name)) for name in names]
                absent = np.any([nulls for _, nulls in clocks], axis=0)[at[mine]]
                held[mine] = ~absent & self._meet(np.stack([each[at[mine]] for each, _ in clocks]), legs[mine])
        return held

    def _meet(self, clocks: npt.NDArray[np.int64], legs: Positions) -> Mask:
        slide, origin = self._slide[legs], self._origin[legs]
        newest = clocks.max(axis=0)
        until_instant = (origin - newest % slide) % slide
        # Clocks may be 2⁶³ apart, which is one more than 64 bits with a sign can tell.
        ages = (newest.view(np.uint64) - clocks.view(np.uint64)) + until_instant.astype(np.uint64)
        return np.asarray((ages < self._ranges[: len(clocks), legs]).all(axis=0))
