"""The functions of `cells` on single numbers, and on pairs of integers, the limbs of a SUM of BIGINTs.

The arithmetic becomes part of the kernel's own machine code.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import Add, AddPairs, Greatest, Least, Memory
from weft.kernels.compiled.pointers import implements, is_arithmetic
from weft.kernels.compiled.row_arithmetic import two_sum


def combine_sum(f: Add, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
    to[dst] = left[a] + right[b]


def choose(f: Any, x: float, y: float) -> float:
    """In compiled code: the greater or the lesser of two numbers."""
    raise NotImplementedError


@implements(choose)
def _choose(f: Any, x: Any, y: Any) -> Any:
    if is_arithmetic(f, Greatest):
        return lambda f, x, y: x if x > y else y
    return lambda f, x, y: x if x < y else y


def combine(f: Any, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
    to[dst] = choose(f, left[a], right[b])


def copy(f: Any, to: Memory, dst: int, source: Memory, a: int) -> None:
    to[dst] = source[a]


def begin(f: Add, cells: Memory, acc: int, source: Memory, a: int) -> None:
    cells[acc] = source[a]
    if f.carry != 0:
        cells[acc + f.carry] = f.zero


def adopt(f: Add, cells: Memory, acc: int, other: int) -> None:
    cells[acc] = cells[other]
    if f.carry != 0:
        cells[acc + f.carry] = cells[other + f.carry]


def extend_ints(f: Add, cells: Memory, acc: int, other: int, source: Memory, a: int) -> None:
    cells[acc] = cells[other] + source[a]


def extend_floats(f: Add, cells: Memory, acc: int, other: int, source: Memory, a: int) -> None:
    total, lost = two_sum(cells[other], source[a])
    cells[acc + f.carry] = cells[other + f.carry] + lost
    cells[acc] = total


def lose_ints(f: Add, cells: Memory, acc: int, source: Memory, a: int) -> None:
    cells[acc] -= source[a]


def lose_floats(f: Add, cells: Memory, acc: int, source: Memory, a: int) -> None:
    total, lost = two_sum(cells[acc], -source[a])
    cells[acc + f.carry] += lost
    cells[acc] = total


def swap_ints(f: Add, cells: Memory, acc: int, source: Memory, a: int, old: int) -> None:
    cells[acc] += source[a] - cells[old]


def swap_floats(f: Add, cells: Memory, acc: int, source: Memory, a: int, old: int) -> None:
    change, lost_in_change = two_sum(source[a], -cells[old])
    total, lost = two_sum(cells[acc], change)
    cells[acc + f.carry] += lost + lost_in_change
    cells[acc] = total


def settle_ints(f: Add, to: Memory, dst: int, cells: Memory, acc: int) -> None:
    to[dst] = cells[acc]


def settle_floats(f: Add, to: Memory, dst: int, cells: Memory, acc: int) -> None:
    to[dst] = cells[acc] + cells[acc + f.carry]


def between_ints(f: Add, to: Memory, dst: int, cells: Memory, newer: int, older: int) -> None:
    to[dst] = cells[newer] - cells[older]


def between_floats(f: Add, to: Memory, dst: int, cells: Memory, newer: int, older: int) -> None:
    total, lost = two_sum(cells[newer], -cells[older])
    to[dst] = total + (lost + (cells[newer + f.carry] - cells[older + f.carry]))


def displaces_greatest(f: Greatest, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
    return bool(new[a] >= old[b])


def displaces_least(f: Least, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
    return bool(new[a] <= old[b])


def undisplaced(f: Any, cells: Memory, first: int, count: int, kept: Memory, at: int, key: int) -> int:
    best, number = cells[first + count - 1], 1
    kept[at] = count - 1
    n = count - 2
    while n >= 0:
        if n >= 7:
            # Most numbers are displaced: eight that all are cost one guess, and a good one.
            c = first + n
            last = choose(f, choose(f, cells[c], cells[c - 1]), choose(f, cells[c - 2], cells[c - 3]))
            rest = choose(f, choose(f, cells[c - 4], cells[c - 5]), choose(f, cells[c - 6], cells[c - 7]))
            if choose(f, best, choose(f, last, rest)) == best:
                n -= 8
                continue
        for earlier in range(n, max(n - 8, -1), -1):
            better = choose(f, best, cells[first + earlier])
            kept[at + number] = earlier
            number += int(better != best)
            best = better
        n -= 8
    return number


def put_span(f: Any, to: Memory, dst: int, count: int, room: int, source: Memory, a: int, key: int) -> None:
    value = source[a]
    # A few too many, where there is room, leave no rest that a loop of vector instructions would take one by one.
    whole = (count + 15) & ~15
    for n in range(whole if whole <= room else count):
        to[dst + n] = value


def put(f: Any, to: Memory, dst: int, source: Memory, a: int, key: int) -> None:
    to[dst] = source[a]


def combine_pairs(f: AddPairs, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
    to[2 * dst] = left[2 * a] + right[2 * b]
    to[2 * dst + 1] = left[2 * a + 1] + right[2 * b + 1]


def copy_pairs(f: AddPairs, to: Memory, dst: int, source: Memory, a: int) -> None:
    to[2 * dst] = source[2 * a]
    to[2 * dst + 1] = source[2 * a + 1]


def begin_pairs(f: AddPairs, cells: Memory, acc: int, source: Memory, a: int) -> None:
    cells[2 * acc] = source[2 * a]
    cells[2 * acc + 1] = source[2 * a + 1]


def adopt_pairs(f: AddPairs, cells: Memory, acc: int, other: int) -> None:
    cells[2 * acc] = cells[2 * other]
    cells[2 * acc + 1] = cells[2 * other + 1]


def extend_pairs(f: AddPairs, cells: Memory, acc: int, other: int, source: Memory, a: int) -> None:
    cells[2 * acc] = cells[2 * other] + source[2 * a]
    cells[2 * acc + 1] = cells[2 * other + 1] + source[2 * a + 1]


def lose_pairs(f: AddPairs, cells: Memory, acc: int, source: Memory, a: int) -> None:
    cells[2 * acc] -= source[2 * a]
    cells[2 * acc + 1] -= source[2 * a + 1]


def swap_pairs(f: AddPairs, cells: Memory, acc: int, source: Memory, a: int, old: int) -> None:
    cells[2 * acc] += source[2 * a] - cells[2 * old]
    cells[2 * acc + 1] += source[2 * a + 1] - cells[2 * old + 1]


def settle_pairs(f: AddPairs, to: Memory, dst: int, cells: Memory, acc: int) -> None:
    to[2 * dst] = cells[2 * acc]
    to[2 * dst + 1] = cells[2 * acc + 1]


def between_pairs(f: AddPairs, to: Memory, dst: int, cells: Memory, newer: int, older: int) -> None:
    to[2 * dst] = cells[2 * newer] - cells[2 * older]
    to[2 * dst + 1] = cells[2 * newer + 1] - cells[2 * older + 1]
