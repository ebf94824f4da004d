"""Which rows and columns of a stream queries need.

It is found from the queries' conditions on that stream alone, and is never less than what they need: of a condition
that is no comparison of a column with constants nothing is said. The clock is always among the columns.

A query that EMITs EMPTY windows counts from the first row that the stream has, whether it wants the row or not; so it
needs all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.algebra import Column, Input, Query
from weft.federation.distribution.substreams import boxes_of, column_of, stream_reads
from weft.predicates.domains import ValueSet
from weft.predicates.row_matching import Check, PlainColumn, RowMatcher

#: With more boxes than this, to test them takes longer than to send unwanted rows.
MOST_BOXES = 256

#: The values that a row must have, by column.
ColumnBox: TypeAlias = tuple[tuple[str, ValueSet], ...]

#: The box that every row lies in.
ALL_ROWS: tuple[ColumnBox, ...] = ((),)


@dataclass(frozen=True, slots=True)
class Interest:
    """The rows that lie in one of some boxes, and of these some columns."""

    columns: frozenset[str]
    any_of: tuple[ColumnBox, ...] = ALL_ROWS

    def mask(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """For each row whether it is wanted."""
        if self.any_of == ALL_ROWS:
            return np.ones(rows.num_rows, bool)
        matcher = RowMatcher(
            {
                at: tuple((Check(PlainColumn(name), "in", values, values),) for name, values in box)
                for at, box in enumerate(self.any_of)
            }
        )
        return matcher.of(rows).in_any(matcher.nodes)


def together(interests: Iterable[Interest]) -> Interest:
    """What all of some queries need."""
    listed = list(interests)
    columns = frozenset().union(*(each.columns for each in listed))
    any_of = tuple(dict.fromkeys(box for each in listed for box in each.any_of))
    return Interest(columns, ALL_ROWS if () in any_of or len(any_of) > MOST_BOXES else any_of)


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
        any_of = ALL_ROWS
        if boxes is not None:
            named = ([(column_of(subject), values) for subject, values in box.items()] for box in boxes)
            any_of = tuple(
                tuple((column.name, values) for column, values in box if column is not None) for box in named
            )
        yield stream.name, Interest(columns.union(name for box in any_of for name, _ in box), any_of)


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
