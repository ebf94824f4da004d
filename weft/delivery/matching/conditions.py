"""Subscriptions as boxes: what each conjunction demands of each axis, in pieces of it.

An axis is what rows are looked up by: a published column, a comparison of two columns (which holds in piece 1), or the
place of a row in a span. Whatever a conjunction says of one axis comes down to a set of ranges of pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
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
from weft.plan.subscription import Comparison, Conjunction


@dataclass(frozen=True, slots=True)
class Column:
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


Axis: TypeAlias = Column | Pair | Latest

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
        return Column(each.column), each.op, each.value
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
