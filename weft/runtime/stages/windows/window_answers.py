"""Turns the aggregates of closed windows into the rows of answers.

With EMIT EMPTY, instances that close without a row are answered as well, with counts of 0 and NULLs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.algebra import Aggregate, AggregateRef, Column, Expression, KeyRef, Select, WindowBound
from weft.arrays.arrow_types import arrow_type
from weft.expressions.array_expressions import computed
from weft.expressions.physical_values import arrow, physical
from weft.expressions.spark_expressions import column as position_name
from weft.kernels.aggregate_functions import FUNCTIONS, Signature
from weft.kernels.statistic import Array, Columns, Values
from weft.optimizer.aggregates.stream_shapes import Measure, Woven
from weft.runtime.spark.rows import CLOCK
from weft.windows.slicing import ends_between

T = TypeVar("T")

#: Values of entries: an array of NumPy or of Arrow.
AnyValues = TypeVar("AnyValues", Array, pa.Array)


@dataclass
class ClosedGroups:
    """The groups that a cycle answers: those of all windows of a tree, or of a cohort that never closes.

    An entry is a group of an instance. What all queries of the tree need, such as the values of an aggregate, is
    computed here once for all entries; each query then takes its part.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    keys: Sequence[pa.Array]
    records: Mapping[str, Columns]
    #: Aggregates that many of the windows answer; None if all do.
    common: Set[Aggregate] | None = None
    _computed: dict[Hashable, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def first_end(self) -> int:
        return int(self.ends.min())

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What is computed for all entries, when it is first needed."""
        if key not in self._computed:
            self._computed[key] = compute()
        return cast(T, self._computed[key])

    @property
    def whole(self) -> GroupSelection:
        """All of them."""
        return GroupSelection(self, 0, len(self))

    def values(self, aggregate: Aggregate, measures: Sequence[Measure]) -> Values:
        records = [self.records[each.name] for each in measures]
        return self.once(("values", aggregate), lambda: _lowered(aggregate, records))

    def is_common(self, aggregate: Aggregate) -> bool:
        """Whether an aggregate is computed for all entries at once."""
        return self.common is None or aggregate in self.common


@dataclass(frozen=True)
class GroupSelection:
    """Some of the groups that a cycle answers: `length` of them from `first` on, or those of them to `keep`."""

    closed: ClosedGroups
    first: int
    length: int
    keep: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return self.length if self.keep is None else int(np.count_nonzero(self.keep))

    def since(self, after: int | None) -> GroupSelection:
        """The instances that end after an instant."""
        if after is None or self.closed.first_end > after:
            return self
        keep = self.of(self.closed.ends) > after
        return self if keep.all() else GroupSelection(self.closed, self.first, self.length, keep)

    def of(self, values: AnyValues) -> AnyValues:
        """The values of these entries, from values of all."""
        mine = values[self.first : self.first + self.length]
        if self.keep is None:
            return mine
        return mine[self.keep] if isinstance(mine, np.ndarray) else mine.filter(pa.array(self.keep))

    def values(self, aggregate: Aggregate, measures: Sequence[Measure]) -> Values:
        if self.closed.is_common(aggregate):
            whole = self.closed.values(aggregate, measures)
            return Values(self.of(whole.values), self.of(whole.valid))
        records = [self.closed.records[each.name] for each in measures]
        return _lowered(aggregate, [tuple(map(self.of, columns)) for columns in records])


def _lowered(aggregate: Aggregate, records: Sequence[Columns]) -> Values:
    signature = Signature(tuple(argument.type for argument in aggregate.args), aggregate.type)
    return FUNCTIONS[aggregate.function].lower(records, signature)


def kinds_of(selects: Mapping[str, Select]) -> dict[str, int]:
    """A number for each query: those with the same number answer alike, each for its own windows."""
    known: dict[object, int] = {}
    return {
        name: known.setdefault((select.outputs, select.aggregates, select.having), len(known))
        for name, select in selects.items()
    }


def answers(
    select: Select, measures: Sequence[Sequence[Measure]], part: GroupSelection, kind: int | None = None
) -> pa.Table:
    """The rows of a query's answers, with columns by position; the last column is the clock.

    Queries of one kind have slices of one table, if that holds nothing but keys, bounds and aggregates that are common.
    """
    columns = _QueryColumns(select, measures, part)
    if kind is not None and part.keep is None:
        whole = part.closed.once(
            ("answers", kind), lambda: answers(select, measures, part.closed.whole) if columns.are_common else None
        )
        if whole is not None:
            return whole.slice(part.first, part.length)
    outputs = [columns.column(each.expression) for each in select.outputs]
    clock = part.of(part.closed.once(CLOCK, lambda: pa.array(part.closed.ends)))
    table = pa.Table.from_arrays([*outputs, clock], [*map(position_name, range(len(outputs))), CLOCK])
    if select.having is not None:
        holds = columns.computed(select.having)
        table = table.filter(pa.array(holds.valid & holds.values.astype(bool)))
    return table


@dataclass(frozen=True)
class _QueryColumns:
    """The expressions of a query over its part of the groups."""

    select: Select
    measures: Sequence[Sequence[Measure]]
    part: GroupSelection

    @property
    def are_common(self) -> bool:
        """Whether all columns are computed for all entries anyway."""
        return self.select.having is None and all(
            isinstance(each.expression, KeyRef | WindowBound)
            or (
                isinstance(each.expression, AggregateRef)
                and self.part.closed.is_common(self.select.aggregates[each.expression.index])
            )
            for each in self.select.outputs
        )

    def column(self, expression: Expression) -> pa.Array:
        """An expression as a column; bare keys, ends and aggregates are slices of columns that all queries share."""
        part, closed, type_ = self.part, self.part.closed, expression.type
        if isinstance(expression, KeyRef):
            key = closed.keys[expression.index]
            return part.of(closed.once(expression, lambda: key.cast(arrow_type(type_))))
        if isinstance(expression, WindowBound):
            bounds = closed.ends if expression.end else closed.starts
            return part.of(closed.once(expression, lambda: arrow(_all_valid(bounds), type_)))
        if isinstance(expression, AggregateRef):
            aggregate, needed = self.select.aggregates[expression.index], self.measures[expression.index]
            if closed.is_common(aggregate):
                return part.of(closed.once(aggregate, lambda: arrow(closed.values(aggregate, needed), type_)))
        return arrow(self.computed(expression), type_)

    def computed(self, expression: Expression) -> Values:
        return computed(expression, self._leaf, len(self.part))

    def _leaf(self, expression: Column | KeyRef | AggregateRef | WindowBound) -> Values:
        assert not isinstance(expression, Column)
        part = self.part
        if isinstance(expression, AggregateRef):
            return part.values(self.select.aggregates[expression.index], self.measures[expression.index])
        if isinstance(expression, KeyRef):
            return physical(part.of(part.closed.keys[expression.index]), expression.type)
        return _all_valid(part.of(part.closed.ends if expression.end else part.closed.starts))


def _all_valid(values: Array) -> Values:
    return Values(values, np.ones(len(values), dtype=bool))


_NONE = np.empty(0, dtype=np.int64)


def with_empty_instances(
    query: Woven, closed: Sequence[GroupSelection], counted_from: int, after: int | None, until: int
) -> GroupSelection:
    """The groups of an ungrouped query, and identities for all other instances that end in (after, until].

    They begin with the first one that ends after `counted_from`.
    """
    present = np.concatenate([_NONE, *(part.of(part.closed.ends) for part in closed)])
    ends = np.array(
        ends_between(query.window, counted_from if after is None else max(counted_from, after), until), dtype=np.int64
    )
    empty = np.setdiff1d(ends, present, assume_unique=True)
    records = {}
    for each in query.all_measures:
        known = [tuple(map(part.of, part.closed.records[each.name])) for part in closed]
        columns = zip(*known, each.statistic.empty(len(empty)), strict=True)
        records[each.name] = tuple(np.concatenate(column) for column in columns)
    every = np.concatenate([present, empty])
    assert query.window.range is not None
    return ClosedGroups(every - query.window.range, every, [], records).whole
