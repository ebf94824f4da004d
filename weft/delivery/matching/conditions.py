"""Subscriptions as boxes: for each conjunction, the values that it allows of each subject.

A subject is what rows are looked up by: a published column, how two columns compare, or the place of a row in a span.
Constants cut the values of a subject into elementary intervals (`weft/predicates/row_matching.py`), so a box is a few
ranges of numbers of intervals, and rows lie in it or not by their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.algebra.expressions import Value
from weft.arrays.ordinals import Mask, Positions, is_text_array, ordinals
from weft.delivery.log.delivery_errors import DeliveryError
from weft.delivery.log.itinerary import Span
from weft.plan.subscription import Comparison, Conjunction, Meeting
from weft.predicates import domains, row_matching
from weft.predicates.row_matching import (
    Check,
    ColumnCombination,
    ColumnComparison,
    LargestColumn,
    PlainColumn,
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


def clause_of(each: Comparison) -> tuple[Check, ...]:
    """A comparison as checks of which one has to hold: as none, if it holds for no row."""
    if each.op in _NULLNESS:
        return (Check(PlainColumn(each.column), each.op, None, _NULLNESS[each.op]),)
    if each.other is not None:
        return (_check(ColumnComparison(each.column, each.other), each.op, 0),)
    constants = each.value if isinstance(each.value, tuple) else (each.value,)
    operator = "=" if each.op == "in" else each.op
    return tuple(_check(PlainColumn(each.column), operator, one) for one in constants if one is not None)


def _check(subject: row_matching.Value, operator: str, constant: Value) -> Check:
    bound = place_of(constant)
    return Check(subject, operator, bound, domains.satisfying(operator, bound))


def place_of(constant: Value) -> domains.Place:
    """A constant as something that compares with all others of its column, be they exact or not."""
    if isinstance(constant, str | bytes):
        return constant
    if isinstance(constant, date):
        return (0, int(domains.days(constant)))
    assert constant is not None
    return domains.NAN if math.isnan(constant) else (0, constant)  # type: ignore[return-value]


def box_of(conjunction: Conjunction, span: Span) -> Box | None:
    """What a row must be to be one that a conjunction holds for, and in a span as far as rows tell; None if none is."""
    clauses = [clause_of(each) for each in conjunction]
    if span.by:
        bounds = ((">=", span.since), ("<", span.until))
        clauses += [(_check(LargestColumn(span.by), op, at),) for op, at in bounds if at is not None]
    box: Box = {}
    for clause in clauses:
        if not clause:
            return None
        values = clause[0].values if len(clause) == 1 else domains.union(check.values for check in clause)
        subject = clause[0].value
        box[subject] = domains.intersection(box[subject], values) if subject in box else values
    return None if any(values.is_empty for values in box.values()) else box


def subjects_of(boxes: Iterable[Box]) -> dict[row_matching.Value, SubjectIntervals]:
    """The intervals of each subject."""
    found: dict[row_matching.Value, list[domains.ValueSet]] = {}
    for box in boxes:
        for subject, values in box.items():
            found.setdefault(subject, []).append(values)
    return {subject: SubjectIntervals(subject, sets) for subject, sets in found.items()}


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
