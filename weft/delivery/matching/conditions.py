"""Subscriptions as boxes: what each conjunction demands of each axis, in pieces of it.

An axis is what rows are looked up by: a published column, a comparison of two columns (which holds in piece 1), or the
place of a row in a span. Whatever a conjunction says of one axis comes down to a set of ranges of pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.algebra.expressions import Value
from weft.delivery.log.itinerary import Span
from weft.delivery.matching.places import (
    NULL_PIECE,
    Constants,
    Pieces,
    compared,
    constants,
    piece_of_constant,
    pieces,
    ranks_of,
)
from weft.plan.subscription import Comparison, Conjunction, Meeting, Schedule


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A published column."""

    name: str

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.name,)

    def pieces(self, rows: pa.RecordBatch, among: Constants) -> Pieces:
        return pieces(rows.column(self.name), among)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two published columns, compared."""

    left: str
    op: str
    right: str

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.left, self.right)

    def pieces(self, rows: pa.RecordBatch, among: Constants) -> Pieces:
        return compared(rows.column(self.left), self.op, rows.column(self.right))


@dataclass(frozen=True, slots=True)
class Latest:
    """The largest of some clocks: the place of a row in a span."""

    columns: tuple[str, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        return self.columns

    def pieces(self, rows: pa.RecordBatch, among: Constants) -> Pieces:
        clocks = [rows.column(name) for name in self.columns]
        absent = reduce(np.logical_or, (np.asarray(each.is_null()) for each in clocks))
        return pieces(pa.array(reduce(np.maximum, map(ranks_of, clocks)), mask=absent), among)


Axis: TypeAlias = PublishedColumn | Pair | Latest

#: Ranges of pieces, in order and apart from each other; both ends belong to them.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

#: More pieces than any axis has.
LAST: Final = 2**31 - 1
ANYWHERE: Final[Ranges] = ((NULL_PIECE, LAST),)
NOT_NULL: Final[Ranges] = ((0, LAST),)

#: What is asked of an axis, before its constants are known: comparisons that all have to hold.
Demands: TypeAlias = dict[Axis, list[tuple[str, Any]]]


def demands_of(conjunction: Conjunction, span: Span) -> Demands:
    """What a row must satisfy to be one that a conjunction holds for, and in a span as far as rows tell."""
    demands: Demands = {}
    for each in conjunction:
        axis, op, value = _demand(each)
        demands.setdefault(axis, []).append((op, value))
    if span.by and (span.since is not None or span.until is not None):
        asked = demands.setdefault(Latest(span.by), [])
        asked += [(">=", span.since)] if span.since is not None else []
        asked += [("<", span.until)] if span.until is not None else []
    return demands


def _demand(each: Comparison) -> tuple[Axis, str, Any]:
    if each.other is None:
        return PublishedColumn(each.column), each.op, each.value
    return Pair(each.column, each.op, each.other), "holds", None


def constants_of(all_demands: Iterable[Demands]) -> dict[Axis, Constants]:
    """The constants of each axis, in order."""
    found: dict[Axis, list[Value]] = {}
    for demands in all_demands:
        for axis, asked in demands.items():
            known = found.setdefault(axis, [])
            for _, value in asked:
                known.extend(value if isinstance(value, tuple) else (value,))
    return {axis: constants(values) for axis, values in found.items()}


def ranges_of(asked: Sequence[tuple[str, Any]], among: Sequence[Any]) -> Ranges:
    """The pieces in which all of some comparisons hold."""
    return reduce(_both, (_ranges(op, value, among) for op, value in asked), ANYWHERE)


def _ranges(op: str, value: Any, among: Sequence[Any]) -> Ranges:
    if op == "holds":
        return ((1, 1),)
    if op == "is null":
        return ((NULL_PIECE, NULL_PIECE),)
    if op == "is not null":
        return NOT_NULL
    if op == "in":
        points = sorted({piece_of_constant(each, among) for each in value if each is not None})
        return tuple((point, point) for point in points)
    if value is None:
        return ()
    piece = piece_of_constant(value, among)
    return _AROUND[op](piece)


_AROUND: Final[Mapping[str, Callable[[int], Ranges]]] = {
    "<": lambda piece: ((0, piece - 1),),
    "<=": lambda piece: ((0, piece),),
    "=": lambda piece: ((piece, piece),),
    "!=": lambda piece: ((0, piece - 1), (piece + 1, LAST)),
    ">": lambda piece: ((piece + 1, LAST),),
    ">=": lambda piece: ((piece, LAST),),
}


def _both(left: Ranges, right: Ranges) -> Ranges:
    met = ((max(a, c), min(b, d)) for a, b in left for c, d in right)
    return tuple(sorted((low, high) for low, high in met if low <= high))


# -- schedules of aggregates, and windows of joins -------------------------------------------------------------------

Numbers = npt.NDArray[np.int64]
Holds = npt.NDArray[np.bool_]
Condition = TypeVar("Condition", Meeting, Schedule)


class _ByColumns(Generic[Condition]):
    """Conditions of legs, those that read the same columns together."""

    def __init__(self, conditions: Sequence[Condition | None]) -> None:
        names = [() if each is None else self._columns(each) for each in conditions]
        self._kinds: list[tuple[str, ...]] = list(dict.fromkeys(names))
        self._kind: Numbers = np.array([self._kinds.index(each) for each in names], dtype=np.int64)
        zero: list[int] = [0] * max((len(each) for each in self._kinds), default=0)
        numbers = [[1, 0, *zero] if each is None else self._numbers(each, zero) for each in conditions]
        self._parameters = np.array(numbers, dtype=np.int64).reshape(len(conditions), len(zero) + 2)

    def holds(self, rows: pa.RecordBatch, legs: Numbers, at: Numbers) -> Holds:
        """Whether the condition of each leg holds for the row beside it."""
        held = np.ones(len(legs), dtype=bool)
        kinds = self._kind[legs]
        for number, names in enumerate(self._kinds):
            if names and len(mine := np.flatnonzero(kinds == number)):
                clocks = [rows.column(name) for name in names]
                there = ~np.any([np.asarray(each.is_null()) for each in clocks], axis=0)
                values = np.stack([ranks_of(each) for each in clocks])
                rows_of_mine = at[mine]
                held[mine] = there[rows_of_mine] & self._hold(values[:, rows_of_mine], self._parameters[legs[mine]])
        return held

    def _columns(self, condition: Condition) -> tuple[str, ...]:
        raise NotImplementedError

    def _numbers(self, condition: Condition, zero: list[int]) -> list[int]:
        raise NotImplementedError

    def _hold(self, values: Numbers, parameters: Numbers) -> Holds:
        raise NotImplementedError


class Schedules(_ByColumns[Schedule]):
    """Window ends at origin + k · slide."""

    def _columns(self, condition: Schedule) -> tuple[str, ...]:
        return (condition.column,)

    def _numbers(self, condition: Schedule, zero: list[int]) -> list[int]:
        return [condition.slide, condition.origin % condition.slide, *zero]

    def _hold(self, values: Numbers, parameters: Numbers) -> Holds:
        held: Holds = values[0] % parameters[:, 0] == parameters[:, 1]
        return held


class Meetings(_ByColumns[Meeting]):
    """Rows that are together in their windows at the first instant origin + k · slide that is not before the newest."""

    def _columns(self, condition: Meeting) -> tuple[str, ...]:
        return tuple(sorted(name for name, _ in condition.ranges))

    def _numbers(self, condition: Meeting, zero: list[int]) -> list[int]:
        ranges = [min(range_, 2**63 - 1) for _, range_ in sorted(condition.ranges)]
        return [condition.slide, condition.origin % condition.slide, *ranges, *zero[len(ranges) :]]

    def _hold(self, values: Numbers, parameters: Numbers) -> Holds:
        slide, origin = parameters[:, 0], parameters[:, 1]
        newest = values.max(axis=0)
        until_instant = (origin - newest % slide) % slide
        # Clocks may be 2⁶³ apart, which is one more than 64 bits with a sign can tell.
        ages = (newest.view(np.uint64) - values.view(np.uint64)) + until_instant.astype(np.uint64)
        ranges = parameters[:, 2 : 2 + len(values)].T.astype(np.uint64)
        held: Holds = (ages < ranges).all(axis=0)
        return held
