"""The compiled arithmetic of partials: on rows of all group keys, and on the single numbers of an ungrouped query.

A row holds one partial of every group key: column after column, and in a column key after key, so that a loop over
keys runs through successive memory and becomes vector instructions. A row operation combines row x with row y into row
z. Kernels, compiled once, call row operations through pointers; a new aggregate function brings new ones, and no kernel
is compiled again.

The arithmetic of single numbers, and of pairs of integers, the limbs of a SUM of BIGINTs, becomes part of the kernel's
own machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from weft.kernels.compiled.cells import Arithmetic
from weft.kernels.compiled.machine_code import (
    Memory,
    RowOperation,
    call_row,
    compiles,
    floats_at,
    ints_at,
    jitable,
    memory_of,
)

# Whole numbers may wrap. A difference of wrapped sums is right whenever the window's own sum fits.


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


# Floats are finite: NaN and the infinities of sums are counted apart, and so are the NaN of extremes (see
# `monoids.NONFINITE`).


def add_floats(z: int, x: int, y: int, width: int, columns: int) -> None:
    to, left, right = floats_at(z), floats_at(x), floats_at(y)
    for k in range(width * columns):
        to[k] = left[k] + right[k]


@jitable
def greater(x: Any, y: Any) -> Any:
    return x if x > y else y


@jitable
def lesser(x: Any, y: Any) -> Any:
    return x if x < y else y


def _choosing(choose: Callable[[Any, Any], Any], numbers_at: Callable[[int], Any]) -> RowOperation:
    """The operation that chooses one of two records: by their first numbers that differ, column by column.

    Equal records are alike, so it does not matter which of them is kept.
    """

    def choose_records(z: int, x: int, y: int, width: int, columns: int) -> None:
        to, left, right = numbers_at(z), numbers_at(x), numbers_at(y)
        if columns == 1:
            for k in range(width):
                to[k] = choose(left[k], right[k])
            return
        last = (columns - 1) * width
        for k in range(width):
            at = k
            while at < last and left[at] == right[at]:
                at += width
            source = left if choose(left[at], right[at]) == left[at] else right
            for place in range(k, last + width, width):
                to[place] = source[place]

    return choose_records


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


# --- kernels over rows ------------------------------------------------------------------------------------------------

#: Which records displace others.
GREATEST, LEAST, FLOATS = 1, 2, 4


class _Pointers(NamedTuple):
    combine_at: int
    subtract_at: int
    swap_at: int
    order: int
    width: int
    columns: int


@jitable
def _row(f: RowPointers, base: int, row: int) -> int:
    return base + row * f.width * f.columns * 8


class RowPointers(_Pointers, Arithmetic):
    """Arithmetic on rows: addresses of row operations, and the shape of a row."""

    def number_of_keys(self) -> int:
        return self.width

    def combine(self, to: int, dst: int, left: int, a: int, right: int, b: int) -> None:
        z, x, y = _row(self, to, dst), _row(self, left, a), _row(self, right, b)
        call_row(self.combine_at, z, x, y, self.width, self.columns)

    def subtract(self, to: int, dst: int, left: int, a: int, right: int, b: int) -> None:
        z, x, y = _row(self, to, dst), _row(self, left, a), _row(self, right, b)
        call_row(self.subtract_at, z, x, y, self.width, self.columns)

    def swap(self, cells: int, dst: int, source: int, a: int, old: int) -> None:
        z, x, y = _row(self, cells, dst), _row(self, source, a), _row(self, cells, old)
        call_row(self.swap_at, z, x, y, self.width, self.columns)

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
        for c in range(2):
            to[2 * dst + c] = left[2 * a + c] + right[2 * b + c]

    def subtract(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        for c in range(2):
            to[2 * dst + c] = left[2 * a + c] - right[2 * b + c]

    def swap(self, cells: Memory, dst: int, source: Memory, a: int, old: int) -> None:
        for c in range(2):
            cells[2 * dst + c] += source[2 * a + c] - cells[2 * old + c]

    def copy(self, to: Memory, dst: int, source: Memory, a: int) -> None:
        for c in range(2):
            to[2 * dst + c] = source[2 * a + c]


class Extreme(SingleNumber):
    """The least or the greatest number."""

    def choose(self, x: Any, y: Any) -> Any:
        """The greater or the lesser of two numbers."""
        raise NotImplementedError

    def combine(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        to[dst] = self.choose(left[a], right[b])

    def displaces(self, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
        return bool(self.choose(old[b], new[a]) == new[a])

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
        return greater(x, y)


class Least(Extreme):
    """Minimum."""

    def choose(self, x: Any, y: Any) -> Any:
        return lesser(x, y)


compiles(Extreme.choose)

# --- the arithmetic of statistics -------------------------------------------------------------------------------------


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

    of_one_key: Mapping[int, type[SingleNumber]] = field(default_factory=dict)
    """The arithmetic of a single key, by the number of columns."""


ADD_INTS = RowArithmetic(add_ints, subtract_ints, swap_ints, of_one_key={1: Add, 2: AddPairs})
ADD_FLOATS = RowArithmetic(add_floats, of_one_key={1: Add})
#: By whether they are floats, and by whether it is the greatest that counts.
EXTREMES = {
    (floating, greatest): RowArithmetic(
        _choosing(greater if greatest else lesser, floats_at if floating else ints_at),
        order=(GREATEST if greatest else LEAST) | (FLOATS if floating else 0),
        of_one_key={1: Greatest if greatest else Least},
    )
    for floating, greatest in product((False, True), repeat=2)
}
MERGE_MOMENTS = RowArithmetic(merge_moments)
