"""Cells: where a kernel keeps its aggregates, and what it can do to them.

A kernel is an algorithm over numbered cells; a cell is one partial, or one row of partials, one for each group key. The
algorithm never looks into a cell. It is written once, in terms of the methods of an arithmetic `f`, and runs in three
worlds:

    RowPointers             compiled; a cell is a row of all group keys; `f` holds pointers to row operations
    Add, Greatest, Least,   compiled; a cell is one number, or a pair of them (an ungrouped query); the arithmetic is
    AddPairs                part of the kernel's own machine code
    any other               interpreted. Texts are combined so, and operations are counted so.

`to`, `left`, `cells`, … are memories (addresses when compiled), and the numbers after them the cells in these. Numba
counts references to every array that a compiled function passes on; in a loop whose body is one addition, that counting
is most of the time. So compiled kernels see memory as C does: an address and a type, without an owner. The caller keeps
the arrays alive.

Partials are numbered 0, 1, 2, … for ever. Those of the window, FIRST to NEXT − 1, live in a ring of SLOTS cells. All
keys see the same partials come and go, so one set of numbers serves all keys. They are few, and kept in a short list,
`ix`, that compiled code holds in registers; a kernel's own begin at OWN. A kernel that needs more of them, one for each
partial or range, has a `table` as well.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, overload, overload_method, register_jitable, type_callable
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

#: A memory: an address, a typed pointer, or whatever the interpreted arithmetic takes for one.
Memory: TypeAlias = Any

#: Numbers that a kernel keeps: a list when interpreted, an array when compiled.
Index: TypeAlias = list[int] | NDArray[np.int64]

FIRST, NEXT, SLOTS, BASE, CAPACITY, RANGES, COMMUTES, OWN = range(8)

#: How many numbers `ix` has.
NUMBERS = 16

# --- how Numba is told what a function means --------------------------------------------------------------------------

INTS = types.CPointer(types.int64)

# Strict, Numba would compare annotations of parameters as well as their names.
_INLINE: dict[str, Any] = {"strict": False, "jit_options": {"forceinline": True}}


def jitable(function: F) -> F:
    """Marks a Python function that compiled code may call too, and takes in whole; for Python it stays what it is."""
    return cast(F, register_jitable(forceinline=True)(function))


def implements(function: Callable[..., Any]) -> Callable[[F], F]:
    """The decorated function picks what compiled code does for `function`, by the types of arguments."""
    return cast(Callable[[F], F], overload(function, **_INLINE))


def in_place(function: Callable[..., Any], result: Any, *arguments: Any) -> Callable[[F], F]:
    """The decorated function generates what compiled code does for `function`, which is then no call."""

    def decorate(generate: F) -> F:
        typer = (lambda a: result) if len(arguments) == 1 else (lambda a, b: result)
        type_callable(function)(lambda context: typer)
        return cast(F, lower_builtin(function, *arguments)(generate))

    return decorate


# --- memory -----------------------------------------------------------------------------------------------------------


def address(array: Any) -> int:
    """Where the array's memory begins. (`array.ctypes.data` says the same, in four times the time.)"""
    return int(array.__array_interface__["data"][0])


@intrinsic  # type: ignore[untyped-decorator]
def memory_of(typing_context: Any, like: Any, address: Any) -> Any:
    """In compiled code: the memory at an address, as numbers of the type of `like`."""
    pointer = types.CPointer(types.unliteral(like))

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[1], context.get_value_type(pointer))

    return pointer(like, types.intp), generate


@jitable
def floats_at(address: int) -> Any:
    """In compiled code: the memory at an address as 64-bit floats."""
    return memory_of(0.0, address)


@jitable
def ints_at(address: int) -> Any:
    """In compiled code: the memory at an address as 64-bit integers."""
    return memory_of(0, address)


def words(address: Memory) -> Memory:
    """The integers at an address."""
    return address


@implements(words)
def _words(address: Any) -> Any:
    return ints_at


def numbers(address: Memory) -> Memory:
    """The numbers at an address, for as long as the kernel runs."""
    return address


def keep_numbers(address: Memory, held: Memory) -> None:
    """Writes them back."""


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


# --- the operations ---------------------------------------------------------------------------------------------------


class Arithmetic:
    """What a kernel can do to cells. One that is compiled is a named tuple, whose class says what is compiled in."""

    def memory(self, address: Memory) -> Memory:
        """The memory at an address, in the form that the methods below take."""
        return address

    def number_of_keys(self) -> int:
        raise NotImplementedError

    def combine(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        """to[dst] = left[a] ⊕ right[b]."""
        raise NotImplementedError

    def subtract(self, to: Memory, dst: int, left: Memory, a: int, right: Memory, b: int) -> None:
        """to[dst] = left[a] ⊖ right[b]."""
        raise NotImplementedError

    def swap(self, cells: Memory, dst: int, source: Memory, a: int, old: int) -> None:
        """cells[dst] = cells[dst] ⊕ source[a] ⊖ cells[old]: one partial in and one out, in one pass."""
        raise NotImplementedError

    def copy(self, to: Memory, dst: int, source: Memory, a: int) -> None:
        """to[dst] = source[a]."""
        raise NotImplementedError

    def put(self, to: Memory, dst: int, source: Memory, a: int, key: int) -> None:
        """to[dst] = source[a], for one key."""
        raise NotImplementedError

    def put_span(self, to: Memory, dst: int, count: int, room: int, source: Memory, a: int, key: int) -> None:
        """to[dst], … = source[a], `count` times, for one key. `room` cells from to[dst] on may be overwritten."""
        for n in range(count):
            self.put(to, dst + n, source, a, key)

    def displaces(self, new: Memory, a: int, old: Memory, b: int, key: int) -> bool:
        """Whether old[b] ⊕ new[a] = new[a], for one key: the older of the two can never be an answer again."""
        raise NotImplementedError

    def undisplaced(self, cells: Memory, first: int, count: int, kept: Memory, at: int, key: int) -> int:
        """Of `count` cells, as they came in, those that no later one displaces: kept[at], …, the latest first.

        Returns how many there are.
        """
        latest, number = count - 1, 1
        kept[at] = latest
        for earlier in range(count - 2, -1, -1):
            # Without a branch, for the comparison is a coin toss: what is not kept is overwritten by the next.
            keeps = not self.displaces(cells, first + latest, cells, first + earlier, key)
            kept[at + number] = earlier
            number += int(keeps)
            latest = earlier if keeps else latest
        return number


def compiles(function: Callable[..., Any]) -> None:
    """Lets compiled code call a method of named tuples: that of the class."""

    def method(f: Any, *arguments: Any) -> Any:
        return getattr(f.instance_class, function.__name__, None)

    method.__signature__ = signature(function)  # type: ignore[attr-defined]
    overload_method(types.BaseNamedTuple, function.__name__, **_INLINE)(method)


for _method in [each for name, each in vars(Arithmetic).items() if not name.startswith("_")]:
    compiles(_method)


# --- the ring ---------------------------------------------------------------------------------------------------------


@jitable
def slot(ix: Index, sequence: int) -> int:
    """The ring's cell for a sequence number: `sequence mod SLOTS`, without a division."""
    offset = sequence - ix[BASE]
    return offset - ix[SLOTS] if offset >= ix[SLOTS] else offset


@jitable
def forget(ix: Index, start: int) -> None:
    """Nothing before `start` is needed any more."""
    ix[FIRST] = start
    hold_from(ix, start)


@jitable
def hold_from(ix: Index, oldest: int) -> None:
    """Turns the ring until the oldest sequence number still addressed lies in its first round."""
    while oldest - ix[BASE] >= ix[SLOTS]:
        ix[BASE] += ix[SLOTS]
