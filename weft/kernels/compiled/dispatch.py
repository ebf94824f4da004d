"""Which machine code for which arithmetic: Numba asks when it compiles a kernel."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba import types

from weft.kernels.cells import (
    Add,
    AddPairs,
    Greatest,
    Rows,
    adopt,
    begin,
    between,
    combine,
    copy,
    displaces,
    extend,
    gather_span,
    join_prefixes,
    lose,
    put,
    put_span,
    settle,
    suffixes,
    swap,
    swap_span,
    undisplaced,
)
from weft.kernels.compiled import on_numbers, on_pairs, on_rows
from weft.kernels.compiled.overloading import implements, is_arithmetic


def _of(f: Any) -> ModuleType:
    """The module of the arithmetic, where its function goes by the name of the one in `cells`."""
    if is_arithmetic(f, Rows):
        return on_rows
    return on_pairs if is_arithmetic(f, AddPairs) else on_numbers


def _sum(f: Any, name: str) -> Callable[..., Any]:
    """The function of this name that subtraction needs: with numbers, there is one for integers and one for floats."""
    if not is_arithmetic(f, Add):
        return getattr(_of(f), name)  # type: ignore[no-any-return]
    return getattr(on_numbers, f"{name}_{'floats' if f.types[0] == types.float64 else 'ints'}")  # type: ignore[no-any-return]


@implements(combine)
def _combine(f: Any, to: Any, dst: Any, left: Any, a: Any, right: Any, b: Any) -> Any:
    if is_arithmetic(f, Add):
        return on_numbers.add
    return on_numbers.chosen if _of(f) is on_numbers else _of(f).combine


@implements(copy)
def _copy(f: Any, to: Any, dst: Any, source: Any, a: Any) -> Any:
    return _of(f).copy


@implements(begin)
def _begin(f: Any, cells: Any, acc: Any, source: Any, a: Any) -> Any:
    return _of(f).begin


@implements(adopt)
def _adopt(f: Any, cells: Any, acc: Any, other: Any) -> Any:
    return _of(f).adopt


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
    if is_arithmetic(f, Rows):
        return on_rows.displaces
    return on_numbers.displaces_greatest if is_arithmetic(f, Greatest) else on_numbers.displaces_least


@implements(put)
def _put(f: Any, to: Any, dst: Any, source: Any, a: Any, key: Any) -> Any:
    return _of(f).put


@implements(swap_span)
def _swap_span(
    f: Any, cells: Any, acc: Any, old: Any, new: Any, source: Any, a: Any, out: Any, dst: Any, count: Any
) -> Any:
    return swap_span if is_arithmetic(f, Rows) else _sum(f, "swap_span")


# Of rows, these go step by step: the functions of `cells` themselves are compiled.


@implements(gather_span)
def _gather_span(
    f: Any, cells: Any, first: Any, peak: Any, head: Any, source: Any, a: Any, out: Any, dst: Any, count: Any
) -> Any:
    return gather_span if is_arithmetic(f, Rows) else on_numbers.gather_span


@implements(undisplaced)
def _undisplaced(f: Any, cells: Any, first: Any, count: Any, kept: Any, at: Any, key: Any) -> Any:
    return undisplaced if is_arithmetic(f, Rows) else on_numbers.undisplaced


@implements(suffixes)
def _suffixes(f: Any, to: Any, dst: Any, source: Any, a: Any, count: Any) -> Any:
    return suffixes if is_arithmetic(f, Rows) else on_numbers.suffixes


@implements(join_prefixes)
def _join_prefixes(f: Any, cells: Any, acc: Any, source: Any, a: Any, out: Any, dst: Any, count: Any) -> Any:
    return join_prefixes if is_arithmetic(f, Rows) else on_numbers.join_prefixes


@implements(put_span)
def _put_span(f: Any, to: Any, dst: Any, count: Any, room: Any, source: Any, a: Any, key: Any) -> Any:
    return put_span if is_arithmetic(f, Rows) else on_numbers.put_span
