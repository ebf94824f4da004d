"""Raw memory for compiled code, and how Numba is told what a function means in compiled code.

Numba counts references to every array that a compiled function passes on; in a loop whose body is one addition, that
counting is most of the time. The compiled kernels therefore see memory as C does: an address and a type, without an
owner. The caller keeps the arrays alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, lower_builtin, overload, register_jitable, type_callable

F = TypeVar("F", bound=Callable[..., Any])

FLOATS = types.CPointer(types.float64)
INTS = types.CPointer(types.int64)


def jitable(function: F) -> F:
    """Marks a Python function that compiled code may call too, and takes in whole; for Python it stays what it is."""
    return cast(F, register_jitable(forceinline=True)(function))


def address(array: Any) -> int:
    """Where the array's memory begins. (`array.ctypes.data` says the same, in four times the time.)"""
    return int(array.__array_interface__["data"][0])


def _cast_to(pointer: Any) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def at(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(pointer))

        return pointer(types.intp), generate

    return at


#: In compiled code: the memory at an address as 64-bit floats or 64-bit integers.
floats_at = _cast_to(FLOATS)
ints_at = _cast_to(INTS)


@intrinsic  # type: ignore[untyped-decorator]
def call_row_operation(
    typing_context: Any, function: Any, z: Any, x: Any, y: Any, width: Any, columns: Any, carry: Any
) -> Any:
    """In compiled code: calls the compiled row operation at address `function`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word] * 6)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), generate


def implements(function: Callable[..., Any]) -> Callable[[F], F]:
    """The decorated function picks what compiled code does for `function`, by the types of arguments."""
    # Strict, Numba would compare annotations of parameters as well as their names.
    return cast(Callable[[F], F], overload(function, strict=False, jit_options={"forceinline": True}))


def in_place(function: Callable[..., Any], result: Any, *arguments: Any) -> Callable[[F], F]:
    """The decorated function generates what compiled code does for `function`, which is then no call."""

    def decorate(generate: F) -> F:
        typer = (lambda a: result) if len(arguments) == 1 else (lambda a, b: result)
        type_callable(function)(lambda context: typer)
        return cast(F, lower_builtin(function, *arguments)(generate))

    return decorate


def is_arithmetic(kind: Any, *classes: type) -> bool:
    return isinstance(kind, types.BaseNamedTuple) and kind.instance_class in classes
