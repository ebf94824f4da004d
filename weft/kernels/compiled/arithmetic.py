"""The compiled arithmetic of partials: on rows of all group keys, and on the single numbers of an ungrouped query.

A row holds one partial of every group key: column after column, and in a column key after key, so that a loop over
keys runs through successive memory and becomes vector instructions. A row operation is a function (z, x, y, width,
columns) of the addresses of three rows, the number of keys, and the number of columns. Kernels, compiled once, call
them through pointers; a new aggregate function brings new row operations and no kernel is compiled again.

The arithmetic of single numbers, and of pairs of integers, the limbs of a SUM of BIGINTs, becomes part of the kernel's
own machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import cfunc, types
from numba.extending import intrinsic

from weft.kernels.compiled.cells import Arithmetic, Memory, compiles, floats_at, ints_at, jitable, memory_of

# --- kernels over single numbers --------------------------------------------------------------------------------------


class _Zero(NamedTuple):
    zero: float
    """0 or 0.0, which tells the type of the numbers."""


class SingleNumber(_Zero, Arithmetic):
    """Arithmetic of one key, whose cells are numbers."""

    def memory(self, address: Memory) -> Memory:
        return memory_of(self.zero, address)

    def number_of_keys(self) -> int:
        return 1

    def copy(self, to: Memory, dst: int, source: Memory, a: int) -> None:
        to[dst] = source[a]


class Add(SingleNumber):
    """Addition."""

    def combine(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        to[dst] = left[a] + right[b]

    def subtract(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        to[dst] = left[a] - right[b]

    def swap(self, cells: Memory, dst: int, source: Memory, a: int, old: int) -> None:
        cells[dst] += source[a] - cells[old]


class AddPairs(SingleNumber):
    """Addition of records of two integers."""

    def combine(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        to[2 * dst] = left[2 * a] + right[2 * b]
        to[2 * dst + 1] = left[2 * a + 1] + right[2 * b + 1]

    def subtract(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        to[2 * dst] = left[2 * a] - right[2 * b]
        to[2 * dst + 1] = left[2 * a + 1] - right[2 * b + 1]

    def swap(self, cells: Memory, dst: int, source: Memory, a: int, old: int) -> None:
        cells[2 * dst] += source[2 * a] - cells[2 * old]
        cells[2 * dst + 1] += source[2 * a + 1] - cells[2 * old + 1]

    def copy(self, to: Memory, dst: int, source: Memory, a: int) -> None:
        to[2 * dst] = source[2 * a]
        to[2 * dst + 1] = source[2 * a + 1]


class Extreme(SingleNumber):
    """The least or the greatest number."""

    def choose(self, x: Any, y: Any) -> Any:
        """The greater or the lesser of two numbers."""
        raise NotImplementedError

    def combine(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        to[dst] = self.choose(left[a], right[b])

    def put(self, to: Memory, dst: int, source: Memory, a: int, key: int) -> None:
        to[dst] = source[a]

    def put_span(self, to: Memory, dst: int, count: int, room: int, source: Memory, a: int, key: int) -> None:
        value = source[a]
        # A few too many, where there is room, leave no rest that a loop of vector instructions would take one by one.
        whole = (count + 15) & ~15
        for n in range(whole if whole <= room else count):
            to[dst + n] = value

    def undisplaced(self, cells: Memory, first: int, count: int, kept: Memory, at: int, key: int) -> int:
        best, number = cells[first + count - 1], 1
        kept[at] = count - 1
        n = count - 2
        while n >= 0:
            if n >= 7:
                # Most numbers are displaced: eight that all are cost one guess, and a good one.
                c = first + n
                last = self.choose(self.choose(cells[c], cells[c - 1]), self.choose(cells[c - 2], cells[c - 3]))
                rest = self.choose(self.choose(cells[c - 4], cells[c - 5]), self.choose(cells[c - 6], cells[c - 7]))
                if self.choose(best, self.choose(last, rest)) == best:
                    n -= 8
                    continue
            for earlier in range(n, max(n - 8, -1), -1):
                better = self.choose(best, cells[first + earlier])
                kept[at + number] = earlier
                number += int(better != best)
                best = better
            n -= 8
        return number


class Greatest(Extreme):
    """Maximum."""

    def choose(self, x: Any, y: Any) -> Any:
        return x if x > y else y

    def displaces(self, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
        return bool(new[a] >= old[b])


class Least(Extreme):
    """Minimum."""

    def choose(self, x: Any, y: Any) -> Any:
        return x if x < y else y

    def displaces(self, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
        return bool(new[a] <= old[b])


compiles(Extreme.choose)

# --- row operations ---------------------------------------------------------------------------------------------------

RowOperation: TypeAlias = Callable[[int, int, int, int, int], None]

_SIGNATURE = types.void(*[types.intp] * 5)


@dataclass(frozen=True, slots=True)
class RowArithmetic:
    """The compiled arithmetic of a statistic."""

    combine: RowOperation
    """Row z = row x ⊕ row y."""

    subtract: RowOperation | None = None
    """Row z = row x ⊖ row y."""

    swap: RowOperation | None = None
    """Row z = row z ⊕ row x ⊖ row y."""

    order: int = 0
    """Which records displace others: GREATEST or LEAST, and FLOATS if they are floats. 0 where none does."""

    ufunc: np.ufunc | None = None
    """Combines each column of a sum by itself, or records of one column."""

    of_one_key: Mapping[int, type[SingleNumber]] = field(default_factory=dict)
    """The arithmetic of a single key, by the number of columns."""


GREATEST, LEAST, FLOATS = 1, 2, 4


@cache
def row_operation(operation: RowOperation) -> Any:
    """The operation in machine code. Compiles it once, and keeps it on disk."""
    return cfunc(_SIGNATURE, cache=True)(operation)


def address_of(operation: RowOperation | None) -> int:
    """Where the machine code of an operation is, while the process lives."""
    return 0 if operation is None else int(row_operation(operation).address)


# Whole numbers: they may wrap. A difference of wrapped sums is right whenever the window's own sum fits.


def add_ints(z: int, x: int, y: int, width: int, columns: int) -> None:
    to, left, right = ints_at(z), ints_at(x), ints_at(y)
    for k in range(width * columns):
        to[k] = left[k] + right[k]


def subtract_ints(z: int, x: int, y: int, width: int, columns: int) -> None:
    to, left, right = ints_at(z), ints_at(x), ints_at(y)
    if z == x:
        # Where it is plain that nothing overlaps in another way, this becomes vector instructions.
        for k in range(width * columns):
            to[k] -= right[k]
    else:
        for k in range(width * columns):
            to[k] = left[k] - right[k]


def swap_ints(z: int, x: int, y: int, width: int, columns: int) -> None:
    to, come, gone = ints_at(z), ints_at(x), ints_at(y)
    for k in range(width * columns):
        to[k] += come[k] - gone[k]


ADD_INTS = RowArithmetic(add_ints, subtract_ints, swap_ints, ufunc=np.add, of_one_key={1: Add, 2: AddPairs})

# DOUBLEs, one column. Rows are finite: NaN and the infinities are counted apart (see `monoids.NONFINITE`).


def add_floats(z: int, x: int, y: int, width: int, columns: int) -> None:
    to, left, right = floats_at(z), floats_at(x), floats_at(y)
    for k in range(width):
        to[k] = left[k] + right[k]


ADD_FLOATS = RowArithmetic(add_floats, ufunc=np.add, of_one_key={1: Add})

# Least and greatest. There is no NaN among floats: it is counted apart. Records of several columns compare column by
# column; equal records are alike, so it does not matter which of them is kept.


def greatest_floats(z: int, x: int, y: int, width: int, columns: int) -> None:
    to, left, right = floats_at(z), floats_at(x), floats_at(y)
    for k in range(width):
        a, b = left[k], right[k]
        to[k] = a if a > b else b


def least_floats(z: int, x: int, y: int, width: int, columns: int) -> None:
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


def greatest_ints(z: int, x: int, y: int, width: int, columns: int) -> None:
    to, left, right = ints_at(z), ints_at(x), ints_at(y)
    if columns == 1:
        for k in range(width):
            to[k] = max(left[k], right[k])
    else:
        for k in range(width):
            source = right if record_exceeds(right, left, k, width, columns) else left
            for c in range(columns):
                to[c * width + k] = source[c * width + k]


def least_ints(z: int, x: int, y: int, width: int, columns: int) -> None:
    to, left, right = ints_at(z), ints_at(x), ints_at(y)
    if columns == 1:
        for k in range(width):
            to[k] = min(left[k], right[k])
    else:
        for k in range(width):
            source = right if record_exceeds(left, right, k, width, columns) else left
            for c in range(columns):
                to[c * width + k] = source[c * width + k]


GREATEST_FLOATS = RowArithmetic(greatest_floats, order=GREATEST | FLOATS, ufunc=np.maximum, of_one_key={1: Greatest})
LEAST_FLOATS = RowArithmetic(least_floats, order=LEAST | FLOATS, ufunc=np.minimum, of_one_key={1: Least})
GREATEST_INTS = RowArithmetic(greatest_ints, order=GREATEST, ufunc=np.maximum, of_one_key={1: Greatest})
LEAST_INTS = RowArithmetic(least_ints, order=LEAST, ufunc=np.minimum, of_one_key={1: Least})


def merge_moments(z: int, x: int, y: int, width: int, columns: int) -> None:
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


MERGE_MOMENTS = RowArithmetic(merge_moments)


# --- kernels over rows ------------------------------------------------------------------------------------------------


@intrinsic  # type: ignore[untyped-decorator]
def _call(typing_context: Any, function: Any, z: Any, x: Any, y: Any, width: Any, columns: Any) -> Any:
    """In compiled code: calls the compiled row operation at address `function`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 5)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


@jitable
def _row(f: RowPointers, base: int, row: int) -> int:
    return base + row * f.width * f.columns * 8


class _Pointers(NamedTuple):
    combine_at: int
    subtract_at: int
    swap_at: int
    order: int
    width: int
    columns: int


class RowPointers(_Pointers, Arithmetic):
    """Arithmetic on rows: addresses of row operations, and the shape of a row."""

    def number_of_keys(self) -> int:
        return self.width

    def combine(self, to: int, dst: int, left: int, a: int, right: int, b: int) -> None:
        z, x, y = _row(self, to, dst), _row(self, left, a), _row(self, right, b)
        _call(self.combine_at, z, x, y, self.width, self.columns)

    def subtract(self, to: int, dst: int, left: int, a: int, right: int, b: int) -> None:
        z, x, y = _row(self, to, dst), _row(self, left, a), _row(self, right, b)
        _call(self.subtract_at, z, x, y, self.width, self.columns)

    def swap(self, cells: int, dst: int, source: int, a: int, old: int) -> None:
        z, x, y = _row(self, cells, dst), _row(self, source, a), _row(self, cells, old)
        _call(self.swap_at, z, x, y, self.width, self.columns)

    def copy(self, to: int, dst: int, source: int, a: int) -> None:
        z, x = ints_at(_row(self, to, dst)), ints_at(_row(self, source, a))
        for k in range(self.width * self.columns):
            z[k] = x[k]

    def put(self, to: int, dst: int, source: int, a: int, key: int) -> None:
        z, x = ints_at(_row(self, to, dst)), ints_at(_row(self, source, a))
        for c in range(self.columns):
            z[c * self.width + key] = x[c * self.width + key]

    def displaces(self, new: int, a: int, old: int, b: int, key: int) -> bool:
        x, y = _row(self, new, a), _row(self, old, b)
        if self.order & FLOATS:
            v, w = floats_at(x)[key], floats_at(y)[key]
            return bool(v >= w if self.order & GREATEST else v <= w)
        newer, older = ints_at(x), ints_at(y)
        for c in range(self.columns):
            p, q = newer[c * self.width + key], older[c * self.width + key]
            if p != q:
                return bool((p > q) == (self.order == GREATEST))
        return True
