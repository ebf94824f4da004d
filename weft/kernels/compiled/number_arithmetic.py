"""The functions of `cells` on single numbers, and on pairs of integers, the limbs of a SUM of BIGINTs.

The arithmetic becomes part of the kernel's own machine code.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import Add, AddPairs, Greatest, Least, Memory
from weft.kernels.compiled.pointers import implements, is_arithmetic
from weft.kernels.compiled.row_arithmetic import two_sum


def add(f: Add, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
    to[dst] = left[a] + right[b]


def choose(f: Any, x: float, y: float) -> float:
    """In compiled code: the greater or the lesser of two numbers."""
    raise NotImplementedError


@implements(choose)
def _choose(f: Any, x: Any, y: Any) -> Any:
    if is_arithmetic(f, Greatest):
        return lambda f, x, y: x if x > y else y
    return lambda f, x, y: x if x < y else y


def chosen(f: Any, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
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


def swap_span_ints(
    f: Add, cells: Memory, acc: int, old: int, new: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    total = cells[acc]
    for n in range(count):
        come = source[a + n]
        total += come - cells[old + n]
        cells[new + n] = come
        out[dst + n] = total
    cells[acc] = total


def swap_span_floats(
    f: Add, cells: Memory, acc: int, old: int, new: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    total, carry = cells[acc], cells[acc + f.carry]
    for n in range(count):
        come = source[a + n]
        change, lost_in_change = two_sum(come, -cells[old + n])
        total, lost = two_sum(total, change)
        carry += lost + lost_in_change
        cells[new + n] = come
        out[dst + n] = total + carry
    cells[acc] = total
    cells[acc + f.carry] = carry


# A running maximum waits four cycles for each comparison. The loops below take four numbers at a time: what these four
# make among themselves does not wait, and only one comparison in four is part of the chain.


def gather_span(
    f: Any, cells: Memory, first: int, peak: int, head: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    best = cells[peak]
    answer = choose(f, cells[head], best)
    n = 0
    while n + 4 <= count:
        w, x, y, z = source[a + n], source[a + n + 1], source[a + n + 2], source[a + n + 3]
        wx, yz = choose(f, w, x), choose(f, y, z)
        cells[first + n], cells[first + n + 1], cells[first + n + 2], cells[first + n + 3] = w, x, y, z
        wxyz = choose(f, wx, yz)
        out[dst + n] = choose(f, answer, w)
        out[dst + n + 1] = choose(f, answer, wx)
        out[dst + n + 2] = choose(f, answer, choose(f, wx, y))
        answer = choose(f, answer, wxyz)
        out[dst + n + 3] = answer
        best = choose(f, best, wxyz)
        n += 4
    while n < count:
        come = source[a + n]
        cells[first + n] = come
        best = choose(f, best, come)
        answer = choose(f, answer, come)
        out[dst + n] = answer
        n += 1
    cells[peak] = best


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


def suffixes(f: Any, to: Memory, dst: int, source: Memory, a: int, count: int) -> None:
    best = source[a + count - 1]
    n = count
    while n >= 4:
        w, x, y, z = source[a + n - 4], source[a + n - 3], source[a + n - 2], source[a + n - 1]
        wx, yz = choose(f, w, x), choose(f, y, z)
        to[dst + n - 1] = choose(f, best, z)
        to[dst + n - 2] = choose(f, best, yz)
        to[dst + n - 3] = choose(f, best, choose(f, x, yz))
        best = choose(f, best, choose(f, wx, yz))
        to[dst + n - 4] = best
        n -= 4
    while n > 0:
        n -= 1
        best = choose(f, best, source[a + n])
        to[dst + n] = best


def join_prefixes(f: Any, cells: Memory, acc: int, source: Memory, a: int, out: Memory, dst: int, count: int) -> None:
    best = source[a]
    n = 0
    while n + 4 <= count:
        w, x, y, z = source[a + n], source[a + n + 1], source[a + n + 2], source[a + n + 3]
        wx, yz = choose(f, w, x), choose(f, y, z)
        out[dst + n] = choose(f, out[dst + n], choose(f, best, w))
        out[dst + n + 1] = choose(f, out[dst + n + 1], choose(f, best, wx))
        out[dst + n + 2] = choose(f, out[dst + n + 2], choose(f, best, choose(f, wx, y)))
        best = choose(f, best, choose(f, wx, yz))
        out[dst + n + 3] = choose(f, out[dst + n + 3], best)
        n += 4
    while n < count:
        best = choose(f, best, source[a + n])
        out[dst + n] = choose(f, out[dst + n], best)
        n += 1


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


def swap_span_pairs(
    f: AddPairs, cells: Memory, acc: int, old: int, new: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    low, high = cells[2 * acc], cells[2 * acc + 1]
    for n in range(count):
        come_low, come_high = source[2 * (a + n)], source[2 * (a + n) + 1]
        low += come_low - cells[2 * (old + n)]
        high += come_high - cells[2 * (old + n) + 1]
        cells[2 * (new + n)] = come_low
        cells[2 * (new + n) + 1] = come_high
        out[2 * (dst + n)] = low
        out[2 * (dst + n) + 1] = high
    cells[2 * acc] = low
    cells[2 * acc + 1] = high
