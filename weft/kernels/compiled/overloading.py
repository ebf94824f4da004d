"""How compiled code gets its own meaning of a function of `cells`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import types
from numba.extending import lower_builtin, overload, type_callable

F = TypeVar("F", bound=Callable[..., Any])


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
