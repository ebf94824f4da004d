"""Which queries can be woven, that is, answered from shared partials, and what each of them needs.

A measure is a statistic of some expressions: the sum of `price`, say, for SUM(price) and AVG(price) alike. It is read
from one or more columns that Spark aggregates natively; columns that several measures need are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra import Aggregate, Call, Column, DataType, Expression, Kind, Literal, Relation, Select, Stream, Window
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.expressions.array_expressions import can_be_computed
from weft.expressions.physical_values import physical
from weft.expressions.spark_expressions import Leaf, column, decimal_constant, spark_sql
from weft.kernels import monoids
from weft.kernels.aggregate_functions import FUNCTIONS, Need
from weft.kernels.statistic import Array, Columns, Statistic, Values
from weft.plan.nodes import Condition

#: The column that a row's clock is in while it is reduced.
REDUCED_CLOCK = "_reduced_clock"

#: DECIMALs of at most this many digits are summed and compared as their unscaled integers, in 64 bits.
_SHORT_DECIMAL = 18

#: The last digits of longer ones are summed apart from those before them, which fit into 64 bits.
_LOWER = 20

#: Why what does not aggregate is not woven.
ONLY_AGGREGATES = "only aggregates share partials"


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class Measure:
    """A statistic of some expressions, by its name, and the Spark aggregates that it is read from."""

    name: str
    statistic: Statistic = field(compare=False)
    texts: tuple[str, ...] = field(compare=False)
    read: Callable[[tuple[pa.ChunkedArray, ...]], Columns] = field(compare=False)


class NotWoven(Exception):
    """A query cannot share partials with others, or an aggregate has none. The text says why."""


def measures_of(aggregate: Aggregate, leaf: Leaf) -> tuple[Measure, ...]:
    """The measures that an aggregate is lowered from, in the order of its function. Raises NotWoven."""
    function = FUNCTIONS.get(aggregate.function)
    name = aggregate.function.upper()
    if aggregate.function == "approx_count_distinct":
        raise NotWoven(f"{name} keeps a sketch of the values")
    if function is None or aggregate.distinct:
        raise NotWoven(f"{name}{'(DISTINCT)' * aggregate.distinct} needs the values themselves")
    types = [argument.type for argument in aggregate.args]
    texts = [spark_sql(argument, leaf) for argument in aggregate.args]
    return tuple(_measure(aggregate.function, need, texts, types) for need in function.needs(types))


def rows_counted() -> Measure:
    """COUNT(*), which also tells which groups exist."""
    return _count("1")


def latest_clock() -> Measure:
    """The largest clock: that of an answer whose window never closes."""
    return _extreme("max", monoids.extreme(BIGINT, True), REDUCED_CLOCK, BIGINT)


def _count(text: str) -> Measure:
    column = f"count({text})"
    return Measure(column, monoids.COUNT, (column,), lambda columns: (_numbers(columns[0], 0),))


def _measure(function: str, need: Need, texts: list[str], types: list[DataType]) -> Measure:
    statistic = need.statistic
    if statistic is monoids.COUNT:
        return _count(texts[0] if texts else "1")
    if len(texts) == 2:
        return _extreme_record(function, statistic, texts, types)
    text, type_ = texts[0], types[0]
    if type_.is_floating or statistic is monoids.MOMENTS:
        text = f"CAST({text} AS DOUBLE)"
    if statistic is monoids.MOMENTS:
        # The mean as sum over count: many queries want these two as well, and Spark's avg is no more than that.
        parts = (f"count({text})", f"sum({text})", f"var_pop({text})")
        return Measure(f"moments({text})", monoids.MOMENTS, parts, _read_moments)
    if statistic is monoids.SUM_OF_DOUBLES:
        return Measure(
            f"finite sum({text})", statistic, (f"sum({text})",), lambda read: _where(np.isfinite, read[0], 0.0)
        )
    if statistic is monoids.NONFINITE:
        # Each from its own aggregate: ∞ − ∞ is a NaN of the sum, and none of the maximum.
        column = f"{'sum' if function == 'avg' else function}({text})"
        return Measure(f"nonfinite {column}", statistic, (column,), lambda columns: (_flags(columns[0]),))
    if statistic in (monoids.extreme(type_, True), monoids.extreme(type_, False)):
        return _extreme(function, statistic, text, type_)
    if statistic is monoids.sum_of_integers(2):
        whole = _whole(text, type_)
        columns = (f"sum({whole} & 4294967295L)", f"sum(shiftright({whole}, 32))")
        return Measure(f"sum({whole})", statistic, columns, lambda read: tuple(_numbers(each, 0) for each in read))
    if statistic is monoids.sum_of_integers(4):
        return _wide_sum(statistic, text, type_)
    raise NotWoven(f"{function.upper()} of {type_} has no partials that Spark computes")


def _where(is_good: Callable[[Array], Array], column: pa.ChunkedArray, otherwise: float) -> Columns:
    """The numbers that are good, and another one in the place of those that are not."""
    values = _numbers(column, otherwise)
    return (np.where(is_good(values), values, otherwise),)


def _wide_sum(statistic: Statistic, text: str, type_: DataType) -> Measure:
    """The sum of integers of more than 64 bits: in two parts that cannot overflow, the upper one in halves."""
    unit = decimal_constant(10**_LOWER, type_.scale)
    upper = f"({text} div {unit})"
    columns = (f"sum({upper} & 4294967295L)", f"sum(shiftright({upper}, 32))", f"sum({text} % {unit})")

    def read(parts: tuple[pa.ChunkedArray, ...]) -> Columns:
        low_half, high_half = (_numbers(part, 0).astype(object) for part in parts[:2])
        lower = physical(plain(parts[2]), DataType(Kind.DECIMAL, 38, type_.scale))
        total = ((high_half << 32) + low_half) * 10**_LOWER + lower.values
        return statistic.lift(Values(np.asarray(total, dtype=object), np.ones(len(total), dtype=bool)))

    return Measure(f"wide sum({text})", statistic, columns, read)


def _extreme_record(function: str, statistic: Statistic, texts: list[str], types: list[DataType]) -> Measure:
    """The x of the least or greatest (y, x): Spark compares structs field by field, and NULLs come first."""
    x, y = texts
    record = f"{function[:3]}(CASE WHEN {y} IS NOT NULL THEN named_struct('y', {y}, 'x', {x}) END)"

    def read(columns: tuple[pa.ChunkedArray, ...]) -> Columns:
        return statistic.lift(*(physical(plain(each), type_) for each, type_ in zip(columns, types, strict=True)))

    return Measure(f"{function}({x}, {y})", statistic, (f"{record}.x", f"{record}.y"), read)


def _extreme(function: str, statistic: Statistic, text: str, type_: DataType) -> Measure:
    identity = statistic.identity[0]
    column = f"{function}({text})"
    if type_.is_floating:
        return Measure(
            f"finite {column}",
            statistic,
            (column,),
            lambda read: _where(lambda values: ~np.isnan(values), read[0], identity),
        )
    if len(statistic.dtypes) > 1:
        # Text, and numbers beyond 64 bits.
        return Measure(column, statistic, (column,), lambda read: statistic.lift(physical(plain(read[0]), type_)))
    column = f"{function}({_whole(text, type_)})"
    return Measure(column, statistic, (column,), lambda read: (_numbers(read[0], identity),))


def _read_moments(columns: tuple[pa.ChunkedArray, ...]) -> Columns:
    n = _numbers(columns[0], 0).astype(np.float64)
    mean, variance = _numbers(columns[1], 0.0) / np.maximum(n, 1.0), _numbers(columns[2], 0.0)
    # What is not finite spoils a window for as long as it is in it, whichever of the two it shows in.
    spoilt = ~(np.isfinite(mean) & np.isfinite(variance))
    return n, np.where(spoilt, np.nan, mean), np.where(spoilt, np.nan, variance * n)


def _whole(text: str, type_: DataType) -> str:
    """A value as a BIGINT that compares and adds like it."""
    if type_ == TIMESTAMP:
        return f"unix_micros({text})"
    if type_.kind is Kind.DATE:
        return f"CAST(unix_date({text}) AS BIGINT)"
    if type_.kind is Kind.DECIMAL and type_.precision <= _SHORT_DECIMAL:
        return f"CAST({text} * {10**type_.scale}BD AS BIGINT)" if type_.scale else f"CAST({text} AS BIGINT)"
    if type_ == BIGINT or type_.kind is Kind.INTERVAL:
        return text
    if (type_.is_integer and type_.kind is not Kind.HUGEINT) or type_.kind is Kind.BOOLEAN:
        return f"CAST({text} AS BIGINT)"
    raise NotWoven(f"{type_} has no order in 64 bits")


def plain(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _numbers(column: pa.ChunkedArray, nothing: float) -> Array:
    filled = pc.fill_null(column, nothing) if column.null_count else column
    return np.asarray(filled.to_numpy())


def _flags(column: pa.ChunkedArray) -> Array:
    values = _numbers(column, 0.0)
    if np.isfinite(values).all():
        return np.zeros(len(values), dtype=np.int64)
    return np.asarray(
        monoids.NAN * np.isnan(values) + monoids.POSITIVE * (values == np.inf) + monoids.NEGATIVE * (values == -np.inf)
    )


@dataclass(frozen=True)
class Woven:
    """What the windows stage needs to know of an aggregate over one stream, windowed or never closing."""

    stream: str
    select: Select
    window: Window
    conditions: tuple[Condition, ...]
    keys: tuple[str, ...]
    #: For each aggregate, the measures that it is lowered from.
    measures: tuple[tuple[Measure, ...], ...]

    @property
    def is_running(self) -> bool:
        """Whether its window never closes, so that groups are answered when they change."""
        return self.window.is_unbounded

    @property
    def all_measures(self) -> tuple[Measure, ...]:
        """Every measure once, with the count of rows, which tells which groups exist."""
        own = [rows_counted(), *([latest_clock()] if self.is_running else [])]
        return tuple(dict.fromkeys([*own, *(measure for each in self.measures for measure in each)]))


def woven(select: Relation) -> Woven:
    """What a relation needs of the windows stage. Raises NotWoven."""
    if not isinstance(select, Select) or not select.is_grouped:
        raise NotWoven(ONLY_AGGREGATES)
    stream = select.inputs[0].source
    if len(select.inputs) > 1 or not isinstance(stream, Stream):
        raise NotWoven("it reads more than one stream, or what other queries answer")
    if select.distinct or select.retain is not None:
        raise NotWoven("DISTINCT and RETAIN are evaluated from rows")
    assert select.window is not None
    leaf = leaf_of(stream)
    measures = tuple(measures_of(each, leaf) for each in select.aggregates)
    after = [*(each.expression for each in select.outputs), *([select.having] if select.having else [])]
    if not all(map(can_be_computed, after)):
        raise NotWoven("its select list or HAVING uses functions that are evaluated by Spark")
    return Woven(
        stream.name,
        select,
        select.window,
        conditions_of(select.where, leaf),
        tuple(spark_sql(each, leaf) for each in select.keys),
        measures,
    )


def leaf_of(stream: Stream) -> Leaf:
    """How the columns of a stream's rows are written in Spark SQL: by position."""
    positions = {each.name: position for position, each in enumerate(stream.fields)}

    def leaf(expression: object) -> str:
        assert isinstance(expression, Column)
        return column(positions[expression.name])

    return leaf


def conditions_of(where: Expression | None, leaf: Leaf) -> tuple[Condition, ...]:
    """The conjuncts of a WHERE. A row satisfies it iff every one of them is true."""
    if where is None:
        return ()
    if isinstance(where, Call) and where.op == "and":
        return tuple(dict.fromkeys(each for arg in where.args for each in conditions_of(arg, leaf)))
    return (_condition(where, leaf),)


def _condition(expression: Expression, leaf: Leaf) -> Condition:
    text = spark_sql(expression, leaf)
    if isinstance(expression, Call) and expression.op in _MIRRORED:
        left, right = expression.args
        for value, bound, comparison in ((left, right, expression.op), (right, left, _MIRRORED[expression.op])):
            if isinstance(bound, Literal) and not isinstance(value, Literal) and _fits_64_bits(bound):
                assert isinstance(bound.value, int | float)
                number = spark_sql(value, leaf)
                if value.type == TIMESTAMP:
                    number = f"unix_micros({number})"
                else:
                    number = f"CAST({number} AS {'DOUBLE' if value.type.is_floating else 'BIGINT'})"
                return Condition(text, number, comparison, bound.value)
    return Condition(text)


def _fits_64_bits(bound: Literal) -> bool:
    """Whether a constant can be compared as a number of 64 bits."""
    if bound.type.is_floating:
        return isinstance(bound.value, float) and math.isfinite(bound.value)
    countable = bound.type == TIMESTAMP or (bound.type.is_integer and bound.type.kind is not Kind.HUGEINT)
    return countable and isinstance(bound.value, int)
