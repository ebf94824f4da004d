"""The machine code of the functions of `cells`, by the type of the arithmetic: Numba asks when it compiles a kernel.

Memories are typed pointers, and a kernel's numbers are held in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from weft.kernels.compiled import cells, number_arithmetic, row_arithmetic
from weft.kernels.compiled.cells import (
    NUMBERS,
    Add,
    AddPairs,
    Greatest,
    RowPointers,
    is_exact,
    keep_numbers,
    memory,
    number_of_keys,
    numbers,
    words,
)
from weft.kernels.compiled.pointers import INTS, floats_at, implements, in_place, ints_at, is_arithmetic


def _implementation(f: Any, name: str) -> Callable[..., Any]:
    """The function of this name for an arithmetic: that of its kind, or else that of all single numbers.

    Of rows, what has no function of its own goes step by step: the function of `cells` itself is compiled.
    """
    if is_arithmetic(f, RowPointers):
        return getattr(row_arithmetic, name, None) or getattr(cells, name)  # type: ignore[no-any-return]
    if is_arithmetic(f, AddPairs):
        kinds = ["pairs"]
    elif is_arithmetic(f, Add):
        kinds = ["floats" if f.types[0] == types.float64 else "ints", "sum"]
    else:
        kinds = ["greatest" if is_arithmetic(f, Greatest) else "least"]
    found = [getattr(number_arithmetic, f"{name}_{kind}", None) for kind in kinds]
    return next(filter(None, found), None) or getattr(number_arithmetic, name)  # type: ignore[no-any-return]


def _implemented(function: Callable[..., Any]) -> None:
    @implements(function)
    def choose(f: Any, *arguments: Any) -> Any:
        return _implementation(f, function.__name__)


for _function in (
    *(cells.combine, cells.copy, cells.begin, cells.adopt, cells.extend, cells.lose, cells.swap, cells.settle),
    *(cells.between, cells.displaces, cells.put, cells.undisplaced, cells.put_span),
):
    _implemented(_function)


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
