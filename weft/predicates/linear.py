"""Whether linear inequalities can hold together, by Fourier and Motzkin's elimination.

A variable that is bounded from below by some sums and from above by others can go, if each of the former is held
against each of the latter. When no variable is left, what remains are statements about numbers. Exact numbers decide;
strict and weak inequalities are told apart. Every step is sound over the rationals, so "cannot hold" is always right;
that nothing was found may be for lack of effort, or because whole numbers are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TypeAlias

#: Coefficients by variable, in the order of the names: whole and coprime numbers, none of them zero.
Coefficients: TypeAlias = tuple[tuple[str, int], ...]

_MOST_INEQUALITIES = 1_500


@dataclass(frozen=True, slots=True)
class Inequality:
    """Σ coefficient · variable < bound, or ≤ bound unless it is strict."""

    coefficients: Coefficients
    bound: Fraction
    is_strict: bool


def inequality(coefficients: Mapping[str, int], bound: Fraction, is_strict: bool) -> Inequality:
    """An inequality with its coefficients in the one way to write them."""
    size = gcd(*coefficients.values())
    if size > 1:
        coefficients = {name: each // size for name, each in coefficients.items()}
        bound /= size
    return Inequality(tuple(sorted((name, each) for name, each in coefficients.items() if each)), bound, is_strict)


def comparison(coefficients: Mapping[str, int], operator: str, bound: Fraction) -> tuple[Inequality, ...]:
    """Σ coefficient · variable `operator` bound. (`!=` is no inequality, and says nothing here.)"""
    negated = {name: -each for name, each in coefficients.items()}
    upper = (inequality(coefficients, bound, operator == "<"),) if operator in ("<", "<=", "=") else ()
    lower = (inequality(negated, -bound, operator == ">"),) if operator in (">", ">=", "=") else ()
    return upper + lower


def is_infeasible(inequalities: Iterable[Inequality]) -> bool:
    """Whether no numbers satisfy all the inequalities.

    >>> less = comparison({"a": 1, "b": -1}, "<", Fraction(0))
    >>> is_infeasible([*less, *comparison({"b": 1}, "<", Fraction(1)), *comparison({"a": 1}, ">=", Fraction(1))])
    True
    """
    system = _tightest(inequalities)
    while system is not None and system:
        variable = _cheapest(system)
        system = _without(variable, system)
        if system is not None and len(system) > _MOST_INEQUALITIES:
            return False
    return system is None


def _tightest(inequalities: Iterable[Inequality]) -> dict[Coefficients, Inequality] | None:
    """The tightest inequality for each left side; None if one of them cannot hold."""
    best: dict[Coefficients, Inequality] = {}
    for each in inequalities:
        if not each.coefficients:
            if each.bound < 0 or (each.is_strict and each.bound == 0):
                return None
            continue
        known = best.get(each.coefficients)
        if known is None or (each.bound, not each.is_strict) < (known.bound, not known.is_strict):
            best[each.coefficients] = each
    return best


def _cheapest(system: Mapping[Coefficients, Inequality]) -> str:
    """The variable whose elimination leaves the fewest inequalities."""
    below: dict[str, int] = {}
    above: dict[str, int] = {}
    for coefficients in system:
        for name, coefficient in coefficients:
            side = above if coefficient > 0 else below
            side[name] = side.get(name, 0) + 1
    return min(sorted({*below, *above}), key=lambda name: below.get(name, 0) * above.get(name, 0))


def _without(variable: str, system: Mapping[Coefficients, Inequality]) -> dict[Coefficients, Inequality] | None:
    rest: list[Inequality] = []
    lowers: list[tuple[Inequality, int]] = []
    uppers: list[tuple[Inequality, int]] = []
    for each in system.values():
        coefficient = dict(each.coefficients).get(variable)
        if coefficient is None:
            rest.append(each)
        else:
            (uppers if coefficient > 0 else lowers).append((each, abs(coefficient)))
    combined = (_combined(low, b, high, a) for low, a in lowers for high, b in uppers)
    return _tightest([*rest, *combined])


def _combined(left: Inequality, a: int, right: Inequality, b: int) -> Inequality:
    total = {name: each * a for name, each in left.coefficients}
    for name, each in right.coefficients:
        total[name] = total.get(name, 0) + each * b
    return inequality(total, left.bound * a + right.bound * b, left.is_strict or right.is_strict)
