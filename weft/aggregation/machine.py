"""The functions of `cells` in machine code, for rows of all keys and for single numbers.

Numba picks an implementation by the type of the arithmetic `f`, when it compiles a kernel; importing this module is
what makes that possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, overload, type_callable

from weft.aggregation.cells import (
    Add,
    Greatest,
    Least,
    Memory,
    Rows,
    adopt,
    begin,
    between,
    combine,
    copy,
    displaces,
    extend,
    flags,
    gather_span,
    is_exact,
    keep_numbers,
    lose,
    memory,
    number_of_keys,
    numbers,
    one_number,
    put,
    put_span,
    settle,
    swap,
    swap_span,
    undisplaced,
    words,
)
from weft.aggregation.pointers import INTS, call_row_operation, flags_at, floats_at, ints_at, jitable
from weft.aggregation.ring import NUMBERS
from weft.aggregation.rows import two_sum

F = TypeVar("F", bound=Callable[..., Any])


def _implements(function: Callable[..., Any]) -> Callable[[F], F]:
    """The decorated function picks what compiled code does for `function`, by the types of arguments."""
    # Strict, Numba would compare annotations of parameters as well as their names.
    return cast(Callable[[F], F], overload(function, strict=False, jit_options={"forceinline": True}))


def _in_place(function: Callable[..., Any], result: Any, *arguments: Any) -> Callable[[F], F]:
    """The decorated function generates what compiled code does for `function`, which is then no call."""

    def decorate(generate: F) -> F:
        typer = (lambda a: result) if len(arguments) == 1 else (lambda a, b: result)
        type_callable(function)(lambda context: typer)
        return cast(F, lower_builtin(function, *arguments)(generate))

    return decorate


def _is(kind: Any, *classes: type) -> bool:
    return isinstance(kind, types.BaseNamedTuple) and kind.instance_class in classes


# --- where things are --------------------------------------------------------------------------------------


@_implements(memory)
def _memory(f: Any, address: Any) -> Any:
    if _is(f, Rows):
        return lambda f, address: address
    if f.types[0] == types.float64:
        return lambda f, address: floats_at(address)
    return lambda f, address: ints_at(address)


@_implements(words)
def _words(address: Any) -> Any:
    def at(address: int) -> Any:
        return ints_at(address)

    return at


# Numbers are copied to the stack of the function that asks for them, so that it can keep them in registers: no store to
# a cell can change them. A callee's stack would be gone when it returns, so this is code put in place, and no function.


@_in_place(numbers, INTS, types.intp)
def _numbers(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    held = cgutils.alloca_once(builder, ir.IntType(64), size=NUMBERS)
    _copy_numbers(builder, builder.inttoptr(args[0], held.type), held)
    return held


@_in_place(keep_numbers, types.void, types.intp, INTS)
def _keep_numbers(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    _copy_numbers(builder, args[1], builder.inttoptr(args[0], args[1].type))
    return context.get_dummy_value()


@_in_place(one_number, INTS, types.intp)
def _one_number(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    held = cgutils.alloca_once(builder, ir.IntType(64))
    builder.store(args[0], held)
    return held


def _copy_numbers(builder: Any, source: Any, to: Any) -> None:
    for n in range(NUMBERS):
        place = [ir.IntType(64)(n)]
        builder.store(builder.load(builder.gep(source, place)), builder.gep(to, place))


@_implements(flags)
def _flags(address: Any) -> Any:
    def at(address: int) -> Any:
        return flags_at(address)

    return at


@_implements(number_of_keys)
def _number_of_keys(f: Any) -> Any:
    if _is(f, Rows):
        return lambda f: f.width
    return lambda f: 1


@_implements(is_exact)
def _is_exact(f: Any) -> Any:
    if _is(f, Rows):
        return lambda f: f.carry == 0
    if f.types[0] == types.float64:
        return lambda f: False
    return lambda f: True


@jitable
def _row(f: Rows, base: int, row: int) -> int:
    return base + row * f.width * f.columns * 8


# --- rows --------------------------------------------------------------------------------------------------


@jitable
def _operate(f: Rows, function: int, z: int, x: int, y: int) -> None:
    call_row_operation(function, z, x, y, f.width, f.columns, f.carry)


@jitable
def _copy_row(f: Rows, z: int, x: int) -> None:
    to, source = ints_at(z), ints_at(x)
    for k in range(f.width * f.columns):
        to[k] = source[k]


def _combine_rows(f: Rows, to: int, dst: int, left: int, a: int, right: int, b: int) -> None:
    _operate(f, f.combine_at, _row(f, to, dst), _row(f, left, a), _row(f, right, b))


def _copy_rows(f: Rows, to: int, dst: int, source: int, a: int) -> None:
    _copy_row(f, _row(f, to, dst), _row(f, source, a))


def _begin_rows(f: Rows, cells: int, acc: int, source: int, a: int) -> None:
    _copy_row(f, _row(f, cells, acc), _row(f, source, a))
    if f.carry != 0:
        carry = ints_at(_row(f, cells, acc) + f.carry)
        for k in range(f.width * f.columns):
            carry[k] = 0


def _adopt_rows(f: Rows, cells: int, acc: int, other: int) -> None:
    _copy_row(f, _row(f, cells, acc), _row(f, cells, other))
    if f.carry != 0:
        _copy_row(f, _row(f, cells, acc) + f.carry, _row(f, cells, other) + f.carry)


def _extend_rows(f: Rows, cells: int, acc: int, other: int, source: int, a: int) -> None:
    _operate(f, f.extend_at, _row(f, cells, acc), _row(f, cells, other), _row(f, source, a))


def _lose_rows(f: Rows, cells: int, acc: int, source: int, a: int) -> None:
    _operate(f, f.lose_at, _row(f, cells, acc), _row(f, source, a), 0)


def _swap_rows(f: Rows, cells: int, acc: int, source: int, a: int, old: int) -> None:
    _operate(f, f.swap_at, _row(f, cells, acc), _row(f, source, a), _row(f, cells, old))


def _settle_rows(f: Rows, to: int, dst: int, cells: int, acc: int) -> None:
    _operate(f, f.settle_at, _row(f, to, dst), _row(f, cells, acc), 0)


def _between_rows(f: Rows, to: int, dst: int, cells: int, newer: int, older: int) -> None:
    _operate(f, f.between_at, _row(f, to, dst), _row(f, cells, newer), _row(f, cells, older))


def _displaces_in_rows(f: Rows, new: int, a: int, old: int, b: int, key: int) -> bool:
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


def _put_in_rows(f: Rows, to: int, dst: int, source: int, a: int, key: int) -> None:
    z, x = ints_at(_row(f, to, dst)), ints_at(_row(f, source, a))
    for c in range(f.columns):
        z[c * f.width + key] = x[c * f.width + key]


# --- single numbers ----------------------------------------------------------------------------------------


def _add(f: Add, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
    to[dst] = left[a] + right[b]


def choose(f: Any, x: float, y: float) -> float:
    """In compiled code: the greater or the lesser of two numbers."""
    raise NotImplementedError


@_implements(choose)
def _choose(f: Any, x: Any, y: Any) -> Any:
    if _is(f, Greatest):
        return lambda f, x, y: x if x > y else y
    return lambda f, x, y: x if x < y else y


def _chosen(f: Any, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
    to[dst] = choose(f, left[a], right[b])


def _copy_number(f: Any, to: Memory, dst: int, source: Memory, a: int) -> None:
    to[dst] = source[a]


def _begin_number(f: Add, cells: Memory, acc: int, source: Memory, a: int) -> None:
    cells[acc] = source[a]
    if f.carry != 0:
        cells[acc + f.carry] = f.zero


def _adopt_number(f: Add, cells: Memory, acc: int, other: int) -> None:
    cells[acc] = cells[other]
    if f.carry != 0:
        cells[acc + f.carry] = cells[other + f.carry]


def _extend_int(f: Add, cells: Memory, acc: int, other: int, source: Memory, a: int) -> None:
    cells[acc] = cells[other] + source[a]


def _extend_float(f: Add, cells: Memory, acc: int, other: int, source: Memory, a: int) -> None:
    total, lost = two_sum(cells[other], source[a])
    cells[acc + f.carry] = cells[other + f.carry] + lost
    cells[acc] = total


def _lose_int(f: Add, cells: Memory, acc: int, source: Memory, a: int) -> None:
    cells[acc] -= source[a]


def _lose_float(f: Add, cells: Memory, acc: int, source: Memory, a: int) -> None:
    total, lost = two_sum(cells[acc], -source[a])
    cells[acc + f.carry] += lost
    cells[acc] = total


def _swap_int(f: Add, cells: Memory, acc: int, source: Memory, a: int, old: int) -> None:
    cells[acc] += source[a] - cells[old]


def _swap_float(f: Add, cells: Memory, acc: int, source: Memory, a: int, old: int) -> None:
    change, lost_in_change = two_sum(source[a], -cells[old])
    total, lost = two_sum(cells[acc], change)
    cells[acc + f.carry] += lost + lost_in_change
    cells[acc] = total


def _settle_int(f: Add, to: Memory, dst: int, cells: Memory, acc: int) -> None:
    to[dst] = cells[acc]


def _settle_float(f: Add, to: Memory, dst: int, cells: Memory, acc: int) -> None:
    to[dst] = cells[acc] + cells[acc + f.carry]


def _between_int(f: Add, to: Memory, dst: int, cells: Memory, newer: int, older: int) -> None:
    to[dst] = cells[newer] - cells[older]


def _between_float(f: Add, to: Memory, dst: int, cells: Memory, newer: int, older: int) -> None:
    total, lost = two_sum(cells[newer], -cells[older])
    to[dst] = total + (lost + (cells[newer + f.carry] - cells[older + f.carry]))


def _displaces_greatest(f: Greatest, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
    return bool(new[a] >= old[b])


def _displaces_least(f: Least, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
    return bool(new[a] <= old[b])


def _swap_span_of_ints(
    f: Add, cells: Memory, acc: int, old: int, new: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    total = cells[acc]
    for n in range(count):
        come = source[a + n]
        total += come - cells[old + n]
        cells[new + n] = come
        out[dst + n] = total
    cells[acc] = total


def _swap_span_of_floats(
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


def _gather_span_of_numbers(
    f: Any, cells: Memory, first: int, peak: int, head: int, source: Memory, a: int, out: Memory, dst: int, count: int
) -> None:
    best = choose(f, cells[peak], cells[peak])
    for n in range(count):
        come = source[a + n]
        cells[first + n] = come
        best = choose(f, best, come)
        out[dst + n] = choose(f, cells[head], best)
    cells[peak] = best


def _undisplaced_numbers(f: Any, cells: Memory, first: int, count: int, kept: Memory, at: int, key: int) -> int:
    best, number = cells[first + count - 1], 1
    kept[at] = count - 1
    for earlier in range(count - 2, -1, -1):
        value = cells[first + earlier]
        better = choose(f, best, value)
        kept[at + number] = earlier
        number += int(better != best)
        best = better
    return number


def _put_span_of_numbers(f: Any, to: Memory, dst: int, count: int, source: Memory, a: int, key: int) -> None:
    value = source[a]
    for n in range(count):
        to[dst + n] = value


def _put_number(f: Any, to: Memory, dst: int, source: Memory, a: int, key: int) -> None:
    to[dst] = source[a]


# --- which of these for which arithmetic -------------------------------------------------------------------


def _for_add(f: Any, on_ints: Any, on_floats: Any) -> Any:
    if not _is(f, Add):
        return None
    return on_floats if f.types[0] == types.float64 else on_ints


@_implements(combine)
def _combine(f: Any, to: Any, dst: Any, left: Any, a: Any, right: Any, b: Any) -> Any:
    if _is(f, Rows):
        return _combine_rows
    return _add if _is(f, Add) else _chosen


@_implements(copy)
def _copy(f: Any, to: Any, dst: Any, source: Any, a: Any) -> Any:
    return _copy_rows if _is(f, Rows) else _copy_number


@_implements(begin)
def _begin(f: Any, cells: Any, acc: Any, source: Any, a: Any) -> Any:
    return _begin_rows if _is(f, Rows) else _for_add(f, _begin_number, _begin_number)


@_implements(adopt)
def _adopt(f: Any, cells: Any, acc: Any, other: Any) -> Any:
    return _adopt_rows if _is(f, Rows) else _for_add(f, _adopt_number, _adopt_number)


@_implements(extend)
def _extend(f: Any, cells: Any, acc: Any, other: Any, source: Any, a: Any) -> Any:
    return _extend_rows if _is(f, Rows) else _for_add(f, _extend_int, _extend_float)


@_implements(lose)
def _lose(f: Any, cells: Any, acc: Any, source: Any, a: Any) -> Any:
    return _lose_rows if _is(f, Rows) else _for_add(f, _lose_int, _lose_float)


@_implements(swap)
def _swap(f: Any, cells: Any, acc: Any, source: Any, a: Any, old: Any) -> Any:
    return _swap_rows if _is(f, Rows) else _for_add(f, _swap_int, _swap_float)


@_implements(settle)
def _settle(f: Any, to: Any, dst: Any, cells: Any, acc: Any) -> Any:
    return _settle_rows if _is(f, Rows) else _for_add(f, _settle_int, _settle_float)


@_implements(between)
def _between(f: Any, to: Any, dst: Any, cells: Any, newer: Any, older: Any) -> Any:
    return _between_rows if _is(f, Rows) else _for_add(f, _between_int, _between_float)


@_implements(displaces)
def _displaces(f: Any, new: Any, a: Any, old: Any, b: Any, key: Any) -> Any:
    if _is(f, Rows):
        return _displaces_in_rows
    return _displaces_greatest if _is(f, Greatest) else _displaces_least


@_implements(put)
def _put(f: Any, to: Any, dst: Any, source: Any, a: Any, key: Any) -> Any:
    return _put_in_rows if _is(f, Rows) else _put_number


@_implements(put_span)
def _put_span(f: Any, to: Any, dst: Any, count: Any, source: Any, a: Any, key: Any) -> Any:
    return put_span if _is(f, Rows) else _put_span_of_numbers


@_implements(swap_span)
def _swap_span(
    f: Any, cells: Any, acc: Any, old: Any, new: Any, source: Any, a: Any, out: Any, dst: Any, count: Any
) -> Any:
    return _for_add(f, _swap_span_of_ints, _swap_span_of_floats) or swap_span


@_implements(gather_span)
def _gather_span(
    f: Any, cells: Any, first: Any, peak: Any, head: Any, source: Any, a: Any, out: Any, dst: Any, count: Any
) -> Any:
    return gather_span if _is(f, Rows) else _gather_span_of_numbers


@_implements(undisplaced)
def _undisplaced(f: Any, cells: Any, first: Any, count: Any, kept: Any, at: Any, key: Any) -> Any:
    return undisplaced if _is(f, Rows) else _undisplaced_numbers
