"""The arithmetic of single numbers, and of pairs of integers, the limbs of a SUM of BIGINTs.

It becomes part of the kernel's own machine code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from weft.kernels.compiled.cells import Arithmetic, Memory, compiles, memory_of


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
