"""What Numba and LLVM are told: which functions become machine code, and how that code sees memory.

Numba counts references to every array that a compiled function passes on; in a loop whose body is one addition, that
counting is most of the time. So compiled kernels see memory as C does: an address and a type, without an owner. The
caller keeps the arrays alive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, overload, overload_method, register_jitable, type_callable

F = TypeVar("F", bound=Callable[..., Any])

#: A memory: an address, a typed pointer, or whatever the interpreted arithmetic takes for one.
Memory: TypeAlias = Any

INTS = types.CPointer(types.int64)

# Strict, Numba would compare annotations of parameters as well as their names.
_INLINE: dict[str, Any] = {"strict": False, "jit_options": {"forceinline": True}}

# --- functions --------------------------------------------------------------------------------------------------------


def jitable(function: F) -> F:
    """Marks a Python function that compiled code may call too, and takes in whole; for Python it stays what it is."""
    return cast(F, register_jitable(forceinline=True)(function))


def compiles(method: Callable[..., Any]) -> None:
    """Lets compiled code call a method of named tuples: that of the class."""

    def of_class(f: Any, *arguments: Any) -> Any:
        return getattr(f.instance_class, method.__name__, None)

    of_class.__signature__ = signature(method)  # type: ignore[attr-defined]
    overload_method(types.BaseNamedTuple, method.__name__, **_INLINE)(of_class)


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


@cache
def _source_stamp() -> str:
    """Changes with any source file of this package."""
    digest = blake2b(digest_size=7)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def in_machine_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled, and kept on disk.

    To see whether what is kept is still good, Numba looks at the file of the compiled function alone; so its name says
    what the files of all functions were that are compiled into it.
    """
    function.__qualname__ += f"_{_source_stamp()}"
    return njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]


#: (z, x, y, width, columns): the addresses of three rows, the number of keys, and the number of columns.
RowOperation: TypeAlias = Callable[[int, int, int, int, int], None]


@cache
def row_operation(operation: RowOperation) -> Any:
    """The operation in machine code. Compiles it once, and keeps it on disk."""
    operation.__qualname__ += f"_{_source_stamp()}"
    return cfunc(types.void(*[types.intp] * 5), cache=True)(operation)


@intrinsic  # type: ignore[untyped-decorator]
def call_row(context: Any, function: Any, z: Any, x: Any, y: Any, width: Any, columns: Any) -> Any:
    """In compiled code: calls the compiled row operation at address `function`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 5)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


# --- memory -----------------------------------------------------------------------------------------------------------


def address(array: Any) -> int:
    """Where the array's memory begins. (`array.ctypes.data` says the same, in four times the time.)"""
    return int(array.__array_interface__["data"][0])


@intrinsic  # type: ignore[untyped-decorator]
def memory_of(context: Any, like: Any, address: Any) -> Any:
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


#: How many numbers a kernel keeps.
NUMBERS = 16


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
