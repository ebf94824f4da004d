"""Every function against plain Python, over rows lifted, folded, combined and lowered."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, HUGEINT, STRING, DataType, Kind, decimal
from weft.kernels.aggregate_functions import FUNCTIONS, Signature
from weft.kernels.statistic import Columns, Values, fold

Row = tuple


def column(values: Sequence[object], type_: DataType) -> Values:
    valid = np.array([value is not None for value in values], dtype=bool)
    if type_.is_floating:
        return Values(np.array([0.0 if value is None else value for value in values], dtype=np.float64), valid)
    wide = type_.kind is Kind.HUGEINT or (type_.kind is Kind.DECIMAL and type_.precision > 18)
    if type_.kind is Kind.STRING or wide:
        filler: object = "" if type_.kind is Kind.STRING else 0
        filled = np.empty(len(values), dtype=object)
        filled[:] = [filler if value is None else value for value in values]
        return Values(filled, valid)
    return Values(np.array([0 if value is None else value for value in values], dtype=np.int64), valid)


def evaluate(
    name: str,
    rows: Sequence[Row],
    types: Sequence[DataType],
    result: DataType = DOUBLE,
    slices: int = 3,
) -> object:
    """The answer for all rows, by way of partials of some slices."""
    function = FUNCTIONS[name]
    arguments = [column([row[n] for row in rows], type_) for n, type_ in enumerate(types)]
    everything = Values(np.zeros(len(rows)), np.ones(len(rows), dtype=bool))
    members = np.arange(len(rows)) * slices // max(1, len(rows))
    records: list[Columns] = []
    for need in function.needs(types):
        lifted = need.statistic.lift(*([arguments[n] for n in need.arguments] or [everything]))
        partials = fold(need.statistic, lifted, members, slices)
        whole = fold(need.statistic, partials, np.zeros(slices, dtype=np.intp), 1)
        records.append(whole)
    answer = function.lower(records, Signature(tuple(types), result))
    assert answer.values.shape == answer.valid.shape == (1,)
    return answer.values[0] if answer.valid[0] else None


def same(actual: object, expected: object) -> bool:
    if isinstance(expected, float) and actual is not None:
        return bool(
            math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(actual) and math.isnan(expected))
        )
    return bool(actual == expected)


def nullable(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(st.tuples(st.none() | values), max_size=20)


sane = st.floats(-1e6, 1e6)
any_double = st.floats(allow_nan=True, allow_infinity=True, width=32)
bigints = st.integers(-(2**63), 2**63 - 1)


def present(rows: Sequence[Row]) -> list:
    return [row[0] for row in rows if row[0] is not None]


def spark_order(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


@given(rows=nullable(bigints))
def test_count(rows: list[Row]) -> None:
    assert evaluate("count", rows, [BIGINT]) == len(present(rows))
    assert evaluate("count", rows, []) == len(rows)


@given(rows=nullable(bigints))
def test_integer_sums_never_wrap(rows: list[Row]) -> None:
    assert evaluate("sum", rows, [BIGINT], HUGEINT) == (sum(present(rows)) if present(rows) else None)


def test_sums_widen_where_64_bits_end() -> None:
    limit = 2**63 - 1
    assert evaluate("sum", [(limit,)] * 3, [BIGINT], HUGEINT) == 3 * limit
    assert evaluate("sum", [(-limit - 1,)] * 5, [BIGINT], HUGEINT) == 5 * (-limit - 1)
    assert evaluate("sum", [(limit,), (-limit,)], [BIGINT], HUGEINT) == 0


@given(rows=nullable(st.integers(-(10**38) + 1, 10**38 - 1)))
def test_sums_of_hugeints_and_decimals_are_exact(rows: list[Row]) -> None:
    total = sum(present(rows))
    fits = present(rows) and abs(total) < 10**38
    assert evaluate("sum", rows, [HUGEINT], HUGEINT) == (total if fits else None)
    assert evaluate("sum", rows, [decimal(38, 2)], decimal(38, 2)) == (total if fits else None)


@given(rows=nullable(st.integers(-(10**9), 10**9)))
def test_average_of_decimals_rounds_half_up(rows: list[Row]) -> None:
    values = present(rows)
    expected = None
    if values:
        mean = Decimal(sum(values)) * 10000 / len(values)
        expected = int(mean.quantize(Decimal(1), rounding=ROUND_HALF_UP))
    assert evaluate("avg", rows, [decimal(10, 2)], decimal(14, 6)) == expected


@given(rows=nullable(any_double))
def test_sum_and_average_of_doubles(rows: list[Row]) -> None:
    values = present(rows)
    infinities = {value for value in values if math.isinf(value)}
    if not values:
        expected = None
    elif any(map(math.isnan, values)) or len(infinities) == 2:
        expected = math.nan
    else:
        expected = infinities.pop() if infinities else float(sum(map(Fraction, values)))
    total = evaluate("sum", rows, [DOUBLE])
    if expected is None or not math.isfinite(expected):
        assert same(total, expected)
        assert same(evaluate("avg", rows, [DOUBLE]), expected)
    else:
        scale = sum(map(abs, values)) + 1e-300
        assert abs(total - expected) <= 1e-9 * scale
        assert abs(evaluate("avg", rows, [DOUBLE]) - expected / len(values)) <= 1e-9 * scale


@given(rows=nullable(any_double))
def test_extremes_of_doubles_follow_spark(rows: list[Row]) -> None:
    values = present(rows)
    assert same(evaluate("min", rows, [DOUBLE]), min(values, key=spark_order, default=None))
    assert same(evaluate("max", rows, [DOUBLE]), max(values, key=spark_order, default=None))


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (BIGINT, bigints),
        (DATE, st.integers(-1000, 1000)),
        (BOOLEAN, st.booleans()),
        (STRING, st.text(max_size=3)),
        (HUGEINT, st.integers(-(10**38) + 1, 10**38 - 1)),
        (decimal(38, 3), st.integers(-(10**38) + 1, 10**38 - 1)),
        (decimal(9, 3), st.integers(-(10**9) + 1, 10**9 - 1)),
    ],
    ids=str,
)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_extremes_of_every_type(type_: DataType, values: st.SearchStrategy, data: st.DataObject) -> None:
    rows = data.draw(nullable(values))
    assert evaluate("min", rows, [type_], type_) == min(present(rows), default=None)
    assert evaluate("max", rows, [type_], type_) == max(present(rows), default=None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("var_pop", statistics.pvariance),
        ("var_samp", statistics.variance),
        ("stddev_pop", statistics.pstdev),
        ("stddev_samp", statistics.stdev),
    ],
)
@settings(max_examples=25, deadline=None)
@given(rows=nullable(sane))
def test_spread(name: str, expected: Callable[[list[float]], float], rows: list[Row]) -> None:
    values = present(rows)
    answer = evaluate(name, rows, [DOUBLE])
    if len(values) < (2 if name.endswith("samp") else 1):
        assert answer is None
    else:
        assert math.isclose(answer, expected(values), rel_tol=1e-6, abs_tol=1e-3)


def test_variance_of_large_values_close_together() -> None:
    """The sum of squares minus the square of the sum makes −128 of this."""
    values = [1e9 + n / 1000 for n in range(1000)]
    assert math.isclose(
        evaluate("var_pop", [(v,) for v in values], [DOUBLE]), statistics.pvariance(values), rel_tol=1e-6
    )


def test_spread_of_nan_and_infinity() -> None:
    assert math.isnan(evaluate("var_pop", [(1.0,), (math.nan,)], [DOUBLE]))
    assert math.isnan(evaluate("var_pop", [(1.0,), (math.inf,)], [DOUBLE]))


@pytest.mark.parametrize("types", [(BIGINT, DOUBLE), (STRING, BIGINT), (DOUBLE, STRING), (HUGEINT, HUGEINT)], ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_extreme_by(types: tuple[DataType, DataType], data: st.DataObject) -> None:
    strategies = {
        BIGINT: st.integers(0, 3),
        DOUBLE: any_double,
        STRING: st.text("ab", max_size=2),
        HUGEINT: st.integers(),
    }
    strategies[HUGEINT] = st.integers(-(10**37), 10**37)
    value, by = (strategies[type_] for type_ in types)
    rows = data.draw(st.lists(st.tuples(st.none() | value, st.none() | by), max_size=12))

    def order(row: Row) -> tuple:
        keys = [spark_order(v) if isinstance(v, float) else (v is not None, v) for v in row]
        return (keys[1], (row[0] is not None, keys[0]) if row[0] is not None else (False,))

    counted = [row for row in rows if row[1] is not None]
    for name, choose in (("min_by", min), ("max_by", max), ("first", min), ("last", max)):
        expected = choose(counted, key=order)[0] if counted else None
        assert same(evaluate(name, rows, types, types[0]), expected)


def test_functions_of_one_column_share_statistics() -> None:
    shared = {need.statistic for name in ("count", "sum", "avg") for need in FUNCTIONS[name].needs([DOUBLE])}
    assert sorted(statistic.name for statistic in shared) == ["count", "nonfinite", "sum"]
    spread = {need.statistic for name in ("var_pop", "stddev_samp") for need in FUNCTIONS[name].needs([DOUBLE])}
    assert len(spread) == 1
