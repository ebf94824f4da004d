"""Aggregates over rows in the driver: what each needs of a row, and rows as partials.

Every row is one partial. Its statistics are computed when a tree or a running aggregate reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import weft.algebra as algebra
from weft.arrays.arrow_types import arrow_type
from weft.expressions.array_expressions import can_be_computed, computed
from weft.expressions.physical_values import arrow, physical
from weft.kernels.aggregate_functions import FUNCTIONS
from weft.kernels.statistic import Array, Columns, Values
from weft.predicates.terms import text_of
from weft.runtime.spark.rows import ARRIVAL, CLOCK
from weft.runtime.stages.windows.partials import SLICE, Layout, Partials
from weft.runtime.stages.windows.signatures import Condition
from weft.runtime.stages.windows.woven_queries import Measure, NotWoven, Woven, latest_clock, rows_counted
from weft.windows.slicing import shared_edges


@dataclass(frozen=True)
class RowAggregate:
    """An aggregate over rows: its shape for trees and running aggregates, and how its texts are computed for a row."""

    shape: Woven
    keys: Mapping[str, algebra.Expression]
    #: Expressions, or the first cycle that rows must have arrived in.
    conditions: Mapping[str, algebra.Expression | int]
    #: What each measure is a statistic of, by its name.
    arguments: Mapping[str, tuple[algebra.Expression, ...]]


def row_aggregate(select: algebra.Select, log: str, first: int) -> RowAggregate:
    """What an aggregate needs of the rows of a log from cycle `first` on. Raises NotWoven."""
    if not select.is_grouped or select.distinct or select.retain is not None or len(select.inputs) > 1:
        raise NotWoven("only aggregates of one input have groups")
    source = select.inputs[0].source
    if isinstance(source, algebra.Stream):
        raise NotWoven("the rows of a stream are not in the driver")
    keys = {text_of(key): key for key in select.keys}
    where = [] if select.where is None else [select.where]
    conditions: dict[str, algebra.Expression | int] = {text_of(each): each for each in where}
    arguments: dict[str, tuple[algebra.Expression, ...]] = {}
    measures = tuple(tuple(_measures_of(each, arguments)) for each in select.aggregates)
    after = [each.expression for each in select.outputs] + ([select.having] if select.having is not None else [])
    values = [*where, *(each for of in arguments.values() for each in of)]
    keyed = [key for key in select.keys if not isinstance(key, algebra.Column)]
    if not all(map(can_be_computed, [*keyed, *values, *after])):
        raise NotWoven("it uses functions that are evaluated by Spark")
    assert select.window is not None
    if isinstance(source, algebra.Answers):
        # The log of what another query answers has rows from before this query as well.
        conditions[f"arrived since {first}"] = first
    shape = Woven(
        log,
        select,
        select.window,
        tuple(map(Condition, conditions)),
        tuple(text_of(key) for key in select.keys),
        measures,
    )
    return RowAggregate(shape, keys, conditions, arguments)


def _measures_of(
    aggregate: algebra.Aggregate, arguments: dict[str, tuple[algebra.Expression, ...]]
) -> Iterator[Measure]:
    """The measures of an aggregate; what they are statistics of is noted among the `arguments`."""
    function = FUNCTIONS.get(aggregate.function)
    if function is None or aggregate.distinct:
        raise NotWoven(f"{aggregate.function.upper()} needs the values themselves")
    types = [each.type for each in aggregate.args]
    for need in function.needs(types):
        needed = tuple(aggregate.args[place] for place in need.arguments if place < len(types))
        name = f"rows' {need.statistic.name}({', '.join(f'{text_of(each)} {each.type}' for each in needed)})"
        arguments[name] = needed
        yield Measure(name, need.statistic, (), _not_read)


#: The conditions in a word, a bit each.
_WORD = 62


def _not_read(columns: object) -> Columns:
    raise AssertionError("records are computed from rows")


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
