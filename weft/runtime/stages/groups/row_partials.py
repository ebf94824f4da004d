"""Rows in the driver as partials, one each, for the aggregates over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import weft.algebra as algebra
from weft.arrays.arrow_types import arrow_type
from weft.expressions.array_expressions import computed
from weft.expressions.physical_values import arrow, physical
from weft.kernels.statistic import Array, Columns, Values
from weft.optimizer.aggregates.row_shapes import RowAggregate
from weft.optimizer.aggregates.stream_shapes import Measure, latest_clock, rows_counted
from weft.runtime.spark.rows import ARRIVAL, CLOCK
from weft.runtime.stages.windows.partials import SLICE, Layout, Partials
from weft.windows.slicing import shared_edges

#: The conditions in a word, a bit each.
_WORD = 62


@dataclass(frozen=True)
class DriverRows:
    """Rows of a log, with columns by position, their clocks, and the cycle that they arrived in if it is not now."""

    fields: tuple[algebra.Field, ...]
    table: pa.Table

    @property
    def clocks(self) -> NDArray[np.int64]:
        return np.asarray(self.table[CLOCK])

    @property
    def all_valid(self) -> Values:
        ones = np.ones(self.table.num_rows, dtype=bool)
        return Values(ones, ones)

    def values(self, expression: algebra.Expression) -> Values:
        return computed(expression, self._leaf, self.table.num_rows)

    def key(self, expression: algebra.Expression) -> pa.Array:
        """The values to group by: -0.0 is 0.0, and there is one NaN."""
        type_ = expression.type
        if type_.is_floating:
            values = self.values(expression)
            return arrow(Values(np.where(np.isnan(values.values), np.nan, values.values + 0.0), values.valid), type_)
        if isinstance(expression, algebra.Column):
            column = self._column(expression)
            return column if column.type == arrow_type(type_) else column.cast(arrow_type(type_))
        return arrow(self.values(expression), type_)

    def holds(self, condition: algebra.Expression | int) -> NDArray[np.bool_]:
        """For which rows an expression is true, or which have arrived in a cycle or after it."""
        if not isinstance(condition, int):
            found = self.values(condition)
            return np.asarray(found.valid & found.values.astype(bool))
        if ARRIVAL not in self.table.column_names:
            return self.all_valid.valid
        return np.asarray(np.asarray(self.table[ARRIVAL]) >= condition)

    def _leaf(self, expression: algebra.Column | algebra.KeyRef | algebra.AggregateRef | algebra.WindowBound) -> Values:
        assert isinstance(expression, algebra.Column)
        return physical(self._column(expression), expression.type)

    def _column(self, column: algebra.Column) -> pa.Array:
        # Names may repeat; then the last one is meant, as everywhere.
        position = max(number for number, each in enumerate(self.fields) if each.name == column.name)
        return self.table.column(position).combine_chunks()


def row_partials(rows: DriverRows, queries: Iterable[RowAggregate]) -> Partials:
    """Rows as partials for some aggregates."""
    wanted = list(queries)
    keys = {text: key for each in wanted for text, key in each.keys.items()}
    conditions = {text: each for query in wanted for text, each in query.conditions.items()}
    arguments = {name: each for query in wanted for name, each in query.arguments.items()}
    decoders = {text: (number // _WORD, "bit", number % _WORD) for number, text in enumerate(conditions)}
    words = [list(conditions.values())[start : start + _WORD] for start in range(0, len(conditions), _WORD)]
    edges, clocks = shared_edges(each.shape.window for each in wanted if not each.shape.is_running), rows.clocks
    # The slice of a row starts at the last edge before its clock.
    starts = [clocks - np.mod(clocks - each.residue, each.modulus) for each in edges]
    slices = np.maximum.reduce(starts) if starts else np.zeros(len(clocks), dtype=np.int64)
    columns: dict[str, Array | pa.Array] = {SLICE: slices}
    for number, word in enumerate(words):
        columns[f"g{number}"] = np.asarray(
            sum(rows.holds(each).astype(np.int64) << bit for bit, each in enumerate(word))
        )
    columns |= {f"k{number}": rows.key(key) for number, key in enumerate(keys.values())}

    def lift(measure: Measure) -> Columns:
        if measure == rows_counted():
            return measure.statistic.lift(rows.all_valid)
        if measure == latest_clock():
            return measure.statistic.lift(Values(clocks, rows.all_valid.valid))
        values = [rows.values(each) for each in arguments[measure.name]]
        return measure.statistic.lift(*(values or [rows.all_valid]))

    return Partials(Layout(tuple(keys), decoders, len(words), ()), pa.table(columns), lift)
