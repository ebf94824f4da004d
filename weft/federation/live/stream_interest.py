"""Which rows and columns of a stream queries need, as data that can be sent to the stream's owner.

    {"columns": ["price", "symbol", "ts"], "any": [[["symbol", "=", "A"]], [["price", ">", 100.0]]]}

It is found from the queries' conditions on that stream alone, and is never less than what they need: of a condition
that is no comparison of a column with constants nothing is said. The clock is always among the columns.

A query that EMITs EMPTY windows counts from the first row that the stream has, whether it wants the row or not; so it
needs all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.algebra import Column, Input, Kind, Query
from weft.algebra.expressions import Value
from weft.delivery.matching.conditions import clause_of
from weft.federation.distribution.substreams import boxes_of, column_of, stream_reads
from weft.plan import subscription
from weft.plan.subscription import ALL_ROWS, Comparison, Conjunction, Subscription
from weft.predicates.domains import FIRST, LAST, Place, ValueSet, above, below
from weft.predicates.normal_forms import Box
from weft.predicates.row_matching import RowMatcher

#: With more conjunctions than this, to test them takes longer than to send unwanted rows.
MOST_CONJUNCTIONS = 256

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Interest:
    """The rows for which one of some conjunctions holds, and of these some columns."""

    columns: frozenset[str]
    any_of: tuple[Conjunction, ...] = ALL_ROWS

    def mask(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """For each row whether it is wanted."""
        if self.any_of == ALL_ROWS:
            return np.ones(rows.num_rows, bool)
        matcher = RowMatcher({at: tuple(map(clause_of, each)) for at, each in enumerate(self.any_of)})
        return matcher.of(rows).in_any(matcher.nodes)


def as_json(interest: Interest) -> dict[str, Any]:
    document = subscription.as_json(Subscription("", (), interest.any_of))
    return {"columns": sorted(interest.columns), **({"any": document["any"]} if "any" in document else {})}


def from_json(document: dict[str, Any]) -> Interest:
    known = subscription.from_json({"stream": "", **document, "columns": {}})
    return Interest(frozenset(document["columns"]), known.any_of)


def together(interests: Iterable[Interest]) -> Interest:
    """What all of some queries need."""
    listed = list(interests)
    columns = frozenset().union(*(each.columns for each in listed))
    any_of = tuple(dict.fromkeys(conjunction for each in listed for conjunction in each.any_of))
    return Interest(columns, ALL_ROWS if () in any_of or len(any_of) > MOST_CONJUNCTIONS else any_of)


def by_stream(interests: Iterable[tuple[str, Interest]]) -> dict[str, Interest]:
    """What is needed of each stream, from interests in streams."""
    found: dict[str, list[Interest]] = {}
    for stream, interest in interests:
        found.setdefault(stream, []).append(interest)
    return {stream: together(listed) for stream, listed in found.items()}


def wanted_by(query: Query) -> dict[str, Interest]:
    """By stream what a query needs of it. What it needs of other queries' answers, those need themselves."""
    return by_stream(_wanted_by(query))


def _wanted_by(query: Query) -> Iterator[tuple[str, Interest]]:
    for select, item, stream, counted in stream_reads(query.relation, {}):
        columns = frozenset(each.name for each in _columns(select) if each.source == item.alias) | {stream.clock}
        boxes = None if counted else boxes_of(select, item.alias, stream)
        any_of = ALL_ROWS if boxes is None else tuple(tuple(_comparisons(box)) for box in boxes)
        compared = frozenset(comparison.column for each in any_of for comparison in each)
        yield stream.name, Interest(columns | compared, any_of)


def _columns(node: object) -> Iterator[Column]:
    """The columns that a select computes with; not those of the relations that it reads."""
    if isinstance(node, Column):
        yield node
    elif isinstance(node, tuple):
        for each in node:
            yield from _columns(each)
    elif is_dataclass(node) and not isinstance(node, Input):
        for each in fields(node):
            yield from _columns(getattr(node, each.name))


def _comparisons(box: Box) -> Iterator[Comparison]:
    """What a box says of columns, or a little less."""
    for subject, values in box.items():
        column = column_of(subject)
        if column is not None:
            yield from _compared(column, values)


def _compared(column: Column, values: ValueSet) -> Iterator[Comparison]:
    if values.null:
        if not values.spans:
            yield Comparison(column.name, "is null")
        return
    if not values.spans:
        return
    points = [low[1] for low, high in values.spans if low != FIRST and high != LAST and low[1] == high[1]]
    listed = [_constant(each, column, math.floor) for each in points]
    if len(listed) == len(values.spans) and all(each is not None and exact for each, exact in listed):
        yield Comparison(column.name, "in", tuple(each for each, _ in listed))
        return
    # What lies between several spans is wanted too: that is a little more than needed, and much shorter.
    ends = (values.spans[0][0], ">", math.floor), (values.spans[-1][1], "<", math.ceil)
    for cut, operator, rounded in ends:
        if cut not in (FIRST, LAST):
            constant, exact = _constant(cut[1], column, rounded)
            is_strict = exact and cut == (above if operator == ">" else below)(cut[1])
            if constant is not None:
                yield Comparison(column.name, operator if is_strict else f"{operator}=", constant)


def _constant(place: Place, column: Column, rounded: Any) -> tuple[Value, bool]:
    """A place as a constant of the column's type, and whether it is just that; None if it has no such form."""
    kind = column.type.kind
    if isinstance(place, str | bytes):
        return place, True
    if isinstance(place, tuple):
        # NaN is above all numbers, and equal to nothing in Python: as a limit it says nothing.
        return (None, False) if place[0] else (place[1], True)
    assert isinstance(place, Fraction)
    if kind is Kind.BOOLEAN:
        return None, False
    exact = place.denominator == 1
    if kind is Kind.DATE:
        try:
            return _EPOCH + timedelta(days=int(rounded(place))), exact
        except OverflowError:
            return None, False
    if kind is Kind.DECIMAL and not exact:
        scaled = place * 10**column.type.scale
        number = Decimal(int(rounded(scaled))).scaleb(-column.type.scale)
        return number, scaled.denominator == 1
    return int(rounded(place)), exact
