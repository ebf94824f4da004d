"""The laws that a statistic must keep, checked on sample records.

A kernel regroups, reorders and takes out partials as it likes. A function that breaks a law would give an answer that
depends on the kernel, and on who else asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isclose, isnan
from operator import eq
from typing import Any

import numpy as np

from weft.kernels.statistic import Array, Columns, Statistic

#: More sample records than this are not combined in triples: their number grows with the cube.
MOST_SAMPLES = 24


_ROUNDING = 1e-9


def violations(statistic: Statistic, samples: Columns) -> Iterator[str]:
    """Every law that is broken, in words."""
    some = tuple(column[:MOST_SAMPLES] for column in samples)
    count = len(some[0])
    triples = np.array(list(product(range(count), repeat=3)), dtype=np.intp).reshape(-1, 3)
    pairs = np.array(list(product(range(count), repeat=2)), dtype=np.intp).reshape(-1, 2)
    a, b, c = (_take(some, triples[:, n]) for n in range(3))
    x, y = (_take(some, pairs[:, n]) for n in range(2))
    combine = statistic.combine
    nothing = statistic.empty(count)

    yield from _differing(statistic, "identity: e ⊕ a = a", combine(nothing, some), some, some)
    yield from _differing(statistic, "identity: a ⊕ e = a", combine(some, nothing), some, some)
    left, right = combine(combine(a, b), c), combine(a, combine(b, c))
    yield from _differing(statistic, "associativity: (a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)", left, right, a, b, c)
    if statistic.commutative:
        yield from _differing(statistic, "commutativity: a ⊕ b = b ⊕ a", combine(x, y), combine(y, x), x, y)
    if statistic.inverse is not None:
        yield from _differing(statistic, "inverse: (a ⊕ b) ⊖ a = b", statistic.inverse(combine(x, y), x), y, x, y)
    if statistic.selective:
        both = combine(x, y)
        chosen = _equal(both, x, exactly=True) | _equal(both, y, exactly=True)
        for row in np.flatnonzero(~chosen)[:1]:
            yield f"{statistic.name} is not selective: {_show(x, row)} ⊕ {_show(y, row)} = {_show(both, row)}"


def _differing(statistic: Statistic, law: str, left: Columns, right: Columns, *given: Columns) -> Iterator[str]:
    for row in np.flatnonzero(~_equal(left, right))[:1]:
        names = ", ".join(f"{name} = {_show(records, row)}" for name, records in zip("abc", given, strict=False))
        yield (
            f"{statistic.name} breaks {law}. For {names} the left side is {_show(left, row)} "
            f"and the right side {_show(right, row)}"
        )


def _equal(left: Columns, right: Columns, *, exactly: bool = False) -> Array:
    """Record by record; floats may differ by a rounding error, unless they must be exactly the same."""
    columns = [_equal_column(a, b, exactly) for a, b in zip(left, right, strict=True)]
    return np.asarray(np.logical_and.reduce(columns))


def _equal_column(a: Array, b: Array, exactly: bool) -> Array:
    if a.dtype.kind == "f" and not exactly:
        return np.isclose(a, b, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
    if a.dtype == object:
        alike = eq if exactly else _alike
        return np.array([bool(alike(x, y)) for x, y in zip(a, b, strict=True)], dtype=bool)
    same = (a == b) | ((a != a) & (b != b))  # noqa: PLR0124 - NaN alone differs from itself
    return np.asarray(same.reshape(len(same), -1).all(axis=1))


def _alike(x: Any, y: Any) -> bool:
    """Whether two Python objects are equal, but for rounding errors in the floats they are made of."""
    if isinstance(x, float) or isinstance(y, float):
        numbers = isinstance(x, int | float) and isinstance(y, int | float)
        return numbers and (isclose(x, y, rel_tol=_ROUNDING, abs_tol=_ROUNDING) or (isnan(x) and isnan(y)))
    if isinstance(x, tuple | list) and type(x) is type(y):
        return len(x) == len(y) and all(map(_alike, x, y))
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all(_alike(value, y[key]) for key, value in x.items())
    return bool(x == y)


def _take(records: Columns, rows: Array) -> Columns:
    return tuple(column[rows] for column in records)


def _show(records: Columns, row: int) -> str:
    values = [column[row : row + 1].tolist()[0] for column in records]
    return repr(values[0]) if len(values) == 1 else f"({', '.join(map(repr, values))})"
