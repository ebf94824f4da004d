"""Rows as partials: every row is one, and its statistics are computed when somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.algebra import AggregateRef, Column, Expression, Field, KeyRef, WindowBound
from weft.kernels.statistic import Array, Columns, Values
from weft.runtime.columnar.arrow_types import arrow_type
from weft.runtime.columnar.rows import ARRIVAL, CLOCK
from weft.runtime.columnar.values import arrow, physical
from weft.runtime.stages.groups.shape import Derived, RowStatistic, first_told
from weft.runtime.stages.windows.cells import edges_of
from weft.runtime.stages.windows.expressions import computed
from weft.runtime.stages.windows.measures import Measure, latest_clock, rows_counted
from weft.runtime.stages.windows.partials import CELL, Layout, Partials
from weft.windows import EdgeSet

#: Conditions are bits of words of so many.
_WORD = 62


@dataclass(frozen=True)
class RowPartials(Partials):
    """Partials that are single rows."""

    rows: Rows = field(repr=False)
    statistics: Mapping[str, RowStatistic] = field(repr=False)

    def _read(self, measure: Measure) -> Columns:
        if measure == rows_counted():
            return measure.statistic.lift(self.rows.all_valid)
        if measure == latest_clock():
            return measure.statistic.lift(Values(self.rows.clocks, self.rows.all_valid.valid))
        of = self.statistics[measure.name]
        arguments = [self.rows.values(each) for each in of.arguments]
        return measure.statistic.lift(*(arguments or [self.rows.all_valid]))


@dataclass(frozen=True)
class Rows:
    """Rows of a log, with columns by position, their clocks, and the cycle that they arrived in if it is not now."""

    fields: tuple[Field, ...]
    table: pa.Table

    @property
    def clocks(self) -> NDArray[np.int64]:
        return np.asarray(self.table[CLOCK])

    @property
    def all_valid(self) -> Values:
        ones = np.ones(self.table.num_rows, dtype=bool)
        return Values(ones, ones)

    def values(self, expression: Expression) -> Values:
        return computed(expression, self._leaf, self.table.num_rows)

    def key(self, expression: Expression) -> pa.Array:
        """The values to group by: -0.0 is 0.0, and there is one NaN."""
        type_ = expression.type
        if type_.is_floating:
            values = self.values(expression)
            return arrow(Values(np.where(np.isnan(values.values), np.nan, values.values + 0.0), values.valid), type_)
        if isinstance(expression, Column):
            column = self._column(expression)
            return column if column.type == arrow_type(type_) else column.cast(arrow_type(type_))
        return arrow(self.values(expression), type_)

    def holds(self, condition: str, expressions: Mapping[str, Expression]) -> NDArray[np.bool_]:
        """For which rows a condition holds, given by its text."""
        first = first_told(condition)
        if first is None:
            found = self.values(expressions[condition])
            return np.asarray(found.valid & found.values.astype(bool))
        if ARRIVAL not in self.table.column_names:
            return self.all_valid.valid
        return np.asarray(np.asarray(self.table[ARRIVAL]) >= first)

    def _leaf(self, expression: Column | KeyRef | AggregateRef | WindowBound) -> Values:
        assert isinstance(expression, Column)
        return physical(self._column(expression), expression.type)

    def _column(self, column: Column) -> pa.Array:
        # Names may repeat; then the last one is meant, as everywhere.
        position = max(number for number, each in enumerate(self.fields) if each.name == column.name)
        return self.table.column(position).combine_chunks()


def row_partials(rows: Rows, queries: Iterable[Derived]) -> RowPartials:
    """Rows as partials for some aggregates."""
    wanted = list(queries)
    keys: dict[str, Expression] = {text: key for each in wanted for text, key in each.keys.items()}
    expressions = {text: each for query in wanted for text, each in query.conditions.items()}
    conditions = list(dict.fromkeys(each.text for query in wanted for each in query.shape.conditions))
    decoders = {text: (number // _WORD, "bit", number % _WORD) for number, text in enumerate(conditions)}
    words = [conditions[start : start + _WORD] for start in range(0, len(conditions), _WORD)]
    edges = edges_of(each.shape.window for each in wanted if not each.shape.is_running)
    columns: dict[str, Array | pa.Array] = {CELL: _cells(edges, rows.clocks)}
    for number, word in enumerate(words):
        columns[f"g{number}"] = _bits([rows.holds(text, expressions) for text in word])
    columns |= {f"k{number}": rows.key(key) for number, key in enumerate(keys.values())}
    layout = Layout(tuple(keys), decoders, len(words), ())
    statistics = {name: each for query in wanted for name, each in query.statistics.items()}
    return RowPartials(layout, pa.table(columns), rows, statistics)


def _bits(truths: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
    return np.asarray(sum(truth.astype(np.int64) << place for place, truth in enumerate(truths)))


def _cells(edges: EdgeSet, clocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The start of the cell that each clock is in: the last edge before it."""
    if not edges:
        return np.zeros(len(clocks), dtype=np.int64)
    return np.asarray(np.maximum.reduce([clocks - np.mod(clocks - each.residue, each.modulus) for each in edges]))
