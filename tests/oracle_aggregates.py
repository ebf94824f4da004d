"""What an aggregate is worth for the rows of a group: computed from scratch, exactly, from the list of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tests.oracle_expressions import Scope, evaluate
from tests.oracle_values import Uncomputable, fit, order_key, to_double
from weft.algebra import Aggregate, Value


def aggregate(function: Aggregate, rows: Sequence[Scope]) -> Value:
    """The aggregate over the rows. Without a value to look at, COUNT is 0 and everything else is NULL."""
    if not function.args:
        return len(rows)
    arguments = [tuple(evaluate(arg, row) for arg in function.args) for row in rows]
    if function.function in ("min_by", "max_by"):
        return _extreme_by(function.function, arguments)
    values = [argument[0] for argument in arguments if argument[0] is not None]
    if function.function == "approx_count_distinct" or function.distinct:
        return len({order_key(value) for value in values})
    if function.function == "count":
        return len(values)
    if not values:
        return None
    try:
        return fit(_VALUES[function.function](values, *_fraction(function)), function.type)
    except Uncomputable:
        return None


def _fraction(function: Aggregate) -> tuple[Value, ...]:
    """The constant that PERCENTILE carries as its second argument."""
    return tuple(evaluate(arg, Scope()) for arg in function.args[1:])


def _extreme_by(function: str, arguments: Sequence[tuple[Value, ...]]) -> Value:
    """The x of the least (y, x), or of the greatest; rows whose y is NULL do not count."""
    candidates = [(order_key(y), order_key(x), x) for x, y in arguments if y is not None]
    if not candidates:
        return None
    choose = min if function == "min_by" else max
    return choose(candidates, key=lambda candidate: candidate[:2])[2]


def _sum(values: Sequence[Any]) -> Any:
    if not isinstance(values[0], float):
        return sum(map(Fraction, values))
    if not all(map(math.isfinite, values)):
        return sum(values)
    return to_double(sum(map(Fraction, values)))


def _average(values: Sequence[Any]) -> Any:
    return _sum(values) / len(values)


def _variance(divisor: Callable[[int], int]) -> Callable[[Sequence[float]], float]:
    def variance(values: Sequence[float]) -> float:
        if divisor(len(values)) == 0:
            raise Uncomputable
        if not all(map(math.isfinite, values)):
            return math.nan
        exact = [Fraction(value) for value in values]
        mean = sum(exact) / len(exact)
        return to_double(sum((value - mean) ** 2 for value in exact) / divisor(len(exact)))

    return variance


_var_pop = _variance(lambda count: count)
_var_samp = _variance(lambda count: count - 1)


def _percentile(values: Sequence[float], fraction: float) -> float:
    """The value at position fraction · (n − 1) in order, interpolated between the two neighbours of that position."""
    ordered = sorted(values, key=order_key)
    position = Fraction(repr(fraction)) * (len(ordered) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    if order_key(below) == order_key(above):
        return below
    return below + (above - below) * float(position - math.floor(position))


_VALUES: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "avg": _average,
    "min": lambda values: min(values, key=order_key),
    "max": lambda values: max(values, key=order_key),
    "var_pop": _var_pop,
    "var_samp": _var_samp,
    "stddev_pop": lambda values: math.sqrt(_var_pop(values)),
    "stddev_samp": lambda values: math.sqrt(_var_samp(values)),
    "median": lambda values: _percentile(values, 0.5),
    "percentile": _percentile,
}
