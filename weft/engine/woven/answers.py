"""From the aggregates of closed windows to the rows of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.aggregation.functions import FUNCTIONS, Signature
from weft.aggregation.statistic import Array, Columns, Values
from weft.algebra import Aggregate, AggregateRef, DataType, Expression, KeyRef, Kind, Select, WindowBound
from weft.algebra.types import DOUBLE
from weft.engine.results import arrow_type
from weft.engine.rows import CLOCK
from weft.engine.woven.expressions import computed
from weft.engine.woven.measures import Measure


@dataclass
class Closed:
    """The groups of the instances of one window that closed in a cycle: one entry per group and instance.

    Queries that have the window, the conditions and the keys in common share it, and what one of them has lowered or
    looked up the others find done.
    """

    ends: NDArray[np.int64]
    keys: Sequence[pa.Array]
    records: Mapping[str, Columns]
    _lowered: dict[Aggregate, Values] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    def value(self, aggregate: Aggregate, measures: Sequence[Measure]) -> Values:
        """The values of an aggregate."""
        known = self._lowered.get(aggregate)
        if known is None:
            signature = Signature(tuple(argument.type for argument in aggregate.args), aggregate.type)
            records = [self.records[measure.name] for measure in measures]
            known = self._lowered[aggregate] = FUNCTIONS[aggregate.function].lower(records, signature)
        return known

    def since(self, after: int | None) -> Closed:
        """The instances that end after an instant."""
        if after is None or (len(self.ends) and self.ends.min() > after) or not len(self.ends):
            return self
        keep = self.ends > after
        return Closed(
            self.ends[keep],
            [each.filter(pa.array(keep)) for each in self.keys],
            {name: tuple(column[keep] for column in columns) for name, columns in self.records.items()},
        )


def answers(select: Select, measures: Sequence[Sequence[Measure]], closed: Closed) -> pa.Table:
    """The rows of a query's answers, by the names of its columns; the last column is the clock."""
    window, rows = select.window, len(closed)
    assert window is not None
    assert window.range is not None

    def leaf(expression: KeyRef | AggregateRef | WindowBound) -> Values:
        if isinstance(expression, AggregateRef):
            return closed.value(select.aggregates[expression.index], measures[expression.index])
        if isinstance(expression, KeyRef):
            return _physical(closed.keys[expression.index], expression.type)
        assert window is not None
        assert window.range is not None
        bounds = closed.ends if expression.end else closed.ends - window.range
        return Values(bounds, np.ones(rows, dtype=bool))

    def column(expression: Expression) -> pa.Array:
        if isinstance(expression, KeyRef):
            key, type_ = closed.keys[expression.index], arrow_type(expression.type)
            return key if key.type == type_ else key.cast(type_)
        return _arrow(computed(expression, leaf, rows), expression.type)

    columns = [column(each.expression) for each in select.outputs]
    table = pa.table([*columns, pa.array(closed.ends)], names=[*(each.name for each in select.outputs), CLOCK])
    if select.having is not None:
        holds = computed(select.having, leaf, rows)
        table = table.filter(pa.array(holds.valid & holds.values.astype(bool)))
    return table


def _physical(values: pa.Array, type_: DataType) -> Values:
    """The values of a key as arithmetic wants them."""
    valid = np.asarray(values.is_valid())
    if type_.kind is Kind.DECIMAL or type_.kind is Kind.HUGEINT:
        numbers = [0 if value is None else int(value.scaleb(type_.scale)) for value in values.to_pylist()]
        return Values(np.array(numbers, dtype=object), valid)
    if type_.kind in (Kind.STRING, Kind.BINARY):
        return Values(np.array(values.fill_null("" if type_.kind is Kind.STRING else b"").to_pylist(), object), valid)
    if type_.kind is Kind.BOOLEAN:
        return Values(np.asarray(values.fill_null(False)), valid)
    if type_.is_floating:
        return Values(np.asarray(values.fill_null(0.0)).astype(np.float64), valid)
    whole = values.cast(pa.int32()) if type_.kind is Kind.DATE else values
    return Values(np.asarray(whole.cast(pa.int64()).fill_null(0)), valid)


def _arrow(values: Values, type_: DataType) -> pa.Array:
    nothing = None if values.valid.all() else ~values.valid
    if type_.kind in (Kind.DECIMAL, Kind.HUGEINT):
        return _decimals(values.values, nothing, type_)
    if type_.kind in (Kind.STRING, Kind.BOOLEAN, Kind.BINARY):
        return pa.array(values.values, arrow_type(type_), mask=nothing)
    if type_.is_floating:
        floats = pa.array(values.values.astype(np.float64, copy=False), mask=nothing)
        return floats if type_ == DOUBLE else floats.cast(arrow_type(type_))
    whole = pa.array(values.values.astype(np.int64), mask=nothing)
    return whole.cast(pa.int32()).cast(pa.date32()) if type_.kind is Kind.DATE else whole.cast(arrow_type(type_))


def _decimals(values: Array, nothing: NDArray[np.bool_] | None, type_: DataType) -> pa.Array:
    target = arrow_type(type_)
    if values.dtype == object:
        scaled = [Decimal(int(value)).scaleb(-type_.scale) for value in values.tolist()]
        return pa.array(scaled, target, mask=nothing)
    # 64-bit numbers in 128 bits: the number, and its sign over the upper half.
    words = np.empty((len(values), 2), dtype=np.int64)
    words[:, 0], words[:, 1] = values, values.astype(np.int64) >> 63
    valid = None if nothing is None else pa.array(~nothing).buffers()[1]
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(words)])
