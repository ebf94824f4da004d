"""The functions of `cells` on single pairs of integers, the limbs of a SUM of BIGINTs (see `statistics`)."""

from __future__ import annotations

from weft.kernels.cells import AddPairs, Memory


def combine(f: AddPairs, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
    to[2 * dst] = left[2 * a] + right[2 * b]
    to[2 * dst + 1] = left[2 * a + 1] + right[2 * b + 1]


def copy(f: AddPairs, to: Memory, dst: int, source: Memory, a: int) -> None:
    to[2 * dst] = source[2 * a]
    to[2 * dst + 1] = source[2 * a + 1]


def begin(f: AddPairs, cells: Memory, acc: int, source: Memory, a: int) -> None:
    cells[2 * acc] = source[2 * a]
    cells[2 * acc + 1] = source[2 * a + 1]


def adopt(f: AddPairs, cells: Memory, acc: int, other: int) -> None:
    cells[2 * acc] = cells[2 * other]
    cells[2 * acc + 1] = cells[2 * other + 1]


def extend(f: AddPairs, cells: Memory, acc: int, other: int, source: Memory, a: int) -> None:
    cells[2 * acc] = cells[2 * other] + source[2 * a]
    cells[2 * acc + 1] = cells[2 * other + 1] + source[2 * a + 1]


def lose(f: AddPairs, cells: Memory, acc: int, source: Memory, a: int) -> None:
    cells[2 * acc] -= source[2 * a]
    cells[2 * acc + 1] -= source[2 * a + 1]


def swap(f: AddPairs, cells: Memory, acc: int, source: Memory, a: int, old: int) -> None:
    cells[2 * acc] += source[2 * a] - cells[2 * old]
    cells[2 * acc + 1] += source[2 * a + 1] - cells[2 * old + 1]


def settle(f: AddPairs, to: Memory, dst: int, cells: Memory, acc: int) -> None:
    to[2 * dst] = cells[2 * acc]
    to[2 * dst + 1] = cells[2 * acc + 1]


def between(f: AddPairs, to: Memory, dst: int, cells: Memory, newer: int, older: int) -> None:
    to[2 * dst] = cells[2 * newer] - cells[2 * older]
    to[2 * dst + 1] = cells[2 * newer + 1] - cells[2 * older + 1]


def swap_span(
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
