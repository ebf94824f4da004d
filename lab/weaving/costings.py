"""Costings: how the papers charge for trees, beside weft's own nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import factorial, floor, log2

import numpy as np

from weft.kernels.kernel_cost import DUE_AWARE, MEASURED_PRICES, Demand, Omega, Price, Prices, Tariff, rounded
from weft.optimizer.weave import costing as product
from weft.optimizer.weave.costing import FAST, TREE_KERNELS, FastCost, Floats, Sums

_ONE = Fraction(1)
_INVERSE_FACTORIALS = np.cumsum([0.0] + [1.0 / float(np.prod(np.arange(1.0, i + 1))) for i in range(1, 21)])


@dataclass(frozen=True, eq=False)
class Costing(product.Costing):
    """A costing with a name and a price of reading."""

    name: str = ""
    row: Fraction = _ONE
    """The price of reading a row into an open partial, per group that does."""

    partial: Fraction = _ONE
    """The price of combining a partial of the finest cut into a group's own."""


def _overlap(asked: Demand, rate: Fraction) -> Fraction:
    return Fraction(asked.overlap)


#: Ω without incremental kernels: every partial enters ⌈range/slide⌉ window instances of every query.
OVERLAP: Mapping[str, Omega] = {"panes": _overlap}


#: The papers' prices: one for an operation on a key, whatever the kernel, and nothing else.
UNIT_PRICES: Prices = {
    kernel: Price(Tariff(single=Fraction(1), call=Fraction(0), key=Fraction(1))) for kernel in DUE_AWARE
}


def _flatfat_as_printed(tree: Demand, edge_rate: Fraction) -> Fraction:
    """Formula 4: not monotone (P = 3 costs more than P = 4), and undefined below P = 2, where P − 1 continues it."""
    if tree.number_of_queries == 1:
        return rounded(log2(max(Fraction(1), tree.longest * edge_rate)))
    total = Fraction(0)
    for reach, queries in zip(tree.ranges.tolist(), tree.queries.tolist(), strict=True):
        partials = reach * edge_rate
        if partials >= 2:
            total += queries * (floor(partials - 1).bit_length() - 1)
        if partials >= 1:
            total += queries * (partials - 1) / (1 << floor(partials).bit_length() - 1)
    return total


def _slickdeque_noninv_as_printed(tree: Demand, edge_rate: Fraction) -> Fraction:
    """Formula 7."""
    most = max(Fraction(1), tree.longest * edge_rate)
    # 1/21! is beyond what a double can tell apart from nothing.
    factorials = sum(Fraction(1, factorial(i)) for i in range(1, min(floor(most), 20) + 1))
    return 2 - 2 / most + tree.number_of_queries + factorials


#: Ω as Shein and Chrysanthis have it, formulas 3 to 7; for the kernels that they have no formula for, their Table 2.
#: Two Stacks and DABA serve one range each there, B-Int is charged like FlatFAT, and formula 6 counts different
#: Pᵢ = rangeᵢ·E, of which there are as many as different ranges.
PRINTED: Mapping[str, Omega] = {
    "panes": lambda tree, edge_rate: tree.windows_per_row,
    "panes_inv": lambda tree, edge_rate: Fraction(2 * tree.number_of_ranges),
    "flatfat": _flatfat_as_printed,
    "b_int": _flatfat_as_printed,
    "flatfit": lambda tree, edge_rate: Fraction(3 * tree.number_of_queries),
    "two_stacks": lambda tree, edge_rate: Fraction(3 * tree.number_of_ranges),
    "daba": lambda tree, edge_rate: Fraction(5 * tree.number_of_ranges),
    "slickdeque_inv": lambda tree, edge_rate: Fraction(2 * tree.number_of_ranges),
    "slickdeque_noninv": _slickdeque_noninv_as_printed,
}


def _slickdeque_noninv_printed(sums: Sums, rates: Floats) -> Floats:
    most = np.maximum(1, sums.longest * rates)
    # The floor of what is a whole number but for rounding is that number.
    factorials = _INVERSE_FACTORIALS[np.minimum(np.floor(most * (1 + 1e-12)), 20).astype(np.int64)]
    return np.asarray(rates * (2 - 2 / most + sums.queries + factorials))


#: The fast forms of Ω as it is printed.
FAST_PRINTED: Mapping[str, FastCost] = {
    "panes": lambda sums, rates: rates * sums.windows,
    "flatfit": lambda sums, rates: rates * 3 * sums.queries,
    "slickdeque_inv": lambda sums, rates: rates * 2 * sums.ranges(),
    "two_stacks": lambda sums, rates: rates * 3 * sums.ranges(),
    "daba": lambda sums, rates: rates * 5 * sums.ranges(),
    "slickdeque_noninv": _slickdeque_noninv_printed,
}

#: The fast forms of Ω as it is, with those of kernels that trees are not served by.
FAST_DUE_AWARE: Mapping[str, FastCost] = {
    **FAST,
    "two_stacks": lambda sums, rates: rates * 2 * sums.ranges() + sums.answers,
    "daba": lambda sums, rates: rates * 3 * sums.ranges() + sums.answers,
}


def by_overlap() -> Costing:
    """Guirguis' Ω, the overlap factor."""
    fast: Mapping[str, FastCost] = {"panes": lambda sums, rates: rates * sums.overlap}
    return Costing(("panes",), UNIT_PRICES, omegas=OVERLAP, fast=fast, name="overlap factor")


def by_printed(*kernels: str) -> Costing:
    """Ω as Shein and Chrysanthis print it, for one kernel or the cheapest of several."""
    name = f"printed Ω of {', '.join(kernels)}"
    return Costing(kernels, UNIT_PRICES, omegas=PRINTED, fast=FAST_PRINTED, name=name)


def by_operations(*kernels: str) -> Costing:
    """Ω as it is, in operations; for the cheapest of TREE_KERNELS if none is named."""
    return Costing(kernels or TREE_KERNELS, UNIT_PRICES, omegas=DUE_AWARE, fast=FAST_DUE_AWARE, name="operations")


def by_nanoseconds(
    *kernels: str,
    prices: Prices = MEASURED_PRICES,
    row: Fraction = Fraction(20),
    partial: Fraction = Fraction(10),
    keys: Mapping[frozenset[str], int] | None = None,
) -> Costing:
    """Ω as it is, in nanoseconds. Prices are measured by `lab/kernels/calibration.py`."""
    return Costing(kernels or TREE_KERNELS, prices, keys or {}, name="nanoseconds", row=row, partial=partial)


#: Ω for which queries with equal edges are never dearer together: those of which they share the upkeep, or nothing.
_CONTENT_WITH_EQUAL_EDGES: frozenset[Omega] = frozenset(
    {OVERLAP["panes"], *(PRINTED[kernel] for kernel in ("panes", "flatfit", "slickdeque_inv", "two_stacks", "daba"))}
    | {DUE_AWARE[kernel] for kernel in ("panes", "flatfit", "slickdeque_inv", "two_stacks", "daba", "prefix", "b_int")}
)


def is_content(costing: Costing) -> bool:
    """Whether queries with equal edges are never dearer together. With several kernels, each may want another."""
    return len(costing.kernels) == 1 and costing.omegas[costing.kernels[0]] in _CONTENT_WITH_EQUAL_EDGES
