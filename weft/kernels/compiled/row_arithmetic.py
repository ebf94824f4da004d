"""The arithmetic of partials on rows of all group keys, compiled.

A row holds one partial of every group key: column after column, and in a column key after key, so that a loop over
keys runs through successive memory and becomes vector instructions. A row operation is a function (z, x, y, width,
columns, carry) of the addresses of three rows, the number of keys, the number of columns, and, for accumulators, the
distance in bytes from a row to the row that holds its carry. Kernels, compiled once, call them through pointers; a new
aggregate function brings new row operations and no kernel is compiled again.

An **accumulator** is a row that partials are added to and taken out of again. With whole numbers that is exact. A
sum of DOUBLEs takes the rounding error of every step along in the carry (Neumaier's summation, its error term found by
Knuth's two-sum): after 1e17 has come and gone, what is left is what was there before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from numba import cfunc, types

from weft.kernels.compiled.cells import RowPointers
from weft.kernels.compiled.pointers import call_row_operation, floats_at, ints_at, jitable

RowOperation: TypeAlias = Callable[[int, int, int, int, int, int], None]

_SIGNATURE = types.void(*[types.intp] * 6)


@dataclass(frozen=True, slots=True)
class Subtraction:
    """What a kernel that takes expired partials out again needs, beyond `combine`."""

    extend: RowOperation
    """Accumulator z = accumulator x ⊕ row y."""

    lose: RowOperation
    """Accumulator z = z ⊖ row x."""

    swap: RowOperation
    """Accumulator z = z ⊕ row x ⊖ row y: one partial in and one out, in one pass."""

    settle: RowOperation
    """Row z = the value of accumulator x."""

    between: RowOperation
    """Row z = accumulator x ⊖ accumulator y."""


@dataclass(frozen=True, slots=True)
class RowArithmetic:
    """The compiled arithmetic of a statistic."""

    combine: RowOperation
    """Row z = row x ⊕ row y."""

    subtraction: Subtraction | None = None


@cache
def row_operation(operation: RowOperation) -> Any:
    """The operation in machine code. Compiles it once, and keeps it on disk."""
    return cfunc(_SIGNATURE, cache=True)(operation)


def address_of(operation: RowOperation) -> int:
    """Where the machine code of an operation is, while the process lives."""
    return int(row_operation(operation).address)


# Whole numbers: they may wrap. A difference of wrapped sums is right whenever the window's own sum fits.


def add_ints(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, left, right = ints_at(z), ints_at(x), ints_at(y)
    for k in range(width * columns):
        to[k] = left[k] + right[k]


def lose_ints(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, gone = ints_at(z), ints_at(x)
    for k in range(width * columns):
        to[k] -= gone[k]


def swap_ints(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, come, gone = ints_at(z), ints_at(x), ints_at(y)
    for k in range(width * columns):
        to[k] += come[k] - gone[k]


def copy_words(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, source = ints_at(z), ints_at(x)
    for k in range(width * columns):
        to[k] = source[k]


def subtract_ints(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, newer, older = ints_at(z), ints_at(x), ints_at(y)
    for k in range(width * columns):
        to[k] = newer[k] - older[k]


ADD_INTS = RowArithmetic(
    combine=add_ints,
    subtraction=Subtraction(extend=add_ints, lose=lose_ints, swap=swap_ints, settle=copy_words, between=subtract_ints),
)

# DOUBLEs, one column. Rows are finite: NaN and the infinities are counted apart (see `statistics.nonfinite`).


@jitable
def two_sum(a: float, b: float) -> tuple[float, float]:
    """The rounded sum of two numbers, and exactly what the rounding lost."""
    total = a + b
    b_seen = total - a
    return total, (a - (total - b_seen)) + (b - b_seen)


def add_floats(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, left, right = floats_at(z), floats_at(x), floats_at(y)
    for k in range(width):
        to[k] = left[k] + right[k]


def extend_floats(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, to_carry = floats_at(z), floats_at(z + carry)
    source, source_carry, come = floats_at(x), floats_at(x + carry), floats_at(y)
    for k in range(width):
        total, lost = two_sum(source[k], come[k])
        to_carry[k] = source_carry[k] + lost
        to[k] = total


def lose_floats(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, to_carry, gone = floats_at(z), floats_at(z + carry), floats_at(x)
    for k in range(width):
        total, lost = two_sum(to[k], -gone[k])
        to_carry[k] += lost
        to[k] = total


def swap_floats(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, to_carry, come, gone = floats_at(z), floats_at(z + carry), floats_at(x), floats_at(y)
    for k in range(width):
        change, lost_in_change = two_sum(come[k], -gone[k])
        total, lost = two_sum(to[k], change)
        to_carry[k] += lost + lost_in_change
        to[k] = total


def settle_floats(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, source, source_carry = floats_at(z), floats_at(x), floats_at(x + carry)
    for k in range(width):
        to[k] = source[k] + source_carry[k]


def between_floats(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to = floats_at(z)
    newer, newer_carry, older, older_carry = floats_at(x), floats_at(x + carry), floats_at(y), floats_at(y + carry)
    for k in range(width):
        total, lost = two_sum(newer[k], -older[k])
        to[k] = total + (lost + (newer_carry[k] - older_carry[k]))


ADD_FLOATS = RowArithmetic(
    combine=add_floats,
    subtraction=Subtraction(
        extend=extend_floats, lose=lose_floats, swap=swap_floats, settle=settle_floats, between=between_floats
    ),
)

# Least and greatest. There is no NaN among floats: it is counted apart. Records of several columns compare column by
# column; equal records are alike, so it does not matter which of them is kept.


def greatest_floats(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, left, right = floats_at(z), floats_at(x), floats_at(y)
    for k in range(width):
        a, b = left[k], right[k]
        to[k] = a if a > b else b


def least_floats(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, left, right = floats_at(z), floats_at(x), floats_at(y)
    for k in range(width):
        a, b = left[k], right[k]
        to[k] = a if a < b else b


@jitable
def record_exceeds(left: Any, right: Any, k: int, width: int, columns: int) -> bool:
    """Whether record k of the left row is greater than record k of the right row."""
    for c in range(columns):
        a, b = left[c * width + k], right[c * width + k]
        if a != b:
            return bool(a > b)
    return False


def greatest_ints(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, left, right = ints_at(z), ints_at(x), ints_at(y)
    if columns == 1:
        for k in range(width):
            to[k] = max(left[k], right[k])
    else:
        for k in range(width):
            source = right if record_exceeds(right, left, k, width, columns) else left
            for c in range(columns):
                to[c * width + k] = source[c * width + k]


def least_ints(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    to, left, right = ints_at(z), ints_at(x), ints_at(y)
    if columns == 1:
        for k in range(width):
            to[k] = min(left[k], right[k])
    else:
        for k in range(width):
            source = right if record_exceeds(left, right, k, width, columns) else left
            for c in range(columns):
                to[c * width + k] = source[c * width + k]


GREATEST_FLOATS = RowArithmetic(combine=greatest_floats)
LEAST_FLOATS = RowArithmetic(combine=least_floats)
GREATEST_INTS = RowArithmetic(combine=greatest_ints)
LEAST_INTS = RowArithmetic(combine=least_ints)


def merge_moments(z: int, x: int, y: int, width: int, columns: int, carry: int) -> None:
    """Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances"."""
    to, left, right = floats_at(z), floats_at(x), floats_at(y)
    for k in range(width):
        left_n, right_n = left[k], right[k]
        left_mean, right_mean = left[width + k], right[width + k]
        n = left_n + right_n
        share = right_n / n if n > 0 else 0.0
        apart = right_mean - left_mean
        # In this order nothing overflows against an empty side, whose weight is 0.
        between = apart * (apart * (left_n * share))
        m2 = left[2 * width + k] + right[2 * width + k] + between
        to[k] = n
        to[width + k] = left_mean + apart * share
        to[2 * width + k] = m2


MERGE_MOMENTS = RowArithmetic(combine=merge_moments)


@jitable
def _row(f: RowPointers, base: int, row: int) -> int:
    return base + row * f.width * f.columns * 8


@jitable
def _operate(f: RowPointers, function: int, z: int, x: int, y: int) -> None:
    call_row_operation(function, z, x, y, f.width, f.columns, f.carry)


@jitable
def _copy_row(f: RowPointers, z: int, x: int) -> None:
    to, source = ints_at(z), ints_at(x)
    for k in range(f.width * f.columns):
        to[k] = source[k]


def combine(f: RowPointers, to: int, dst: int, left: int, a: int, right: int, b: int) -> None:
    _operate(f, f.combine_at, _row(f, to, dst), _row(f, left, a), _row(f, right, b))


def copy(f: RowPointers, to: int, dst: int, source: int, a: int) -> None:
    _copy_row(f, _row(f, to, dst), _row(f, source, a))


def begin(f: RowPointers, cells: int, acc: int, source: int, a: int) -> None:
    _copy_row(f, _row(f, cells, acc), _row(f, source, a))
    if f.carry != 0:
        carry = ints_at(_row(f, cells, acc) + f.carry)
        for k in range(f.width * f.columns):
            carry[k] = 0


def adopt(f: RowPointers, cells: int, acc: int, other: int) -> None:
    _copy_row(f, _row(f, cells, acc), _row(f, cells, other))
    if f.carry != 0:
        _copy_row(f, _row(f, cells, acc) + f.carry, _row(f, cells, other) + f.carry)


def extend(f: RowPointers, cells: int, acc: int, other: int, source: int, a: int) -> None:
    _operate(f, f.extend_at, _row(f, cells, acc), _row(f, cells, other), _row(f, source, a))


def lose(f: RowPointers, cells: int, acc: int, source: int, a: int) -> None:
    _operate(f, f.lose_at, _row(f, cells, acc), _row(f, source, a), 0)


def swap(f: RowPointers, cells: int, acc: int, source: int, a: int, old: int) -> None:
    _operate(f, f.swap_at, _row(f, cells, acc), _row(f, source, a), _row(f, cells, old))


def settle(f: RowPointers, to: int, dst: int, cells: int, acc: int) -> None:
    _operate(f, f.settle_at, _row(f, to, dst), _row(f, cells, acc), 0)


def between(f: RowPointers, to: int, dst: int, cells: int, newer: int, older: int) -> None:
    _operate(f, f.between_at, _row(f, to, dst), _row(f, cells, newer), _row(f, cells, older))


def displaces(f: RowPointers, new: int, a: int, old: int, b: int, key: int) -> bool:
    x, y = _row(f, new, a), _row(f, old, b)
    if f.order >= 3:
        v, w = floats_at(x)[key], floats_at(y)[key]
        return bool(v >= w if f.order == 3 else v <= w)
    newer, older = ints_at(x), ints_at(y)
    for c in range(f.columns):
        p, q = newer[c * f.width + key], older[c * f.width + key]
        if p != q:
            return bool((p > q) == (f.order == 1))
    return True


def put(f: RowPointers, to: int, dst: int, source: int, a: int, key: int) -> None:
    z, x = ints_at(_row(f, to, dst)), ints_at(_row(f, source, a))
    for c in range(f.columns):
        z[c * f.width + key] = x[c * f.width + key]
