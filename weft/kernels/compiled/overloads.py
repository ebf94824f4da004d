"""The machine code of the functions of `cells`, by the type of the arithmetic: Numba asks when it compiles a kernel.

Memories are typed pointers, and a kernel's numbers are held in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from weft.kernels.compiled import number_arithmetic, row_arithmetic
from weft.kernels.compiled.cells import (
    NUMBERS,
    Add,
    AddPairs,
    Greatest,
    RowPointers,
    adopt,
    begin,
    between,
    combine,
    copy,
    displaces,
    extend,
    is_exact,
    keep_numbers,
    lose,
    memory,
    number_of_keys,
    numbers,
    put,
    put_span,
    settle,
    swap,
    undisplaced,
    words,
)
from weft.kernels.compiled.pointers import INTS, floats_at, implements, in_place, ints_at, is_arithmetic


def _named(f: Any, name: str) -> Callable[..., Any]:
    """The function of this name for an arithmetic: pairs of integers have their own, marked so."""
    if is_arithmetic(f, RowPointers):
        return getattr(row_arithmetic, name)  # type: ignore[no-any-return]
    return getattr(number_arithmetic, f"{name}_pairs" if is_arithmetic(f, AddPairs) else name)  # type: ignore[no-any-return]


def _sum(f: Any, name: str) -> Callable[..., Any]:
    """The function of this name that subtraction needs: of single numbers, there is one for integers and for floats."""
    if not is_arithmetic(f, Add):
        return _named(f, name)
    return getattr(number_arithmetic, f"{name}_{'floats' if f.types[0] == types.float64 else 'ints'}")  # type: ignore[no-any-return]


@implements(combine)
def _combine(f: Any, to: Any, dst: Any, left: Any, a: Any, right: Any, b: Any) -> Any:
    if is_arithmetic(f, RowPointers, AddPairs):
        return _named(f, "combine")
    return number_arithmetic.add if is_arithmetic(f, Add) else number_arithmetic.chosen


@implements(copy)
def _copy(f: Any, to: Any, dst: Any, source: Any, a: Any) -> Any:
    return _named(f, "copy")


@implements(begin)
def _begin(f: Any, cells: Any, acc: Any, source: Any, a: Any) -> Any:
    return _named(f, "begin")


@implements(adopt)
def _adopt(f: Any, cells: Any, acc: Any, other: Any) -> Any:
    return _named(f, "adopt")


@implements(extend)
def _extend(f: Any, cells: Any, acc: Any, other: Any, source: Any, a: Any) -> Any:
    return _sum(f, "extend")


@implements(lose)
def _lose(f: Any, cells: Any, acc: Any, source: Any, a: Any) -> Any:
    return _sum(f, "lose")


@implements(swap)
def _swap(f: Any, cells: Any, acc: Any, source: Any, a: Any, old: Any) -> Any:
    return _sum(f, "swap")


@implements(settle)
def _settle(f: Any, to: Any, dst: Any, cells: Any, acc: Any) -> Any:
    return _sum(f, "settle")


@implements(between)
def _between(f: Any, to: Any, dst: Any, cells: Any, newer: Any, older: Any) -> Any:
    return _sum(f, "between")


@implements(displaces)
def _displaces(f: Any, new: Any, a: Any, old: Any, b: Any, key: Any) -> Any:
    if is_arithmetic(f, RowPointers):
        return row_arithmetic.displaces
    return number_arithmetic.displaces_greatest if is_arithmetic(f, Greatest) else number_arithmetic.displaces_least


@implements(put)
def _put(f: Any, to: Any, dst: Any, source: Any, a: Any, key: Any) -> Any:
    return _named(f, "put")


# Of rows, these go step by step: the functions of `cells` themselves are compiled.


@implements(undisplaced)
def _undisplaced(f: Any, cells: Any, first: Any, count: Any, kept: Any, at: Any, key: Any) -> Any:
    return undisplaced if is_arithmetic(f, RowPointers) else number_arithmetic.undisplaced


@implements(put_span)
def _put_span(f: Any, to: Any, dst: Any, count: Any, room: Any, source: Any, a: Any, key: Any) -> Any:
    return put_span if is_arithmetic(f, RowPointers) else number_arithmetic.put_span


@implements(memory)
def _memory(f: Any, address: Any) -> Any:
    if is_arithmetic(f, RowPointers):
        return lambda f, address: address
    if f.types[0] == types.float64:
        return lambda f, address: floats_at(address)
    return lambda f, address: ints_at(address)


@implements(words)
def _words(address: Any) -> Any:
    def at(address: int) -> Any:
        return ints_at(address)

    return at


# Numbers are copied to the stack of the function that asks for them, so that it can keep them in registers: no store to
# a cell can change them. A callee's stack would be gone when it returns, so this is code put in place, and no function.


@in_place(numbers, INTS, types.intp)
def _numbers(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    held = cgutils.alloca_once(builder, ir.IntType(64), size=NUMBERS)
    _copy_numbers(builder, builder.inttoptr(args[0], held.type), held)
    return held


@in_place(keep_numbers, types.void, types.intp, INTS)
def _keep_numbers(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    _copy_numbers(builder, args[1], builder.inttoptr(args[0], args[1].type))
    return context.get_dummy_value()


def _copy_numbers(builder: Any, source: Any, to: Any) -> None:
    for n in range(NUMBERS):
        place = [ir.IntType(64)(n)]
        builder.store(builder.load(builder.gep(source, place)), builder.gep(to, place))


@implements(number_of_keys)
def _number_of_keys(f: Any) -> Any:
    if is_arithmetic(f, RowPointers):
        return lambda f: f.width
    return lambda f: 1


@implements(is_exact)
def _is_exact(f: Any) -> Any:
    if is_arithmetic(f, RowPointers):
        return lambda f: f.carry == 0
    if f.types[0] == types.float64:
        return lambda f: False
    return lambda f: True
