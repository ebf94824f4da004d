"""Where things are, in machine code: memories are typed pointers, a kernel's numbers are held in registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from weft.kernels.cells import (
    Rows,
    is_exact,
    keep_numbers,
    memory,
    number_of_keys,
    numbers,
    one_number,
    words,
)
from weft.kernels.compiled.overloading import implements, in_place, is_arithmetic
from weft.kernels.pointers import INTS, floats_at, ints_at
from weft.kernels.ring import NUMBERS


@implements(memory)
def _memory(f: Any, address: Any) -> Any:
    if is_arithmetic(f, Rows):
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


@in_place(one_number, INTS, types.intp)
def _one_number(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    held = cgutils.alloca_once(builder, ir.IntType(64))
    builder.store(args[0], held)
    return held


def _copy_numbers(builder: Any, source: Any, to: Any) -> None:
    for n in range(NUMBERS):
        place = [ir.IntType(64)(n)]
        builder.store(builder.load(builder.gep(source, place)), builder.gep(to, place))


@implements(number_of_keys)
def _number_of_keys(f: Any) -> Any:
    if is_arithmetic(f, Rows):
        return lambda f: f.width
    return lambda f: 1


@implements(is_exact)
def _is_exact(f: Any) -> Any:
    if is_arithmetic(f, Rows):
        return lambda f: f.carry == 0
    if f.types[0] == types.float64:
        return lambda f: False
    return lambda f: True
