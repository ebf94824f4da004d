"""Statistics as Spark aggregates.

A measure is a statistic of some expressions: the sum of `price`, say, for SUM(price) and AVG(price) alike. It comes
from one or more columns that Spark aggregates natively; columns that several measures need are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregation.functions import FUNCTIONS, Need
from weft.aggregation.statistic import Array, Columns, Statistic
from weft.aggregation.statistics import (
    COUNT,
    MOMENTS,
    NAN,
    NEGATIVE,
    NONFINITE,
    POSITIVE,
    SUM_OF_DOUBLES,
    extreme,
    sum_of_integers,
)
from weft.algebra import Aggregate, DataType, Kind
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.engine.expressions import Leaf, spark_sql

#: DECIMALs of so many digits are summed and compared as their unscaled integers, in 64 bits.
_SHORT_DECIMAL = 18


@dataclass(frozen=True)
class Measure:
    """A statistic of some expressions, by its name, and the Spark aggregates that it is read from."""

    name: str
    statistic: Statistic = field(compare=False)
    texts: tuple[str, ...] = field(compare=False)
    read: Callable[[tuple[pa.ChunkedArray, ...]], Columns] = field(compare=False)


class NotMeasured(Exception):
    """An aggregate has no partials of fixed size that Spark computes natively. The text says which."""


def measures_of(aggregate: Aggregate, leaf: Leaf) -> tuple[Measure, ...]:
    """The measures that an aggregate is lowered from, in the order that its function wants them."""
    function = FUNCTIONS.get(aggregate.function)
    name = aggregate.function.upper()
    if function is None or aggregate.distinct or function.holistic:
        raise NotMeasured(f"{name}{'(DISTINCT)' * aggregate.distinct} needs the values themselves")
    if len(aggregate.args) > 1:
        raise NotMeasured(f"{name} keeps whole records")
    types = [argument.type for argument in aggregate.args]
    texts = [spark_sql(argument, leaf) for argument in aggregate.args]
    return tuple(_measure(aggregate.function, need, texts, types) for need in function.needs(types))


def rows_counted() -> Measure:
    """COUNT(*): it also tells which groups there are."""
    return _count("1")


def _count(text: str) -> Measure:
    column = f"count({text})"
    return Measure(column, COUNT, (column,), lambda columns: (_numbers(columns[0], 0),))


def _measure(function: str, need: Need, texts: list[str], types: list[DataType]) -> Measure:
    statistic = need.statistic
    if statistic is COUNT:
        return _count(texts[0] if texts else "1")
    text, type_ = texts[0], types[0]
    if type_.is_floating:
        text = f"CAST({text} AS DOUBLE)"
    if statistic is MOMENTS:
        return _moments(text if type_.is_floating else f"CAST({text} AS DOUBLE)")
    if statistic is SUM_OF_DOUBLES:
        return Measure(f"finite sum({text})", statistic, (f"sum({text})",), lambda columns: (_finite(columns[0], 0.0),))
    if statistic is NONFINITE:
        # Each from its own aggregate: ∞ − ∞ is a NaN of the sum, and none of the maximum.
        column = f"{'sum' if function == 'avg' else function}({text})"
        return Measure(f"nonfinite {column}", statistic, (column,), lambda columns: (_flags(columns[0]),))
    if statistic in (extreme(type_, True), extreme(type_, False)):
        return _extreme(function, statistic, text, type_)
    if statistic is sum_of_integers(2):
        whole = _whole(text, type_)
        columns = (f"sum({whole} & 4294967295L)", f"sum(shiftright({whole}, 32))")
        return Measure(f"sum({whole})", statistic, columns, lambda read: tuple(_numbers(each, 0) for each in read))
    raise NotMeasured(f"{function.upper()} of {type_} keeps more than 64 bits")


def _extreme(function: str, statistic: Statistic, text: str, type_: DataType) -> Measure:
    identity = statistic.identity[0]
    if type_.is_floating:
        column = f"{function}({text})"
        return Measure(f"finite {column}", statistic, (column,), lambda columns: (_not_nan(columns[0], identity),))
    if len(statistic.fields) > 1:
        raise NotMeasured(f"{function.upper()} of {type_} keeps more than 64 bits")
    column = f"{function}({_whole(text, type_)})"
    return Measure(column, statistic, (column,), lambda columns: (_numbers(columns[0], identity),))


def _moments(text: str) -> Measure:
    columns = (f"count({text})", f"avg({text})", f"var_pop({text})")
    return Measure(f"moments({text})", MOMENTS, columns, _read_moments)


def _read_moments(columns: tuple[pa.ChunkedArray, ...]) -> Columns:
    n = _numbers(columns[0], 0).astype(np.float64)
    mean, variance = _numbers(columns[1], 0.0), _numbers(columns[2], 0.0)
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
    raise NotMeasured(f"{type_} has no order in 64 bits")


def _numbers(column: pa.ChunkedArray, nothing: float) -> Array:
    filled = pc.fill_null(column, nothing) if column.null_count else column
    return np.asarray(filled.to_numpy())


def _finite(column: pa.ChunkedArray, nothing: float) -> Array:
    values = _numbers(column, nothing)
    return np.where(np.isfinite(values), values, 0.0)


def _not_nan(column: pa.ChunkedArray, nothing: float) -> Array:
    values = _numbers(column, nothing)
    return np.where(np.isnan(values), nothing, values)


def _flags(column: pa.ChunkedArray) -> Array:
    values = _numbers(column, 0.0)
    if np.isfinite(values).all():
        return np.zeros(len(values), dtype=np.int64)
    return np.asarray(NAN * np.isnan(values) + POSITIVE * (values == np.inf) + NEGATIVE * (values == -np.inf))


def texts_of(measures: Iterator[Measure]) -> tuple[str, ...]:
    """The Spark aggregates that some measures are read from, each once."""
    return tuple(dict.fromkeys(text for measure in measures for text in measure.texts))
