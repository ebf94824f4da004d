"""The functions of `cells` on rows of all keys: pointers to rows go to compiled row operations."""

from __future__ import annotations

from weft.kernels.cells import Rows
from weft.kernels.pointers import call_row_operation, floats_at, ints_at, jitable


@jitable
def _row(f: Rows, base: int, row: int) -> int:
    return base + row * f.width * f.columns * 8


@jitable
def _operate(f: Rows, function: int, z: int, x: int, y: int) -> None:
    call_row_operation(function, z, x, y, f.width, f.columns, f.carry)


@jitable
def _copy_row(f: Rows, z: int, x: int) -> None:
    to, source = ints_at(z), ints_at(x)
    for k in range(f.width * f.columns):
        to[k] = source[k]


def combine(f: Rows, to: int, dst: int, left: int, a: int, right: int, b: int) -> None:
    _operate(f, f.combine_at, _row(f, to, dst), _row(f, left, a), _row(f, right, b))


def copy(f: Rows, to: int, dst: int, source: int, a: int) -> None:
    _copy_row(f, _row(f, to, dst), _row(f, source, a))


def begin(f: Rows, cells: int, acc: int, source: int, a: int) -> None:
    _copy_row(f, _row(f, cells, acc), _row(f, source, a))
    if f.carry != 0:
        carry = ints_at(_row(f, cells, acc) + f.carry)
        for k in range(f.width * f.columns):
            carry[k] = 0


def adopt(f: Rows, cells: int, acc: int, other: int) -> None:
    _copy_row(f, _row(f, cells, acc), _row(f, cells, other))
    if f.carry != 0:
        _copy_row(f, _row(f, cells, acc) + f.carry, _row(f, cells, other) + f.carry)


def extend(f: Rows, cells: int, acc: int, other: int, source: int, a: int) -> None:
    _operate(f, f.extend_at, _row(f, cells, acc), _row(f, cells, other), _row(f, source, a))


def lose(f: Rows, cells: int, acc: int, source: int, a: int) -> None:
    _operate(f, f.lose_at, _row(f, cells, acc), _row(f, source, a), 0)


def swap(f: Rows, cells: int, acc: int, source: int, a: int, old: int) -> None:
    _operate(f, f.swap_at, _row(f, cells, acc), _row(f, source, a), _row(f, cells, old))


def settle(f: Rows, to: int, dst: int, cells: int, acc: int) -> None:
    _operate(f, f.settle_at, _row(f, to, dst), _row(f, cells, acc), 0)


def between(f: Rows, to: int, dst: int, cells: int, newer: int, older: int) -> None:
    _operate(f, f.between_at, _row(f, to, dst), _row(f, cells, newer), _row(f, cells, older))


def displaces(f: Rows, new: int, a: int, old: int, b: int, key: int) -> bool:
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


def put(f: Rows, to: int, dst: int, source: int, a: int, key: int) -> None:
    z, x = ints_at(_row(f, to, dst)), ints_at(_row(f, source, a))
    for c in range(f.columns):
        z[c * f.width + key] = x[c * f.width + key]
